"""How much two graphs differ in their statistics: what docs/making_traces.md reports of synthesized traces."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from pyxsim.workload.making.learn import Item, observe
from pyxsim.workload.making.model import SIZED, TIMED
from pyxsim.workload.making.sources import Source

STATISTICS = {
    "times": "times of computations, copies and pauses",
    "bytes": "bytes of collectives, messages and accesses",
    "waits": "how many tasks a task waits for",
    "reach": "how many tasks back those are",
    "runs": "tasks from one communication to the next",
}
"""Those that the Kolmogorov-Smirnov distance compares."""


def samples(sources: Iterable[Source]) -> tuple[dict[str, list[float]], dict[str, float]]:
    """Return the samples of each statistic of some jobs together, and the share of each kind of tasks."""
    programs = [
        program for source in sources for of_stage in observe(source, own_times=True).programs for program in of_stage
    ]
    found: dict[str, list[float]] = {name: [] for name in STATISTICS}
    mix: dict[str, float] = {}
    count = sum(map(len, programs))
    for program in programs:
        last = 0
        for place, item in enumerate(program):
            _of_item(found, item, place)
            if item.family.kind in ("collective", "send", "receive"):
                found["runs"].append(place - last)
                last = place
            word = f"{item.family.kind} {item.family.what}"
            mix[word] = mix.get(word, 0.0) + 1 / count
    return found, mix


def _of_item(found: dict[str, list[float]], item: Item, place: int) -> None:
    if item.value is not None and item.family.kind in TIMED:
        found["times"].append(item.value)
    if item.value is not None and item.family.kind in SIZED:
        found["bytes"].append(item.value)
    found["waits"].append(len(item.before))
    found["reach"] += [place - earlier for earlier in item.before]


def distances(some: Iterable[Source], others: Iterable[Source]) -> dict[str, float]:
    """Return the distance of jobs to others in each statistic, from 0 to 1.

    The two-sample Kolmogorov-Smirnov distance, the largest difference of the distribution functions; of "mix", the
    shares of kinds of tasks, half of the sum of the differences (total variation).
    """
    (first, mix), (second, other_mix) = samples(some), samples(others)
    found = {name: kolmogorov_smirnov(first[name], second[name]) for name in STATISTICS}
    words = mix.keys() | other_mix.keys()
    return {"mix": sum(abs(mix.get(word, 0) - other_mix.get(word, 0)) for word in words) / 2, **found}


def kolmogorov_smirnov(one: ArrayLike, other: ArrayLike) -> float:
    """Return the largest difference of the distribution functions of two samples; of an empty one and another, 1."""
    first, second = (np.sort(np.asarray(sample, np.float64)) for sample in (one, other))
    if not len(first) or not len(second):
        return float(len(first) != len(second))
    values = np.concatenate([first, second])
    shares = [np.searchsorted(sample, values, side="right") / len(sample) for sample in (first, second)]
    return float(np.abs(shares[0] - shares[1]).max())
