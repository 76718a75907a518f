"""A response as an object."""

from __future__ import annotations

import msgspec

from fakes.responses_checker import RESPONSE
from slotline.core.responses.output import Echo, Status, response


def test_a_response_that_has_just_begun_has_every_field_and_repeats_its_request() -> None:
    made = response(Echo(model="m", instructions="Be brief."), "resp_1", 1000)
    fields = msgspec.json.decode(msgspec.json.encode(made))
    assert set(fields) == RESPONSE
    assert (made.id, made.created_at, made.status) == ("resp_1", 1000, Status.IN_PROGRESS)
    assert (fields["model"], fields["instructions"], fields["output"]) == ("m", "Be brief.", [])
    assert (fields["usage"], fields["error"], fields["incomplete_details"]) == (None, None, None)
