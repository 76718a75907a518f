"""The standard scripts: one builder for each way an answer is known to go, good or bad.

Builders return plain `Script` values; change one with `msgspec.structs.replace(ok(3), write_size=1)`. Most have a
short name too (`die-3`, `html-502`), which stands for them on the command line, in JSON, and as a model's name
(`stub-die-3`).
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from slotline.stub.script import (
    Close,
    Cut,
    Done,
    Error,
    ErrorForm,
    Finish,
    Hang,
    Head,
    Hold,
    Prefill,
    Raw,
    Reset,
    Role,
    Script,
    Sleep,
    Step,
    Text,
    Tokens,
    ToolCall,
    Usage,
)

_START: tuple[Step, ...] = (Head(), Prefill(), Role())


def _ending(reason: str | None = "stop") -> tuple[Step, ...]:
    return (Finish(reason), Usage(), Done())


def ok(n: int = 5, *, gap: float = 0.0, reason: str | None = "stop") -> Script:
    """A whole answer: role, `n` content chunks `gap` seconds apart, finish, usage (if asked for), `[DONE]`."""
    return Script((*_START, Tokens(n, gap), *_ending(reason)))


def thinking(n: int = 5, tokens: int = 5, *, gap: float = 0.0, key: str = "reasoning_content") -> Script:
    """`n` reasoning deltas in the field `key`, then an answer of `tokens` content chunks."""
    return Script((*_START, Tokens(n, gap, "reasoning", key), Tokens(tokens, gap), *_ending()))


def endless_thinking(*, gap: float = 0.02, heeds_control: bool = True) -> Script:
    """Reasoning that never ends by itself; after the control endpoint ended it, a short answer (if that is heeded)."""
    steps = (*_START, Tokens(None, gap, "reasoning"), Tokens(3, gap), *_ending())
    return Script(steps, heeds_control=heeds_control)


def tool_call(
    name: str = "lookup",
    arguments: str = '{"query":"slots"}',
    *,
    id: str | None = "call_0",  # noqa: A002 — it is the field's name
    fragment: int = 4,
    reason: str | None = "tool_calls",
) -> Script:
    """One tool call: its name first, then its arguments in pieces of `fragment` characters; 0: all in one chunk."""
    if fragment <= 0:
        calls: tuple[Step, ...] = (ToolCall(0, id, name, arguments),)
    else:
        pieces = [arguments[i : i + fragment] for i in range(0, len(arguments), fragment)]
        calls = (ToolCall(0, id, name, ""), *(ToolCall(0, arguments=piece) for piece in pieces))
    return Script((*_START, *calls, *_ending(reason)))


def held(n: int = 5, *, before: int = 0) -> Script:
    """As `ok(n)`, but after the role chunk and `before` tokens it waits for `Stub.release`."""
    return Script((*_START, Tokens(before), Hold(), Tokens(n - before), *_ending()))


def hang() -> Script:
    """Takes a slot and never answers, not even with a head."""
    return Script((Hang(),))


def swallowed() -> Script:
    """Takes the request and never answers, while `/slots` says that nothing runs."""
    return Script((Hang(),), takes_slot=False)


def head_then_silence(seconds: float | None = None, *, tokens: int = 5) -> Script:
    """200 and the SSE headers, then silence: for ever, or for `seconds` and then a whole answer."""
    if seconds is None:
        return Script((Head(), Hang()))
    return Script((Head(), Sleep(seconds), Role(), Tokens(tokens), *_ending()))


def stall(k: int) -> Script:
    """`k` content chunks, then silence with the connection open."""
    return Script((*_START, Tokens(k), Hang()))


def die(k: int, *, gap: float = 0.0) -> Script:
    """`k` content chunks, then the body ends cleanly, without finish and without `[DONE]`."""
    return Script((*_START, Tokens(k, gap), Close()))


def reset(k: int | None = None, *, gap: float = 0.0) -> Script:
    """`k` content chunks and a TCP reset; None: reset before any head."""
    return Script((Reset(),)) if k is None else Script((*_START, Tokens(k, gap), Reset()))


def cut(k: int, *, gap: float = 0.0) -> Script:
    """`k` content chunks, then the connection closes without the last chunk of the HTTP body."""
    return Script((*_START, Tokens(k, gap), Cut()))


def status(
    code: int,
    body: str | bytes = b"",
    *,
    content_type: str = "application/json",
    headers: dict[str, str] | None = None,
    takes_slot: bool = False,
) -> Script:
    """An answer that is only a status and a body; by default at once, whether or not a slot is free."""
    data = body.encode() if isinstance(body, str) else body
    head = Head(code, headers or {}, content_type, len(data))
    return Script((head, Raw(data)), takes_slot=takes_slot)


def error(code: int, message: str = "scripted error", *, type: str = "server_error") -> Script:  # noqa: A002
    """An error before the stream, as llama-server writes it: `{"error":{"code","message","type"}}`."""
    body = msgspec.json.encode({"error": {"code": code, "message": message, "type": type}})
    return status(code, body)


def html(code: int = 502) -> Script:
    """A proxy's error page."""
    page = f"<html><head><title>{code}</title></head><body><h1>{code} from a proxy</h1></body></html>"
    return status(code, page, content_type="text/html")


def mid_stream_error(
    k: int = 3,
    form: ErrorForm | str = ErrorForm.LLAMA_CPP,
    *,
    done: bool | None = None,
    message: str = "Compute error.",
) -> Script:
    """`k` content chunks, then an error in one server's form.

    `done`: whether `[DONE]` follows; None: as that server does (vLLM and SGLang send it, llama-server does not).
    """
    form = ErrorForm(form)
    follows = form in {ErrorForm.VLLM, ErrorForm.SGLANG} if done is None else done
    return Script((*_START, Tokens(k), Error(form, message), *((Done(),) if follows else ())))


def usual(
    *,
    tokens: int,
    gap: float = 0.0,
    thinking: int = 0,
    hold: float = 0.0,
    prefill: float = 0.0,
    batches: int = 1,
    echo: str | None = None,
    reason: str = "stop",
) -> Script:
    """What the command line describes: prefill, silence for `hold` seconds, `thinking` and then `tokens` deltas.

    `echo`: the first `tokens` words of this text in place of numbered tokens.
    """
    said: list[Step] = [Tokens(thinking, gap, "reasoning")] if thinking else []
    if thinking and gap:
        said.append(Sleep(gap))
    if echo is None:
        said.append(Tokens(tokens, gap))
    else:
        for number, word in enumerate(words(echo)[:tokens]):
            said += [Sleep(gap), Text(word)] if number and gap else [Text(word)]
    steps = (Head(), Prefill(prefill, batches), Sleep(hold), Role(), *said, *_ending(reason))
    return Script(steps)


def words(text: str) -> list[str]:
    """The words of a text, each with the white space before it; joined again they are the text."""
    return re.findall(r"\s*\S+(?:\s+\Z)?", text)


_NAMED: dict[str, Callable[..., Script]] = {
    "ok": ok,
    "thinking": thinking,
    "loop": endless_thinking,
    "tool": tool_call,
    "held": held,
    "hang": hang,
    "swallowed": swallowed,
    "silence": head_then_silence,
    "stall": stall,
    "die": die,
    "reset": reset,
    "cut": cut,
    "error": error,
    "html": html,
    "midstream": mid_stream_error,
}


def named(name: str) -> Script:
    """The script of a short name: a builder's and, after dashes, its numbers (`hang`, `die-3`, `thinking-9-2`).

    Raises ValueError, with the names that exist, if there is no such script or its numbers do not fit.
    """
    word, *rest = name.split("-")
    if word not in _NAMED:
        raise ValueError(f"no script is named {word!r}; there are: {', '.join(_NAMED)}")
    try:
        return _NAMED[word](*(int(number) for number in rest))
    except (TypeError, ValueError) as wrong:
        raise ValueError(f"{name!r} does not fit the script {word!r}: {wrong}") from wrong
