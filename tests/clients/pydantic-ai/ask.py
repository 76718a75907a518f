"""Asks with Pydantic AI. `python ask.py BASE MODEL messages|chat|responses plain|streamed|tools`."""

import json
import sys

from pydantic_ai import Agent

BASE, MODEL, surface, way = sys.argv[1:5]


def made():
    if surface == "messages":
        # what to set: messages
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        model = AnthropicModel(MODEL, provider=AnthropicProvider(base_url=BASE, api_key="unused"))
        # that is all
    elif surface == "chat":
        # what to set: chat
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider

        model = OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=BASE, api_key="unused"))
        # that is all
    else:
        # what to set: responses
        from pydantic_ai.models.openai import OpenAIResponsesModel
        from pydantic_ai.providers.openai import OpenAIProvider

        model = OpenAIResponsesModel(MODEL, provider=OpenAIProvider(base_url=BASE, api_key="unused"))
        # that is all
    return model


called = []


def lookup(query: str) -> str:
    """Looks something up."""
    called.append({"name": "lookup", "input": {"query": query}})
    return "two are free"


def plain():
    return {"text": agent.run_sync("hello").output, "events": []}


def streamed():
    run = agent.run_stream_sync("hello")
    return {"text": "".join(run.stream_text(delta=True)), "events": []}


def tools():
    return {"text": agent.run_sync("hello").output, "tool": called[0], "events": []}


agent = Agent(made(), tools=[lookup] if way == "tools" else [], model_settings={"max_tokens": 24})
print("asking", flush=True)
print(json.dumps({"plain": plain, "streamed": streamed, "tools": tools}[way]()))
