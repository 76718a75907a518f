"""Asks with Anthropic's Python client. `python ask.py BASE MODEL messages plain|streamed|helper|tools`."""

import json
import sys

import anthropic

BASE, MODEL, _, way = sys.argv[1:5]

# what to set
client = anthropic.Anthropic(base_url=BASE, api_key="unused")
# that is all

turns = [{"role": "user", "content": "hello"}]
request = {"model": MODEL, "max_tokens": 24, "messages": turns}
tool = {
    "name": "lookup",
    "description": "looks something up",
    "input_schema": {"type": "object", "properties": {"query": {"type": "string"}}},
}


def plain():
    return {"text": client.messages.create(**request).content[0].text, "events": []}


def streamed():
    events = list(client.messages.create(**request, stream=True))
    text = "".join(event.delta.text for event in events if event.type == "content_block_delta")
    return {"text": text, "events": [event.type for event in events]}


def helper():
    with client.messages.stream(**request) as stream:
        events = [event.type for event in stream]
        return {"text": stream.get_final_message().content[0].text, "events": events}


def tools():
    first = client.messages.create(**request, tools=[tool])
    call = first.content[-1]
    turns.append({"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in first.content]})
    turns.append(
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "two are free"}]}
    )
    second = client.messages.create(**request, tools=[tool])
    return {"text": second.content[0].text, "tool": {"name": call.name, "input": call.input}, "events": []}


print("asking", flush=True)
print(json.dumps({"plain": plain, "streamed": streamed, "helper": helper, "tools": tools}[way]()))
