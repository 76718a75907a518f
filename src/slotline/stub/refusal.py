"""A request that is answered with an error before anything is played, and the shape of that error."""

from __future__ import annotations

import msgspec
from aiohttp import web

from slotline.core.kind import Kind
from slotline.stub.chunks import error_body
from slotline.stub.script import Error, ErrorForm


class Refusal(Exception):
    """Raised on the way to an answer; `more` are further fields of the error object."""

    def __init__(self, status: int, message: str, kind: str = "invalid_request_error", **more: int) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.more = more


def refused(server: Kind, refusal: Refusal) -> web.Response:
    """The answer to a refused request, in the words of the server that the stub plays."""
    form = ErrorForm.LLAMA_CPP if server is Kind.LLAMA_CPP else ErrorForm.VLLM
    body = error_body(Error(form, str(refusal), refusal.status, refusal.kind))
    body["error"] |= refusal.more
    return json_answer(server, body, refusal.status)


def json_answer(server: Kind, body: object, status: int = 200) -> web.Response:
    """Any value as JSON."""
    return web.Response(
        body=msgspec.json.encode(body),
        status=status,
        content_type="application/json",
        headers=server_header(server),
    )


def server_header(server: Kind) -> dict[str, str]:
    """Who answers: llama-server names itself on every answer."""
    return {"Server": "llama.cpp" if server is Kind.LLAMA_CPP else "stub"}
