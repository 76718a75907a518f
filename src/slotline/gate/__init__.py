"""The gate: where a request waits for its turn. It drives `core.line` and wakes and tells those who wait."""
