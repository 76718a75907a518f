"""The routes beside chat: those that llama-server has, those of every OpenAI-compatible server, and the stub's own.

Each is a method that looks at the stub and answers; only `/stub/…`, `/slots` (it wakes a sleeper) and the control
endpoint change anything. Shapes: llama.cpp `tools/server/README.md`.
"""

from __future__ import annotations

import base64
import struct
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec
from aiohttp import web

from slotline.core.kind import Kind
from slotline.stub.plan import parse
from slotline.stub.received import Ask, count_tokens, tokenize
from slotline.stub.refusal import Refusal, json_answer, server_header
from slotline.stub.slots import Slot

if TYPE_CHECKING:
    from slotline.stub.server import Stub

_T = TypeVar("_T")


class _Control(msgspec.Struct):
    id: str
    action: str


class _Tokenize(msgspec.Struct):
    content: str
    with_pieces: bool = False


class _Embed(msgspec.Struct):
    input: str | list[str | int | list[int]]  # texts or tokens, one or several
    model: str = ""
    encoding_format: Literal["float", "base64"] = "float"

    @property
    def inputs(self) -> list[str]:
        """One text for each vector; a list of numbers is the tokens of one text."""
        if isinstance(self.input, str) or all(isinstance(each, int) for each in self.input):
            return [str(self.input)]
        return [str(each) for each in self.input]


class _Release(msgspec.Struct):
    count: int | None = None


class Routes:
    """The side routes of one stub."""

    def __init__(self, stub: Stub) -> None:
        self._stub = stub

    def of_every_server(self) -> list[web.RouteDef]:
        """What any OpenAI-compatible server has."""
        models = [web.get(path, self.models) for path in ("/v1/models", "/models")]
        return [*models, *(web.post(path, self.embeddings) for path in ("/v1/embeddings", "/embeddings"))]

    def of_llama_cpp(self) -> list[web.RouteDef]:
        """What llama-server has beside that."""
        return [
            web.get("/health", self.health),
            web.get("/v1/health", self.health),
            web.get("/slots", self.slots),
            web.get("/props", self.props),
            web.get("/metrics", self.metrics),
            web.post("/v1/chat/completions/control", self.control),
            web.post("/apply-template", self.apply_template),
            web.post("/tokenize", self.tokenize),
        ]

    def of_the_stub(self) -> list[web.RouteDef]:
        """How a test in another process looks at the stub and changes it."""
        return [
            web.get("/stub/requests", self.requests),
            web.get("/stub/state", self.state),
            web.post("/stub/script", self.script),
            web.post("/stub/release", self.release),
        ]

    # ---- every server ------------------------------------------------------------------------------------------------

    async def models(self, request: web.Request) -> web.Response:
        """The models that the stub was given; it answers to any name."""
        return self._json({"object": "list", "data": [self._model(name) for name in self._stub.models]})

    def _model(self, name: str) -> dict[str, Any]:
        model: dict[str, Any] = {"id": name, "object": "model", "created": 0, "owned_by": "stub"}
        if self._stub.kind is Kind.LLAMA_CPP:
            meta = {"vocab_type": 2, "n_vocab": 32000, "n_ctx_train": self._stub.context, "n_embd": 8}
            model |= {"owned_by": "llamacpp", "meta": meta | {"n_params": 1_000_000, "size": 1_000_000}}
        return model

    async def embeddings(self, request: web.Request) -> web.Response:
        """Vectors of eight numbers, the same for the same text. They take no slot."""
        ask = await _body(request, _Embed)
        show = _packed if ask.encoding_format == "base64" else list
        data = [
            {"object": "embedding", "index": index, "embedding": show(_vector(text))}
            for index, text in enumerate(ask.inputs)
        ]
        tokens = sum(count_tokens(text) for text in ask.inputs)
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return self._json({"object": "list", "data": data, "model": ask.model, "usage": usage})

    # ---- llama-server ------------------------------------------------------------------------------------------------

    async def health(self, request: web.Request) -> web.Response:
        """Reached only when nothing is loading."""
        return self._json({"status": "ok"})

    async def slots(self, request: web.Request) -> web.Response:
        """Asking wakes a sleeper, as it does there."""
        if not self._stub.has_slots:
            raise Refusal(
                501, "This server does not support slots endpoint. Start it without --no-slots", "not_supported_error"
            )
        self._stub.sleeping = False
        every = self._stub.floor.slots.all
        if request.query.get("fail_on_no_slot") and all(slot.is_processing for slot in every):
            raise Refusal(503, "no slot available", "unavailable_error")
        return self._json([self._slot(slot) for slot in every])

    def _slot(self, slot: Slot) -> dict[str, Any]:
        shown: dict[str, Any] = {
            "id": slot.id,
            "n_ctx": self._stub.context,
            "speculative": False,
            "is_processing": slot.is_processing,
        }
        task = slot.task
        if task is None:
            return shown
        remain = -1 if task.limit < 0 else max(task.limit - task.decoded, 0)
        next_token = {
            "has_next_token": slot.is_processing,
            "has_new_line": False,
            "n_remain": remain,
            "n_decoded": task.decoded,
        }
        return shown | {
            "id_task": task.id,
            "n_prompt_tokens": task.prompt_tokens,
            "n_prompt_tokens_processed": task.processed,
            "n_prompt_tokens_cache": task.cached,
            "params": {"n_predict": task.limit, "max_tokens": task.limit},
            "next_token": [next_token],
        }

    async def props(self, request: web.Request) -> web.Response:
        """Does not wake a sleeper."""
        stub = self._stub
        return self._json(
            {
                "default_generation_settings": {"params": {"n_predict": -1}, "n_ctx": stub.context},
                "total_slots": stub.slots,
                "model_alias": stub.models[0],
                "model_ftype": "none",
                "model_path": f"{stub.models[0]}.gguf",
                "modalities": {"vision": False, "video": False, "audio": False},
                "media_marker": "<__media__>",
                "endpoint_slots": stub.has_slots,
                "endpoint_props": False,
                "endpoint_metrics": True,
                "chat_template": "stub",
                "chat_template_caps": {},
                "bos_token": "<|im_start|>",
                "eos_token": "<|im_end|>",
                "build_info": "b0-stub",
                "is_sleeping": stub.sleeping,
            }
        )

    async def metrics(self, request: web.Request) -> web.Response:
        """The gauges and counters that a gateway reads."""
        state, floor = self._stub.state, self._stub.floor
        rows = (
            ("requests_processing", "gauge", floor.slots.busy),
            ("requests_deferred", "gauge", state.waiting),
            ("tokens_predicted_total", "counter", state.tokens),
        )
        text = "".join(f"# TYPE llamacpp:{name} {kind}\nllamacpp:{name} {value}\n" for name, kind, value in rows)
        return web.Response(text=text, content_type="text/plain", headers=server_header(self._stub.kind))

    async def control(self, request: web.Request) -> web.Response:
        """`reasoning_end`. Its `success` says that the completion was found, not that it did as it was told."""
        ask = await _body(request, _Control)
        if ask.action != "reasoning_end":
            raise Refusal(400, f"unknown action: {ask.action}")
        answer = self._stub.answers.get(ask.id)
        if answer is None:
            return self._json({"success": False, "message": "no active completion for this id"})
        if not answer.controllable:
            message = "reasoning control not enabled for this completion"
            return self._json({"success": False, "message": message})
        answer.end_thinking()
        return self._json({"success": True})

    async def apply_template(self, request: web.Request) -> web.Response:
        """The prompt that a chat request would become."""
        return self._json({"prompt": (await _body(request, Ask)).prompt})

    async def tokenize(self, request: web.Request) -> web.Response:
        """One token for every four characters."""
        ask = await _body(request, _Tokenize)
        pairs = tokenize(ask.content)
        tokens = [{"id": number, "piece": piece} if ask.with_pieces else number for number, piece in pairs]
        return self._json({"tokens": tokens})

    # ---- the stub's own ----------------------------------------------------------------------------------------------

    async def requests(self, request: web.Request) -> web.Response:
        """Every inference request ever received (the last `keep` of them)."""
        return self._json([received.as_json() for received in self._stub.requests])

    async def state(self, request: web.Request) -> web.Response:
        """The numbers of this moment."""
        return self._json(self._stub.state)

    async def script(self, request: web.Request) -> web.Response:
        """Changes the repertoire; see `plan.parse`."""
        try:
            plan = parse(await request.read())
        except ValueError as wrong:
            raise Refusal(400, str(wrong)) from wrong
        self._stub.apply(plan)
        return self._json({"queued": len(self._stub.repertoire.queued)})

    async def release(self, request: web.Request) -> web.Response:
        """Lets held answers go on: all, or `{"count": n}`."""
        ask = await _body(request, _Release) if request.can_read_body else _Release()
        return self._json({"released": self._stub.release(ask.count)})

    def _json(self, body: object) -> web.Response:
        return json_answer(self._stub.kind, body)


async def _body(request: web.Request, shape: type[_T]) -> _T:
    try:
        return msgspec.json.decode(await request.read(), type=shape)
    except msgspec.DecodeError as wrong:
        raise Refusal(400, str(wrong)) from wrong


def _vector(text: str) -> list[float]:
    numbers = [number for number, _ in tokenize(text)] or [0]
    return [numbers[index % len(numbers)] % 97 / 97 for index in range(8)]


def _packed(vector: list[float]) -> str:
    """As 32-bit numbers in base64, the form that OpenAI's own client asks for."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
