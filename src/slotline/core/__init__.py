"""The pure core: what Slotline decides, without any means to act.

Nothing below this package may touch a socket, a clock, a file, the environment or a random number: time, identities
and bytes come in as arguments, and decisions go out as values. import-linter enforces it.
"""
