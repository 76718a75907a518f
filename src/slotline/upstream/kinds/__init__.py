"""One small file per kind of server: what is its own in how it is recognised, asked and told things."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from slotline.core.kind import Kind
from slotline.upstream.kinds import llama_cpp, ollama, openai, sglang, vllm
from slotline.upstream.kinds.server import Server

SERVERS: Mapping[Kind, Server] = MappingProxyType(
    {
        Kind.LLAMA_CPP: llama_cpp.SERVER,
        Kind.OLLAMA: ollama.SERVER,
        Kind.VLLM: vllm.SERVER,
        Kind.SGLANG: sglang.SERVER,
        Kind.OPENAI: openai.SERVER,
    }
)

OWNERS: Mapping[str, Kind] = MappingProxyType(
    {"llamacpp": Kind.LLAMA_CPP, "library": Kind.OLLAMA, "vllm": Kind.VLLM, "sglang": Kind.SGLANG}
)
"""Whom the entries of `/v1/models` name in `owned_by`. Ollama names the namespace of a model; "library" is its own.

Sources: llama.cpp `tools/server/server-context.cpp`, Ollama `openai/openai.go` (ToListCompletion), vLLM and SGLang
`entrypoints/openai/protocol.py` (ModelCard).
"""
