"""Makes traces: from one rank to many, for another NPU, and from statistics of others (docs/making_traces.md)."""
