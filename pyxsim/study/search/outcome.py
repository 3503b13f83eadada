"""What a search found: the order of its points, how sure it is, and what more of each resource would give."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

from pyxsim.errors import InputError
from pyxsim.models.npu import capacity, peak_flops, processor
from pyxsim.results.search import DECIDED, FAILED, NEVER, SCREENED
from pyxsim.settings import Experiment
from pyxsim.settings.search import ESTIMATE, HIGHER
from pyxsim.settings.space import Place, Space
from pyxsim.settings.types import fresh
from pyxsim.study.search.evaluate import Estimator
from pyxsim.study.search.explore import fronts
from pyxsim.study.search.pricing import PRICED

MORE = Fraction(11, 10)  # of a resource, for the sensitivities
MOST_FREED = 64  # points that more memory would let run, of which the best is sought
Losses = Sequence[tuple[float, ...] | None]


def in_order(losses: Losses) -> list[int]:
    """Return the numbers of the points that have losses, best first: by front, then by loss."""
    known = [(number, loss) for number, loss in enumerate(losses) if loss is not None]
    layers = fronts([loss for _, loss in known])
    order = sorted(zip(layers, known, strict=True), key=lambda each: (each[0], each[1][1], each[1][0]))
    return [number for _, (number, _) in order]


def best_places(losses: Losses, places: Sequence[Place], count: int) -> list[Place]:
    """Return the best places, best first; equal ones in the order of the space."""
    sorted_places = sorted(range(len(places)), key=lambda number: places[number])
    order = in_order([losses[number] for number in sorted_places])
    return [places[sorted_places[number]] for number in order[:count]]


def table_rows(
    space: Space,
    places: Sequence[Place],
    outcome: Callable[[str, Place], dict[str, Any]],
    screen: str,
    decide: str,
    objectives: Sequence[str],
) -> list[dict[str, Any]]:
    """Return a row per place that can run: decided ones first, then screened ones, best first; then the others.

    The Pareto fronts are those of all of them, by what is known best of each.
    """
    groups: dict[str, list[tuple[Place, dict[str, Any], dict[str, Any]]]] = {
        state: [] for state in (DECIDED, SCREENED, FAILED, NEVER)
    }
    for place in places:
        screened, decided = outcome(screen, place), outcome(decide, place)
        both = screened.get("values") or {}, decided.get("values") or {}
        if both[1] and (screen != decide or both[0]):
            groups[DECIDED].append((place, *both))
        elif "fault" in decided or "fault" in screened:
            groups[FAILED].append((place, *both))
        else:
            groups[SCREENED if both[0] else NEVER].append((place, *both))
    rows: list[dict[str, Any]] = []
    for state, group in groups.items():
        kept = [each[2] if state == DECIDED else each[1] for each in group]
        losses = [_loss(values, objectives) for values in kept]
        order = in_order(losses)
        for position, number in enumerate([*order, *(n for n, loss in enumerate(losses) if loss is None)]):
            place, screened, decided = group[number]
            ranked = position < len(order)
            row: dict[str, Any] = dict(space.values(place))
            row |= {"rank": len(rows) + 1 if ranked else None, "state": state}
            row |= {"front": None}
            row |= {name: kept[number].get(name) for name in _columns(objectives, kept[number])}
            row |= {f"screen.{name}": screened.get(name) for name in objectives}
            row |= {f"decide.{name}": decided.get(name) for name in objectives}
            fault = outcome(decide, place).get("fault") or outcome(screen, place).get("fault")
            rows.append({**row, "reason": fault or "", "at": list(place)})
    compared = [row for row in rows if row["rank"]]
    for row, layer in zip(compared, fronts([_known(row, objectives) for row in compared]), strict=True):
        row["front"] = layer
    return rows


def _columns(objectives: Sequence[str], values: dict[str, Any]) -> list[str]:
    """The objectives, and other numbers of interest that the values have."""
    others = ("step_time", "mfu", "tokens_per_s", "memory", "memory_headroom", "cost_per_token", "energy_per_token")
    return list(dict.fromkeys([*objectives, *(name for name in others if name in values)]))


def _loss(values: dict[str, Any], objectives: Sequence[str]) -> tuple[float, ...] | None:
    return None if any(values.get(name) is None for name in objectives) else _known(values, objectives)


def _known(values: dict[str, Any], objectives: Sequence[str]) -> tuple[float, ...]:
    return tuple(-values[name] if name in HIGHER else values[name] for name in objectives)


def confidence(rows: Sequence[dict[str, Any]], objectives: Sequence[str]) -> dict[str, Any]:
    """Return how well the screening predicts the deciding model, for the first objective.

    Of the decided points: Kendall's tau of both orders (tau-b; 1: the same order), and the least and largest ratio of
    decided to screened. Of the others: the ratio at which the best of them would win, and how many would win at a ratio
    that was seen. A ratio is taken so that less is better.
    """
    name = objectives[0]
    decided = [row for row in rows if row["state"] == DECIDED]
    both = [(_as_loss(name, row[f"screen.{name}"]), _as_loss(name, row[f"decide.{name}"])) for row in decided]
    pairs = [(one, other) for one, other in both if one is not None and other is not None]
    if not pairs:
        return {}
    ratios = [other / one for one, other in pairs]
    best = min(other for _, other in pairs)
    others = [_as_loss(name, row[name]) for row in rows if row["state"] == SCREENED and row["rank"]]
    needed = [best / other for other in others if other is not None]
    could = sum(ratio > min(ratios) for ratio in needed)
    result: dict[str, Any] = {
        "objective": name,
        "decided": len(pairs),
        "kendall_tau": kendall_tau(pairs),
        "least_ratio": min(ratios),
        "largest_ratio": max(ratios),
        "worst_error": max(abs(ratio - 1) for ratio in ratios),
        "not_decided": len(needed),
        "ratio_to_win": max(needed, default=None),
        "could_win": could,
    }
    never = sum(row["state"] == NEVER for row in rows)
    return {**result, "never_simulated": never, "text": _text(result, never)}


def _as_loss(name: str, value: float | None) -> float | None:
    """The value so that less is better and ratios stay meaningful: of a rate, the time per unit."""
    if not value:
        return None
    return 1 / value if name in HIGHER else value


def _text(found: dict[str, Any], never: int) -> str:
    """The confidence in a sentence or two."""
    shifts = [f"{(ratio - 1) * 100:+.2g} %" for ratio in (found["least_ratio"], found["largest_ratio"])]
    lines = [
        f"{found['decided']} points decided: {found['objective']} differs from the screened one by {shifts[0]} to "
        f"{shifts[1]}, Kendall's tau of the orders {found['kendall_tau']:.2f}"
    ]
    if found["ratio_to_win"] is not None:
        lines.append(
            f"the best of the {found['not_decided']} points that were only screened would win at "
            f"{found['ratio_to_win']:.4g} times its screened value or less; {found['could_win']} of them would win "
            "at a ratio within those seen"
        )
    if never:
        lines.append(f"{never} points that can run were never simulated")
    return "; ".join(lines)


def kendall_tau(pairs: Sequence[tuple[float, float]]) -> float:
    """Return Kendall's tau-b of pairs: 1 for the same order, -1 for the reverse (Kendall 1945). 1 for a single pair."""
    agree = ties_one = ties_other = 0
    count = 0
    for number, (one, other) in enumerate(pairs):
        for first, second in pairs[:number]:
            left, right = (one > first) - (one < first), (other > second) - (other < second)
            agree += left * right
            ties_one += left == 0
            ties_other += right == 0
            count += 1
    weight = ((count - ties_one) * (count - ties_other)) ** 0.5
    return float(agree / weight) if weight else 1.0


def sensitivities(
    space: Space, best: Place, own: Estimator, freed: Sequence[Place], objectives: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the gain of the best point with 10 % more of each resource, by the estimate.

    Less latency counts as more of a resource: latency / 1.1. More memory makes no step faster, but lets other points
    run: `freed` are those that it would let run, and the gain is that of the best of them.
    """
    name = objectives[0]
    experiment = space.point(best).experiment
    priced = bool(set(objectives) & set(PRICED))
    base = own.values(experiment, ESTIMATE, priced=priced)
    gains = []
    for resource, richer in _richer(experiment):
        try:
            values = own.values(richer, ESTIMATE, priced=priced)
        except InputError:
            continue
        gains.append({"resource": resource, "objective": name, "gain": _gain(name, base[name], values[name])})
    if capacity_of(experiment) is not None:
        found = [
            own.values(space.point(place).experiment, ESTIMATE, priced=priced)[name] for place in freed[:MOST_FREED]
        ]
        gain = max((_gain(name, base[name], value) for value in found), default=0.0)
        gains.append({"resource": "system.npu.memory", "objective": name, "gain": max(gain, 0.0)})
    return sorted(gains, key=lambda each: -each["gain"])


def capacity_of(experiment: Experiment) -> int | None:
    """Return the memory of an NPU; None if unknown."""
    return None if experiment.system.npu is None else capacity(experiment.system.npu)


def _gain(name: str, before: float, after: float) -> float:
    return after / before - 1 if name in HIGHER else before / after - 1


def _richer(experiment: Experiment) -> Iterator[tuple[str, Experiment]]:
    """The experiment with more of each resource."""
    network, npu = experiment.network, experiment.system.npu
    data = network.model_dump(mode="python")
    for path, changed in _richer_network(data):
        yield path, experiment.model_copy(update={"network": type(network).model_validate(changed)})
    if npu is None:
        return
    for key, more in (
        ("peak", {"peak": peak_flops(npu) * MORE, "precision": None}),
        ("memory_bandwidth", {"memory_bandwidth": own_bandwidth(npu) * MORE}),
    ):
        system = experiment.system.model_copy(update={"npu": npu.model_copy(update=more)})
        yield f"system.npu.{key}", experiment.model_copy(update={"system": system})


def _richer_network(data: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for key, factor in (("bandwidth", MORE), ("latency", 1 / MORE)):
        for number, dim in enumerate(data.get("dims") or ()):
            if dim.get(key) is not None:
                changed = fresh(data)
                changed["dims"][number][key] = scaled(dim[key], factor)
                yield f"network.dims[{number}].{key}", changed
        if not data.get("dims") and isinstance(data.get(key), str):
            changed = fresh(data)
            changed[key] = scaled(data[key], factor)
            yield f"network.{key}", changed


def scaled(text: str, factor: Fraction) -> str:
    """Return a quantity times a factor, to nine digits."""
    number, _, unit = text.partition(" ")
    return f"{float(Fraction(number) * factor):.9g} {unit}"


def own_bandwidth(npu: Any) -> Fraction:
    """Return the memory bandwidth of an NPU, in B/s."""
    return Fraction(processor(npu).bandwidth)
