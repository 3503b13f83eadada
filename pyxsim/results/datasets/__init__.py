"""The built-in datasets of a result: one file per subject, which registers its specs."""

from __future__ import annotations

# In the order in which tables are listed:
# isort: off
from pyxsim.results.datasets import links, collectives, workload, serving, memory, traffic, attribution, ethernet
from pyxsim.results.datasets import energy, jobs, retries, route_epochs, credits, transactions
# isort: on

__all__ = [
    "attribution",
    "collectives",
    "credits",
    "energy",
    "ethernet",
    "jobs",
    "links",
    "memory",
    "retries",
    "route_epochs",
    "serving",
    "traffic",
    "transactions",
    "workload",
]
