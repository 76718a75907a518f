"""Anthropic's Messages API (https://platform.claude.com/docs/en/api/messages) over chat completions, without any I/O.

One direction turns a Messages request into a chat request, the other a chat stream into a Messages stream. A caller
that does not stream gets the same events folded into one message, so there is one translation and no second opinion.
"""
