"""One answer's events as bytes: chunks, comments and errors, with the line ending that the script wants."""

from __future__ import annotations

from typing import Any, assert_never

import msgspec

from slotline.stub.script import Comment, Done, Error, ErrorForm, Event, Frame, Raw

_encode = msgspec.json.encode


def error_body(error: Error) -> dict[str, Any]:
    """The error as JSON, in the words of the server whose form it has."""
    match error.form:
        case ErrorForm.TEXT:
            return {"error": error.message}
        case ErrorForm.VLLM:
            inner = {"message": error.message, "type": error.type, "param": None, "code": error.code}
        case ErrorForm.SGLANG:
            inner = {"object": "error", "message": error.message, "type": error.type, "param": None, "code": error.code}
        case ErrorForm.LLAMA_CPP | ErrorForm.FIELD | ErrorForm.EVENT | ErrorForm.HTML:
            inner = {"code": error.code, "message": error.message, "type": error.type}
        case _:
            assert_never(error.form)
    return {"error": inner}


class Chunks:
    """Encodes the events of one chat completion."""

    object = "chat.completion.chunk"

    def __init__(self, completion_id: str, model: str, created: int, newline: str) -> None:
        self._same = {"id": completion_id, "object": self.object, "created": created, "model": model}
        self._newline = newline.encode()
        # A token is the hot path: everything around its text is made once.
        self._before, _, self._after = self.delta({"content": "@"}).partition(b'"content":"@"')

    def token(self, key: str, text: str) -> bytes:
        """A chunk whose delta is one text field."""
        return b'%b"%b":%b%b' % (self._before, key.encode(), _encode(text), self._after)

    def delta(self, delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
        """A chunk with one choice; `more` are further keys of the chunk."""
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return self.chunk({"choices": [choice], **more})

    def chunk(self, body: dict[str, Any]) -> bytes:
        """A chunk with the ordinary keys, and these in place of them or beside them."""
        return self.line(b"data", _encode({**self._same, **body})) + self._newline

    def line(self, name: bytes, value: bytes) -> bytes:
        """One line of the event stream."""
        return b"%b: %b%b" % (name, value, self._newline)

    def frame(self, frame: Frame) -> bytes:
        """What is no delta."""
        match frame:
            case Comment():
                text = f": {frame.text}" if frame.text else ":"
                return text.encode() + self._newline * 2
            case Event():
                return self._event(frame)
            case Raw():
                return frame.data
            case Error():
                return self._error(frame)
            case Done():
                return self.line(b"data", b"[DONE]") + (self._newline if frame.blank_line else b"")
            case _:
                assert_never(frame)

    def _event(self, event: Event) -> bytes:
        lines = [(b"event", event.event), (b"id", event.id)]
        lines += [(b"data", text) for text in event.data.split("\n")]
        return b"".join(self.line(name, text.encode()) for name, text in lines if text is not None) + self._newline

    def _error(self, error: Error) -> bytes:
        body = _encode(error_body(error))
        match error.form:
            case ErrorForm.FIELD:
                return self.line(b"error", body) + self._newline
            case ErrorForm.EVENT:
                return self.line(b"event", b"error") + self.line(b"data", body) + self._newline
            case ErrorForm.HTML:
                page = f"<html><body><h1>{error.code}</h1>{error.message}</body></html>"
                return page.encode() + self._newline * 2
            case ErrorForm.LLAMA_CPP | ErrorForm.VLLM | ErrorForm.SGLANG | ErrorForm.TEXT:
                return self.line(b"data", body) + self._newline
            case _:
                assert_never(error.form)


class TextChunks(Chunks):
    """Encodes the events of a completion of a plain prompt, which knows text and nothing else."""

    object = "text_completion"

    def token(self, key: str, text: str) -> bytes:
        """A chunk of text; what would be reasoning in a chat is text like any other."""
        return self.delta({"content": text})

    def delta(self, delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
        """A chunk with one choice."""
        choice = {"index": 0, "text": delta.get("content") or "", "logprobs": None, "finish_reason": finish}
        return self.chunk({"choices": [choice], **more})
