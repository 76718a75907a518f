"""Four hundred clients that leave at random: nothing may be left of them."""

from __future__ import annotations

import asyncio
import random

from fakes.checker import check
from fakes.product import Program, ask, calling, fetch
from slotline.stub import Stub
from slotline.stub.standard import held

CLIENTS = 400
SLOTS = 4


async def test_after_a_storm_of_leavers_nothing_runs_and_every_slot_is_free() -> None:
    """Some leave in line, some before the first token, some in mid-stream, by FIN or by RST; the cap holds."""
    chance = random.Random(20261129)
    async with Stub(slots=SLOTS, tokens=8, gap=0.01, hold=0.03) as stub:
        flags = ("--upstream", stub.url, "--slots", str(SLOTS))
        async with Program("serve", "--port", "0", *flags, cwd=None) as program:

            async def client(patience: float | None, *, abrupt: bool, stream: bool) -> None:
                async with calling(program.url, "/v1/messages", ask(stream=stream)) as caller:
                    try:
                        async with asyncio.timeout(patience):
                            answer = await caller.answer()
                    except TimeoutError:
                        if abrupt:
                            caller.reset()
                        return
                    if stream and answer.status == 200:
                        check(answer.body)
                    else:
                        assert answer.status in {200, 529}

            async with asyncio.TaskGroup() as tasks:
                for number in range(CLIENTS):
                    patience = None if number % 20 == 0 else chance.uniform(0, 1.5)
                    abrupt, stream = chance.random() < 0.5, chance.random() < 0.8
                    tasks.create_task(client(patience, abrupt=abrupt, stream=stream))
                    await asyncio.sleep(0.004)

            await stub.until(lambda state: state.running == 0 and state.waiting == 0)
            assert stub.state.max_in_flight <= SLOTS
            assert stub.state.max_waiting == 0, "the gateway let more through than there are slots"

            stub.play(*(held(2) for _ in range(SLOTS)))
            async with asyncio.TaskGroup() as tasks:
                last = [tasks.create_task(fetch(program.url, "/v1/messages", ask())) for _ in range(SLOTS)]
                await stub.until(lambda state: state.held == SLOTS)  # all at once: every slot was given back
                stub.release()
            for answer in last:
                assert check(answer.result().body).complete
