"""What waits to be written: in order, and no more of it than there is to say."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slotline.core.journal import Bury, Command, Entry, Join, Keep, Leave, Mark, Offer, Retry, See, Withdraw
from slotline.core.shared import Shared
from slotline.gate.outbox import Outbox


def outbox(*commands: Command) -> Outbox:
    box = Outbox()
    for command in commands:
        box.add(command)
    return box


def all_of(box: Outbox) -> list[Command]:
    found: list[Command] = []
    while box:
        found += box.take()
    return found


def test_what_is_said_is_written_in_its_order() -> None:
    said: list[Command] = [Offer("x", 1), See("x", 1), Join(1, ["x"]), Join(2, ["x"]), Leave(7), Retry(8, 9), Bury("a")]
    assert all_of(outbox(*said)) == said


def test_one_that_came_and_went_unheard_is_not_spoken_of() -> None:
    assert all_of(outbox(Join(1, ["x"]), Join(2, ["x"]), Leave(1))) == [Join(2, ["x"])]


def test_of_two_words_on_the_same_thing_the_later_one_is_written() -> None:
    said: list[Command] = [See("x", 1), See("y", 1), Keep(b"k", 1), See("x", 2), Keep(b"k", 2), Mark(), Mark()]
    assert all_of(outbox(*said)) == [See("x", 2), See("y", 1), Keep(b"k", 2), Mark()]


def test_what_was_said_of_an_upstream_that_is_withdrawn_is_not_spoken_of_and_what_comes_after_it_is() -> None:
    said: list[Command] = [Offer("x", 1), See("x", 1), Join(1, ["x"]), Withdraw("x"), Offer("x", 2), See("x", 2)]
    assert all_of(outbox(*said)) == [Join(1, ["x"]), Withdraw("x"), Offer("x", 2), See("x", 2)]


def test_a_mark_stands_alone() -> None:
    box = outbox(Leave(1), Leave(2), Mark(), Leave(3))
    assert [box.take() for _ in range(3)] == [[Leave(1), Leave(2)], [Mark()], [Leave(3)]]


def test_an_entry_has_at_most_500_commands() -> None:
    box = outbox(*map(Leave, range(1201)))
    assert [len(box.take()) for _ in range(3)] == [500, 500, 201]
    assert not box


def test_one_that_begins_anew_says_what_there_is_now_and_keeps_the_places_that_are_to_be_kept() -> None:
    box = outbox(Join(1, ["x"]), Keep(b"k", 1), Leave(7))
    box.begin([Offer("x", 1), Join(2, ["x"])])
    assert all_of(box) == [Offer("x", 1), Join(2, ["x"]), Keep(b"k", 1)]


def test_it_does_not_grow_while_the_server_does_not_answer() -> None:
    box = Outbox()
    for ticket in range(10_000):
        box.add(Join(ticket, ["x"]))
        box.add(See("x", ticket % 3))
        box.add(Leave(ticket))
    assert len(box) == 1


_upstreams = st.sampled_from("xy")
_steps = st.one_of(
    st.tuples(st.just("offer"), _upstreams),
    st.tuples(st.just("withdraw"), _upstreams),
    st.tuples(st.just("join"), _upstreams),
    st.tuples(st.just("leave"), st.integers(1, 6)),
)


@given(st.lists(_steps, max_size=30))
def test_what_is_left_out_changes_nothing_for_those_who_wait(steps: list[tuple[str, object]]) -> None:
    """All that was said, and what the outbox made of it, lead to the same line."""
    said: list[Command] = []
    joined = 0
    for kind, what in steps:
        name = str(what)
        match kind:
            case "offer":
                said.append(Offer(name, 9))
            case "withdraw":
                said.append(Withdraw(name))
            case "join":
                joined += 1
                said.append(Join(joined, [name]))
            case _ if isinstance(what, int) and what <= joined:
                said.append(Leave(what))
    whole, less = Shared(), Shared()
    before = [Offer("x", 9), Offer("y", 9)]
    whole.apply(Entry(1, 0.0, "a", [*before, *said]))
    less.apply(Entry(1, 0.0, "a", [*before, *all_of(outbox(*said))]))
    assert whole._upstreams.keys() == less._upstreams.keys()
    assert [(owner.ticket, ticket.upstreams) for owner, ticket in whole._tickets.items()] == [
        (owner.ticket, ticket.upstreams) for owner, ticket in less._tickets.items()
    ]
