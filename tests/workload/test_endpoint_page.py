"""The tables of docs/endpoint.md, run again: an all-reduce of 8 MiB, alone and beside a computation."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from pyxsim.runner.prepare import prepare
from pyxsim.runner.prepared import Prepared
from pyxsim.settings import load_experiment
from pyxsim.settings.endpoint import Endpoint
from pyxsim.system import System, make_system
from pyxsim.workload.graph import Call, GraphBuilder, Kind
from pyxsim.workload.graph_job import GraphJob

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "endpoint.md").read_text(encoding="utf-8")
BACKENDS = ("analytical", "analytical-congestion", "flow", "packet")
MIB = 2**20
ENGINE = {"offload": "engine", "engine_memory": "4 MiB"}


def table(head: str) -> list[list[str]]:
    """The rows under a head, without what is around the numbers."""
    _, _, rest = PAGE.partition(head)
    lines = rest.splitlines()[2:]
    rows = takewhile(lambda line: line.startswith("|"), lines)
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def prepared(endpoint: dict[str, Any] | None) -> Prepared:
    data = load_experiment(ROOT / "inputs" / "endpoint.toml", overrides=['collective.size="8 MiB"', "run.skip=false"])
    chosen = None if endpoint is None else Endpoint.model_validate(endpoint)
    system = data.system.model_copy(update={"endpoint": chosen})
    made = prepare(data.model_copy(update={"system": system}), backend="analytical-congestion")
    assert isinstance(made, Prepared)
    return made


@cache
def all_reduce(bandwidth: int, engine: bool) -> tuple[int, dict[str, int], int]:
    """Its cycles, that is ns; bytes of NPU 0; bytes that it sends. 0 GB/s: without an endpoint."""
    made = prepared({"memory_bandwidth": f"{bandwidth} GB/s", **(ENGINE if engine else {})} if bandwidth else None)
    end = made.system.run()
    own = {}
    if isinstance(made.system, System) and made.system.endpoint is not None:
        own = {name: int(row[0]) for name, row in made.system.endpoint.totals().items()}
    return end, own, made.system.bytes_planned // 64


def test_a_chain_without_contention_is_too_slow_and_warned_of() -> None:
    network = {"topology": "ring", "shape": [8], "bandwidth": "50 GB/s", "latency": "100 ns"}
    found: dict[tuple[str, str, bool], int] = {}
    for kind in ("reduce", "all-reduce"):
        for backend in BACKENDS:
            for limited in (True, False):
                system = {"endpoint": {"memory_bandwidth": "200 GB/s"}} if limited else {}
                data = {"network": network, "system": system, "collective": {"kind": kind, "size": "100 kB"}}
                made = prepare(load_experiment(data), backend=backend)
                warned = any(line.startswith("system.endpoint: without contention") for line in made.warnings)
                assert warned == (limited and backend == "analytical")
                assert isinstance(made, Prepared)
                found[kind, backend, limited] = made.system.run()
    text = " ".join(PAGE.split())
    assert (
        "16.95 us with `analytical`, 6.45 us with `analytical-congestion` and `flow`, and 6.61 us with packets" in text
    )
    assert "With unlimited memories, it takes 2.45 us, 4.20 us and 4.36 us." in text
    of_reduce = [[found["reduce", backend, limited] for backend in BACKENDS] for limited in (True, False)]
    assert of_reduce == [[16950, 6450, 6450, 6610], [2450, 4200, 4200, 4360]]
    assert len({found["all-reduce", backend, True] for backend in BACKENDS[:3]}) == 1


def test_bandwidth_of_the_memory_against_that_of_the_network() -> None:
    rows = table("| memory | without an engine | of the ideal | with an engine | of the ideal |")
    ideal = all_reduce(0, False)[0]
    assert f"{ideal / 1000:.2f} us" in PAGE
    assert len(rows) >= 6
    for memory, *told in rows:
        ends = [all_reduce(int(memory.removesuffix(" GB/s")), engine)[0] for engine in (False, True)]
        assert told == [text for end in ends for text in (f"{end / 1000:.2f} us", f"{100 * ideal / end:.0f} %")]


def test_bytes_for_each_that_is_sent() -> None:
    """Of 8 MiB, localBWAware sends 2 * 3/4 * (1 + 1/4 + 1/16). A ring of a phase of its own reads its first block once
    more than an all-reduce does."""
    size = 8 * MIB
    _, none, sent = all_reduce(959, False)
    _, engine, _ = all_reduce(959, True)
    assert Fraction(sent, size) == Fraction(63, 32)
    assert (none["read"], none["written"]) == (size * 209 // 64, size * 189 // 64)
    assert (engine["read"], engine["written"]) == (size, size)
    for number in (none["read"] / sent, none["written"] / sent, (none["read"] + none["written"]) / (2 * size)):
        assert f"{number:.2f}" in PAGE
    # The plan of the ACE study: a reduce-scatter, two all-reduces of a quarter, an all-gather; 1.5 reads for each byte.
    four_phases = Fraction(3, 4) * (1 + 2 * Fraction(1, 4) + 2 * Fraction(1, 4) + 1)
    assert four_phases == Fraction(9, 4)
    assert four_phases * Fraction(3, 2) == Fraction("3.375")
    assert "3.375" in PAGE


WAYS = {
    "nothing is shared": None,
    "cores, all share the memory": {"memory_bandwidth": "900 GB/s", "compute_share": "0.075"},
    "cores, limited to 450 GB/s": {
        "memory_bandwidth": "900 GB/s",
        "communication_bandwidth": "450 GB/s",
        "compute_share": "0.075",
    },
    "cores, limited to 128 GB/s": {
        "memory_bandwidth": "900 GB/s",
        "communication_bandwidth": "128 GB/s",
        "compute_share": "0.025",
    },
    "an engine": {"memory_bandwidth": "900 GB/s", **ENGINE},
    "an engine, limited to 128 GB/s": {
        "memory_bandwidth": "900 GB/s",
        "communication_bandwidth": "128 GB/s",
        **ENGINE,
    },
}


@pytest.mark.parametrize("row", table("| all-reduce carried out by | computation | all-reduce | both |"))
def test_an_all_reduce_beside_a_computation(row: list[str]) -> None:
    """100 us that move 500 GB/s."""
    way, *told = row
    made = prepared(WAYS[way])
    on = make_system(made.network, made.topology.shape, made.system.options)
    b = GraphBuilder(64)
    b.tasks(range(64), Kind.COMPUTE, ticks=100_000, size=50_000_000, resource="compute")
    b.tasks(range(64), Kind.COLLECTIVE, call=b.call(Call("all-reduce", 8 * MIB)), resource="communication")
    job = GraphJob(b.graph())
    job.begin(on)
    on.run()
    ends = job.times().end.reshape(2, 64).max(axis=1)
    assert told == [f"{end / 1000:.1f} us" for end in (*ends, ends.max())]


def test_every_way_is_in_the_table() -> None:
    assert [row[0] for row in table("| all-reduce carried out by | computation | all-reduce | both |")] == [*WAYS]
    assert re.search(r"^## The ACE study$", PAGE, re.MULTILINE)


HEAD = (
    "| model | nothing is shared | 450 GB/s, 6 cores | 128 GB/s, 2 cores | 128 GB/s, an engine "
    "| the engine is faster | ACE |"
)
MACHINE = {
    "dims": [
        {"block": "ring", "npus": 4, "bandwidth": bandwidth, "latency": latency}
        for bandwidth, latency in (("100 GB/s", "90 ns"), ("25 GB/s", "200 ns"), ("25 GB/s", "200 ns"))
    ]
}
BATCH = {"resnet50": 32 * 64, "dlrm": 512 * 64}


def iteration(model: str, way: str) -> int:
    """Cycles, that is ns."""
    system = {"all_reduce": "ring", "chunks": 8, "active_chunks": 8, "npu": {"device": "v100"}}
    endpoint = WAYS[way]
    workload = {"model": model, "batch": BATCH[model]}
    data = {"network": MACHINE, "system": system | ({"endpoint": endpoint} if endpoint else {}), "workload": workload}
    made = prepare(load_experiment(data), backend="analytical-congestion")
    assert isinstance(made, Prepared)
    made.system.run()
    assert isinstance(made.job, GraphJob)
    return made.job.end


SLOW = {"resnet50": pytest.mark.slow}


@pytest.mark.parametrize("row", [pytest.param(row, marks=SLOW.get(row[0], ())) for row in table(HEAD)])
def test_iterations(row: list[str]) -> None:
    model, *told, faster, _ = row
    ways = [way for way in WAYS if way == "nothing is shared" or "limited to" in way]
    ends = [iteration(model, way) for way in ways]
    assert told == [f"{end / 10**6:.2f} ms" for end in ends]
    assert faster == f"{min(ends[1:3]) / ends[3]:.3f} times"
