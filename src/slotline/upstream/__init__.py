"""The only code that speaks HTTP to inference servers: calls, probes, and the embedded engine."""
