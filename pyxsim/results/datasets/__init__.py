"""The built-in datasets of a result: one file per subject, which registers its specs."""

from __future__ import annotations

# In the order in which tables are listed:
# isort: off
from pyxsim.results.datasets import links, collectives, workload, serving, memory, traffic, attribution, ethernet
from pyxsim.results.datasets import energy, jobs, retries, transactions
# isort: on

__all__ = [
    "attribution",
    "collectives",
    "energy",
    "ethernet",
    "jobs",
    "links",
    "memory",
    "retries",
    "serving",
    "traffic",
    "transactions",
    "workload",
]
