"""The fixed cases. What they do must not change: their history is compared."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pyxsim import library
from pyxsim.network.packet import PacketNetwork
from pyxsim.settings import load_experiment
from pyxsim.study import prepare, simulate
from pyxsim.topology.build import build

INPUTS = Path(__file__).resolve().parents[1] / "inputs"


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
    """`what` in words; `run` prepares everything, and times the simulation alone. `unit`: what is counted."""

    what: str
    run: Callable[[], Run]
    unit: str = "router visits"


@dataclass(frozen=True)
class Peer:
    """Another simulator, on the work of a case: CPU seconds from least to most, all of its process."""

    what: str
    case: str
    cpu_s: tuple[float, float]


def uniform(side: int, load: float, cycles: int, flits: int = 5) -> Run:
    """Open traffic on a `side` x `side` torus as BookSim2's reference runs have it (load in flits per node and cycle).

    4 VCs x 8 flits, 4-stage routers, link latency 2, dimension order with datelines, one lane per node, Bernoulli
    injection, uniform destinations with self. All packets are drawn beforehand.
    """
    library.load_all()
    first = time.process_time()
    experiment = load_experiment(
        {
            "network": {
                "topology": "torus",
                "shape": [side, side],
                "flit": "64 B",
                "packet": f"{64 * flits} B",
                "bandwidth": "64 GB/s",
                "latency": "2 cycles",
                "lanes": 1,
                "router": {"pipeline": "booksim", "vcs": 4, "buffer": 8},
            },
            "collective": {"kind": "all-reduce", "size": "1 B"},
        }
    )
    network = PacketNetwork(build("torus", [side, side]), experiment.network, window=1 << 40)
    rng = np.random.default_rng(1)
    start, src = np.nonzero(rng.random((cycles, side * side)) < load / flits)
    dst = rng.integers(0, side * side, len(src))
    plane = rng.integers(0, 2, len(src))  # which way round to the opposite node
    for cycle, a, b, p in zip(start.tolist(), src.tolist(), dst.tolist(), plane.tolist(), strict=True):
        network.send(a, b, 64 * flits, plane=p, at=cycle)
    begin = time.process_time()
    while len(network.advance(None, slack=1 << 40)[0]):
        pass
    cpu = time.process_time() - begin
    totals = network.engine.totals()
    return Run(
        totals["router_visits"],
        network.now,
        cpu,
        time.process_time() - first,
        {"load": load, "packet_latency": totals["latency_sum"] / totals["packets"]},
    )


def all_reduce() -> Run:
    """The experiment of `make run`, system layer included."""
    return _simulated(INPUTS / "torus_all_reduce.toml", "packet", "router_visits")


def large_all_reduce(backend: str) -> Run:
    """A ring all-reduce of 64 MiB in 4 chunks on 4096 NPUs, system layer included: 1,474,560 messages.

    In each of 4 chunks each NPU sends 15 messages in dimension 0, 15 in dimension 1, 30 in dimension 2, and again
    15 and 15.
    """
    tables = {
        "network": {"topology": "torus", "shape": [16, 16, 16], "bandwidth": "100 GiB/s", "latency": "500 ns"},
        "system": {"chunks": 4, "queues": 1, "endpoint_delay": "10 ns", "all_reduce": "ring"},
        "collective": {"kind": "all-reduce", "size": "64 MiB"},
    }
    return _simulated(tables, backend, "messages")


def _simulated(experiment: Path | dict[str, Any], backend: str, counter: str) -> Run:
    begin = time.process_time()
    prepared = prepare(load_experiment(experiment), backend=backend)
    result = simulate(prepared, backend=backend)
    whole = time.process_time() - begin
    facts = {"time_ns": result.time_ns}
    return Run(result.counts[counter], result.time_cycles, result.sim_cpu_s, whole, facts)


CASES: dict[str, Case] = {
    "torus8x8-uniform-0.4": Case("8x8 torus, uniform traffic, 5-flit packets", lambda: uniform(8, 0.4, 20_000)),
    "torus8x8-uniform-0.1": Case("8x8 torus, uniform traffic, 5-flit packets", lambda: uniform(8, 0.1, 40_000)),
    "torus8x8-uniform-0.2-1flit": Case("8x8 torus, uniform, 1-flit packets", lambda: uniform(8, 0.2, 20_000, 1)),
    "torus64x64-uniform-0.05": Case("4096 routers, as busy as 64 at 0.4", lambda: uniform(64, 0.05, 600)),
    "torus4x4x4-all-reduce": Case("inputs/torus_all_reduce.toml: 1 MiB on 64 NPUs", all_reduce),
    **{
        f"torus16x16x16-{backend}": Case(
            f"all-reduce of 64 MiB in 4 chunks on 4096 NPUs, --backend {backend}",
            partial(large_all_reduce, backend),
            "messages",
        )
        for backend in ("analytical", "analytical-congestion", "flow")
    },
}
# Measured on a shared machine of the same kind: ASTRA-sim 518bd51, the same all-reduce. Its memory was not noted.
PEERS = (Peer("ASTRA-sim 2 (C++), analytical", "torus16x16x16-analytical", (7.8, 9.1)),)
