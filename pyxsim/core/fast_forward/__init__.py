"""Exact fast-forward: detect that the state repeats, prove it, and skip whole periods (docs/fast_forward.md)."""
