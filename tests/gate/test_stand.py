"""Where those stand who wait, as the gate tells it to others than themselves."""

from __future__ import annotations

import asyncio

from slotline.core.estimate import Unseen
from slotline.core.party import Party
from slotline.gate.local import LocalGate
from slotline.gate.usher import Berth


async def test_each_that_waits_stands_where_the_line_has_it_at_this_moment() -> None:
    loop = asyncio.get_running_loop()
    gate = LocalGate({"box": Berth(1, 8)}, loop.time)
    runs = gate.turn({"box"})
    async with runs, gate.turn({"box"}) as first:
        async with gate.turn({"box"}) as second:
            numbers = [int(str(turn.number)) for turn in (runs, first, second)]
            standings = gate.stand([*numbers, 99])
            assert set(standings) == set(numbers[1:])  # not who runs, and not who is not there
            places = [standings[number].told.place for number in numbers[1:]]
            assert [(place.position, place.length) for place in places] == [(1, 2), (2, 2)]
            assert all(each.told.wait is None for each in standings.values())
        assert gate.stand(numbers)[numbers[1]].told.place.length == 1


async def test_who_is_passed_over_for_its_own_keys_sake_is_known() -> None:
    gate = LocalGate({"box": Berth(2, 8)}, asyncio.get_running_loop().time)
    limited = Party("alice", running=1)
    async with gate.turn({"box"}, party=limited), gate.turn({"box"}, party=limited) as waits:
        number = int(str(waits.number))
        assert gate.stand([number])[number].barred
    async with gate.turn({"box"}), gate.turn({"box"}), gate.turn({"box"}, party=Party("bob", running=1)) as other:
        number = int(str(other.number))
        assert not gate.stand([number])[number].barred


async def test_the_wait_is_the_one_that_the_caller_would_be_told_now() -> None:
    now = 0.0
    gate = LocalGate({"box": Berth(1, 8)}, lambda: now)
    async with gate.turn({"box"}, run=Unseen()):
        now = 10.0
    async with gate.turn({"box"}), gate.turn({"box"}) as one, gate.turn({"box"}) as two:
        numbers = [int(str(turn.number)) for turn in (one, two)]
        first, second = (gate.stand(numbers)[number].told.wait for number in numbers)
        assert first is not None
        assert second is not None
        assert 0 < first < second
