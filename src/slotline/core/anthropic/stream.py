"""Chat stream → Messages stream.

`MessageStream` is fed the `data` of one upstream event after another and gives the events that the client gets. What
goes wrong it raises; it never makes an `error` event, because only the relay knows whether a status can still be sent.
Its states and what may happen in them stand in `transitions.TABLE`. Besides that, at every moment:

1. A tool call goes out whole (start, one delta with all its input, stop) or not at all. Fragments of several calls may
   come in turn, and only the end of a call tells whether its JSON is whole; and a stream that dies inside a call leaves
   nothing behind that a client could take for a call.
2. A finish reason is remembered, and acted upon at the end of the stream: usage comes after it, with some servers text.
3. There is no end without a reason to believe in one: a finish reason, or a `[DONE]` after an answer. Everything else
   is an upstream that died.
4. Text that is only whitespace opens no block. It is held until text follows, and dropped if a call does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, assert_never

import msgspec

from slotline.core.anthropic import events as to
from slotline.core.anthropic.calls import Call, Calls, Shape, settle
from slotline.core.anthropic.tags import Piece, Tags
from slotline.core.anthropic.transitions import TABLE, Input, State, Step
from slotline.core.errors import Protocol, StreamClosedEarly, UpstreamFailure, UpstreamStatus
from slotline.core.openai.chunk import Choice, Delta, Progress, ToolCall, Usage, decode
from slotline.core.openai.errors import explain
from slotline.core.record import Tokens

_ORDINARY = frozenset({"stop", "eos", "tool_calls", "function_call"})
_REFUSED = frozenset({"content_filter", "refusal"})
_GIVEN_UP = frozenset({"abort", "cancelled"})  # SGLang, vLLM
_BROKEN = frozenset({"error", "load", "unload"})  # vLLM; Ollama, when the model was swapped
_NO_NAMES: Final[Mapping[str, str]] = MappingProxyType({})

# Looked up for every token: reading a member off its enum costs more than all else that is done with it.
_NEW, _THINKING, _TEXT, _ENDED = State.NEW, State.THINKING, State.TEXT, State.ENDED
_THINK, _SAY = Input.REASONING, Input.TEXT
_GATHERING = frozenset({State.CALLS, State.BEATING})


class MessageStream:
    """One answer. Once it has raised, it raises the same again; after its end it gives nothing more."""

    def __init__(
        self,
        *,
        message_id: str,
        model: str,
        tool_id: Callable[[], str],
        input_tokens: int = 0,
        stop_sequences: Sequence[str] = (),
        parallel_tools: bool = True,
        tool_names: Mapping[str, str] = _NO_NAMES,
    ) -> None:
        """`message_id`, `model`: as the client is to read them. `tool_id`: makes a `toolu_…`, for calls without an id.

        `input_tokens`: an estimate, which holds until the upstream says better. `stop_sequences`: the request's own;
        the upstream may report one of them. `parallel_tools`: False keeps the first call only. `tool_names`: the
        upstream's name of a tool → the client's, where they differ.
        """
        self.notes: list[str] = []
        """What was repaired or left out, for the log; no text of the answer is in it."""
        self.progress: Progress | None = None
        """How far the upstream is in reading the prompt, as it last said."""
        self.pieces = 0
        """How many pieces of the answer came: text, reasoning, fragments of calls. Nothing else is progress."""
        self.thought = 0
        """How many pieces of reasoning came, which are tokens on every server known."""
        self.completion: str | None = None
        """The upstream's own name of this answer, from its first chunk."""
        self._message_id = message_id
        self._model = model
        self._tool_id = tool_id
        self._stop_sequences = frozenset(stop_sequences)
        self._parallel_tools = parallel_tools
        self._tool_names = tool_names
        self._state = State.NEW
        self._error: UpstreamFailure | None = None
        self._index = 0  # of the open block, or else of the next one
        self._tags = Tags()
        self._calls = Calls()
        self._tool_ids: set[str] = set()  # of the calls that went out
        self._held = ""  # whitespace that is text only if text follows
        self._blank = ""  # the same for reasoning
        self._finish: str | None = None
        self._matched: str | None = None
        self._refusal = ""
        self._cut_calls = 0  # calls that went out with an input that is not whole
        self._skipped = 0  # events that were left out
        self._input_tokens = input_tokens
        self._cached_tokens = 0
        self._output_tokens = 0
        self._thinking_tokens: int | None = None
        self._told = Tokens()  # by the upstream; the four above hold what clients are told

    def __repr__(self) -> str:
        return f"<MessageStream {self._message_id} {self._state.name} index={self._index} finish={self._finish}>"

    @property
    def started(self) -> bool:
        """`message_start` is out."""
        return self._state is not State.NEW

    @property
    def done(self) -> bool:
        """`message_stop` is out."""
        return self._state is State.ENDED

    @property
    def over(self) -> bool:
        """Nothing more will come: it has ended, or failed."""
        return self._error is not None or self._state is State.ENDED

    @property
    def usage(self) -> to.Usage:
        """What is known so far. Anthropic's input does not include what came from the cache, OpenAI's does."""
        thinking = self._thinking_tokens
        return to.Usage(
            input_tokens=max(0, self._input_tokens - self._cached_tokens),
            output_tokens=self._output_tokens,
            cache_read_input_tokens=self._cached_tokens,
            output_tokens_details=msgspec.UNSET if thinking is None else to.OutputDetails(thinking),
        )

    @property
    def tokens(self) -> Tokens:
        """What the answer cost: by the upstream's own count; where it gave none, by what has come. No estimates."""
        told, read = self._told, self.progress
        output = self.pieces or None if told.output is None else told.output
        thought = self.thought if told.reasoning is None else told.reasoning
        return Tokens(
            input=read.processed if told.input is None and read is not None else told.input,
            cached=read.cache if told.cached is None and read is not None else told.cached,
            output=output,
            reasoning=None if output is None else min(thought, output),
        )

    def feed(self, data: bytes) -> list[to.Event]:
        """The `data` of one upstream event → the events for the client, often none.

        Raises UpstreamStatus for an error in the stream, StreamClosedEarly for an end that is none, Protocol for
        nonsense (one unreadable event is left out, the second is too many).
        """
        return self._guarded(self._feed, data)

    def end(self) -> list[to.Event]:
        """The upstream's body has ended → the last events. Raises StreamClosedEarly when the answer in it had not."""
        return self._guarded(self._end, b"")

    def forced(self) -> None:
        """The upstream was made to end its reasoning; the rest of it may come as text."""
        self._tags.forced()

    def again(self) -> None:
        """Another answer goes on where this one was left: its name, its end and its counts are still to come.

        What was only begun, a tag or a call, is left out.
        """
        self.completion = None
        self._finish = self._matched = None
        self._held = self._blank = ""
        self._tags = Tags()
        self._calls = Calls()

    def heartbeat(self) -> list[to.Event]:
        """A sign of life that every client's watchdog takes for one, because it is a part of an answer.

        An answer that has no open block gets a thinking block, which the model's own thinking will continue, and empty
        deltas in it. An open text block gets empty deltas too. Neither changes what the answer says. Nothing comes
        after the end; a stream that has failed raises its failure.
        """
        return self._guarded(self._beat, b"")

    def _guarded(self, step: Callable[[bytes, list[to.Event]], None], data: bytes) -> list[to.Event]:
        made: list[to.Event] = []
        if self._state is _ENDED:
            return made
        if self._error is not None:
            raise self._error
        try:
            step(data, made)
        except UpstreamFailure as error:
            self._error = error
            raise
        return made

    # ---- from upstream events to inputs ------------------------------------------------------------------------------

    def _feed(self, data: bytes, made: list[to.Event]) -> None:
        try:
            chunk = decode(data)
        except Protocol as error:
            self._not_a_chunk(data.strip(), error, made)
            return
        if (chunk.error is not None or chunk.choices is None) and (failure := chunk.failure) is not None:
            raise explain(failure.status, data, "application/json")
        if self.completion is None:
            self.completion = chunk.id
        if chunk.usage is not None:
            self._count(chunk.usage)
        if chunk.prompt_progress is not None:
            self.progress = chunk.prompt_progress
        if self._state is _NEW and chunk.begins:
            self._move(Input.FIRST, made)
        choices = chunk.choices
        if choices:
            choice = chunk.choice if choices[0].index else choices[0]
            if choice is not None:
                self._choice(choice, made)

    def _not_a_chunk(self, data: bytes, error: Protocol, made: list[to.Event]) -> None:
        """The end's mark, nothing at all, or an event that cannot be read."""
        if data == b"[DONE]":
            self._done(made)
        elif data and self._skipped:
            raise error
        elif data:
            self._skipped += 1
            note = "an upstream event that is no JSON object was left out"
            if note not in self.notes:  # a server may send one now and then, for as long as it likes
                self.notes.append(note)

    def _choice(self, choice: Choice, made: list[to.Event]) -> None:
        delta, finish = choice.delta, choice.finish_reason
        if delta is None and choice.message is not None and self.pieces == 0:
            delta, finish = choice.message, finish or "stop"  # a whole answer has its end in itself
        if delta is not None:
            self._delta(delta, made)
        if finish:  # "" is some servers' null
            self._finished(finish, choice)

    def _finished(self, finish: str, choice: Choice) -> None:
        if finish in _GIVEN_UP:
            raise StreamClosedEarly(f"the upstream gave the answer up (finish_reason {finish!r})")
        if finish in _BROKEN:
            raise UpstreamStatus(500, f"the upstream broke the answer off (finish_reason {finish!r})")
        self._finish = finish
        for matched in (choice.stop_reason, choice.matched_stop):
            if isinstance(matched, str) and matched in self._stop_sequences:
                self._matched = matched

    def _delta(self, delta: Delta, made: list[to.Event]) -> None:
        """One delta, in the order in which a model produces: reasoning, text, calls."""
        reasoning = delta.reasoning_content
        if delta.reasoning and delta.reasoning != reasoning:
            reasoning = (reasoning or "") + delta.reasoning
        if reasoning:
            self._tags.expect()
            self._reasoning(reasoning, made)
        if delta.content:
            if self._tags.quiet:
                self._text(delta.content, made)
            else:
                self._pieces(self._tags.split(delta.content), made)
        if delta.refusal:
            self._refusal += delta.refusal
            self._text(delta.refusal, made)
        calls: Iterable[ToolCall] = delta.tool_calls or ()
        if not calls and delta.function_call is not None:  # the form before `tool_calls`
            calls = (ToolCall(index=0, function=delta.function_call),)
        for call in calls:
            self._call(call, made)

    def _pieces(self, pieces: Iterable[Piece], made: list[to.Event]) -> None:
        for piece in pieces:
            if piece.thinking:
                self._reasoning(piece.text, made)
            else:
                self._text(piece.text, made)

    def _reasoning(self, text: str, made: list[to.Event]) -> None:
        self.pieces += 1
        self.thought += 1
        if self._state is not _THINKING and text.isspace():
            self._blank += text  # models that do not think send an empty block of tags
            return
        if self._blank:
            text, self._blank = self._blank + text, ""
        self._move(_THINK, made)
        made.append(to.ThinkingDelta(self._index, text))

    def _text(self, text: str, made: list[to.Event]) -> None:
        self.pieces += 1
        if self._state is not _TEXT:
            if text.isspace():
                self._held += text
                return
            if self._state not in _GATHERING:
                text = self._held + text
            self._held = ""
        self._move(_SAY, made)
        made.append(to.TextDelta(self._index, text))

    def _call(self, call: ToolCall, made: list[to.Event]) -> None:
        self.pieces += 1
        self._pieces(self._tags.rest(), made)
        self._held = ""
        self._move(Input.CALL, made)
        self._calls.add(call)

    def _count(self, usage: Usage) -> None:
        """Later counts replace earlier ones, field by field: some servers send a usage with every chunk."""
        if usage.prompt_tokens is not None:
            self._input_tokens = max(0, usage.prompt_tokens)
        if usage.completion_tokens is not None:
            self._output_tokens = max(0, usage.completion_tokens)
        if usage.cached_tokens is not None:
            self._cached_tokens = max(0, usage.cached_tokens)
        if usage.thinking_tokens is not None:
            self._thinking_tokens = max(0, usage.thinking_tokens)
        told = self._told
        self._told = Tokens(
            told.input if usage.prompt_tokens is None else self._input_tokens,
            told.cached if usage.cached_tokens is None else self._cached_tokens,
            told.output if usage.completion_tokens is None else self._output_tokens,
            self._thinking_tokens,
        )

    # ---- the ends ----------------------------------------------------------------------------------------------------

    def _done(self, made: list[to.Event]) -> None:
        """`[DONE]`: an end also without a finish reason, if there is an answer and nothing in it is damaged."""
        if self._finish is None:
            if not self.pieces:
                raise StreamClosedEarly("the upstream's stream ended without an answer")
            if self._skipped or self._calls.cut:
                raise StreamClosedEarly("the upstream's stream ended without a finish reason, in a damaged answer")
        self._conclude(made)

    def _end(self, _: bytes, made: list[to.Event]) -> None:
        if self._finish is None:
            raise StreamClosedEarly("the upstream closed the stream before the answer had ended")
        self._conclude(made)

    def _conclude(self, made: list[to.Event]) -> None:
        self._pieces(self._tags.rest(), made)
        if self.thought and self.thought == self.pieces:
            self.notes.append("the answer is empty: all that came was reasoning")
        if self._held and not self._calls.any:
            self._move(Input.TEXT, made)
            made.append(to.TextDelta(self._index, self._held))
        self._move(Input.END, made)

    def _beat(self, _: bytes, made: list[to.Event]) -> None:
        self._move(Input.BEAT, made)
        made.append(to.TextDelta(self._index, "") if self._state is _TEXT else to.ThinkingDelta(self._index, ""))

    # ---- the machine -------------------------------------------------------------------------------------------------

    def _move(self, given: Input, made: list[to.Event]) -> None:
        steps, after = TABLE[self._state][given]
        for step in steps:
            self._take(step, made)
        self._state = after

    def _take(self, step: Step, made: list[to.Event]) -> None:  # noqa: C901 - one case a step
        match step:
            case Step.START:
                made.append(to.MessageStart(self._message_id, self._model, self.usage))
            case Step.OPEN_THINKING:
                made.append(to.ThinkingStart(self._index))
            case Step.SIGN:
                made.append(to.SignatureDelta(self._index))
            case Step.OPEN_TEXT:
                made.append(to.TextStart(self._index))
            case Step.CLOSE:
                self._close(made)
            case Step.WHOLE_CALLS:
                if self._calls.whole:
                    self._send_calls(made)
            case Step.ALL_CALLS:
                self._send_calls(made)
            case Step.NEVER_EMPTY:
                if self._index == 0:
                    made.append(to.TextStart(0))
                    self._close(made)
            case Step.FINISH:
                self._send_end(made)
            case _:
                assert_never(step)

    def _close(self, made: list[to.Event]) -> None:
        made.append(to.BlockStop(self._index))
        self._index += 1

    def _send_calls(self, made: list[to.Event]) -> None:
        for call in self._calls.take():
            if not call.name:
                self.notes.append("a tool call without a name was left out")
            elif self._tool_ids and not self._parallel_tools:
                self.notes.append("a further tool call was left out: the request allows one")
            else:
                self._send_call(call, made)

    def _send_call(self, call: Call, made: list[to.Event]) -> None:
        shape, arguments = settle(call.arguments)
        identity = call.id if call.id and call.id not in self._tool_ids else self._tool_id()
        self._tool_ids.add(identity)
        made.append(to.ToolStart(self._index, identity, self._tool_names.get(call.name, call.name)))
        if arguments:
            made.append(to.JsonDelta(self._index, arguments))
        self._close(made)
        if shape is Shape.CUT:
            self._cut_calls += 1
        elif shape is Shape.BAD:
            self.notes.append("the arguments of a tool call are no JSON object; the call went out with {}")

    def _send_end(self, made: list[to.Event]) -> None:
        reason = self._stop_reason()
        matched = self._matched if reason == "stop_sequence" else None
        details = to.StopDetails(self._refusal) if self._refusal and reason == "refusal" else None
        made.append(to.MessageDelta(reason, matched, self.usage, details))
        made.append(to.MessageStop())

    def _stop_reason(self) -> str:
        """Anthropic's word. A call that is not whole means that the tokens ran out, whatever the upstream calls it."""
        finish = self._finish or "stop"
        if finish == "length" or self._cut_calls:
            return "max_tokens"
        if finish in _REFUSED or self._refusal:
            return "refusal"
        if finish not in _ORDINARY:
            self.notes.append(f"finish_reason {finish[:80]!r} is not known and was taken for an ordinary end")
        if self._tool_ids:
            return "tool_use"
        return "end_turn" if self._matched is None else "stop_sequence"
