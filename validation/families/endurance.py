"""Overload for 100,000 cycles: a routing proved deadlock-free keeps moving, any other is refused."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from pyxsim.errors import DeadlockError
from pyxsim.runner.lifecycle import run
from pyxsim.topology.build import build
from validation.case import Case, Found, Picture, Series

CYCLES = 100_000
PARTS = 10
VCS = 16
PROOF = "the routes can deadlock"  # the words of the proof, before a run; a deadlock in a run has others
PACKET = 5
BUFFER = {"bubble": PACKET + 1}  # a ring without datelines keeps room for a packet
NETWORKS: dict[str, dict[str, Any]] = {
    "torus": {"topology": "torus", "shape": [4, 4]},
    "torus-8x8": {"topology": "torus", "shape": [8, 8]},
    "mesh": {"topology": "mesh", "shape": [4, 4]},
    "mesh-8x8": {"topology": "mesh", "shape": [8, 8]},
    "torus-3d": {"topology": "torus", "shape": [3, 4, 2]},
    "concentrated-mesh": {"topology": "concentrated-mesh", "options": {"routers": [4, 4], "express": True}},
    "hyperx": {"topology": "hyperx", "options": {"routers": [3, 4], "concentration": 2}},
    "k-ary-n-tree": {"topology": "k-ary-n-tree", "options": {"k": 3, "n": 3}},
    "dragonfly": {"topology": "dragonfly", "options": {"p": 2, "a": 4, "h": 2}},
    "slim-fly": {"topology": "slim-fly", "options": {"q": 5, "p": 2}},
    "random-regular": {"topology": "random-regular", "options": {"routers": 16, "degree": 4, "p": 1}},
}


def experiment(network: dict[str, Any], routing: str, reuse: str) -> dict[str, Any]:
    """Every node sends a flit in every cycle, into the smallest buffers that the routing allows."""
    return {
        "network": {
            "flit": "16 B",
            "bandwidth": "16 GB/s",
            "latency": "1 cycle",
            "lanes": 1,
            **network,
            "router": {"vcs": VCS, "buffer": BUFFER.get(routing, 2), "routing": routing, "vc_reuse": reuse},
        },
        "traffic": {
            "pattern": "uniform",
            "load": 1.0,
            "packet_flits": PACKET,
            "warmup": CYCLES - CYCLES // PARTS,
            "measure": CYCLES // PARTS,
            "latency_limit": 2**40,
            "max_cycles": CYCLES,
        },
    }


def every_routing(name: str) -> Found:
    """All routings of a network: those that are proved run to the end, and still accept packets in the last tenth.

    A VC that holds several packets ("tail") is harder to prove than one that holds one ("drained"), which is tried
    where the first is refused.
    """
    network = NETWORKS[name]
    faults, accepted, refused = 0, {}, []
    for routing in build(network["topology"], network.get("shape"), None, network.get("options")).routings:
        for reuse in ("tail", "drained"):
            label = routing if reuse == "tail" else f"{routing} (drained)"
            try:
                told = run(experiment(network, routing, reuse)).json()
            except DeadlockError as error:
                is_refused = PROOF in str(error)
                refused += [label] if is_refused else []
                faults += not is_refused
                continue
            accepted[label] = told["accepted_load"]
            faults += not told["accepted_load"] > 0 or told["cycles"] < CYCLES
            break
    places = list(range(len(accepted)))
    picture = Picture(
        ", ".join(accepted),
        "accepted in the last tenth",
        [Series("at load 1.0", places, list(accepted.values()), "points")],
    )
    cells = {
        "accepted": ", ".join(f"{label} {value:.2f}" for label, value in accepted.items()),
        "refused": ", ".join(refused),
    }
    return Found(faults, picture, cells)


def cases() -> Iterator[Case]:
    claim = (
        f"At offered load 1.0, with buffers of two flits (`bubble`: six), every proved routing algorithm keeps packets "
        f"moving for {CYCLES:,} cycles; pyxsim rejects every other one before the run"
    )
    for name in NETWORKS:
        yield Case(
            f"endurance/{name}",
            claim,
            "the deadlock proof, docs/routing.md",
            0,
            "faults",
            partial(every_routing, name),
            60,
        )


FAMILY = ("endurance", "Overload without deadlock", ("accepted", "refused"), cases)
