"""Everything in a chat completion request besides its messages, for each kind of server.

The kinds read the same wish from different fields, and some refuse fields that others need. What is known about each
stands here, so that a change in one server is a change in one place:

- llama.cpp takes `tool_choice` as a string only; an object counts as "auto" (tried with build 11549). So a tool that
  must be used is sent alone, with "required". It refuses to continue an answer while thinking is on. Streamed, it sends
  only the continuation of a begun answer. It alone can be told a budget of thinking.
- Ollama has no `tool_choice`, no `top_k`: to forbid tools, none are sent; to force one, only that one is sent.
- vLLM continues a begun answer when two fields say so, and passes the reasoning effort to the template as it is. Its
  `thinking_token_budget` is not used: without `--reasoning-config` on its command line it refuses the request for it.
- SGLang continues a begun answer when one field says so, and sets it behind the opened tag of thinking, if thinking is
  on (`serving_chat.py`, `assistant_prefix`).
- A server of kind openai is only asked for what OpenAI documents; it may refuse anything else.
"""

from __future__ import annotations

from typing import assert_never

import msgspec

from slotline.core.anthropic.request import Effort, MessagesRequest, Mode
from slotline.core.anthropic.tools import Choice, Tool, upstream_name
from slotline.core.kind import Kind, Terms

REASONING_KEY: dict[Kind, str] = {
    Kind.LLAMA_CPP: "reasoning_content",
    Kind.SGLANG: "reasoning_content",
    Kind.OPENAI: "reasoning_content",
    Kind.VLLM: "reasoning",
    Kind.OLLAMA: "reasoning",
}
"""Where an assistant message of the history keeps what the model thought."""

_STRONGEST: dict[Kind, str] = {
    Kind.LLAMA_CPP: "high",
    Kind.SGLANG: "max",
    Kind.OPENAI: "high",
    Kind.VLLM: "high",
    Kind.OLLAMA: "max",
}
"""The strongest `reasoning_effort` that each kind surely knows."""

ANY_OBJECT = b'{"type":"object"}'
"""The schema that every JSON object follows."""

_ONE_TOOL_ONLY = frozenset({Kind.LLAMA_CPP, Kind.OLLAMA})
_TEMPLATE_SWITCH = frozenset({Kind.LLAMA_CPP, Kind.VLLM, Kind.SGLANG})
_TOP_K = frozenset({Kind.LLAMA_CPP, Kind.VLLM, Kind.SGLANG})
_CONTINUES_WITHOUT_THINKING = frozenset({Kind.LLAMA_CPP, Kind.SGLANG})


def tools(request: MessagesRequest, kind: Kind) -> dict[str, object]:
    """`tools`, `tool_choice` and `parallel_tool_calls`; nothing where there are no tools."""
    choice = request.tool_choice
    offered = request.tools
    if not offered or (kind is Kind.OLLAMA and choice is not None and choice.choice is Choice.NONE):
        return {}
    fields: dict[str, object] = {}
    if choice is not None:
        if choice.choice is Choice.TOOL and kind in _ONE_TOOL_ONLY:
            offered = tuple(tool for tool in offered if tool.name == choice.name)
        fields["tool_choice"] = _choice(choice.choice, choice.name, kind)
    if request.disable_parallel:
        fields["parallel_tool_calls"] = False
    return {"tools": [_tool(tool) for tool in offered], **fields}


def _choice(choice: Choice, name: str, kind: Kind) -> object:
    match choice:
        case Choice.AUTO | Choice.NONE:
            return choice.value
        case Choice.TOOL if kind not in _ONE_TOOL_ONLY:
            return {"type": "function", "function": {"name": upstream_name(name)}}
        case Choice.ANY | Choice.TOOL:
            return "required"
        case never:
            assert_never(never)


def _tool(tool: Tool) -> dict[str, object]:
    function: dict[str, object] = {
        "name": upstream_name(tool.name),
        "description": tool.description,
        "parameters": tool.schema,
    }
    if tool.strict is not None:
        function["strict"] = tool.strict
    return {"type": "function", "function": function}


def sampling(request: MessagesRequest, kind: Kind) -> dict[str, object]:
    """How the next token is chosen, and where the answer ends. What the request does not say is the server's choice."""
    fields: dict[str, object | None] = {
        "temperature": request.temperature,
        "top_p": request.top_p,
        "top_k": _top_k(request.top_k, kind) if kind in _TOP_K else None,
        "stop": list(request.stop_sequences) or None,
        "response_format": None if request.schema is None else _format(request.schema),
    }
    return {name: value for name, value in fields.items() if value is not None}


def _top_k(wanted: int | None, kind: Kind) -> int | None:
    """SGLang spells "all tokens" as -1 and refuses 0 (`sampling_params.py`); 0 means it everywhere else."""
    if wanted is None or wanted > 0:
        return wanted
    return -1 if kind is Kind.SGLANG else 0


def _format(schema: msgspec.Raw) -> dict[str, object]:
    """A schema that asks for an object and no more is JSON mode; as a strict schema, some servers refuse it."""
    if bytes(schema) == ANY_OBJECT:
        return {"type": "json_object"}
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True}}


def thinking(request: MessagesRequest, kind: Kind, terms: Terms, *, prefill: bool) -> dict[str, object]:
    """Whether the model thinks, how long and how hard.

    A request that says nothing about it gets no thinking, as on the vendor's API; without an explicit word, models that
    can think always would. One that names an effort has asked for what belongs to it; one whose budget is 0 wants none.
    Only where the model is to decide, nothing is switched.
    Some templates think whatever they are told, so the bounds are always told too.
    """
    wish = request.thinking
    on = _on(wish.mode, effort=request.effort is not None) and wish.budget != 0 and terms.think
    if prefill and kind in _CONTINUES_WITHOUT_THINKING:
        on = False
    fields: dict[str, object] = {}
    if kind in _TEMPLATE_SWITCH and not (on and wish.mode is Mode.MODEL):
        fields["chat_template_kwargs"] = {"enable_thinking": on}
    bounds = [bound for bound in (wish.budget, terms.thinking_cap) if bound]
    if kind is Kind.LLAMA_CPP and bounds:
        fields["thinking_budget_tokens"] = min(bounds)
        fields["reasoning_control"] = True  # so that the reasoning can be ended while it goes on
    if on and request.effort is not None:
        fields["reasoning_effort"] = _effort(request.effort, kind)
    elif not on and kind is Kind.OLLAMA:
        fields["reasoning_effort"] = "none"
    return fields


def _on(mode: Mode, *, effort: bool) -> bool:
    return effort if mode is Mode.ABSENT else mode is not Mode.DISABLED


def _effort(effort: Effort, kind: Kind) -> str:
    return _STRONGEST[kind] if effort in {Effort.XHIGH, Effort.MAX} else effort.value


def extras(kind: Kind, terms: Terms, *, prefill: bool) -> dict[str, object]:
    """What only one kind understands: llama.cpp tells how far the prompt is; others must be told to continue."""
    if kind is Kind.LLAMA_CPP:
        seat: dict[str, object] = {} if terms.slot is None else {"id_slot": terms.slot}
        return {"cache_prompt": True, "return_progress": True, **seat}
    if kind is Kind.VLLM and prefill:
        return {"add_generation_prompt": False, "continue_final_message": True}
    if kind is Kind.SGLANG and prefill:
        return {"continue_final_message": True}
    return {}
