"""How long would people wait? Requests of a trace, sent through the gateway's own line on a clock of events.

`trace` reads what was recorded and `mixes` makes what was not; both give `request.Request`s. `replay` carries them
through `core.line` and `core.estimate`, which are the very same code as in the gateway, and tells `tally` what
happened. What comes out is a `report.Report`.
"""
