"""All that can go wrong with a request: one tree, each class with its status, its names in both dialects, its outcome.

A class says how its end looks from outside (`docs/errors.md`); the place that raises it puts the numbers into the
message: where a limit ended a request, the message names the phase, the limit and its value. Errors of libraries are
translated into these at the border (`slotline.upstream`, `slotline.surface`) and nowhere else.

Sources: https://platform.claude.com/docs/en/api/errors for the Anthropic types,
https://platform.openai.com/docs/guides/error-codes for OpenAI's.
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar


class Outcome(StrEnum):
    """How a request ended. Every request has exactly one; the names are those of the metrics."""

    COMPLETED = "completed"
    CLIENT_LEFT_WAITING = "client_left_waiting"
    CLIENT_LEFT_RUNNING = "client_left_running"
    REFUSED_FULL = "refused_full"
    REFUSED_LIMIT = "refused_limit"
    WAIT_TIMEOUT = "wait_timeout"
    LOAD_TIMEOUT = "load_timeout"
    STALLED = "stalled"
    UPSTREAM_DIED = "upstream_died"
    UPSTREAM_ERROR = "upstream_error"
    THINKING_OVERRUN = "thinking_overrun"
    INVALID = "invalid"
    SHUTDOWN = "shutdown"


class SlotlineError(Exception):
    """The root. `str(error)` is what the client reads."""

    status: int = 500  # HTTP status while no byte of the answer is out
    anthropic_type: str = "api_error"  # `error.type` on the Messages surface
    openai_type: str = "server_error"  # `error.type` on OpenAI's surfaces
    outcome: ClassVar[Outcome] = Outcome.UPSTREAM_ERROR
    retry_after: int | None = None  # whole seconds for the `retry-after` header; None: no header

    @property
    def message(self) -> str:
        """What the client reads."""
        return str(self)


# ---- the request itself: found before anything is acquired -----------------------------------------------------------


class Refused(SlotlineError):
    """The request cannot be served as it stands; nothing was acquired for it."""

    status = 400
    anthropic_type = "invalid_request_error"
    openai_type = "invalid_request_error"
    outcome = Outcome.INVALID


class Invalid(Refused):
    """A field of the request is missing, of the wrong type or out of range. The message names field and value."""


class Unauthenticated(Refused):
    """No key, or a key that is not known."""

    status = 401
    anthropic_type = "authentication_error"


class Forbidden(Refused):
    """The key is known and may not do this."""

    status = 403
    anthropic_type = "permission_error"


class NotFound(Refused):
    """No such route, or no such model."""

    status = 404
    anthropic_type = "not_found_error"


class WrongMethod(Refused):
    """The route exists and takes another method."""

    status = 405


class TooLarge(Refused):
    """The body is longer than `server.max_body`."""

    status = 413
    anthropic_type = "request_too_large"


# ---- the line --------------------------------------------------------------------------------------------------------


class Busy(SlotlineError):
    """The line is full: as many wait as may wait."""

    status = 529
    anthropic_type = "overloaded_error"
    outcome = Outcome.REFUSED_FULL

    def __init__(self, message: str, *, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class LimitReached(SlotlineError):
    """The caller's key has as many waiting as it may."""

    status = 429
    anthropic_type = "rate_limit_error"
    openai_type = "rate_limit_error"
    outcome = Outcome.REFUSED_LIMIT

    def __init__(self, message: str, *, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Superseded(SlotlineError):
    """The client has sent the same request again, and the later copy goes on in its place."""

    status = 400  # and not 409, after which clients would send it once more
    anthropic_type = "invalid_request_error"
    openai_type = "invalid_request_error"
    outcome = Outcome.CLIENT_LEFT_WAITING  # or `CLIENT_LEFT_RUNNING`, if it had its slot


class QueueTimeout(SlotlineError):
    """The request waited in line for longer than `queue_wait`, or than its client does."""

    status = 529
    anthropic_type = "overloaded_error"
    outcome = Outcome.WAIT_TIMEOUT


class Withdrawn(SlotlineError):
    """The upstreams that could serve the request were taken out of the configuration while it waited for them."""

    status = 503
    anthropic_type = "overloaded_error"


class Cancelled(SlotlineError):
    """An operator has ended the request."""

    status = 400  # clients send again what ends with 409, 429 or 500 and above, and log out after 403
    anthropic_type = "invalid_request_error"
    openai_type = "invalid_request_error"
    outcome = Outcome.SHUTDOWN


class SlotLost(SlotlineError):
    """The gateway lost its lease in the cluster, and the slot went to others while the request ran."""

    status = 503
    anthropic_type = "overloaded_error"
    outcome = Outcome.SHUTDOWN
    retry_after = 5


class ShuttingDown(SlotlineError):
    """The gateway is ending."""

    status = 503
    anthropic_type = "overloaded_error"
    outcome = Outcome.SHUTDOWN
    retry_after = 5


# ---- the upstream ----------------------------------------------------------------------------------------------------


class UpstreamFailure(SlotlineError):
    """The upstream did not do its part."""


class Unreachable(UpstreamFailure):
    """No connection could be made, or it broke before one byte of an answer."""

    status = 502


class WaitTimeout(UpstreamFailure):
    """The upstream's slot was busy with this request and sent nothing for longer than `busy_wait`."""

    status = 504
    anthropic_type = "timeout_error"
    outcome = Outcome.WAIT_TIMEOUT


class LoadTimeout(UpstreamFailure):
    """The upstream was loading or restarting for longer than `load_wait`."""

    status = 503
    anthropic_type = "overloaded_error"
    outcome = Outcome.LOAD_TIMEOUT


class Stalled(UpstreamFailure):
    """The upstream swallowed the request (`idle_grace`), or fell silent between events (`liveness`)."""

    status = 504
    anthropic_type = "timeout_error"
    outcome = Outcome.STALLED


class StreamClosedEarly(UpstreamFailure):
    """The upstream's stream ended without an end: no finish reason and no `[DONE]`."""

    status = 502
    outcome = Outcome.UPSTREAM_DIED


class ThinkingOverrun(UpstreamFailure):
    """The thinking cap was passed and the reasoning could not be ended."""

    status = 502
    outcome = Outcome.THINKING_OVERRUN


class Protocol(UpstreamFailure):
    """The upstream sent something that is not the protocol it claims to speak."""

    status = 502


class UpstreamStatus(UpstreamFailure):
    """The upstream answered with an error of its own; its text reaches the client.

    `status` is what the client gets. An upstream's 401 and 403 speak of *our* credentials, and become 502.
    """

    MAX_BODY = 65536  # bytes of an upstream's error body that are read and passed on

    _TYPES: ClassVar[dict[int, str]] = {
        400: "invalid_request_error",
        404: "not_found_error",
        413: "request_too_large",
        429: "rate_limit_error",
        503: "overloaded_error",
        504: "timeout_error",
        529: "overloaded_error",
    }

    def __init__(self, status: int, body: str) -> None:
        """`status`: the upstream's own, 400 to 599. `body`: its message, made readable by the caller."""
        super().__init__(body or f"the upstream answered with status {status}")
        self.upstream_status = status
        self.body = body
        self.overflow: str | None = None  # the upstream's own words, where it said that the prompt does not fit
        self.status = 502 if status in {401, 403} or not 400 <= status <= 599 else status
        fallback = "invalid_request_error" if self.status < 500 else "api_error"
        self.anthropic_type = self._TYPES.get(self.status, fallback)
        self.openai_type = "invalid_request_error" if self.status < 500 else "server_error"
