"""The rendezvous protocol of ASTRA-sim 2: messages leave when they have been asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyxsim import chakra
from pyxsim.chakra import Attribute, Node, NodeType
from pyxsim.compat.astra.files import astra_experiment
from pyxsim.compat.astra.workload.rendezvous_job import RendezvousJob
from pyxsim.errors import InputError, StuckError
from pyxsim.results.result import Result
from pyxsim.runner.lifecycle import run
from pyxsim.runner.prepare import prepare
from pyxsim.runner.prepared import Prepared
from pyxsim.settings import load_experiment

FILES = Path(__file__).resolve().parents[4] / "inputs" / "astra"
REQUEST = 100 + 8192  # ns, below
RING = {"topology": "ring", "shape": [2], "bandwidth": "1 GB/s", "latency": "100 ns", "clock": "1 GHz"}
SYSTEM = {"compat": "astra-sim-2", "endpoint_delay": "10 ns", "rendezvous": True}


def link(number: int, kind: NodeType, peer: int, size: int, *before: int, tag: int = 0) -> Node:
    other = "comm_dst" if kind == NodeType.COMM_SEND else "comm_src"
    attributes = [("comm_size", size), ("comm_tag", tag), (other, peer)]
    return Node(number, "", kind, data_deps=list(before), attr=[Attribute(n, "int64_val", v) for n, v in attributes])


def experiment(folder: Path, nodes: list[list[Node]], **system: Any) -> Any:
    for npu, own in enumerate(nodes):
        chakra.write(folder / f"w.{npu}.et", own)
    tables = {"network": RING, "system": {**SYSTEM, **system}, "workload": {"file": str(folder / "w")}}
    return load_experiment(tables)


def simulated(folder: Path, nodes: list[list[Node]]) -> tuple[Result, Any]:
    made = experiment(folder, nodes)
    prepared = prepare(made, backend="analytical")
    assert isinstance(prepared, Prepared)
    assert isinstance(prepared.job, RendezvousJob)
    result = run(made, backend="analytical")
    prepared.system.run()
    return result, prepared.job.times()


def work(number: int, micros: int) -> Node:
    return Node(number, "", NodeType.COMP, duration_micros=micros)


@pytest.mark.parametrize("late", [0, 1])
def test_a_message_waits_for_both(tmp_path: Path, late: int) -> None:
    """The receiver is 20 us late: then its request goes first. The sender is: the request is there, and waits."""
    send, receive = link(1, NodeType.COMM_SEND, 1, 500), link(1, NodeType.COMM_RECV, 0, 500)
    nodes = [[work(0, 1 + 19 * (not late)), send], [work(0, 1 + 19 * late), receive]]
    for own in nodes:
        own[1].data_deps = [0]
    result, times = simulated(tmp_path, nodes)
    assert result.time_ns == 20_000 + REQUEST * late + 100 + 500
    assert sorted(times.partner.tolist()) == [-1, -1, 1, 3]
    assert result.counts["bytes_delivered"] == 500 + 8192


def test_requests_are_for_messages_in_their_order(tmp_path: Path) -> None:
    """Two of a kind, one after the other: the second one is asked for when its receive starts."""
    sends = [link(0, NodeType.COMM_SEND, 1, 500), link(1, NodeType.COMM_SEND, 1, 500, 0)]
    receives = [link(0, NodeType.COMM_RECV, 0, 500), link(1, NodeType.COMM_RECV, 0, 500, 0)]
    result, _ = simulated(tmp_path, [sends, receives])
    assert result.time_ns == 2 * (REQUEST + 600)


def test_measured_on_the_original() -> None:
    """All-reduce of 1 MiB on the ring of eight that is in the tree: 100 952 ns at every NPU."""
    traces = FILES / "all_reduce_8npus" / "all_reduce"
    made = astra_experiment(FILES / "ring_network.yml", FILES / "ring_system.json", traces, rendezvous=True)
    assert run(made, backend="analytical").time_ns == 100_952


def test_who_is_never_asked(tmp_path: Path) -> None:
    """Each sends before it receives, and nobody asks: without rendezvous that ends."""
    nodes = [[link(0, NodeType.COMM_SEND, 1 - npu, 8), link(1, NodeType.COMM_RECV, 1 - npu, 8, 0)] for npu in range(2)]
    assert run(experiment(tmp_path, nodes, rendezvous=False), backend="analytical").complete
    with pytest.raises(StuckError) as caught:
        run(experiment(tmp_path, nodes), backend="analytical")
    assert any("waits for a request from NPU 1" in line for line in caught.value.waits)


def test_what_has_no_requests() -> None:
    collective = {"kind": "broadcast", "size": "1 KiB"}
    with pytest.raises(InputError, match="broadcast is carried out message by message"):
        run(load_experiment({"network": RING, "system": SYSTEM, "collective": collective}), backend="analytical")
    message = {"src": 0, "dst": 1, "size": "1 KiB"}
    with pytest.raises(InputError, match="this one has no receiver task"):
        run(load_experiment({"network": RING, "system": SYSTEM, "message": [message]}), backend="analytical")
    for compat, problem in ((None, "only ASTRA-sim 2 has"), ("astra-sim-1", "only ASTRA-sim 2 has this protocol")):
        system = {"rendezvous": True} | ({"compat": compat} if compat else {})
        with pytest.raises(InputError, match=problem):
            load_experiment({"network": RING, "system": system, "collective": {"kind": "all-reduce", "size": 8}})
