"""What a client of these routes is told besides its answer: its place, signs of life, and what went wrong."""

from __future__ import annotations

from slotline.core.errors import SlotlineError
from slotline.core.openai import refusal
from slotline.core.queue_frames import KEEP_ALIVE, QueueForm, Told, frame


class Front:
    """A part of `slotline.core.dialect.Dialect`; made to be inherited from."""

    def __init__(self, request_id: str, form: QueueForm, user: str | None) -> None:
        """`form`: how a place in line is told to this client. `user`: whom the request says that it is for."""
        self.user = user
        self._request_id = request_id
        self._form = form

    def shelve(self) -> None:
        """Nothing of a body is unpacked: its fields are views of the bytes that were received."""

    def place(self, told: Told) -> bytes:
        return frame(self._form, told)

    def loading(self) -> bytes:
        """These clients know no frames of progress."""
        return b""

    def keep_alive(self, waited: float) -> bytes:
        return KEEP_ALIVE

    def error_event(self, error: SlotlineError) -> bytes:
        return refusal.event(error, self._request_id)

    def error_body(self, error: SlotlineError) -> bytes:
        return refusal.body(error, self._request_id)
