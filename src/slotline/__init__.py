"""Slotline: the gateway in front of GPUs that people own. Every LLM request gets a slot, or a place in line."""

from __future__ import annotations

__version__ = "0.1.0"
