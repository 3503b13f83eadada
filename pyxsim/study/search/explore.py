"""Which points a search evaluates next: all, random ones, or those that Optuna proposes.

An explorer is a generator of batches of places; it is sent the losses of each batch (one number per objective, lower
is better; None for a point that failed). It depends only on the seed and on these losses, so a search that is killed
and continued with the losses known so far proposes the same points.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np

from pyxsim.errors import InputError
from pyxsim.settings.points import Choice
from pyxsim.settings.space import Place

BATCH = 8  # points that a sampler proposes at a time, whatever the number of workers
_FIRST = 0.25  # share of the budget that is drawn at random, for the sampler to learn from
_PROPOSED = 0.5  # share of the budget after which the neighbors of the best points follow
_BASES = 3  # best points whose neighbors are tried
Losses = list[tuple[float, ...] | None]
Explorer = Generator[list[Place], Losses, None]


def numeric_axes(axes: Sequence[Sequence[Choice]]) -> list[bool]:
    """Return which axes have numbers as values, so that they are ordered."""
    return [all(_is_number(choice) for choice in axis) for axis in axes]


def _is_number(choice: Choice) -> bool:
    values = list(choice.swept.values())
    return len(values) == 1 and isinstance(values[0], int | float) and not isinstance(values[0], bool)


def exhaustive(places: Sequence[Place], batch: int) -> Explorer:
    """Yield all points, in order."""
    for begin in range(0, len(places), batch):
        yield list(places[begin : begin + batch])


def at_random(places: Sequence[Place], budget: int, seed: int) -> Explorer:
    """Yield a random sample."""
    drawn = random.Random(seed).sample(list(places), min(budget, len(places)))
    yield from exhaustive(drawn, BATCH)


def sampled(
    places: Sequence[Place],
    sizes: Sequence[int],
    ordered: Sequence[bool],
    objectives: int,
    budget: int,
    seed: int,
    method: str,
) -> Explorer:
    """Yield points that Optuna's TPE or NSGA-II proposes, and then the neighbors of the best ones.

    `places`: those that can run; a proposal is moved to the nearest of them that is not evaluated yet. `ordered`: the
    axes whose values are numbers. A neighbor differs in a step along one axis or along two, such as a tensor
    parallelism twice as large and a pipeline half as long.
    """
    learn, ask = _optuna(sizes, ordered, objectives, seed, method, min(budget, len(places)))
    left = _Left(places, sizes, ordered)
    notes: Sequence[dict[str, Any]]
    found: list[tuple[Place, tuple[float, ...]]] = []
    drawn = random.Random(seed)
    budget = min(budget, len(places))
    while left.taken < budget:
        count = min(BATCH, budget - left.taken)
        if left.taken < _FIRST * budget:
            batch, notes = [left.take(drawn.choice(places)) for _ in range(count)], []
        elif left.taken < _PROPOSED * budget or not found:
            proposed, notes = zip(*(ask() for _ in range(count)), strict=True)
            batch = [left.take(place) for place in proposed]
        else:
            batch, notes = left.take_near([place for place, _ in _best(found)[:_BASES]], count), []
        losses = yield batch
        for number, (place, loss) in enumerate(zip(batch, losses, strict=True)):
            if loss is not None:
                found.append((place, loss))
                learn(place, loss, notes[number] if notes else {})


def _optuna(
    sizes: Sequence[int], ordered: Sequence[bool], objectives: int, seed: int, method: str, budget: int
) -> tuple[Callable[[Place, tuple[float, ...], dict[str, Any]], None], Callable[[], tuple[Place, dict[str, Any]]]]:
    """A function that a study learns from, and one that it proposes places with. The dict: notes of the sampler about
    a proposal, which it needs when it learns."""
    optuna = _library()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    kinds = optuna.distributions
    space = {
        str(axis): kinds.IntDistribution(0, size - 1) if by_order else kinds.CategoricalDistribution(list(range(size)))
        for axis, (size, by_order) in enumerate(zip(sizes, ordered, strict=True))
    }
    samplers = optuna.samplers
    if method == "nsga2":
        sampler = samplers.NSGAIISampler(seed=seed, population_size=max(4, min(50, budget // 8)))
    else:
        sampler = samplers.TPESampler(seed=seed, n_startup_trials=2)
    study = optuna.create_study(sampler=sampler, directions=["minimize"] * objectives)

    def learn(place: Place, loss: tuple[float, ...], notes: dict[str, Any]) -> None:
        params = {str(axis): number for axis, number in enumerate(place)}
        trial = optuna.trial.create_trial(params=params, distributions=space, values=list(loss), system_attrs=notes)
        study.add_trial(trial)

    def ask() -> tuple[Place, dict[str, Any]]:
        trial = study.ask(space)
        notes = dict(study.get_trials(deepcopy=False)[trial.number].system_attrs)  # such as its generation
        study.tell(trial, state=optuna.trial.TrialState.FAIL)  # what is evaluated instead is learned
        return tuple(int(trial.params[str(axis)]) for axis in range(len(sizes))), notes

    return learn, ask


def _library() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise InputError(
            "needs Optuna: pip install 'pyxsim[design]'", key="search.method", allowed="exhaustive or random without it"
        ) from error
    import warnings

    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    return optuna


class _Left:
    """The places that are not evaluated yet. `taken`: how many are."""

    def __init__(self, places: Sequence[Place], sizes: Sequence[int], ordered: Sequence[bool]) -> None:
        self._places = list(places)
        self._at = np.array(self._places, np.int64)
        self._free = np.ones(len(self._places), bool)
        self._ordered = np.array(ordered, bool)
        self.taken = 0

    def _distances(self, place: Place) -> Any:
        """Steps from a place to all others: along an ordered axis their number, else one."""
        steps = np.abs(self._at - np.array(place))
        return np.where(self._ordered, steps, steps > 0).sum(axis=1)

    def take(self, place: Place) -> Place:
        """Return the nearest free place, and mark it as taken."""
        distances = np.where(self._free, self._distances(place), np.iinfo(np.int64).max)
        return self._taken(int(distances.argmin()))

    def take_near(self, bases: Sequence[Place], count: int) -> list[Place]:
        """Return free places near some bases, those near the first ones first."""
        ranks = [self._distances(base) + rank / len(bases) for rank, base in enumerate(bases)]
        nearest = np.where(self._free, np.minimum.reduce(ranks), np.inf)
        return [self._taken(int(number)) for number in np.argsort(nearest, kind="stable")[:count]]

    def _taken(self, number: int) -> Place:
        self._free[number] = False
        self.taken += 1
        return self._places[number]


def _best(found: Sequence[tuple[Place, tuple[float, ...]]]) -> list[tuple[Place, tuple[float, ...]]]:
    """The points by front, then by loss."""
    layers = fronts([loss for _, loss in found])
    return [
        found[number]
        for _, number in sorted(
            zip(layers, range(len(found)), strict=True),
            key=lambda each: (each[0], found[each[1]][1], found[each[1]][0]),
        )
    ]


def fronts(losses: Sequence[tuple[float, ...]]) -> list[int]:
    """Return the number of the Pareto front of each point: 0 is not dominated, 1 only by those of 0, and so on.

    A point dominates another if it is no worse in any objective and better in one.
    """
    if not losses:
        return []
    values = np.array(losses, float)
    number = np.full(len(values), -1)
    if values.shape[1] == 1:
        _, order = np.unique(values[:, 0], return_inverse=True)
        return [int(each) for each in order]
    front = 0
    while (number < 0).any():
        rest = np.flatnonzero(number < 0)
        rows = values[rest]
        no_worse = (rows[:, None] <= rows[None]).all(axis=2)
        better = (rows[:, None] < rows[None]).any(axis=2)
        dominated = (no_worse & better).any(axis=0)
        number[rest[~dominated]] = front
        front += 1
    return [int(each) for each in number]
