"""The case studies of docs/case_studies.md: published ratios, usable bandwidths, closed forms, and packets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from math import ceil
from random import Random
from typing import Any

from pyxsim.results.result import Result
from pyxsim.runner.lifecycle import simulate
from pyxsim.runner.prepare import prepare
from pyxsim.settings.memory import BANDWIDTHS, RemoteMemory
from pyxsim.settings.points import Point, plan_of
from pyxsim.system.memory import Access, make_memory, resolve_memory
from pyxsim.workload.parallel import training_plan
from pyxsim.workload.parallel.footprint import footprint
from validation.case import Case, Found, Picture, Series, exact, must
from validation.reference import TREE

STUDIES = TREE / "inputs" / "studies"
PAPER = "ASTRA-sim 2.0 (arXiv 2303.14006), by a public reading note on it (docs/case_studies.md)"
PAGE = "docs/case_studies.md, from the sizes and bandwidths of the study"
FORMS = "docs/memory.md, closed forms"
LARGER_WAFER = 2.51  # published: the largest speed-up of a collective by a larger wafer
NO_LATENCY = ('network.latency="1 ns"',)
SHORTER = ("collective.size=128 MiB", "system.chunks=8")  # the chunks of 16 MiB of the study, fewer of them
# Bandwidth of an NPU in all dimensions, over that in the dimensions of a tensor-parallel group of 16.
USABLE = {"Conv-3D": ("W-1D 350", 350 / 200), "W-2D": ("W-1D 500", 500 / 250)}
# Attention of 4 h^2, 64 experts of 2 h f, their router and two norms, with h = 4096 and f = 16384.
PARAMETERS_OF_A_BLOCK = 4 * 4096**2 + 64 * 2 * 4096 * 16384 + 64 * 4096 + 2 * 4096
BLOCKS, NPUS = 120, 64
PARAMETERS_1T = 128 * 12 * 25600**2 + (51200 + 2048) * 25600  # blocks of 12 h^2, vocabulary and positions
DRAWN, SEED = 300, 1
CLOCK = Fraction(10**9)


def points(file: str, overrides: Sequence[str] = ()) -> list[Point]:
    """Return the points of a study."""
    return plan_of(STUDIES / file, overrides).points


def select(file: str, label: str, overrides: Sequence[str] = ()) -> Point:
    """Return the point of a study that has a label."""
    (found,) = [point for point in points(file, overrides) if point.label == label]
    return found


def simulated(file: str, point: Point, backend: str) -> Result:
    """Return the complete result of a point."""
    result = simulate(prepare(point.experiment, folder=(STUDIES / file).parent, backend=backend), backend=backend)
    must(result.complete, f"{point.label} did not end")
    return result


def ratios(pairs: Mapping[str, tuple[float, float]], what: str, note: str = "") -> Found:
    """Return the largest deviation of (expected, simulated) numbers in percent."""
    wanted, found = ([pair[side] for pair in pairs.values()] for side in (0, 1))
    line = sorted(wanted)
    picture = Picture(
        f"{what}, expected",
        f"{what}, simulated",
        [Series("equal", line, line, "limit"), Series("points", wanted, found, "points")],
    )
    cells = {
        "expected": ", ".join(f"{number:.5g}" for number in wanted),
        "simulated": ", ".join(f"{number:.5g}" for number in found),
    }
    return Found(max(100 * abs(b / a - 1) for a, b in pairs.values()), picture, cells, note)


def larger_wafer(overrides: Sequence[str]) -> Found:
    """Speed-up of an all-reduce by a wafer of 8 instead of 2, in a ring, with 4 times as many NPUs."""
    file = "scaling/all_reduce.toml"
    small, large = (
        simulated(file, select(file, f"{name}, inter_dimension=ascending", overrides), "analytical")
        for name in ("512", "2048, larger")
    )
    return ratios({"speed-up": (LARGER_WAFER, small.time_ns / large.time_ns)}, "speed-up")


def usable_bandwidth() -> Found:
    """Exposed communication of GPT-3, over that on a wafer of the same bandwidth."""
    file = "wafer/training.toml"
    exposed = {
        str(point.variant): float(simulated(file, point, "analytical-congestion").json()["exposed_ns"]["mean"])
        for point in points(file)
        if "gpt3" in str(point.swept["workload.model"])
    }
    pairs = {name: (ratio, exposed[name] / exposed[wafer]) for name, (wafer, ratio) in USABLE.items()}
    return ratios(pairs, "ratio of exposed times", ", ".join(pairs))


def pool() -> Found:
    """Percent by which the step takes longer with a pool than with slow memories."""
    file = "disaggregated/systems.toml"
    slow, pooled = (
        float(simulated(file, select(file, name), "analytical-congestion").time_ns) / 1e9
        for name in ("ZeRO-Infinity", "pool")
    )
    must(pooled >= slow, "the pool is faster than ZeRO-Infinity")
    longer = 100 * (pooled / slow - 1)
    picture = Picture("0: ZeRO-Infinity, 1: pool", "step (s)", [Series("simulated", [0, 1], [slow, pooled], "points")])
    return Found(
        longer, picture, {"expected": "0.1 %", "simulated": f"{longer:.3f} %"}, f"{slow:.2f} s, {pooled:.2f} s"
    )


def seconds_in_switches(memory: RemoteMemory) -> float:
    """Return the accesses of a step: 2 gathers and a reduce of each block, 28 bytes of each updated parameter."""
    assert memory.groups is not None
    assert memory.switches is not None
    assert memory.npus_per_node is not None
    rates = {key: Fraction(getattr(memory, key)) for key in BANDWIDTHS if getattr(memory, key) is not None}
    groups = memory.groups * rates["bandwidth"]
    links = memory.groups * memory.switches * rates["memory_link"]
    node, npu = memory.switches * rates["node_link"], rates["npu_link"]
    together = min(groups, links, node, npu)
    each = min(groups / NPUS, links / NPUS, node / memory.npus_per_node, npu)
    return BLOCKS * float(6 * PARAMETERS_OF_A_BLOCK / together + 28 * PARAMETERS_OF_A_BLOCK / NPUS / each)


def memory_in_switches(names: Sequence[str]) -> Found:
    """Seconds of accesses of an NPU, with memories whose switches copy and add."""
    file, pairs = "disaggregated/systems.toml", {}
    for name in names:
        point = select(file, name)
        memory = point.experiment.system.remote_memory
        assert memory is not None
        took = float(simulated(file, point, "analytical-congestion").json()["memory_ns"]["mean"]) / 1e9
        pairs[name] = (seconds_in_switches(memory), took)
    return ratios(pairs, "accesses (s)", "; ".join(pairs))


def draw_memory(random: Random) -> tuple[dict[str, Any], int]:
    """Return a table [system.remote_memory] with bandwidths in bytes per cycle, and a number of NPUs."""
    npus_per_node, nodes = random.randint(1, 8), random.randint(1, 8)
    kind = random.choice(["pool", "per-node", "zero-infinity", "hierarchical"])
    table: dict[str, Any] = {"kind": kind, "latency": random.randint(0, 1000), "bandwidth": rate(random)}
    if kind in ("pool", "per-node"):
        table["sharing"] = "fair"
    if kind != "pool":
        table["npus_per_node"] = npus_per_node
    if kind == "zero-infinity":
        table["node_bandwidth"] = rate(random)
    if kind == "hierarchical":
        table |= {key: rate(random) for key in ("memory_link", "node_link", "npu_link")}
        table |= {"groups": random.randint(1, 64), "switches": random.randint(1, 8), "chunk": random.randint(1, 2**20)}
        table["in_switch"] = random.random() < 0.5
    return table, npus_per_node * nodes


def rate(random: Random) -> Fraction:
    return Fraction(random.randint(1, 1000), random.randint(1, 4))


def closed_form(table: Mapping[str, Any], npus: int, size: int, together: bool) -> int:
    """Return the cycles of an access of `size` bytes that all NPUs make at once, or one collective in the switches."""
    b, kind = table["bandwidth"], table["kind"]
    if kind == "pool":
        return int(table["latency"] + ceil(npus * size / b))
    node = table["npus_per_node"]
    if kind == "per-node":
        return int(table["latency"] + ceil(node * size / b))
    if kind == "zero-infinity":
        return int(table["latency"] + ceil(size * max(1 / b, node / table["node_bandwidth"])))
    sharing, in_node = (1, 1) if together else (npus, node)
    stages = [
        sharing / (table["groups"] * b),
        sharing / (table["groups"] * table["switches"] * table["memory_link"]),
        in_node / (table["switches"] * table["node_link"]),
        1 / table["npu_link"],
    ]
    first = min(size, table["chunk"])
    return int(table["latency"] + sum(ceil(first * t) for t in stages) + ceil((size - first) * max(stages)))


def access_cycles(table: Mapping[str, Any], npus: int, size: int, access: Access, callers: int) -> int:
    """Return the cycle in which the last of equal accesses ends."""
    written = {key: value * CLOCK if key in BANDWIDTHS else value for key, value in table.items()}
    written |= {"latency": f"{table['latency']} ns"} | ({"chunk": f"{table['chunk']} B"} if "chunk" in table else {})
    options = resolve_memory(RemoteMemory(**written), npus, CLOCK)
    assert options is not None
    memory = make_memory(options)
    for npu in range(npus - callers, npus):
        memory.begin(0, npu, npu, size, access)
    ends: list[int] = []
    while (cycle := memory.next()) >= 0:
        ends += [cycle] * len(memory.run(cycle))
    must(len(ends) == callers, "an access did not end")
    return max(ends)


def remote_memory() -> Found:
    """The closed forms of docs/memory.md with drawn memories: loads, stores, gathers and reduces."""
    random = Random(SEED)
    pairs = []
    for _ in range(DRAWN):
        table, npus = draw_memory(random)
        together = bool(table.get("in_switch"))
        access = random.choice([Access.GATHER, Access.REDUCE] if together else [Access.LOAD, Access.STORE])
        size = random.randint(1, 2 ** random.randint(1, 34))
        took = access_cycles(table, npus, size, access, 1 if together else npus)
        pairs.append((float(closed_form(table, npus, size, together)), float(took)))
    worst, picture = exact(pairs, "cycles")
    return Found(worst, picture, {"expected": f"{DRAWN} drawn accesses", "simulated": "the same"})


def footprints() -> Found:
    """GB of an NPU: 2 bytes of each of P / T weights; 14 of gradients and optimizer, in P / NPUs parts (ZeRO-2)."""
    pairs = {}
    for point in points("comet/parallelism.toml", ["workload.model=models/transformer_1t.toml"]):
        workload, dims = point.experiment.workload, point.experiment.network.dims
        assert workload is not None
        assert dims is not None
        shape = tuple(dim.npus for dim in dims)
        plan = training_plan(
            workload, point.experiment.system.npu, shape, point.experiment.network.clock, STUDIES / "comet"
        )
        terms, tensor = footprint(plan, 0), plan.parallelism.tensor
        weights, states = terms["weights"] / 1e9, (terms["gradients"] + terms["optimizer"]) / 1e9
        pairs[f"{tensor}, weights"] = (2 * PARAMETERS_1T / tensor / 1e9, weights)
        pairs[f"{tensor}, states"] = (14 * PARAMETERS_1T / 1024 / 1e9, states)
    return ratios(pairs, "GB")


def packets(file: str, wanted: Mapping[str, str]) -> Found:
    """An all-reduce of 128 MiB with packets, and without: chunks as long as those of the study, but fewer."""
    packet, model = (
        float(simulated(file, point, str(point.backend)).time_ns) / 1e6
        for point in points(file, SHORTER)
        if all(point.swept[key] == value for key, value in wanted.items())
    )
    return ratios({file: (model, packet)}, "ms")


def cases() -> Iterator[Case]:
    faster = "On sizes of pyxsim's own, a larger wafer makes an all-reduce up to 2.51 times as fast, as published"
    for name, overrides, bound in (("larger-wafer-without-latency", NO_LATENCY, 1), ("larger-wafer", (), 10)):
        yield Case(f"case-studies/{name}", faster, PAPER, bound, "%", partial(larger_wafer, overrides), 4)
    claim = "The step with a pool takes at most 0.2 % longer than with ZeRO-Infinity; 0.1 % is published"
    yield Case("case-studies/zero-infinity-and-pool", claim, PAPER, 0.2, "%", pool, 8)
    claim = "The exposed communication of GPT-3 is inverse to the bandwidth of the dimensions that its groups cover"
    yield Case("case-studies/usable-bandwidth", claim, PAGE, 3, "%", usable_bandwidth, 20)
    claim = "With collectives in switches, accesses take the bytes of a step over the narrowest stage"
    names = ("pool, in switches", "both", "both, 1 TB/s")
    yield Case("case-studies/memory-in-switches", claim, PAGE, 0.5, "%", partial(memory_in_switches, names), 6)
    claim = "Equal accesses of all NPUs to remote memory end in the cycle of their closed form"
    yield Case("case-studies/remote-memory", claim, FORMS, 0, "cycles", remote_memory, 2)
    claim = "An NPU holds 2 P / T bytes of weights and 14 P / NPUs bytes of gradients and optimizer states with ZeRO-2"
    yield Case("case-studies/footprints", claim, PAGE, 1, "%", footprints, 5)
    claim = "An all-reduce of 128 MiB takes as long on the packet backend as on the model without packets"
    for name, wanted in (
        ("conv-3d", {"network.topology": "conv-3d", "system.inter_dimension": "ascending"}),
        ("conv-3d-themis", {"network.topology": "conv-3d", "system.inter_dimension": "themis"}),
        ("conv-4d-themis", {"network.topology": "conv-4d", "system.inter_dimension": "themis"}),
    ):
        measure = partial(packets, "wafer/packets.toml", wanted)
        yield Case(f"case-studies/packets-{name}", claim, PAGE, 0.2, "%", measure, 5)
    for npus, variant in ((512, "512"), (2048, "2048, larger")):
        measure = partial(packets, "scaling/packets.toml", {"variant": variant})
        yield Case(f"case-studies/packets-{npus}-npus", claim, PAGE, 0.2, "%", measure, 15)


FAMILY = ("case-studies", "Case studies of ASTRA-sim 2.0 and COMET", ("expected", "simulated"), cases)
