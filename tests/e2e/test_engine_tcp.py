"""The real llama.cpp server over TCP, as people run it, with a gateway before it."""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path

import pytest

from fakes.checker import check
from fakes.product import Program, ask, fetch
from slotline.upstream.model_file import default_cache, find

SERVER = """
import sys, threading
import xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.port = sys.argv[1], int(sys.argv[2])
params.hostnames, params.n_parallel, params.n_ctx = ["127.0.0.1"], 2, 4096
params.endpoint_slots = params.endpoint_props = True
server = xllamacpp.Server(params)
print("ready", flush=True)
threading.Event().wait()
"""


@pytest.mark.engine
async def test_a_server_over_tcp_is_recognised_and_answers(tmp_path: Path) -> None:
    """Its kind, slots and context are seen; a conversation is sent to a slot by its id, and comes back to it."""
    path, _ = find("smollm2", default_cache(), lambda _: None)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", SERVER, str(path), str(port)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert server.stdout is not None
    try:
        async with asyncio.timeout(60):
            assert await server.stdout.readline() == b"ready\n"
        upstream = ("--upstream", f"http://127.0.0.1:{port}/v1", "--slots", "8")
        async with Program("serve", "--port", "0", *upstream, cwd=tmp_path) as gateway:
            models = (await fetch(gateway.url, "/v1/models")).json()["data"]
            body = ask("Say hello to the line. " * 10, model=models[0]["id"], max_tokens=4)
            first = check((await fetch(gateway.url, "/v1/messages", body)).body)
            again = check((await fetch(gateway.url, "/v1/messages", body)).body)
    finally:
        server.kill()
        await server.wait()
    assert first.complete
    assert first.text
    cached, read = again.usage["cache_read_input_tokens"], again.usage["input_tokens"]
    assert cached > 0.9 * (cached + read)
