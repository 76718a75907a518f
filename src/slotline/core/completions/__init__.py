"""OpenAI's older routes: chat completions, completions, embeddings. Nearly passed through.

A body goes upstream as it came, but for what the gateway itself acts upon; the upstream's chunks go to the client as
they came, byte for byte, but for what the client did not ask for. Whether an answer is complete, how much of it was
reasoning and what is wrong with it is decided where it is for every other route: `core.anthropic.stream`.
"""
