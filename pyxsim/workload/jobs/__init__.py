"""Several jobs on one network: their NPUs, and their work as one graph of tasks (docs/jobs.md)."""

from __future__ import annotations
