"""Turns between parties, as those see it who wait: shares, waits and places, played through in made-up time."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count, cycle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slotline.core.fairness import CROWD, HEAVIER, Circle, Queue, Settlement, ticks
from slotline.core.line import Lines, Phase
from slotline.core.party import NOBODY, FairBy, Party
from slotline.core.room import Ticket

A, B, C = Party("a"), Party("b"), Party("c")
NOW = 0.0


def joined(lines: Lines, *parties: Party, cost: float = 1.0) -> list[Ticket]:
    """One new ticket for each of `parties`, in this order."""
    return [lines.join("x", NOW, party=party, cost=cost)[0] for party in parties]


def places(lines: Lines, tickets: Iterable[Ticket]) -> list[int]:
    return [lines.place(ticket).position for ticket in tickets]


def starts(lines: Lines) -> str:
    """The keys of all who wait, in the order in which they get the only slot of x, held for as long as estimated."""
    order = ""
    while running := list(lines.room("x").running.items()):
        ((ticket, since),) = running
        order += "".join(grant.ticket.party.key for grant in lines.release(ticket, since + ticket.cost).grants)
    return order


@dataclass
class House:
    """Slots, and parties each of which keeps some requests in line all the time. Events, by the second."""

    slots: int
    fair_by: FairBy = FairBy.KEY
    used: defaultdict[Party, float] = field(default_factory=lambda: defaultdict(float))  # slot-seconds that have ended
    waits: dict[Party, list[float]] = field(default_factory=dict)
    now: float = 0.0

    def __post_init__(self) -> None:
        self.lines = Lines({"x": (self.slots, 100_000)}, fair_by=self.fair_by)
        self.ends: list[tuple[float, int, Ticket]] = []
        self.needs: dict[int, float] = {}
        self.since: dict[int, float] = {}

    def ask(self, party: Party, seconds: float, cost: float) -> Ticket:
        """A request that will hold its slot for `seconds`, and is taken to need `cost`."""
        ticket, changes = self.lines.join("x", self.now, party=party, cost=cost)
        self.needs[ticket.number], self.since[ticket.number] = seconds, self.now
        self.begin(grant.ticket for grant in changes.grants)
        return ticket

    def begin(self, granted: Iterable[Ticket]) -> None:
        for ticket in granted:
            heapq.heappush(self.ends, (self.now + self.needs[ticket.number], ticket.number, ticket))
            self.waits.setdefault(ticket.party, []).append(self.now - self.since[ticket.number])

    def end_one(self) -> Ticket:
        """The next request that ends; its slot is granted on."""
        self.now, _, ticket = heapq.heappop(self.ends)
        self.used[ticket.party] += self.needs[ticket.number]
        self.begin(grant.ticket for grant in self.lines.release(ticket, self.now).grants)
        return ticket

    def run(self, seconds: float, asks: dict[Party, Callable[[], tuple[float, float]]], depth: int = 5) -> None:
        """Each party has `depth` requests in line, and another one for each that ends."""
        for _ in range(depth):
            for party, ask in asks.items():
                self.ask(party, *ask())
        until = self.now + seconds
        while self.now < until:
            party = self.end_one().party
            if party in asks:
                self.ask(party, *asks[party]())


def always(seconds: float, cost: float | None = None) -> Callable[[], tuple[float, float]]:
    return lambda: (seconds, seconds if cost is None else cost)


def jain(values: Sequence[float]) -> float:
    """Jain's index: 1 where all are equal, 1/n where one has everything."""
    return float(sum(values) ** 2 / (len(values) * sum(value * value for value in values)))


# ---- who is next -----------------------------------------------------------------------------------------------------


def test_a_key_with_one_request_is_served_after_the_one_that_runs_however_many_another_key_has_in_line() -> None:
    """Key A queues ten, key B one after them: B is second, and its place says so from the start."""
    lines = Lines({"x": (1, 99)})
    *many, one = joined(lines, *[A] * 10, B)
    assert lines.place(one).position == 1
    assert places(lines, many[1:]) == list(range(2, 11))
    assert starts(lines) == "b" + "a" * 9


def test_without_keys_the_one_who_comes_eleventh_is_served_eleventh() -> None:
    lines = Lines({"x": (1, 99)})
    *_, last = joined(lines, *[NOBODY] * 11)
    assert lines.place(last).position == 10, "of those who wait: one runs"


def test_keys_take_turns_and_in_one_key_the_order_is_that_of_arrival() -> None:
    lines = Lines({"x": (1, 99)})
    joined(lines, A, A, A, B, B, C, B)
    assert starts(lines) == "bc" + "ab" + "ab"


def test_a_key_whose_requests_cost_twice_as_much_has_half_as_many_turns() -> None:
    lines = Lines({"x": (1, 99)})
    joined(lines, C)
    for _ in range(4):
        joined(lines, A, cost=2.0)
        joined(lines, B, cost=1.0)
    assert starts(lines) == "abbabbaa"


def test_a_newcomer_moves_those_back_who_have_been_served_and_nobody_else() -> None:
    lines = Lines({"x": (1, 99)})
    _, *many = joined(lines, A, A, A)
    assert places(lines, many) == [1, 2]
    ticket, changes = lines.join("x", NOW, party=B)
    assert changes.moved == (frozenset("x"),)
    assert places(lines, [ticket, *many]) == [1, 2, 3]


def test_with_one_key_no_place_ever_grows() -> None:
    lines = Lines({"x": (1, 99)})
    tickets = joined(lines, *[A] * 6, cost=3.0)
    told = {ticket: lines.place(ticket).position for ticket in tickets[1:]}
    lines.leave(tickets[3], NOW)
    lines.release(tickets[0], 100.0)
    joined(lines, A, A)
    waiting = [ticket for ticket in tickets if lines.phase(ticket) is Phase.WAITING]
    assert places(lines, waiting) == [1, 2, 3]
    assert all(lines.place(ticket).position < told[ticket] for ticket in waiting[1:])


# ---- what is charged -------------------------------------------------------------------------------------------------


def test_what_was_really_used_replaces_the_estimate() -> None:
    """A was taken to need as much as B, and needed four times as much: B has four turns before A has another."""
    lines = Lines({"x": (1, 99)})
    first, *_ = joined(lines, A, A, A, *[B] * 6)
    assert lines.release(first, 4.0).grants[0].ticket.party is B
    assert starts(lines) == "bbb" + "ab" + "ab"


def test_one_that_leaves_the_middle_gives_its_cost_back() -> None:
    lines = Lines({"x": (1, 99)})
    joined(lines, C)
    first, second, third = joined(lines, A, A, A, cost=4.0)
    rivals = joined(lines, *[B] * 5)
    assert places(lines, [first, second, third]) == [1, 6, 8]
    lines.leave(second, NOW)
    assert places(lines, [first, third, *rivals]) == [1, 6, 2, 3, 4, 5, 7]


def test_nothing_is_saved_up_by_not_asking() -> None:
    """A has used a hundred seconds while B asked for nothing; from then on they take turns."""
    house = House(slots=1)
    house.run(100.0, {A: always(1.0)})
    for _ in range(5):
        house.ask(B, 1.0, 1.0)
    assert starts(house.lines)[:6] == "bababa"


def test_what_was_used_is_not_forgotten_by_leaving_the_line_for_a_moment() -> None:
    """A had one request that took ten times as long as estimated, and nobody in line when it ended."""
    lines = Lines({"x": (1, 99)})
    running, *_ = joined(lines, A, *[B] * 12)
    lines.release(running, 10.0)
    joined(lines, A)
    assert starts(lines) == "b" * 10 + "ab"


@pytest.mark.parametrize(("more", "tag"), [(-5, 300), (100, 300), (350, 360)])
def test_one_that_still_runs_counts_for_what_it_uses_beyond_the_point_where_its_account_came_back(
    more: int, tag: int
) -> None:
    """A's request was charged 10 and runs on, while others are served up to 300; only then A asks for more."""
    circle = Circle()
    circle.add(("a",), 1, 10, 0)
    circle.charge(("a",), 10)
    circle.remove(("a",), 1)
    circle.time = 300
    circle.add(("a",), 2, 10, 1)
    assert circle.accounts["a"].tag == 300
    circle.settle(("a",), Settlement(1, more))
    assert circle.accounts["a"].tag == tag
    circle.charge(("a",), 10)
    circle.settle(("a",), Settlement(2, 7))
    assert circle.accounts["a"].tag == tag + 17, "what was granted after it came back counts in full"


def test_where_a_slot_is_free_and_nobody_waits_all_begin_anew() -> None:
    lines = Lines({"x": (1, 99)})
    (running,) = joined(lines, A)
    lines.release(running, 1000.0)
    joined(lines, C, A, B)
    assert starts(lines) == "ab", "A owes nothing: nobody waited while it used the slot"


def test_a_key_that_was_at_its_limit_has_saved_up_nothing_by_that() -> None:
    """A has its one slot for a hundred seconds, and B a hundred turns in the other one; then they take turns."""
    limited = Party("a", running=1)
    house = House(slots=2)
    first = house.ask(limited, 100.0, 0.1)
    for _ in range(20):
        house.ask(limited, 1.0, 1.0)
    for _ in range(200):
        house.ask(B, 1.0, 1.0)
    while house.now < 99.5:
        house.end_one()
    house.lines.resize("x", 1, house.now)
    house.lines.leave(first, 1.0)  # as if it had taken a second, so that A owes next to nothing
    before = dict(house.used)
    while house.now < 120.0:
        house.end_one()
    assert house.used[B] - before[B] >= 9.0


# ---- shares ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("slots", [1, 4])
@pytest.mark.parametrize("cost", [None, 5.0], ids=["known", "all the same"])
def test_keys_with_requests_of_different_sizes_get_the_same_slot_seconds(slots: int, cost: float | None) -> None:
    sizes = {Party(key): seconds for key, seconds in zip("abcde", (1.0, 2.0, 4.0, 8.0, 16.0), strict=True)}
    house = House(slots)
    house.run(20_000.0, {party: always(seconds, cost) for party, seconds in sizes.items()}, depth=slots + 4)
    assert jain([house.used[party] for party in sizes]) >= 0.99


@pytest.mark.parametrize("slots", [1, 4])
@pytest.mark.parametrize("sizes", [(3.0, 3.0), (1.0, 7.0), (7.0, 1.0)])
def test_a_key_of_twice_the_weight_gets_twice_the_slot_seconds(slots: int, sizes: tuple[float, float]) -> None:
    heavy, light = Party("heavy", weight=2), Party("light")
    house = House(slots)
    house.run(10_000.0, {heavy: always(sizes[0]), light: always(sizes[1])}, depth=slots + 4)
    assert house.used[heavy] / house.used[light] == pytest.approx(2.0, rel=0.05)


def test_a_thousand_of_one_key_in_line_cost_another_less_than_the_time_of_one_request() -> None:
    def waits(crowd: int) -> list[float]:
        house = House(slots=1)
        for _ in range(crowd):
            house.ask(A, 10.0, 10.0)
        for pause in (3.0, 14.0, 25.5, 31.0):
            while house.ends and house.ends[0][0] <= house.now + pause:
                house.end_one()
            house.now += 0.5
            house.ask(B, 2.0, 10.0)
        while house.lines.lines()[frozenset("x")] > max(0, crowd - 20):
            house.end_one()
        return house.waits[B]

    alone, crowded = waits(0), waits(1000)
    assert max(crowded) - max(alone) < 10.0


def test_estimates_that_were_far_too_high_do_not_put_a_newcomer_behind_many() -> None:
    """A's requests are taken to need a minute each, and need a second."""
    house = House(slots=4)
    for _ in range(200):
        house.ask(A, 1.0, 60.0)
    while house.now < 10.0:
        house.end_one()
    newcomer = house.ask(B, 1.0, 60.0)
    assert house.lines.place(newcomer).position <= 2


def test_of_two_keys_one_of_which_sends_one_request_after_the_other_neither_waits_for_more_than_one_of_the_other() -> (
    None
):
    house = House(slots=1)
    for _ in range(500):
        house.ask(A, 1.0, 1.0)
    house.ask(B, 1.0, 1.0)
    for _ in range(200):
        if house.end_one().party is B:
            house.ask(B, 1.0, 1.0)
    assert max(house.waits[B]) <= 1.0


def test_newcomers_without_end_do_not_keep_out_one_who_has_been_served_once() -> None:
    """Every second another key comes for the first time, and starts level; the level moves on and passes all."""
    house = House(slots=1)
    patient = [house.ask(A, 1.0, 1.0) for _ in range(3)]
    numbers = count()
    for _ in range(40):
        house.ask(Party(f"new {next(numbers)}"), 1.0, 1.0)
        house.end_one()
    assert [house.lines.phase(ticket) for ticket in patient] == [Phase.GONE] * 3


# ---- newcomers without end -------------------------------------------------------------------------------------------


def waited(
    house: House, mine: Party, owes: float, newcomer: Callable[[int], Party], depth: int, each: int = 1
) -> float:
    """For how many seconds `mine` waits after an answer of `owes` seconds, `depth` others being in line all the time.

    They come one after the other, each with `each` requests of a second.
    """
    numbers = count()

    def fill() -> None:
        while house.lines.lines().get(frozenset("x"), 0) < depth:
            party = newcomer(next(numbers))
            for _ in range(each):
                house.ask(party, 1.0, 1.0)

    house.ask(mine, owes, 1.0)
    fill()
    house.end_one()
    ticket, since = house.ask(mine, 1.0, 1.0), house.now
    depth += 1
    while house.lines.phase(ticket) is Phase.WAITING:
        assert house.now - since < 20_000.0, "never"
        house.end_one()
        fill()
    return house.now - since


@pytest.mark.parametrize("each", [1, 2])
def test_one_long_answer_costs_a_flow_minutes_and_not_half_an_hour_before_fresh_flows_without_end(each: int) -> None:
    """64 stand in line; then those who came later have had eight times what it owes."""
    house = House(slots=1, fair_by=FairBy.FLOW)
    wait = waited(house, Party("a", "mine"), 30.0, lambda number: Party("a", f"{number}"), 64, each)
    assert 64.0 < wait <= 64.0 + CROWD * 32.0


@pytest.mark.parametrize("each", [1, 2])
@pytest.mark.parametrize("keys", [10**6, 80], ids=["ever new keys", "80 keys in turn"])
def test_a_key_of_the_least_weight_has_its_turn_before_keys_of_the_greatest_without_end(keys: int, each: int) -> None:
    wait = waited(House(slots=1), A, 1.0, lambda number: Party(f"{number % keys}", weight=1000), 64, each)
    assert wait <= 64.0 + CROWD * (HEAVIER + 2)


@given(st.floats(1.0, 60.0), st.sampled_from([0.5, 1.0, 3.0]), st.integers(2, 70), st.integers(1, 2))
@settings(max_examples=25, deadline=None)
def test_nobody_waits_while_those_who_came_later_have_more_than_a_crowd_of_eight(
    owes: float, weight: float, depth: int, each: int
) -> None:
    """Beyond the line that was there: eight times what it owes, by their weight, and eight requests."""
    wait = waited(House(slots=1), A, owes, lambda number: Party(f"{number}", weight=weight), depth, each)
    assert wait <= depth + CROWD * (owes * weight + 2)


def test_those_who_wait_all_the_time_have_what_their_weights_say() -> None:
    """Nothing is forgiven on account of them: a thousandth stays a thousandth."""
    light, heavy = Party("light"), Party("heavy", weight=1000)
    house = House(slots=1)
    house.run(3_000.0, {light: always(1.0), heavy: always(1.0)})
    assert house.used[light] <= 4.0


def test_with_eight_others_who_come_and_go_one_with_a_debt_has_its_share_and_no_more() -> None:
    """Nine parties, one of which asks for ten times as much at once: each gets the same."""
    others = [Party(f"{number}") for number in range(CROWD)]
    house = House(slots=1)
    house.run(8_000.0, {A: always(10.0, 1.0)} | dict.fromkeys(others, always(1.0)), depth=1)
    assert jain([house.used[party] for party in (A, *others)]) >= 0.98


def test_upstreams_that_no_line_has_in_common_are_shared_each_for_itself() -> None:
    """Whatever A has used of y takes nothing from it at x."""
    lines = Lines({"x": (1, 99), "y": (1, 99)})
    for _ in range(5):
        lines.join("y", NOW, party=A, cost=100.0)
    lines.join("x", NOW, party=C)
    for _ in range(3):
        lines.join("x", NOW, party=A)
        lines.join("x", NOW, party=B)
    assert starts(lines) == "ababab"


def test_a_key_that_comes_to_an_upstream_is_not_behind_all_who_wait_there_for_what_it_used_of_another_one() -> None:
    """Two models share an upstream, and one has another one besides, which is much faster."""
    lines = Lines({"x": (1, 999), "y": (1, 999)})
    lines.leave(lines.join("xy", NOW, party=C)[0], NOW)
    for _ in range(50):
        lines.join("x", NOW, party=A)
    for second in range(200):  # B uses the other one all the time
        ticket, _ = lines.join("y", float(second), party=B)
        lines.release(ticket, second + 1.0)
    ticket, _ = lines.join("x", 200.0, party=B)
    assert lines.place(ticket).position == 1


# ---- flows -----------------------------------------------------------------------------------------------------------


def test_in_one_key_flows_take_turns_and_in_one_flow_the_order_is_that_of_arrival() -> None:
    lines = Lines({"x": (1, 99)}, fair_by=FairBy.FLOW)
    one, two = Party("a", "1"), Party("a", "2")
    _, *first = joined(lines, one, one, one)
    (second,) = joined(lines, two)
    assert places(lines, [second, *first]) == [1, 2, 3]


def test_a_key_with_many_flows_has_no_more_than_a_key_with_one() -> None:
    house = House(slots=2, fair_by=FairBy.FLOW)
    many = [Party("a", flow) for flow in "123456"]
    one = Party("b", "1")
    house.run(5_000.0, {party: always(3.0) for party in [*many, one]})
    assert house.used[one] / sum(house.used[party] for party in many) == pytest.approx(1.0, rel=0.02)
    assert jain([house.used[party] for party in many]) >= 0.99


def test_where_keys_take_turns_flows_do_not() -> None:
    lines = Lines({"x": (1, 99)})
    tickets = joined(lines, Party("a", "1"), Party("a", "1"), Party("a", "1"), Party("a", "2"))
    assert places(lines, tickets[1:]) == [1, 2, 3]


# ---- sums ------------------------------------------------------------------------------------------------------------


def test_virtual_time_is_in_whole_ticks_and_costs_something_however_cheap_it_is() -> None:
    assert (ticks(1.5, 1), ticks(1.5, 3), ticks(0.0, 1), ticks(1e-9, 50)) == (1_500_000, 500_000, 1, 1)


def test_what_is_kept_of_those_who_neither_wait_nor_run_has_a_bound() -> None:
    circle = Circle()
    circle.add(("stays",), 1, 1, 0)
    for number, name in zip(range(2, 20_002), cycle(f"key {index}" for index in range(20_000)), strict=False):
        circle.add((name,), number, 10**6, number)
        circle.charge((name,), 10**6)
        circle.remove((name,), number)
        circle.settle((name,), Settlement(number + 1, 10**6))
    assert len(circle.accounts) <= 2 * 4096 + 64
    assert circle.first() == 1


@given(st.lists(st.tuples(st.sampled_from("aarrrsb"), st.integers(0, 30), st.integers(1, 9)), max_size=60))
def test_the_sums_of_a_queue_are_those_of_its_costs_whatever_was_added_and_removed(
    steps: list[tuple[str, int, int]],
) -> None:
    queue, costs = Queue(0), dict[int, int]()
    for what, number, cost in steps:
        if what == "a" and number not in costs:
            costs[number] = cost
            queue.add(number, cost)
        elif what == "r" and costs:
            gone = sorted(costs)[number % len(costs)]
            del costs[gone]
            queue.remove(gone)
        elif what == "s" and costs:
            asked = sorted(costs)[number % len(costs)]
            assert queue.start(asked) == queue.tag + sum(each for other, each in costs.items() if other < asked)
        elif what == "b":
            standing = [(start, number) for start, number, _ in queue.order()]
            expected = sum(1 for entry in standing if entry < (cost, number))
            assert sum(found for _, _, found in queue.before(cost, number, "")) == expected
    assert [number for _, number, _ in queue.order()] == sorted(costs)
