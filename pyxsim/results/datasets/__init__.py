"""The datasets of a result: one file per subject, each registers its specs. The order here is that of the tables."""

from __future__ import annotations

from pyxsim.results.datasets import links  # isort: skip
from pyxsim.results.datasets import collectives, workload, memory, traffic, attribution  # isort: skip  # noqa: I001

__all__ = ["attribution", "collectives", "links", "memory", "traffic", "workload"]
