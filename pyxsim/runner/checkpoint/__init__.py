"""Checkpoints: a run can be stopped at any time and continues with the same result (docs/checkpoint.md)."""
