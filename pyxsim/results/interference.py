"""Interference of several jobs on one network: how long each waited for each other one (docs/jobs.md)."""

from __future__ import annotations

from dataclasses import dataclass

from pyxsim.arrays import IntArray
from pyxsim.results.attribution import Attribution


@dataclass(frozen=True, eq=False)
class Interference:
    """The waits of jobs for each other.

    Attributes
    ----------
    victims
        The jobs.
    culprits
        The jobs, the background traffic, link faults if they were culprits, and `none`.
    cycles
        int64[victims, culprits]: cycles that the packets of a job waited in the network for a culprit. A row adds up to
        all waits of the job.
    """

    victims: list[str]
    culprits: list[str]
    cycles: IntArray

    def json(self) -> dict[str, dict[str, int]]:
        """Return the cycles by victim and culprit."""
        return {
            victim: dict(zip(self.culprits, row, strict=True))
            for victim, row in zip(self.victims, self.cycles.tolist(), strict=True)
        }


def interference(attribution: Attribution | None, jobs: int) -> Interference | None:
    """Return the interference of a number of jobs; None without jobs or without attribution."""
    if not jobs or attribution is None:
        return None
    names = attribution.traffic_names  # the jobs come first
    victims = names[:jobs]
    return Interference(victims, attribution.culprits, attribution.matrix[: len(victims)])
