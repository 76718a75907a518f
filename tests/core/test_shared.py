"""One line for several gateways: the same entries, the same line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotline.core.errors import Busy, LimitReached, SlotlineError, Withdrawn
from slotline.core.journal import (
    Bury,
    Command,
    Entry,
    Held,
    Join,
    Leave,
    Mark,
    Offer,
    Retry,
    See,
    Withdraw,
    drawn,
    read,
    seen,
    written,
)
from slotline.core.line import Lines
from slotline.core.party import FairBy, Party
from slotline.core.room import Ticket
from slotline.core.shared import Applied, Owner, Shared

UPSTREAMS = ("box1", "box2", "box3")
REPLICAS = ("a", "b", "c")
PARTIES = (Party(), Party("alice", weight=2), Party("bob", running=1), Party("robot", batch=True, waiting=3))


class Journal:
    """Entries one after the other, as the server would number them; written and read as the server keeps them."""

    def __init__(self, *readers: Shared) -> None:
        self.readers = list(readers)
        self.number = 1000
        self.moment = 0.0

    def write(self, replica: str, *commands: Command) -> list[Applied]:
        """What each reader made of it."""
        self.moment += 0.25
        entry = Entry(self.number, self.moment, replica, read(written(commands)) if commands else ())
        self.number = entry.next
        return [reader.apply(entry) for reader in self.readers]


def told(applied: Applied) -> object:
    """What one reader made of an entry, without the tickets themselves, which are each reader's own."""
    answers = [
        (each.owner, each.ticket.number if isinstance(each.ticket, Ticket) else repr(each.ticket))
        for each in applied.answers
    ]
    grants = [(grant.ticket.number, grant.upstream) for grant in applied.changes.grants]
    return answers, grants, [sorted(line) for line in applied.changes.moved]


def stand(shared: Shared) -> object:
    """Everything that there is to know of the state."""
    places = {
        (owner.replica, owner.ticket): shared.lines.place(ticket)
        for owner, ticket in shared._tickets.items()
        if shared.held(ticket) is None
    }
    held = {
        (owner.replica, owner.ticket): (held.upstream, held.fence, held.seat)
        for owner, ticket in shared._tickets.items()
        if (held := shared.held(ticket)) is not None
    }
    return places, held, shared.lines.lines()


def opened(*, slots: int = 1, queue: int = 8, seats: int = 0) -> tuple[Shared, Journal]:
    """Replicas `a` and `b` with one upstream."""
    shared = Shared()
    journal = Journal(shared)
    for replica in ("a", "b"):
        journal.write(replica, Offer("box1", queue), See("box1", slots, seats))
    return shared, journal


def granted(applied: Applied, shared: Shared) -> list[Owner]:
    return [shared.owner(grant.ticket) for grant in applied.changes.grants]


def refusal(applied: Applied) -> SlotlineError:
    (answer,) = applied.answers
    assert isinstance(answer.ticket, SlotlineError)
    return answer.ticket


# ---- one line, whoever asks ------------------------------------------------------------------------------------------


def test_requests_of_all_replicas_are_served_in_one_order() -> None:
    shared, journal = opened()
    (first,) = journal.write("a", Join(1, ["box1"]))
    journal.write("b", Join(1, ["box1"]))
    journal.write("a", Join(2, ["box1"]))
    assert granted(first, shared) == [Owner("a", 1)]
    (second,) = journal.write("a", Leave(1))
    assert granted(second, shared) == [Owner("b", 1)]
    (third,) = journal.write("b", Leave(1))
    assert granted(third, shared) == [Owner("a", 2)]


def test_bounds_and_limits_count_over_all_replicas() -> None:
    _, journal = opened(queue=2)
    for index, replica in enumerate(("a", "b", "a")):
        journal.write(replica, Join(index, ["box1"]))
    assert isinstance(refusal(journal.write("b", Join(9, ["box1"]))[0]), Busy)
    journal.write("a", Leave(2))
    key = Party("k", waiting=1)
    journal.write("a", Join(10, ["box1"], party=key))
    assert isinstance(refusal(journal.write("b", Join(10, ["box1"], party=key))[0]), LimitReached)


def test_the_most_careful_of_those_who_can_use_an_upstream_is_believed() -> None:
    shared, journal = opened(slots=4)
    journal.write("b", See("box1", 2))
    assert shared.lines.room("box1").slots == 2
    journal.write("b", See("box1", 0))
    assert shared.lines.room("box1").slots == 4
    journal.write("a", See("box1", 0))
    assert shared.lines.room("box1").slots == 0


def test_no_two_replicas_choose_the_same_slot_of_a_server_and_a_conversation_finds_its_own_again() -> None:
    shared, journal = opened(slots=2, seats=2)
    (one,) = journal.write("a", Join(1, ["box1"], chain=[5, 6]))
    (two,) = journal.write("b", Join(1, ["box1"], chain=[7, 8]))
    seats = [shared.seat(grant.ticket) for applied in (one, two) for grant in applied.changes.grants]
    assert sorted(map(str, seats)) == ["0", "1"]
    journal.write("a", Leave(1))
    journal.write("b", Leave(1))
    (again,) = journal.write("a", Join(2, ["box1"], chain=[7, 8, 9]))
    assert shared.seat(again.changes.grants[0].ticket) == seats[1]


def test_a_seat_in_use_by_an_outsider_is_not_given_out() -> None:
    shared, journal = opened(slots=1, seats=2)
    journal.write("b", See("box1", 1, 2, [0]))
    (applied,) = journal.write("a", Join(1, ["box1"]))
    assert shared.seat(applied.changes.grants[0].ticket) == 1


def test_what_others_hold_is_known_so_that_nobody_takes_them_for_outsiders() -> None:
    shared, journal = opened(slots=2, seats=2)
    journal.write("a", Join(1, ["box1"]))
    assert shared.elsewhere("box1", "b") == (frozenset({0}), 1)
    assert shared.elsewhere("box1", "a") == (frozenset(), 0)


def test_each_grant_has_a_greater_fence_than_all_before_it() -> None:
    shared, journal = opened(slots=3)
    fences = []
    for index in range(3):
        (applied,) = journal.write("a", Join(index, ["box1"]), Join(index + 10, ["box1"]))
        fences += [held.fence for g in applied.changes.grants if (held := shared.held(g.ticket))]
    assert fences == sorted(set(fences))
    assert len(fences) == 3


# ---- coming and going ------------------------------------------------------------------------------------------------


def test_a_replica_that_is_gone_leaves_nothing_behind() -> None:
    shared, journal = opened()
    journal.write("a", Join(1, ["box1"]), Join(2, ["box1"]))
    journal.write("b", Join(1, ["box1"]))
    (applied,) = journal.write("a")
    assert granted(applied, shared) == [Owner("b", 1)]
    assert shared.lines.lines() == {frozenset({"box1"}): 0}


def test_an_upstream_is_gone_when_the_last_one_who_offers_it_has_withdrawn_it() -> None:
    shared, journal = opened()
    journal.write("a", Join(1, ["box1"]), Join(2, ["box1"]))
    journal.write("b", Join(1, ["box1"]))
    (applied,) = journal.write("a", Withdraw("box1"))
    assert isinstance(refusal(applied), Withdrawn)
    assert shared.lines.lines() == {frozenset({"box1"}): 1}
    (applied,) = journal.write("b", Withdraw("box1"))
    assert isinstance(refusal(applied), Withdrawn)
    assert isinstance(refusal(journal.write("b", Join(2, ["box1"]))[0]), Withdrawn)


def test_whoever_may_wait_for_another_upstream_keeps_its_place_when_one_is_withdrawn() -> None:
    shared, journal = opened()
    for replica in ("a", "b"):
        journal.write(replica, Offer("box2", 8))
    journal.write("a", Join(1, ["box1"]), Join(2, ["box1", "box2"]))
    journal.write("b", Join(1, ["box2", "box1"]))
    journal.write("a", Withdraw("box1"))
    journal.write("b", See("box2", 1))
    assert shared.held(shared._tickets[Owner("a", 2)]) is not None


def test_one_that_comes_back_after_its_lease_stands_where_it_stood() -> None:
    shared, journal = opened()
    journal.write("b", Join(1, ["box1"]))
    (applied,) = journal.write("a", Join(1, ["box1"]))
    ticket = applied.answers[0].ticket
    assert isinstance(ticket, Ticket)
    journal.write("b", Join(2, ["box1"]))
    journal.write("a")
    journal.write("a2", Offer("box1", 8), Join(1, ["box1"], number=ticket.number, admitted=True), See("box1", 1))
    assert shared.lines.place(shared._tickets[Owner("a2", 1)]).position == 1


def test_a_journal_that_begins_anew_learns_who_holds_what_before_anybody_is_granted_anything() -> None:
    shared = Shared()
    journal = Journal(shared)
    journal.number = 5000
    journal.write("b", Offer("box1", 8), Join(7, ["box1"], number=40, admitted=True))
    journal.write("a", Offer("box1", 8), Join(3, ["box1"], number=39, holds=Held("box1", -5.0, 39, 1)))
    (applied,) = journal.write("a", See("box1", 1, 2))
    assert applied.changes.grants == ()
    assert shared.held(shared._tickets[Owner("a", 3)]) == Held("box1", -5.0, 39, 1)
    (applied,) = journal.write("a", Leave(3))
    assert granted(applied, shared) == [Owner("b", 7)]


def test_a_replica_under_a_new_name_takes_over_its_slots_in_one_step() -> None:
    shared, journal = opened()
    journal.write("a", Join(1, ["box1"]))
    journal.write("b", Join(1, ["box1"]))
    holds = shared.held(shared._tickets[Owner("a", 1)])
    (applied,) = journal.write("a2", Offer("box1", 8), Join(1, ["box1"], number=1004, holds=holds), Bury("a"))
    assert applied.changes.grants == ()
    assert shared.held(shared._tickets[Owner("a2", 1)]) == holds


def test_a_retry_goes_to_another_upstream_and_one_without_another_is_told_so() -> None:
    shared, journal = opened()
    journal.write("a", Offer("box2", 8), See("box2", 1))
    (applied,) = journal.write("a", Join(1, ["box1", "box2"]))
    first = applied.changes.grants[0].upstream
    (applied,) = journal.write("a", Retry(1, 2))
    assert granted(applied, shared) == [Owner("a", 2)]
    assert applied.changes.grants[0].upstream != first
    assert isinstance(refusal(journal.write("a", Retry(2, 3))[0]), Withdrawn)


def test_one_that_cannot_go_back_after_all_gives_its_slot_up() -> None:
    """Its replica knows it by its new number only, and would never say that it leaves."""
    shared, journal = opened()
    journal.write("a", Join(1, ["box1"]))
    journal.write("b", Join(1, ["box1"]))
    (applied,) = journal.write("a", Retry(1, 2))
    assert isinstance(refusal(applied), Withdrawn)
    assert granted(applied, shared) == [Owner("b", 1)]


def test_one_that_runs_where_its_replica_sends_nothing_any_more_counts_as_long_as_others_do() -> None:
    shared, journal = opened()
    journal.write("b", Offer("box2", 8), See("box2", 1))
    holds = Held("box2", 1.0, 77)
    (applied,) = journal.write("a", Join(5, ["box2"], number=3, admitted=True, holds=holds))
    assert shared.held(shared._tickets[Owner("a", 5)]) == holds
    assert granted(journal.write("b", Join(1, ["box2"]))[0], shared) == []
    (applied,) = journal.write("a", Join(6, ["box9"], number=4, admitted=True, holds=Held("box9", 1.0, 78)))
    assert isinstance(refusal(applied), Withdrawn)


def test_one_that_came_back_to_its_place_while_it_runs_there_still_is_in_a_picture_as_well() -> None:
    """Its client left and came again; the slot drains. Both have one number."""
    shared, journal = opened()
    (first,) = journal.write("a", Join(1, ["box1"]))
    ticket = first.answers[0].ticket
    assert isinstance(ticket, Ticket)
    journal.write("b", Join(1, ["box1"], number=ticket.number))
    picture = seen(drawn(shared.picture(journal.number, journal.moment)))
    journal.readers.append(Shared.of(picture))
    assert stand(journal.readers[0]) == stand(journal.readers[1])
    for applied, reader in zip(journal.write("a", Leave(1)), journal.readers, strict=True):
        assert granted(applied, reader) == [Owner("b", 1)]


def test_a_join_for_nothing_is_refused() -> None:
    _, journal = opened()
    assert isinstance(refusal(journal.write("a", Join(1, []))[0]), Withdrawn)


@pytest.mark.parametrize("command", [Leave(1), See("box9", 1), Withdraw("box9"), Bury("nobody")])
def test_what_means_nothing_any_more_changes_nothing(command: Command) -> None:
    shared, journal = opened()
    before = stand(shared)
    (applied,) = journal.write("a", command)
    assert told(applied) == ([], [], [])
    assert stand(shared) == before


# ---- all see the same ------------------------------------------------------------------------------------------------

_tickets = st.integers(0, 12)
_sets = st.lists(st.sampled_from(UPSTREAMS), min_size=1, max_size=3, unique=True)
_commands: st.SearchStrategy[Command] = st.one_of(
    st.builds(Offer, st.sampled_from(UPSTREAMS), st.integers(0, 6), st.booleans(), st.booleans()),
    st.builds(See, st.sampled_from(UPSTREAMS), st.integers(0, 3), st.integers(0, 3), st.just(())),
    st.builds(
        Join,
        _tickets,
        _sets,
        party=st.sampled_from(PARTIES),
        cost=st.sampled_from([0.5, 1.0, 3.0]),
        model=st.sampled_from("xy"),
        chain=st.lists(st.integers(0, 3), max_size=3),
    ),
    st.builds(Leave, _tickets),
    st.builds(Retry, _tickets, _tickets),
    st.builds(Withdraw, st.sampled_from(UPSTREAMS)),
    st.just(Mark()),
)
_batches = st.lists(
    st.tuples(st.sampled_from(REPLICAS), st.lists(_commands, max_size=4)),
    min_size=1,
    max_size=40,
)


def fresh(batches: Sequence[tuple[str, list[Command]]]) -> Iterator[tuple[str, list[Command]]]:
    """A replica gives no number of its own to two tickets; a mark stands alone."""
    own = count(100)
    for replica, commands in batches:
        used: list[Command] = []
        for command in commands:
            if isinstance(command, Mark):
                yield replica, [command]
            elif isinstance(command, Retry):
                used.append(Retry(command.ticket, next(own)))
            else:
                used.append(command)
        yield replica, used


@given(_batches, st.sampled_from(FairBy))
def test_all_who_read_the_same_entries_see_the_same_and_so_does_one_who_comes_later(
    batches: list[tuple[str, list[Command]]], fair_by: FairBy
) -> None:
    journal = Journal(Shared(fair_by), Shared(fair_by))
    for replica in REPLICAS:
        journal.write(replica, *[Offer(name, 4) for name in UPSTREAMS], *[See(name, 2, 2) for name in UPSTREAMS])
    for replica, commands in fresh(batches):
        results = journal.write(replica, *commands)
        assert len({repr(told(applied)) for applied in results}) == 1
        picture = results[0].picture
        if picture is not None:
            assert picture.next == journal.number
            journal.readers.append(Shared.of(seen(drawn(picture)), fair_by))
        stands = [stand(reader) for reader in journal.readers]
        assert all(each == stands[0] for each in stands)


@given(_batches)
def test_a_line_that_is_shared_decides_as_the_line_of_one_gateway_does(
    batches: list[tuple[str, list[Command]]],
) -> None:
    """One replica that has everything, against `core.line` itself."""
    shared, lines = Shared(), Lines(dict.fromkeys(UPSTREAMS, (2, 5)))
    journal = Journal(shared)
    journal.write("a", *[Offer(name, 5) for name in UPSTREAMS], *[See(name, 2) for name in UPSTREAMS])
    lines.count_to(journal.number - 1)
    tickets: dict[int, Ticket] = {}
    for _, commands in batches:
        for command in commands:
            (applied,) = journal.write("a", command) if isinstance(command, (Join, Leave)) else (None,)
            if isinstance(command, Join) and command.ticket not in tickets:
                lines.count_to(journal.number - 2)
                try:
                    ticket, changes = lines.join(
                        command.upstreams,
                        journal.moment,
                        0,
                        command.party,
                        command.cost,
                        command.model,
                        chain=command.chain,
                    )
                except SlotlineError as error:
                    assert applied is not None
                    assert str(refusal(applied)) == str(error)  # noqa: PT017 - both refuse, or none does
                    continue
                tickets[command.ticket] = ticket
            elif isinstance(command, Leave) and command.ticket in tickets:
                changes = lines.leave(tickets.pop(command.ticket), journal.moment)
            else:
                continue
            assert applied is not None
            assert [(g.ticket.number, g.upstream) for g in applied.changes.grants] == [
                (g.ticket.number, g.upstream) for g in changes.grants
            ]
            assert applied.changes.moved == changes.moved
            for own, ticket in tickets.items():
                mine = shared._tickets[Owner("a", own)]
                assert shared.held(mine) is not None or shared.lines.place(mine) == lines.place(ticket)
