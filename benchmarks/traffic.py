"""Open traffic with all packets drawn beforehand: only the engine runs while it is timed."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.case import Run
from pyxsim import library
from pyxsim.arrays import IntArray
from pyxsim.network.packet.packet_network import PacketNetwork
from pyxsim.peak_memory import resident_mb
from pyxsim.settings import load_experiment
from pyxsim.topology.build import build

FLIT = 64  # bytes; a link takes one per cycle
SEED = 1
FOREVER = 1 << 40


@dataclass(frozen=True)
class Packets:
    """Creation times, sources and destinations of packets; `plane`: the way round to an opposite node."""

    cycle: IntArray
    src: IntArray
    dst: IntArray
    plane: IntArray


@dataclass(frozen=True)
class Open:
    """A square network and its traffic, with BookSim2's reference runs as defaults.

    4-stage routers, link latency 2, dimension order (with datelines where links go round), one lane per node, Bernoulli
    injection, uniform destinations with self. `load` in flits per node and cycle, `buffer` in flits per VC. `hot`: the
    share of the packets whose destination is node 0. `message`: packets of a message.
    """

    side: int
    load: float
    cycles: int
    flits: int = 5
    vcs: int = 4
    buffer: int = 8
    topology: str = "torus"
    hot: float = 0.0
    message: int = 1

    def packets(self) -> Packets:
        """Return the messages of `cycles` cycles, the same in every call."""
        nodes = self.side * self.side
        rng = np.random.default_rng(SEED)
        cycle, src = np.nonzero(rng.random((self.cycles, nodes)) < self.load / (self.flits * self.message))
        dst = rng.integers(0, nodes, len(src))
        plane = rng.integers(0, 2, len(src))
        if self.hot:
            dst[rng.random(len(src)) < self.hot] = 0
        if self.topology == "mesh":
            plane[:] = 0  # there is only one way
        return Packets(cycle, src, dst, plane)

    def tables(self) -> dict[str, Any]:
        """Return an experiment with this network, kind of traffic, and cycles."""
        hot = {"pattern": "hotspot", "pattern_options": {"nodes": [0], "share": self.hot}} if self.hot else {}
        return {
            "network": {
                "topology": self.topology,
                "shape": [self.side, self.side],
                "flit": f"{FLIT} B",
                "packet": f"{FLIT * self.flits} B",
                "bandwidth": f"{FLIT} GB/s",
                "latency": "2 cycles",
                "lanes": 1,
                "router": {"pipeline": "booksim", "vcs": self.vcs, "buffer": self.buffer},
            },
            "traffic": {
                "pattern": "uniform",
                **hot,
                "load": self.load,
                "packet_flits": self.flits,
                "warmup": 0,
                "measure": self.cycles,
            },
        }

    def network(self) -> PacketNetwork:
        """Return the empty network."""
        library.load_all()
        tables = {"network": self.tables()["network"], "collective": {"kind": "all-reduce", "size": "1 B"}}
        settings = load_experiment(tables).network
        return PacketNetwork(build(self.topology, [self.side, self.side]), settings, window=FOREVER)


def simulate(traffic: Open, packets: Packets | None = None) -> Run:
    """Send the packets, and run the network until the last one has arrived."""
    first = time.process_time()
    before = resident_mb()
    network = traffic.network()
    built = resident_mb() - before
    given = traffic.packets() if packets is None else packets
    size = FLIT * traffic.flits * traffic.message
    rows = zip(given.cycle.tolist(), given.src.tolist(), given.dst.tolist(), given.plane.tolist(), strict=True)
    for cycle, src, dst, plane in rows:
        network.send(src, dst, size, plane=plane, at=cycle)
    begin = time.process_time()
    while len(network.advance(None, slack=FOREVER)[0]):
        pass
    cpu = time.process_time() - begin
    totals = network.engine.totals()
    facts = {
        "load": traffic.load,
        "packets": totals["packets"],
        "packet_latency": totals["latency_sum"] / totals["packets"],
        "network_mb": built,
    }
    return Run(totals["router_visits"], network.now, cpu, time.process_time() - first, facts)
