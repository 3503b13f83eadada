"""Memory traffic of a scale-up fabric: loads, stores, atomics, multicast and reduction in the switch, as transactions
with requests and responses (docs/memory_traffic.md)."""
