"""A scripted OpenAI-compatible upstream: for trying Slotline without a GPU, and for tests.

`Stub` is the server; `script` says what an answer can be made of, `standard` has a builder for each usual one.
"""

from slotline.stub.plan import Plan, Side
from slotline.stub.received import Received
from slotline.stub.script import ErrorForm, Script
from slotline.stub.server import Stub
from slotline.stub.state import Call, State

__all__ = ["Call", "ErrorForm", "Plan", "Received", "Script", "Side", "State", "Stub"]
