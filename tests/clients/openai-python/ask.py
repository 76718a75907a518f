"""Asks with OpenAI's Python client. `python ask.py BASE MODEL chat|responses plain|streamed|helper|tools`."""

import json
import sys

import openai

BASE, MODEL, surface, way = sys.argv[1:5]

# what to set
client = openai.OpenAI(base_url=BASE, api_key="unused")
# that is all

turns = [{"role": "user", "content": "hello"}]
chat = {"model": MODEL, "max_completion_tokens": 24, "messages": turns}
responses = {"model": MODEL, "max_output_tokens": 24, "input": turns}
function = {
    "name": "lookup",
    "description": "looks something up",
    "parameters": {"type": "object", "properties": {"query": {"type": "string"}}},
}


def chat_plain():
    return {"text": client.chat.completions.create(**chat).choices[0].message.content, "events": []}


def chat_streamed():
    text, events = "", []
    for chunk in client.chat.completions.create(**chat, stream=True):
        events.append(chunk.object)
        text += chunk.choices[0].delta.content or ""
    return {"text": text, "events": events}


def chat_helper():
    with client.chat.completions.stream(**chat) as stream:
        events = [event.type for event in stream]
        return {"text": stream.get_final_completion().choices[0].message.content, "events": events}


def chat_tools():
    offered = [{"type": "function", "function": function}]
    message = client.chat.completions.create(**chat, tools=offered).choices[0].message
    call = message.tool_calls[0]
    turns.append(message)
    turns.append({"role": "tool", "tool_call_id": call.id, "content": "two are free"})
    text = client.chat.completions.create(**chat, tools=offered).choices[0].message.content
    called = {"name": call.function.name, "input": json.loads(call.function.arguments)}
    return {"text": text, "tool": called, "events": []}


def responses_plain():
    return {"text": client.responses.create(**responses).output_text, "events": []}


def responses_streamed():
    text, events = "", []
    for event in client.responses.create(**responses, stream=True):
        events.append(event.type)
        if event.type == "response.output_text.delta":
            text += event.delta
    return {"text": text, "events": events}


def responses_helper():
    with client.responses.stream(**responses) as stream:
        events = [event.type for event in stream]
        return {"text": stream.get_final_response().output_text, "events": events}


def responses_tools():
    offered = [{"type": "function", **function}]
    first = client.responses.create(**responses, tools=offered)
    call = next(item for item in first.output if item.type == "function_call")
    turns.extend(first.output)
    turns.append({"type": "function_call_output", "call_id": call.call_id, "output": "two are free"})
    text = client.responses.create(**responses, tools=offered).output_text
    return {"text": text, "tool": {"name": call.name, "input": json.loads(call.arguments)}, "events": []}


print("asking", flush=True)
print(json.dumps(globals()[f"{surface}_{way}"]()))
