"""One item of an answer while it is being written."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from slotline.core.responses import events as to
from slotline.core.responses.drafts import CallDraft, CustomCallDraft, Draft, MessageDraft, ReasoningDraft, SummaryDraft
from slotline.core.responses.output import Status
from slotline.core.responses.tools import Callee

Make = Callable[[], Draft]


def numbers() -> Callable[[], int]:
    return itertools.count(5).__next__


MAKES: list[Make] = [
    lambda: MessageDraft("msg_1", 2, numbers()),
    lambda: ReasoningDraft("rs_1", 2, numbers(), sealed=False),
    lambda: SummaryDraft("rs_1", 2, numbers(), sealed=True),
    lambda: CallDraft("fc_1", 2, numbers(), "call_1", Callee("f")),
    lambda: CustomCallDraft("ctc_1", 2, numbers(), "call_1", Callee("g", custom=True)),
]


@pytest.mark.parametrize("make", MAKES)
def test_its_events_are_numbered_one_after_another_and_all_name_its_place(make: Make) -> None:
    draft = make()
    made = [*draft.begin(), *draft.add('{"input":'), *draft.add('"x"}'), *draft.end(cut=False)]
    assert [event.sequence_number for event in made] == list(range(5, 5 + len(made)))
    assert {event.output_index for event in made} == {2}  # type: ignore[attr-defined]
    assert isinstance(made[0], to.ItemAdded)
    assert isinstance(made[-1], to.ItemDone)


@pytest.mark.parametrize("make", MAKES[:3])
def test_what_has_come_of_it_can_be_told_at_any_moment(make: Make) -> None:
    draft = make()
    list(draft.begin())
    list(draft.add("half"))
    assert draft.item(cut=True).status is Status.INCOMPLETE


def test_a_call_is_cut_if_its_json_is_whatever_the_answer_was() -> None:
    for text, status in (('{"a":1}', Status.COMPLETED), ('{"a"', Status.INCOMPLETE)):
        draft = MAKES[3]()
        list(draft.add(text))
        *_, done = draft.end(cut=text == '{"a":1}')
        assert isinstance(done, to.ItemDone)
        assert done.item.status is status
