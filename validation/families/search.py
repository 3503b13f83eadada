"""Sampled searches against exhaustive ones, on the shipped spaces of 256 NPUs."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyxsim
from pyxsim.settings.space import read_space
from pyxsim.study.search.explore import numeric_axes, sampled
from validation.case import Case, Found, Picture, Series
from validation.reference import TREE

SEEDS = 20
SHARE = 0.1  # of the points that can run


def worst_of_seeds(name: str) -> Found:
    """Return by how many percent the best point of a sample is slower than the best of all, for the worst seed."""
    file = TREE / "inputs" / "search" / f"{name}.toml"
    with tempfile.TemporaryDirectory() as folder:
        budget = ["search.method=exhaustive", "search.budget.decide=1", "search.budget.sensitivities=false"]
        counts = pyxsim.search(file, folder, overrides=budget, workers=1).counts
        losses = {}
        for line in (Path(folder) / "evaluations.jsonl").read_text().splitlines():
            evaluated = json.loads(line)
            if evaluated["model"] == "estimate":
                losses[tuple(evaluated["at"])] = (evaluated["outcome"]["values"]["step_time"],)
    space = read_space(file)
    places = [place for place in space.places() if tuple(place) in losses]
    best = min(losses.values())[0]
    excess = []
    for seed in range(1, SEEDS + 1):
        explorer = sampled(places, space.sizes, numeric_axes(space.axes), 1, int(SHARE * len(places)), seed, "tpe")
        seen = []
        batch = next(explorer, None)
        while batch:
            seen += [losses[tuple(place)] for place in batch]
            try:
                batch = explorer.send([*seen[-len(batch) :]])
            except StopIteration:
                break
        excess.append(100 * (min(seen)[0] / best - 1))
    cells = {"combinations": f"{counts['combinations']:,}", "can run": f"{len(places):,}", "sampled": f"{len(seen):,}"}
    picture = Picture("seed", "%", [Series("above the best", list(range(1, SEEDS + 1)), excess, "points")])
    return Found(max(excess), picture, cells=cells)


def cases() -> Iterator[Case]:
    claim = f"With a tenth of the points, the best estimate is within 1 % of that of all points, for {SEEDS} seeds"
    for name in ("llama3_256", "mixtral_256"):
        run = partial(worst_of_seeds, name)
        yield Case(f"search/{name.replace('_', '-')}", claim, "the exhaustive search", 1, "%", run, 120)


FAMILY = ("search", "Search for designs", ("combinations", "can run", "sampled"), cases)
