"""What a case of the benchmarks is, and what a run of it tells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Run:
    """What one run took; `work` in the unit of its case; `facts` go into the JSON as they are.

    `whole_cpu_s`: with everything before and after the simulation, but for what Python takes to begin.
    """

    work: int
    cycles: int
    cpu_s: float
    whole_cpu_s: float
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """`what` in words; `run` prepares everything, and times the simulation alone; with `skip=False` every cycle of it.
    `show`: the experiment as TOML, with remarks. `unit`: what is counted.

    `long`: takes more than some seconds, and is left out where somebody waits.
    """

    what: str
    run: Callable[..., Run]
    show: Callable[[], str]
    unit: str = "router visits"
    long: bool = False

    @property
    def key(self) -> str:
        """The unit as a key of JSON."""
        return self.unit.replace(" ", "_")

    @property
    def rate_key(self) -> str:
        """The key of what is done in a CPU second."""
        return f"{self.unit.rpartition(' ')[2]}_per_cpu_s"
