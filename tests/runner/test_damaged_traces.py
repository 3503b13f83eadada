"""Traces that are damaged in every way, run as the workload of an experiment: a result, or a fault with its file."""

from __future__ import annotations

import gzip
import random
import time
from pathlib import Path
from typing import Any

import pytest

from pyxsim import chakra
from pyxsim.chakra import Attribute, CommType, IOInfo, Node, NodeType
from pyxsim.errors import InputError, SimulationError
from pyxsim.runner.lifecycle import run
from tests.chakra.test_fuzz import FORMS, mutated

NPUS = 2
GROUPS = '[\'[{"pg_name": "3", "ranks": [1, 0]}]\']'


def attributes(**values: Any) -> list[Attribute]:
    types = {int: "int64_val", bool: "bool_val", str: "string_val", list: "bool_list"}
    return [Attribute(name, types[type(value)], value) for name, value in values.items()]


def nodes(npu: int) -> list[Node]:
    """Of every type that can run, with the attributes that there are."""
    other = 1 - npu
    found = [
        Node(0, "groups", NodeType.METADATA, inputs=IOInfo(GROUPS)),
        Node(1, "cpu", NodeType.COMP, data_deps=[0], duration_micros=2, attr=attributes(is_cpu_op=True)),
        Node(2, "gpu", NodeType.COMP, [0], [1], duration_micros=1, attr=attributes(num_ops=9, tensor_size=8)),
        Node(3, "load", NodeType.MEM_LOAD, data_deps=[2], attr=attributes(tensor_size=64)),
        Node(4, "out", NodeType.COMM_SEND, data_deps=[2], attr=attributes(comm_dst=other, comm_size=64, comm_tag=1)),
        Node(5, "in", NodeType.COMM_RECV, attr=attributes(comm_src=other, comm_size=64, comm_tag=1)),
    ]
    for kind in (CommType.ALL_REDUCE, CommType.BARRIER, CommType.BROADCAST):
        own = attributes(comm_type=int(kind), comm_size=256, pg_name="3" if kind else "", involved_dim=[True] * 4)
        found.append(Node(6 + kind, kind.name, NodeType.COMM_COLL, data_deps=[4, 5], attr=own))
    return found


VALUES = (0, 1, -1, 2, 3, 7, 10, 64, 2**31, 2**40, 2**62, 2**63 - 1, True, False, "", "3", "x", [True], [False], [])


def twisted(rng: random.Random, found: list[Node]) -> list[Node]:
    """Well-formed nodes that say something else in one to three places."""
    for _ in range(rng.randint(1, 3)):
        node = rng.choice(found)
        what = rng.randrange(8)
        if what < 3 and node.attr:
            name, value = rng.choice(node.attr).name, rng.choice(VALUES)
            node.attr = [each for each in node.attr if each.name != name] + attributes(**{name: value})
        elif what == 3 and node.attr:
            node.attr = rng.sample(node.attr, len(node.attr) - 1)
        elif what == 4:
            node.type = rng.choice([*NodeType, 99])
        elif what == 5:
            node.data_deps = [rng.randrange(12) for _ in range(rng.randrange(3))]
        elif what == 6:
            node.id, node.duration_micros = rng.randrange(12), rng.choice((0, 5, 2**40, 2**63))
        elif len(found) > 1:
            found = [each for each in found if each is not node]
    return found


def damaged(folder: Path, seed: int, count: int) -> tuple[int, int]:
    """Run so many; how many were told to be wrong, and how many ran."""
    rng = random.Random(seed)
    told = ran = 0
    memory = {"kind": "per-npu", "bandwidth": "10 GB/s"}
    network = {"topology": "ring", "shape": [NPUS], "bandwidth": "50 GB/s", "latency": "500 ns", "clock": "1 GHz"}
    systems = ({"remote_memory": memory}, {"remote_memory": memory, "compat": "astra-sim-2", "endpoint_delay": "1 ns"})
    for k in range(count):
        form = FORMS[k % len(FORMS)]
        for npu in range(NPUS):
            chakra.write(folder / f"t.{npu}{form}", nodes(npu))
        path = folder / f"t.{rng.randrange(NPUS)}{form}"
        data = path.read_bytes()
        if rng.random() < 0.7:
            chakra.write(path, twisted(rng, nodes(int(path.name[2]))))
        elif form == ".et.gz" and k % 8 < 4:  # damaged before it was compressed
            path.write_bytes(gzip.compress(mutated(rng, gzip.decompress(data)), 1))
        else:
            path.write_bytes(mutated(rng, data))
        experiment = {"network": network, "system": systems[k // 4 % 2], "workload": {"file": f"{folder}/t.*{form}"}}
        began = time.process_time()
        try:
            run(experiment, backend="analytical")
            ran += 1
        except InputError as error:
            told += 1
            for line in str(error).splitlines():
                assert str(folder) in line or "system." in line or "workload" in line, line
        except SimulationError:  # NPUs that wait for each other
            told += 1
        assert time.process_time() - began < 3, f"file {k} of seed {seed}"
    return told, ran


def test_damaged_traces(tmp_path: Path) -> None:
    told, ran = damaged(tmp_path, 1, 160)
    assert told > 80
    assert ran > 10


@pytest.mark.slow
def test_many_damaged_traces(tmp_path: Path) -> None:
    told, _ = damaged(tmp_path, 2, 3000)
    assert told > 1500
