"""Latency attribution: what every cycle of a packet's latency was spent on (docs/attribution.md)."""
