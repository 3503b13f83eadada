"""What ASTRA-sim 2 has no algorithm of its own for: algorithms in files, and other kinds of collectives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyxsim import chakra
from pyxsim.chakra import Attribute, Node, NodeType
from pyxsim.errors import InputError
from pyxsim.runner.lifecycle import run

KINDS = ("broadcast", "reduce", "gather", "scatter", "barrier")
RING = {"topology": "ring", "shape": [8], "bandwidth": "50 GiB/s", "latency": "500 ns", "clock": "1 GHz"}


def experiment(network: dict[str, Any], system: dict[str, Any], collective: dict[str, Any]) -> dict[str, Any]:
    return {"network": network, "system": system, "collective": collective}


def ring_files(folder: Path, npus: int, size: int, micros: int) -> str:
    """An all-reduce of `size` bytes by a ring, in which each addition is a node of its own that takes `micros`."""
    part, rounds = size // npus, 2 * (npus - 1)
    for rank in range(npus):
        nodes: list[Node] = []
        for turn in range(rounds):
            link = [Attribute("comm_size", "int64_val", part), Attribute("comm_tag", "int64_val", turn)]
            after, before = (rank + 1) % npus, (rank - 1) % npus
            waits = [3 * turn - 1 - (turn >= npus)] if turn else []
            there, here = Attribute("comm_dst", "int64_val", after), Attribute("comm_src", "int64_val", before)
            nodes.append(Node(3 * turn, "send", NodeType.COMM_SEND, data_deps=waits, attr=[*link, there]))
            nodes.append(Node(3 * turn + 1, "receive", NodeType.COMM_RECV, attr=[*link, here]))
            if turn < npus - 1:
                nodes.append(Node(3 * turn + 2, "add", NodeType.COMP, data_deps=[3 * turn + 1], duration_micros=micros))
        chakra.write(folder / f"ring.{rank}.et", nodes)
    return str(folder / "ring.*.et")


@pytest.mark.parametrize("backend", ["analytical", "analytical-congestion"])
def test_the_ring_that_ships_with_version_2(tmp_path: Path, backend: str) -> None:
    """Measured on the original: 90174 ns for 8 NPUs, 1 MiB, additions of 7 us; 14 messages of 2941 ns."""
    system = {"compat": "astra-sim-2", "endpoint_delay": "10 ns", "all_reduce": ring_files(tmp_path, 8, 2**20, 7)}
    result = run(experiment(RING, system, {"kind": "all-reduce", "size": "1 MiB"}), backend=backend)
    assert result.time_ns == 90174 == 14 * 2941 + 7 * 7000


def test_an_addition_without_a_duration_takes_a_nanosecond(tmp_path: Path) -> None:
    """The original asks its clock for one at least."""
    system = {"compat": "astra-sim-2", "endpoint_delay": "10 ns", "all_reduce": ring_files(tmp_path, 8, 2**20, 0)}
    result = run(experiment(RING, system, {"kind": "all-reduce", "size": "1 MiB"}), backend="analytical")
    assert result.time_ns == 14 * 2941 + 7 * 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "who", [{}, {"npus": [6, 1, 3, 4, 0]}, {"dims": [0]}, {"dims": [1]}], ids=["all", "list", "first", "second"]
)
def test_other_kinds_are_real(kind: str, who: dict[str, Any]) -> None:
    """The same as without compat, where that has one chunk and nothing takes an NPU any time."""
    shape = [8] if "npus" in who else [4, 2]  # its messages pay for one dimension only
    network = {"topology": "torus", "shape": shape, "bandwidth": "1 GB/s", "latency": "100 ns", "clock": "1 GHz"}
    collective = {"kind": kind, **({} if kind == "barrier" else {"size": "4000 B"}), **who}
    system = {"compat": "astra-sim-2", "endpoint_delay": "10 ns"}
    there = run(experiment(network, system, collective), backend="analytical")
    here = run(experiment(network, {"chunks": 1}, collective), backend="analytical")
    assert (there.time_ns, there.json()["bytes_delivered"]) == (here.time_ns, here.json()["bytes_delivered"])
    assert {int(rank) for rank in there.chunks["rank"]} == {int(rank) for rank in here.chunks["rank"]}
    assert set(there.chunks["collective"].tolist()) == {0}


def test_additions_take_what_memory_says() -> None:
    """A reduce from one NPU to another, both ways round at a time: half of the bytes, three times over the memory."""
    network = {"topology": "ring", "shape": [2], "bandwidth": "1 GB/s", "latency": "100 ns", "clock": "1 GHz"}
    system = {"compat": "astra-sim-2", "endpoint_delay": "10 ns", "local_memory_bandwidth": "4 GB/s"}
    result = run(experiment(network, system, {"kind": "reduce", "size": "1000 B"}), backend="analytical")
    assert result.time_ns == 100 + 500 + 3 * 125


def test_what_it_has_not() -> None:
    switch = {"topology": "switch", "shape": [4], "clock": "1 GHz"}
    system = {"compat": "astra-sim-2", "endpoint_delay": "10 ns", "barrier": "in-switch"}
    with pytest.raises(InputError, match="ASTRA-sim has no in-network reduction, which in-switch needs"):
        run(experiment(switch, system, {"kind": "barrier"}), backend="analytical")
    with pytest.raises(InputError, match="astra-sim-1 has no broadcast"):
        run(experiment(RING, {"compat": "astra-sim-1"}, {"kind": "broadcast", "size": "1 KiB"}), backend="analytical")
