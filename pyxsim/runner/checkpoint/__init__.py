"""Checkpoints: a run that can be left at any time, and goes on as if it had not been (docs/checkpoint.md)."""
