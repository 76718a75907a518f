"""What the Messages API takes, and what it refuses. Numbers are those of the contract's list of edge cases."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotline.core.anthropic.blocks import Reasoning, ToolResult, ToolUse
from slotline.core.anthropic.media import Image, Pdf, Text
from slotline.core.anthropic.request import Effort, MessagesRequest, Mode, parse, parse_count
from slotline.core.anthropic.tools import Choice, upstream_name
from slotline.core.errors import Invalid

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(16)).decode()
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}


def read(**fields: Any) -> MessagesRequest:
    body = {"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "hi"}]} | fields
    return parse(json.dumps(body).encode())


def user(*content: Any) -> list[Any]:
    return [{"role": "user", "content": list(content)}]


def refusal(**fields: Any) -> str:
    with pytest.raises(Invalid) as caught:
        read(**fields)
    return str(caught.value)


def test_a_plain_request_is_read() -> None:
    request = read(stream=True, temperature=0.5, top_p=0.9, top_k=40, stop_sequences=["X"])
    assert request.model == "m"
    assert request.max_tokens == 10
    assert request.stream
    assert (request.temperature, request.top_p, request.top_k) == (0.5, 0.9, 40)
    assert request.stop_sequences == ("X",)
    assert request.messages[0].blocks == (Text("hi"),)


@pytest.mark.parametrize("raw", [b"{", b"", b"null", b'"x"', b"[]", b'{"model":"m\xff"}'])
def test_08_a_body_that_is_no_json_object_is_refused(raw: bytes) -> None:
    """Case 8."""
    with pytest.raises(Invalid, match=r"^body: "):
        parse(raw)


def test_a_part_that_is_passed_on_unread_has_to_be_text_too() -> None:
    body = b'{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[{"type":"text","text":"\xff"}]}]}'
    with pytest.raises(Invalid, match="not valid UTF-8"):
        parse(body)


@pytest.mark.parametrize("field", ["model", "max_tokens", "messages"])
def test_10_a_missing_field_is_named(field: str) -> None:
    """Case 10."""
    body = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "hi"}]}
    del body[field]
    with pytest.raises(Invalid, match=f"^{field}: a required field, and it is missing$"):
        parse(json.dumps(body).encode())


def test_10_no_messages_are_too_few() -> None:
    """Case 10."""
    assert refusal(messages=[]) == "messages: expected a list of 1 to 100000 messages, got a list of 0"
    assert refusal(messages=None).startswith("messages: expected a list")
    assert refusal(model="") == 'model: expected a non-empty string, got ""'


@pytest.mark.parametrize(("value", "shown"), [(-1, "-1"), ("5", '"5"'), (1.5, "1.5"), (True, "true")])
def test_11_max_tokens_is_an_integer_of_at_least_0(value: object, shown: str) -> None:
    """Case 11."""
    assert refusal(max_tokens=value) == f"max_tokens: expected an integer of at least 0, got {shown}"


def test_11_max_tokens_0_and_very_many_are_accepted() -> None:
    """Case 11 and contract 3.6."""
    assert read(max_tokens=0).max_tokens == 0
    assert read(max_tokens=128_000).max_tokens == 128_000


def test_12_fields_without_meaning_here_are_ignored_and_named() -> None:
    """Case 12."""
    marked = {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral", "ttl": "1h"}}
    request = read(
        context_management={"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        speed="fast",
        service_tier="auto",
        inference_geo=None,
        betas=["x"],
        cache_control={"type": "ephemeral"},
        messages=user(marked),
    )
    assert request.messages[0].blocks == (Text("hi"),)
    assert {"context_management", "speed", "service_tier", "cache_control", "betas"} <= set(request.ignored)


@pytest.mark.parametrize("field", ["container", "mcp_servers", "thread"])
def test_13_what_needs_the_vendors_servers_is_refused(field: str) -> None:
    """Case 13."""
    assert refusal(**{field: [{"id": "x"}]}).startswith(f"{field}: not supported here")


def test_13_their_empty_forms_are_not() -> None:
    """Case 13."""
    assert read(container=None, mcp_servers=[], thread=None).model == "m"


@pytest.mark.parametrize(
    ("system", "texts"),
    [
        ("be kind", ("be kind",)),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], ("a", "b")),
        ("", ()),
        ([], ()),
        (None, ()),
        ([{"type": "text", "text": ""}], ()),
    ],
)
def test_14_every_form_of_the_system_prompt_is_read(system: object, texts: tuple[str, ...]) -> None:
    """Case 14."""
    assert read(system=system).system == texts


def test_15_the_attribution_line_goes_and_the_rest_stays() -> None:
    """Case 15."""
    header = "x-anthropic-billing-header: cc_version=2.1.332; cc_entrypoint=cli; cch=a1b2c;"
    blocks = [{"type": "text", "text": header}, {"type": "text", "text": "You are Claude Code."}]
    assert read(system=blocks).system == ("You are Claude Code.",)
    assert read(system=f"{header}\nBe kind.").system == ("Be kind.",)
    assert read(system=[{"type": "text", "text": "a"}, *blocks]).system[1] == header, "it is only ever the first"


@pytest.mark.parametrize("role", ["tool", "developer", "", None, 3])
def test_18_an_unknown_role_is_refused(role: object) -> None:
    """Case 18."""
    said = refusal(messages=[{"role": "user", "content": "a"}, {"role": role, "content": "b"}])
    assert said.startswith('messages.1.role: expected "user", "assistant" or "system", got ')


def test_19_empty_contents_are_accepted_and_empty_texts_dropped() -> None:
    """Case 19."""
    request = read(
        messages=[
            {"role": "user", "content": []},
            {"role": "assistant", "content": ""},
            {"role": "assistant", "content": [{"type": "text", "text": ""}]},
            {"role": "user", "content": "go"},
        ]
    )
    assert [message.blocks for message in request.messages] == [(), (), (), (Text("go"),)]


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "user", "content": []}],
        [{"role": "user", "content": ""}, {"role": "assistant", "content": ""}],
        [{"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}]}],
    ],
)
def test_19_nothing_at_all_is_refused(messages: list[Any]) -> None:
    """Case 19."""
    assert refusal(messages=messages).startswith("messages: expected something to answer")


@pytest.mark.parametrize("content", [None, 5, {"type": "text", "text": "x"}])
def test_content_is_a_string_or_a_list(content: object) -> None:
    said = refusal(messages=[{"role": "user", "content": content}])
    assert said.startswith("messages.0.content: expected a string or a list of content blocks, got ")


def test_22_an_image_becomes_a_data_url_labelled_as_what_it_is() -> None:
    """Case 22."""
    source = {"type": "base64", "media_type": "image/jpeg", "data": f"{PNG[:8]}\n{PNG[8:]}"}
    (image,) = read(messages=user({"type": "image", "source": source})).messages[0].blocks
    assert image == Image(f"data:image/png;base64,{PNG}", "messages.0.content.0.source")


@pytest.mark.parametrize(
    ("payload", "kind"),
    [
        (b"\xff\xd8\xff\xe0" + bytes(9), "image/jpeg"),
        (b"GIF89a" + bytes(9), "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        (b"something else", "image/declared"),
    ],
)
def test_the_type_of_an_image_is_read_from_its_first_bytes(payload: bytes, kind: str) -> None:
    source = {"type": "base64", "media_type": "image/declared", "data": base64.b64encode(payload).decode()}
    (image,) = read(messages=user({"type": "image", "source": source})).messages[0].blocks
    assert isinstance(image, Image)
    assert image.url.startswith(f"data:{kind};base64,")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            {"type": "file", "file_id": "file_1"},
            "source: an image of type 'file': there is no file store here; send it as base64",
        ),
        (
            {"type": "base64", "media_type": "image/png", "data": "?" * 90},
            "source.data: expected base64, got a string of",
        ),
        ({"type": "base64", "media_type": "image/png", "data": "é"}, "source.data: expected base64, got a string of"),
        ({"type": "base64", "media_type": "image/png"}, "source.data: expected base64, got a string of 0"),
        ({"type": "base64", "data": PNG}, "source.media_type: expected the media type of an image"),
        ({"type": "url"}, "source.url: expected the address of an image"),
        ({"type": "ftp"}, 'source.type: expected "base64" or "url", got "ftp"'),
        (PNG * 20, "source: expected an object, got "),
    ],
)
def test_22_an_image_that_cannot_be_read_is_refused_by_name_and_without_its_payload(source: Any, message: str) -> None:
    """Case 22."""
    said = refusal(messages=user({"type": "image", "source": source}))
    assert said.startswith(f"messages.0.content.0.{message}")
    assert len(said) < 200


def test_23_a_document_of_text_is_read_with_its_title_and_context() -> None:
    """Case 23."""
    source = {"type": "text", "media_type": "text/plain", "data": "the text"}
    document = {"type": "document", "source": source, "title": "Notes", "context": "of May", "citations": None}
    assert read(messages=user(document)).messages[0].blocks == (Text("[document: Notes]\nof May"), Text("the text"))


def test_23_a_document_of_content_keeps_its_images() -> None:
    """Case 23."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    content = [{"type": "text", "text": "see"}, image]
    blocks = (
        read(messages=user({"type": "document", "source": {"type": "content", "content": content}})).messages[0].blocks
    )
    assert blocks[:2] == (Text("[document: untitled]"), Text("see"))
    assert isinstance(blocks[2], Image)
    plain = user({"type": "document", "source": {"type": "content", "content": "as a string"}})
    assert read(messages=plain).messages[0].blocks[1] == Text("as a string")


@pytest.mark.parametrize(
    ("source", "word"),
    [
        ({"type": "base64", "media_type": "application/zip", "data": "JVBERi0="}, "application/zip"),
        ({"type": "base64", "data": "JVBERi0="}, "of no type"),
        ({"type": "base64", "media_type": "application/pdf", "data": "%PDF-"}, "data: expected base64, got a string"),
        ({"type": "base64", "media_type": "application/pdf"}, "data: expected base64, got a string of 0"),
        ({"type": "url"}, "url: expected the address of a PDF"),
        ({"type": "file", "file_id": "f"}, "no file store"),
        ({"type": "content", "content": [{"type": "video"}]}, 'expected "text" or "image", got "video"'),
        ({"type": "else"}, 'expected "text", "content", "base64" or "url", got "else"'),
    ],
)
def test_23_a_document_that_no_upstream_can_read_is_refused_by_name(source: Any, word: str) -> None:
    """Case 23."""
    said = refusal(messages=user({"type": "document", "source": source}))
    assert said.startswith("messages.0.content.0.source")
    assert word in said
    assert "JVBERi0" not in said


@pytest.mark.parametrize(
    ("source", "pdf"),
    [
        (
            {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0\n="},
            Pdf("messages.0.content.0.source", "JVBERi0="),
        ),
        (
            {"type": "base64", "media_type": "Application/PDF; x=y", "data": "JVBERi0="},
            Pdf("messages.0.content.0.source", "JVBERi0="),
        ),
        ({"type": "url", "url": "http://x/y"}, Pdf("messages.0.content.0.source.url", url="http://x/y")),
    ],
)
def test_23_a_pdf_stays_closed_under_its_title_until_somebody_opens_it(source: Any, pdf: Pdf) -> None:
    """Case 23."""
    document = {"type": "document", "source": source, "title": "Notes"}
    assert read(messages=user(document)).messages[0].blocks == (Text("[document: Notes]"), pdf)


def test_23_a_document_in_an_assistant_turn_depends_on_the_version() -> None:
    """Case 23."""
    document = {"type": "document", "source": {"type": "text", "data": "t"}}
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": [document]}]
    body = json.dumps({"model": "m", "max_tokens": 1, "messages": messages}).encode()
    assert parse(body, version="2023-06-01").messages[1].blocks[1] == Text("t")
    with pytest.raises(Invalid, match=r"^messages\.1\.content\.0\.type: a document cannot stand in an assistant"):
        parse(body, version="2026-10-21")


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("done", (Text("done"),)),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], (Text("a"), Text("b"))),
        (None, ()),
        ([], ()),
        ([{"type": "tool_reference", "tool_name": "grep"}], (Text("tool grep is now available"),)),
        (
            [{"type": "search_result", "source": "http://a", "title": "A", "content": [{"type": "text", "text": "x"}]}],
            (Text("[search result: A - http://a]\nx"),),
        ),
    ],
)
def test_24_a_tool_result_is_read_in_every_form(content: object, parts: tuple[Text, ...]) -> None:
    """Case 24."""
    result = {"type": "tool_result", "tool_use_id": "t", "content": content}
    assert read(messages=user(result)).messages[0].blocks == (ToolResult("t", parts),)


def test_24_a_tool_result_without_content_is_empty() -> None:
    """Case 24."""
    assert read(messages=user({"type": "tool_result", "tool_use_id": "t"})).messages[0].blocks == (ToolResult("t", ()),)


@pytest.mark.parametrize(
    "inner",
    [
        {"type": "document", "source": {"type": "base64", "media_type": "application/zip", "data": "JVBERi0="}},
        {"type": "image", "source": {"type": "file", "file_id": "f"}},
    ],
)
def test_what_a_tool_brought_and_no_upstream_can_read_is_named_to_the_model(inner: Any) -> None:
    """A refusal would come again with every further turn: the tool has run, the conversation would be dead."""
    result = {"type": "tool_result", "tool_use_id": "t", "content": [inner]}
    ((part,),) = [b.parts for b in read(messages=user(result)).messages[0].blocks if isinstance(b, ToolResult)]
    assert isinstance(part, Text)
    assert part.text.startswith("[left out: ")


def test_a_new_sort_of_content_in_a_tool_result_is_flattened_and_named() -> None:
    result = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "browser_state", "title": "Home"}]}
    request = read(messages=user(result))
    assert request.messages[0].blocks == (ToolResult("t", (Text("\n[browser_state: Home]\n"),)),)
    assert request.ignored == ("messages.0.content.0.content.0 (browser_state)",)


@pytest.mark.parametrize(
    ("role", "block"),
    [
        ("assistant", {"type": "tool_result", "tool_use_id": "t"}),
        ("assistant", {"type": "image", "source": {"type": "url", "url": "http://x"}}),
        ("user", {"type": "tool_use", "id": "t", "name": "n", "input": {}}),
        ("user", {"type": "thinking", "thinking": "x"}),
    ],
)
def test_a_block_in_the_wrong_role_is_refused(role: str, block: Any) -> None:
    said = refusal(messages=[{"role": role, "content": [block]}, {"role": "user", "content": "go"}])
    assert said.startswith(f"messages.0.content.0.type: a block of type '{block['type']}' cannot stand in a message of")


@pytest.mark.parametrize("block", [{}, {"type": None}, {"type": 7}, "text", None])
def test_a_block_without_a_type_is_refused_with_its_path(block: Any) -> None:
    said = refusal(messages=[{"role": "user", "content": "a"}, {"role": "user", "content": [block]}])
    assert said.startswith("messages.1.content.0")


def test_a_block_of_unknown_type_is_refused_where_it_is_new_and_left_out_of_history() -> None:
    odd = {"type": "hologram", "text": "x"}
    said = refusal(messages=user(odd))
    assert said.startswith("messages.0.content.0.type: expected one of document, image, ")
    assert said.endswith('got "hologram"')
    history = [
        {"role": "user", "content": [{"type": "text", "text": "a"}, odd]},
        {"role": "assistant", "content": [odd, {"type": "text", "text": "b"}]},
        {"role": "user", "content": "c"},
    ]
    request = read(messages=history)
    assert [message.blocks for message in request.messages] == [(Text("a"),), (Text("b"),), (Text("c"),)]
    assert request.ignored == ("messages.0.content.1 (hologram)", "messages.1.content.0 (hologram)")


def test_30_foreign_signatures_and_redacted_thinking_are_accepted() -> None:
    """Case 30."""
    content = [
        {"type": "thinking", "thinking": "hm", "signature": "Zm9yZWlnbg=="},
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking", "thinking": "more"},
        {"type": "redacted_thinking", "data": "EmwKAhgB"},
        {"type": "text", "text": "so"},
    ]
    request = read(messages=[*user({"type": "text", "text": "q"}), {"role": "assistant", "content": content}])
    assert request.messages[1].blocks == (Reasoning("hm"), Reasoning("more"), Text("so"))


def test_31_server_side_history_is_flattened() -> None:
    """Case 31."""
    search = {
        "type": "web_search_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": [
            {
                "type": "web_search_result",
                "title": "A",
                "url": "http://a",
                "encrypted_content": "SECRET",
                "page_age": "1d",
            },
            {"type": "web_search_result", "title": "B", "url": "http://b", "encrypted_content": "SECRET"},
        ],
    }
    failed = {"type": "web_fetch_tool_result", "content": {"type": "web_fetch_tool_result_error", "error_code": "busy"}}
    code = {"type": "code_execution_tool_result", "content": {"stdout": "4\n", "stderr": "", "return_code": 0}}
    page = {
        "type": "web_fetch_tool_result",
        "content": {
            "url": "http://p",
            "content": {"type": "document", "source": {"type": "base64", "data": "JVBERi0="}, "title": "P"},
        },
    }
    mcp = {"type": "mcp_tool_result", "tool_use_id": "m", "content": "plain"}
    content = [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
        search,
        failed,
        code,
        page,
        mcp,
        {"type": "compaction", "content": "what went before"},
        {"type": "mcp_tool_use", "id": "m", "name": "n", "input": {}},
        {"type": "container_upload", "file_id": "f"},
        {"type": "tool_search_tool_result", "content": {"tool_references": [{"tool_name": "grep"}]}},
        {"type": "advisor_tool_result", "content": []},
    ]
    request = read(messages=[*user({"type": "text", "text": "q"}), {"role": "assistant", "content": content}])
    texts = [block.text for block in request.messages[1].blocks if isinstance(block, Text)]
    assert [text.strip("\n") for text in texts] == [
        "[web_search: A - http://a; B - http://b]",
        "[web_fetch: busy]",
        "[code_execution: 4\n]",
        "[web_fetch: http://p; P]",
        "[mcp: plain]",
        "what went before",
        "[tool_search: grep]",
        "[advisor]",
    ]


def test_31_a_very_long_trace_is_cut() -> None:
    """Case 31."""
    trace = {"type": "mcp_tool_result", "content": "x" * 100_000}
    (block,) = read(messages=user(trace)).messages[0].blocks
    assert isinstance(block, Text)
    assert len(block.text) < 8300


@pytest.mark.parametrize("kind", [{}, {"type": None}, {"type": "custom"}])
def test_32_a_tool_with_a_schema_is_read_with_and_without_its_type(kind: dict[str, Any]) -> None:
    """Case 32."""
    (tool,) = read(tools=[kind | {"name": "w", "input_schema": SCHEMA}]).tools
    assert (tool.name, tool.description) == ("w", "")
    assert json.loads(bytes(tool.schema)) == SCHEMA


def test_32_a_schema_without_a_type_is_an_object() -> None:
    """Case 32."""
    tools = read(tools=[{"name": "a", "input_schema": {"properties": {}}}, {"name": "b"}]).tools
    assert [json.loads(bytes(tool.schema)) for tool in tools] == [
        {"type": "object", "properties": {}},
        {"type": "object"},
    ]


@pytest.mark.parametrize(
    ("tool", "message"),
    [
        ({"name": "a", "input_schema": []}, "tools.0.input_schema: expected a JSON Schema object, got a list of 0"),
        ({"name": "", "input_schema": {}}, 'tools.0.name: expected a non-empty string, got ""'),
        ({"input_schema": {}}, "tools.0.name: a required field, and it is missing"),
        ({"type": 5}, "tools.0.type: expected the type of a tool, got 5"),
        ({"type": "computer_20250124", "name": "computer"}, "tools.0.type: expected a tool with an input_schema"),
        ("x", "tools.0: expected an object"),
    ],
)
def test_a_tool_that_cannot_be_offered_is_refused_with_its_path(tool: Any, message: str) -> None:
    assert refusal(tools=[tool]).startswith(message)


def test_two_tools_of_one_name_are_refused() -> None:
    assert refusal(tools=[{"name": "a"}, {"name": "a"}]) == "tools.1.name: the name 'a' is taken by another tool"


@pytest.mark.parametrize(
    ("kind", "name", "parameter"),
    [
        ("bash_20250124", "bash", "command"),
        ("text_editor_20250728", "str_replace_based_edit_tool", "old_str"),
        ("memory_20250818", "memory", "old_path"),
    ],
)
def test_the_vendors_client_tools_get_the_schema_that_other_models_lack(kind: str, name: str, parameter: str) -> None:
    (tool,) = read(tools=[{"type": kind, "name": name}]).tools
    assert tool.name == name
    assert tool.description
    assert parameter in json.loads(bytes(tool.schema))["properties"]


def test_a_newer_type_with_a_schema_is_a_tool_like_any_other() -> None:
    (tool,) = read(tools=[{"type": "custom_20270101", "name": "a", "input_schema": SCHEMA}]).tools
    assert tool.name == "a"


def test_33_tools_of_the_vendors_servers_are_left_out() -> None:
    """Case 33."""
    search = {"type": "web_search_20250305", "name": "web_search"}
    toolset = {"type": "mcp_toolset", "mcp_server_name": "x"}
    request = read(tools=[search, {"name": "mine"}, toolset])
    assert [tool.name for tool in request.tools] == ["mine"]
    assert [each.partition(" ")[0] for each in request.ignored] == ["tools.0", "tools.2"]


def test_33_a_forced_tool_with_none_left_is_refused() -> None:
    """Case 33."""
    search = [{"type": "web_search_20250305", "name": "web_search"}]
    assert refusal(tools=search, tool_choice={"type": "any"}).startswith('tool_choice.type: "any" with no tool left')
    assert refusal(tools=search, tool_choice={"type": "tool", "name": "web_search"}).startswith("tool_choice.name: ")
    assert read(tools=search, tool_choice={"type": "auto"}).tool_choice is None


@pytest.mark.parametrize("kind", ["auto", "any", "none"])
def test_34_the_choice_of_tools_is_read(kind: str) -> None:
    """Case 34."""
    choice = read(tools=[{"name": "a"}], tool_choice={"type": kind}).tool_choice
    assert choice is not None
    assert choice.choice is Choice(kind)


def test_34_a_tool_that_must_be_used_has_to_be_there() -> None:
    """Case 34."""
    choice = read(tools=[{"name": "a"}], tool_choice={"type": "tool", "name": "a"}).tool_choice
    assert choice is not None
    assert choice.name == "a"
    said = refusal(tools=[{"name": "a"}], tool_choice={"type": "tool", "name": "b"})
    assert said == 'tool_choice.name: expected the name of one of the tools that can be used here, got "b"'
    assert refusal(tools=[{"name": "a"}], tool_choice={"type": "tool"}).startswith("tool_choice.name: a required")
    assert refusal(tools=[{"name": "a"}], tool_choice={"type": "some"}).startswith("tool_choice.type: expected")
    assert refusal(tools=[{"name": "a"}], tool_choice="auto").startswith("tool_choice: expected an object")


def test_34_one_call_at_a_time_can_be_asked_for() -> None:
    """Case 34."""
    assert read(tools=[{"name": "a"}], tool_choice={"type": "auto", "disable_parallel_tool_use": True}).disable_parallel
    assert not read(tools=[{"name": "a"}]).disable_parallel


@pytest.mark.parametrize("tools", [[], None])
def test_35_a_choice_without_tools_is_dropped(tools: list[Any] | None) -> None:
    """Case 35."""
    for kind in ("auto", "any", "none"):
        assert read(tools=tools, tool_choice={"type": kind}).tool_choice is None


def test_36_a_name_that_openai_would_not_take_is_mapped_and_only_then() -> None:
    """Case 36."""
    assert upstream_name("get_weather-2") == "get_weather-2"
    long, dotted = "n" * 128, "mcp.server/tool ü"
    for name in (long, dotted):
        assert len(upstream_name(name)) <= 64
        assert upstream_name(name).replace("-", "_").replace("_", "").isalnum()
        assert upstream_name(name).isascii()
    assert upstream_name("a.b") != upstream_name("a/b")


@pytest.mark.parametrize("kind", ["enabled", "adaptive", "between_tools", "disabled"])
def test_37_every_mode_of_thinking_is_read(kind: str) -> None:
    """Case 37."""
    assert read(thinking={"type": kind}).thinking.mode is Mode(kind)


def test_37_a_budget_may_be_missing_and_is_not_held_against_max_tokens() -> None:
    """Case 37."""
    thinking = read(max_tokens=10, thinking={"type": "enabled", "budget_tokens": 31_999, "display": "omitted"}).thinking
    assert (thinking.budget, thinking.display) == (31_999, "omitted")
    assert read(thinking={"type": "enabled"}).thinking.budget is None
    assert read().thinking.mode is Mode.ABSENT
    assert refusal(thinking={"type": "much"}).startswith('thinking.type: expected "enabled"')
    assert refusal(thinking={"type": "enabled", "budget_tokens": "9"}).startswith("thinking.budget_tokens: expected")


def test_38_effort_and_format_are_read_in_the_new_and_the_old_place() -> None:
    """Case 38."""
    form = {"type": "json_schema", "schema": SCHEMA}
    request = read(output_config={"effort": "xhigh", "format": form, "task_budget": {"type": "tokens", "total": 9}})
    assert request.effort is Effort.XHIGH
    assert request.schema is not None
    assert json.loads(bytes(request.schema)) == SCHEMA
    assert read(output_format=form).schema is not None
    assert refusal(output_config={"effort": "huge"}).startswith('output_config.effort: expected one of "low"')
    assert refusal(output_config={"format": {"type": "xml"}}).startswith("output_config.format.type: expected")


def test_40_empty_stop_sequences_are_dropped() -> None:
    """Case 40."""
    assert read(stop_sequences=["", "END", ""]).stop_sequences == ("END",)
    assert read(stop_sequences=None).stop_sequences == ()


@pytest.mark.parametrize("version", ["", "2023-06-01", "2026-10-21", "nonsense"])
def test_41_sampling_is_accepted_in_every_version(version: str) -> None:
    """Case 41."""
    body = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "a"}], "temperature": 0.2}
    assert parse(json.dumps(body).encode(), version=version).temperature == 0.2


@pytest.mark.parametrize(("field", "value"), [("temperature", -1), ("temperature", 3), ("top_p", 2), ("top_k", -2)])
def test_sampling_out_of_range_is_refused(field: str, value: object) -> None:
    assert refusal(**{field: value}).startswith(f"{field}: expected a")


@pytest.mark.parametrize("user_id", ['{"device_id":"d","session_id":"s"}', None])
def test_42_the_user_id_may_be_a_json_string_or_null(user_id: str | None) -> None:
    """Case 42."""
    assert read(metadata={"user_id": user_id}).user_id == user_id
    assert read(metadata=None).user_id is None


def test_a_call_keeps_its_arguments_as_they_were_written() -> None:
    raw = (
        b'{"model":"m","max_tokens":1,"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"n",'
        b'"input": {"a" : 1.50, "big": 123456789012345678901234567890, "s": "\\u0007\\u2028"} }]},'
        b'{"role":"user","content":"x"}]}'
    )
    (call,) = parse(raw).messages[0].blocks
    assert isinstance(call, ToolUse)
    assert call.arguments == r'{"a":1.50,"big":123456789012345678901234567890,"s":"\u0007\u2028"}'


@pytest.mark.parametrize("value", [None, {}])
def test_a_call_without_input_has_no_arguments(value: object) -> None:
    call = {"type": "tool_use", "id": "t", "name": "n", "input": value}
    (block,) = read(messages=[{"role": "assistant", "content": [call]}]).messages[0].blocks
    assert block == ToolUse("t", "n", "{}")


@pytest.mark.parametrize(("field", "value"), [("id", ""), ("name", ""), ("input", [1]), ("input", "x"), ("id", None)])
def test_a_broken_call_is_refused_with_its_path(field: str, value: object) -> None:
    call = {"type": "tool_use", "id": "t", "name": "n", "input": {}} | {field: value}
    assert refusal(messages=[{"role": "assistant", "content": [call]}]).startswith(f"messages.0.content.0.{field}: exp")


def test_a_system_message_is_its_text_and_nothing_else() -> None:
    content = [
        {"type": "text", "text": "note"},
        {"type": "tool_addition", "tool": {}},
        {"type": "thinking"},
        {"type": "new"},
    ]
    request = read(messages=[{"role": "user", "content": "a"}, {"role": "system", "content": content}])
    assert request.messages[1].blocks == (Text("note"),)
    assert request.ignored == ("messages.1.content.2 (thinking)", "messages.1.content.3 (new)")


def test_counting_needs_no_max_tokens() -> None:
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "a"}]}).encode()
    assert parse_count(body).max_tokens == 0
    with pytest.raises(Invalid, match=r"^max_tokens: "):
        parse(body)


def test_nothing_of_a_payload_or_a_long_text_is_in_an_error() -> None:
    secret = "c2VjcmV0" * 1000
    for block in (
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": secret + "!"}},
        {"type": "text", "text": {"type": secret}},
        {"type": secret},
    ):
        said = refusal(messages=user(block))
        assert secret[:80] not in said
        assert len(said) < 300


@pytest.mark.parametrize("data", ["A", "AAA", "AAAA=", "AA=A", "A===", "====", "AAAA!AAA", "AA\x00A", "AAA-", "ＡAAA"])
def test_22_what_is_almost_base64_is_refused(data: str) -> None:
    """Case 22."""
    source = {"type": "base64", "media_type": "image/png", "data": data}
    assert refusal(messages=user({"type": "image", "source": source})).startswith("messages.0.content.0.source.data: ")


@given(st.binary(min_size=1, max_size=80), st.integers(1, 20))
def test_22_all_base64_is_accepted_whole_and_with_line_breaks(payload: bytes, width: int) -> None:
    """Case 22."""
    encoded = base64.b64encode(payload).decode()
    broken = "\r\n".join(encoded[start : start + width] for start in range(0, len(encoded), width))
    for data in (encoded, broken):
        source = {"type": "base64", "media_type": "image/x", "data": data}
        (image,) = read(messages=user({"type": "image", "source": source})).messages[0].blocks
        assert isinstance(image, Image)
        assert image.url.partition(",")[2] == encoded
