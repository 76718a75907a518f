"""OpenAI's Responses API (https://platform.openai.com/docs/api-reference/responses), without any I/O and without state.

A request becomes a Messages request, and the events of a Messages stream become those of a Responses stream: what goes
upstream and what comes of it is decided in `slotline.core.anthropic`, once. A caller that does not stream gets the
response that the stream's last event carries.

Nothing is kept. What asks for something kept is refused by name; a client sends its whole conversation each time, and
what a model thought goes to the client and comes back with it.
"""
