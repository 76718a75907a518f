"""Who loses its connection in line asks the same again and stands where it stood; an answer that broke off stays so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress

import pytest

from fakes.gateway import fronted
from slotline.cli.asking import Asker, question
from slotline.cli.chat.rejoin import KEPT, Lost, steadily
from slotline.cli.hearing import Begun, Done, Failed, Fault, Heard, Opened, Queued, Text
from slotline.stub.standard import held, ok

BROKEN = Failed(Fault.BROKEN, "broken", "broke off in line: reset")
AWAY = Failed(Fault.UNREACHABLE, "unreachable", "the gateway does not answer")
PLACE, OPENED = Queued(2, 2, None), Opened("req_1")


class Scripted:
    """Answers each call with the next list; the last one again and again."""

    def __init__(self, *answers: list[Heard]) -> None:
        self.answers = list(answers)
        self.calls: list[tuple[bytes, bool, float]] = []

    async def ask(self, body: bytes, *, again: bool = False) -> AsyncGenerator[Heard]:
        self.calls.append((body, again, asyncio.get_running_loop().time()))
        for heard in self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]:
            yield heard


class Lasting(Scripted):
    """Breaks off `times` times, each after so many seconds; then answers."""

    def __init__(self, seconds: float, answer: list[Heard], times: int) -> None:
        super().__init__(*[answer] * times, [OPENED, Begun(), Text("hi"), Done("end_turn")])
        self.seconds = seconds

    async def ask(self, body: bytes, *, again: bool = False) -> AsyncGenerator[Heard]:
        async for each in super().ask(body, again=again):
            if isinstance(each, Failed):
                await asyncio.sleep(self.seconds)
            yield each


async def heard(asker: Scripted) -> list[Heard | Lost]:
    return [each async for each in steadily(asker, b"body")]


@pytest.mark.looptime
async def test_the_same_is_asked_again_until_it_is_answered() -> None:
    end: list[Heard] = [OPENED, Begun(), Text("hi"), Done("end_turn")]
    asker = Scripted([OPENED, PLACE, BROKEN], [AWAY], [AWAY], [OPENED, PLACE, BROKEN], end)
    assert await heard(asker) == [
        *(OPENED, PLACE, Lost(BROKEN.message)),
        *(Lost(AWAY.message), Lost(AWAY.message)),
        *(OPENED, PLACE, Lost(BROKEN.message)),
        *end,
    ]
    assert {body for body, _, _ in asker.calls} == {b"body"}
    assert [again for _, again, _ in asker.calls] == [False, True, True, True, True]


@pytest.mark.looptime
async def test_it_gives_up_when_no_place_would_be_kept_any_more() -> None:
    asker = Scripted([OPENED, PLACE, BROKEN], [AWAY])
    said = await heard(asker)
    assert said[-1] == AWAY
    assert all(isinstance(each, Lost) for each in said[2:-1])
    assert KEPT <= asker.calls[-1][2] - asker.calls[0][2] < KEPT + 5


@pytest.mark.looptime
async def test_it_gives_up_when_connections_come_back_and_never_last() -> None:
    """As before a gateway that falls over this very question."""
    asker = Scripted([OPENED, PLACE, BROKEN])
    said = await heard(asker)
    assert said[-1] == BROKEN
    assert KEPT <= asker.calls[-1][2] - asker.calls[0][2] < KEPT + 5


@pytest.mark.looptime
async def test_a_connection_that_lasted_begins_anew() -> None:
    """Some proxies end every stream after a minute; a line may be longer."""
    asker = Lasting(20.0, [OPENED, PLACE, BROKEN], times=10)
    said = await heard(asker)
    assert said[-1] == Done("end_turn")
    assert asker.calls[-1][2] - asker.calls[0][2] > 3 * KEPT


@pytest.mark.looptime
@pytest.mark.parametrize(
    "answer",
    [
        [AWAY],  # never was there
        [OPENED, PLACE, Begun(), Text("hi"), BROKEN],  # another answer would be another one
        [OPENED, Failed(Fault.ERROR, "overloaded_error", "the gateway is ending")],  # said so itself
        [Failed(Fault.REFUSED, "not_found_error", "no such model", 404)],
    ],
)
async def test_what_asking_again_cannot_mend_is_told_at_once(answer: list[Heard]) -> None:
    asker = Scripted(answer)
    assert await heard(asker) == answer
    assert len(asker.calls) == 1


@asynccontextmanager
async def wire(url: str) -> AsyncIterator[tuple[str, list[asyncio.StreamWriter]]]:
    """A way to the gateway that can be cut: its address, and the connections on it."""
    host, _, port = url.removeprefix("http://").rpartition(":")
    open_: list[asyncio.StreamWriter] = []

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                writer.write(data)
        writer.close()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        open_.append(writer)
        await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer))

    async with await asyncio.start_server(carry, "127.0.0.1", 0) as server:
        near, number = server.sockets[0].getsockname()
        yield f"http://{near}:{number}", open_
        for writer in open_:
            writer.close()


async def test_before_a_real_gateway_the_place_is_kept() -> None:
    """It stood first, lost its connection, another one came meanwhile: it stands first again."""
    body = question("stub", [{"role": "user", "content": "mine"}], 9)
    async with fronted() as front, wire(front.url) as (url, connections), Asker(url, None) as asker:
        front.stub.play(held(1), ok(1), ok(1))
        async with asyncio.timeout(8), front.streaming(), aclosing(steadily(asker, body)) as hearing:
            while not isinstance(said := await anext(hearing), Queued):
                pass
            assert said.position == 1
            connections[-1].transport.abort()
            assert isinstance(await anext(hearing), Lost)
            await front.until(lambda: front.waiting == 0)
            async with front.streaming(question("stub", [{"role": "user", "content": "another"}], 9)):
                while not isinstance(said := await anext(hearing), Queued):
                    pass
                assert (said.position, said.length) == (1, 2)
                await front.stub.until(lambda state: state.held == 1)
                front.stub.release()
                assert [each async for each in hearing][-1] == Done("end_turn")
