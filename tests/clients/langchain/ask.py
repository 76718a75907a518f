"""Asks with LangChain. `python ask.py BASE MODEL messages|chat|responses plain|streamed|tools`."""

import json
import sys

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool

BASE, MODEL, surface, way = sys.argv[1:5]


def made():
    if surface == "messages":
        # what to set: messages
        from langchain_anthropic import ChatAnthropic

        chat = ChatAnthropic(model=MODEL, base_url=BASE, api_key="unused")
        # that is all
    elif surface == "chat":
        # what to set: chat
        from langchain_openai import ChatOpenAI

        chat = ChatOpenAI(model=MODEL, base_url=BASE, api_key="unused")
        # that is all
    else:
        # what to set: responses
        from langchain_openai import ChatOpenAI

        chat = ChatOpenAI(model=MODEL, base_url=BASE, api_key="unused", use_responses_api=True)
        # that is all
    return chat


@tool
def lookup(query: str) -> str:
    """Looks something up."""
    return "two are free"


def plain():
    return {"text": short.invoke("hello").text, "events": []}


def streamed():
    chunks = list(short.stream("hello"))
    return {"text": "".join(chunk.text for chunk in chunks), "events": [type(chunk).__name__ for chunk in chunks]}


def tools():
    able = chat.bind_tools([lookup])
    turns = [HumanMessage("hello"), able.invoke("hello")]
    call = turns[1].tool_calls[0]
    turns.append(ToolMessage(lookup.invoke(call["args"]), tool_call_id=call["id"]))
    return {"text": able.invoke(turns).text, "tool": {"name": call["name"], "input": call["args"]}, "events": []}


chat = made()
short = chat.bind(max_tokens=24)
print("asking", flush=True)
print(json.dumps({"plain": plain, "streamed": streamed, "tools": tools}[way]()))
