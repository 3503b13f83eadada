"""A benchmark case, and the measurements of one run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Run:
    """The measurements of one run; `work` in the unit of its case; `facts` go into the JSON unchanged.

    `whole_cpu_s`: includes everything before and after the simulation except the start of Python.
    """

    work: int
    cycles: int
    cpu_s: float
    whole_cpu_s: float
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """`what` describes it; `run` prepares everything and times only the simulation, with `skip=False` every cycle.
    `show`: the experiment as TOML, with comments. `unit`: of the work.

    `long`: takes more than a few seconds, and is left out of quick sessions.
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
        """The JSON key of the work per CPU second."""
        return f"{self.unit.rpartition(' ')[2]}_per_cpu_s"
