"""Load-latency curves of BookSim2 (inputs/reference/booksim.json), each with its own configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyxsim.compat.booksim.translation import translate
from pyxsim.runner.lifecycle import run
from validation.case import Case, Found, Picture, Series
from validation.reference import reference

SOURCE = "measurements in inputs/reference/booksim.json"
LATENCY, HOPS, THROUGHPUT = 3.0, 0.5, 5.0  # allowed %, or the spread of BookSim2's seeds if larger
UP_TO = 0.8  # of the load at which BookSim2 saturates: loads to compare
ACCEPTED = 0.97  # of the offered load: a network that accepts less is saturated
WARMUP = 5000
SHORTEST, LONGEST, PACKETS = 30_000, 150_000, 60_000  # measured cycles; packets to measure
# Curves whose accepted load at 1.0 differs by more, and why.
EXPLAINED = {
    "dragonfly_p2-min-vc2-L1-uniform": "BookSim2's dragonfly ejects a packet on the VC of its phase only; built to use "
    "all VCs there it accepts 0.913",
    **dict.fromkeys(
        ("mesh8x8-dor-vc16-rw-uniform", "torus8x8-dor-vc16-rw-uniform"),
        "in BookSim2 a node that has replies to send creates no requests meanwhile, so overload offers less",
    ),
}
NODES, FLITS = 64, 5  # of most curves; sets only the length of a measurement
ENDLESS = 2**40
SAMPLES = 7  # most samples of BookSim2, after three of warm-up
LIMIT = 500  # cycles: a larger mean latency counts as saturated, BookSim2's default


@dataclass(frozen=True)
class Against:
    """One number of pyxsim against those of BookSim2's seeds."""

    theirs: Sequence[float]
    ours: float
    least: float  # least allowed difference in %

    @property
    def mean(self) -> float:
        return sum(self.theirs) / len(self.theirs)

    @property
    def error(self) -> float:
        """Difference from the mean of the seeds, in %."""
        return 100 * (self.ours / self.mean - 1)

    @property
    def allowed(self) -> float:
        """Allowed difference in %: the claim, or the spread of the seeds."""
        return max(self.least, *(100 * abs(value / self.mean - 1) for value in self.theirs))

    @property
    def share(self) -> float:
        """The difference in % of the allowed one."""
        return 100 * abs(self.error) / self.allowed


def saturation(curve: Mapping[str, Any]) -> float:
    """The highest load at which all of BookSim2's seeds are stable and accept the offered load."""
    points: list[dict[str, Any]] = curve["points"]
    taken = [p["load"] for p in points if "latency" in p and min(p["accepted"]) >= ACCEPTED * p["load"]]
    return float(max(taken, default=0.0))


def measured(
    curve: Mapping[str, Any], load: float, *, theirs: bool = False, limit: int = ENDLESS, samples: int = 3
) -> dict[str, Any]:
    """The result of this curve's configuration at a load; `theirs`: by BookSim2's own schedule, of so many samples."""
    config: dict[str, Any] = {**curve["config"], "injection_rate": load}
    classes = int(config.get("classes", 1))
    if classes > 1:
        config["injection_rate"] = "{" + ",".join([f"{load / classes:.12g}"] * classes) + "}"
    tables = translate(config).tables
    traffic = tables["traffic"]
    traffic["latency_limit"] = limit
    if theirs:
        traffic["measure"] = traffic["measure"] // 3 * samples
    else:
        wanted = PACKETS / (load * NODES / FLITS)
        traffic |= {"warmup": WARMUP, "measure": round(min(max(wanted, SHORTEST), LONGEST))}
    traffic["max_cycles"] = 4 * (traffic["warmup"] + traffic["measure"])
    # BookSim2 proves no routing, and its minimal adaptive routing cannot be proved.
    told: dict[str, Any] = run(tables, allow_deadlock=True).json()
    return told


def compare(name: str) -> Found:
    curve = curves()[name]
    top = UP_TO * saturation(curve)
    points = [p for p in curve["points"] if p["load"] <= top + 1e-9 and "latency" in p]
    latency, hops = [], []
    for point in points:
        told = measured(curve, point["load"])
        latency.append(Against(point["latency"], told["packet_latency"], LATENCY))
        hops.append(told["hops"])
    means = _hops(points, hops)
    full = None
    if curve.get("full_load"):
        full = Against(curve["full_load"], measured(curve, 1.0, theirs=True)["accepted_load"], THROUGHPUT)
    saturates, wrong = _saturates(curve)
    every = [*latency, *([means] if means else []), *([full] if full and name not in EXPLAINED else [])]
    worst = max([200.0 * wrong, *(each.share for each in every)])
    cells = {
        "loads": f"{points[0]['load']:g} to {points[-1]['load']:g}" if points else "",
        "latency": _percent(latency),
        "hops": _percent([means] if means else []),
        "at load 1.0": f"{full.mean:.3f} / {full.ours:.3f}, {full.error:+.1f} %" if full else "",
        "saturates": saturates,
        "seeds": str(max((len(each.theirs) for each in every), default=0)),
    }
    return Found(worst, _picture(curve, [p["load"] for p in points], latency), cells, EXPLAINED.get(name, ""))


def _saturates(curve: Mapping[str, Any]) -> tuple[str, int]:
    """The loads between which BookSim2 saturates, and how many of these two differ by more than 5 % here.

    BookSim2 gives up at the sample in which the mean latency is too long, the tenth one at the latest.
    """
    taken = [p["load"] for p in curve["points"] if "latency" in p]
    full = [p["load"] for p in curve["points"] if p.get("saturated")]
    if not taken or not full:
        return "", 0
    stable, first = max(load for load in taken if load < min(full)), min(full)
    margin = THROUGHPUT / 100
    early = measured(curve, (1 - margin) * stable, theirs=True, limit=LIMIT)["saturated"]
    late = not measured(curve, (1 + margin) * first, theirs=True, limit=LIMIT, samples=SAMPLES)["saturated"]
    told = f"{stable:g} to {first:g}"
    return told + (" (here before)" if early else "") + (" (here behind)" if late else ""), early + late


def _hops(points: Sequence[Mapping[str, Any]], ours: Sequence[float]) -> Against | None:
    """Mean hops over all loads, weighted by them: a few thousand packets of one load do not tell them to 0.5 %."""
    if not points:
        return None
    weights = [p["load"] for p in points]

    def mean(values: Sequence[float]) -> float:
        return float(sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights))

    seeds = min(len(p["hops"]) for p in points)
    return Against([mean([p["hops"][seed] for p in points]) for seed in range(seeds)], mean(ours), HOPS)


def _both(numbers: Against) -> str:
    return f"{numbers.mean:.3f} / {numbers.ours:.3f}, {numbers.error:+.1f} %"


def _percent(numbers: Sequence[Against]) -> str:
    if not numbers:
        return ""
    worst = max(numbers, key=lambda each: abs(each.error))
    return f"{worst.error:+.1f} %" + (f" (spread {worst.allowed:.1f} %)" if worst.allowed > worst.least else "")


def _picture(curve: Mapping[str, Any], loads: Sequence[float], latency: Sequence[Against]) -> Picture:
    theirs = [p for p in curve["points"] if "latency" in p]
    means = [sum(p["latency"]) / len(p["latency"]) for p in theirs]
    low, high = [min(p["latency"]) for p in theirs], [max(p["latency"]) for p in theirs]
    return Picture(
        "offered load (flits per node and cycle)",
        "packet latency (cycles)",
        [
            Series("BookSim2, its seeds", [p["load"] for p in theirs], means, "line", low, high),
            Series("pyxsim", list(loads), [each.ours for each in latency], "points"),
        ],
        log=True,
    )


def curves() -> dict[str, dict[str, Any]]:
    """The curves by name."""
    return {curve["curve"]: curve for curve in reference("booksim")["curves"]}


def cases() -> Iterator[Case]:
    claim = (
        f"Up to {100 * UP_TO:.0f} % of BookSim2's saturation, the mean packet latency is within {LATENCY:g} %, mean "
        f"hops are within {HOPS:g} %, and the accepted load at offered load 1.0 is within {THROUGHPUT:g} %, or within "
        "the spread of BookSim2's own seeds if that is larger. The saturation load is within 5 %"
    )
    for name, curve in curves().items():
        seconds = 4.0 * len(curve["points"])
        run_it = partial(compare, name)
        yield Case(f"booksim/{name}", claim, SOURCE, 100, "% of the tolerance", run_it, seconds)


FAMILY = (
    "booksim",
    "Load-latency curves of BookSim2",
    ("loads", "latency", "hops", "at load 1.0", "saturates", "seeds"),
    cases,
)
