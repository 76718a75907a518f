"""Asks with LiteLLM as a client. `python ask.py BASE MODEL messages|chat|responses plain|streamed|tools`."""

import json
import sys

import litellm

BASE, MODEL, surface, way = sys.argv[1:5]

settings = {}
if surface == "messages":
    # what to set: messages
    settings = {"model": f"anthropic/{MODEL}", "api_base": BASE, "api_key": "unused"}
    # that is all
else:
    # what to set: chat
    settings = {"model": f"openai/{MODEL}", "api_base": BASE, "api_key": "unused"}
    # that is all

turns = [{"role": "user", "content": "hello"}]
request = {**settings, "max_tokens": 24, "messages": turns}
lookup = {
    "name": "lookup",
    "description": "looks something up",
    "parameters": {"type": "object", "properties": {"query": {"type": "string"}}},
}


def plain():
    return {"text": litellm.completion(**request).choices[0].message.content, "events": []}


def streamed():
    text, events = "", []
    for chunk in litellm.completion(**request, stream=True):
        events.append(chunk.object)
        text += chunk.choices[0].delta.content or ""
    return {"text": text, "events": events}


def tools():
    offered = [{"type": "function", "function": lookup}]
    message = litellm.completion(**request, tools=offered).choices[0].message
    call = message.tool_calls[0]
    turns.append(message)
    turns.append({"role": "tool", "tool_call_id": call.id, "content": "two are free"})
    text = litellm.completion(**request, tools=offered).choices[0].message.content
    called = {"name": call.function.name, "input": json.loads(call.function.arguments)}
    return {"text": text, "tool": called, "events": []}


print("asking", flush=True)
print(json.dumps({"plain": plain, "streamed": streamed, "tools": tools}[way]()))
