"""The engine: routers, virtual channels, credits and links, cycle by cycle. docs/router.md is its contract.

The engine takes arrays (`Links`, `Routes`) and returns message numbers and counters; it knows no topology and no
collective. Rooms: `state` (what a network is), `router` (every option, unit by unit), `fast_path` (the usual options),
`fast_forward` (skipping periods), `latency` (attribution), `parallel` (threads). `cycle.pyx` is the cycle loop,
`engine.pyx` the interface to Python.
"""
