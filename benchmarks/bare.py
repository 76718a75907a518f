"""The limit that the gateway is measured against: the same two libraries, and nothing in between.

    python benchmarks/bare.py PORT UPSTREAM_URL

Takes a request, sends its body on, and passes the bytes of the answer back as they come: no line, no limits, no
translation. What the gateway costs beyond this is its own.
"""

from __future__ import annotations

import asyncio
import sys

import aiohttp
from aiohttp import web


async def main(port: int, upstream: str) -> None:
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False) as session:

        async def relay(request: web.Request) -> web.StreamResponse:
            body = await request.read()
            async with session.post(upstream + "/v1/chat/completions", data=body) as answer:
                response = web.StreamResponse(headers={"content-type": "text/event-stream"})
                await response.prepare(request)
                while data := await answer.content.readany():
                    await response.write(data)
                await response.write_eof()
                return response

        app = web.Application(client_max_size=1 << 25)
        app.router.add_post("/v1/messages", relay)
        runner = web.AppRunner(app, handler_cancellation=True, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2]))
