"""Chakra traces as graphs: what becomes of each node; what is refused, with file, NPU and node."""

from __future__ import annotations

import json
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyxsim import chakra
from pyxsim.chakra import Attribute, CommType, IOInfo, Node, NodeType
from pyxsim.errors import InputError
from pyxsim.models import Roofline
from pyxsim.workload.graph import Access, Call, Kind, TaskGraph
from pyxsim.workload.graph_job import GraphJob
from pyxsim.workload.traces import Rules, read_traces
from tests.examples import part_of
from tests.workload.services import FixedHands

GHZ = Fraction(10**9)
TYPES = {int: "int64_val", bool: "bool_val", str: "string_val", float: "float_val", list: "bool_list"}


def node(number: int, kind: int, *before: int, duration: int = 0, name: str = "", **attributes: Any) -> Node:
    attr = [Attribute(key, TYPES[type(value)], value) for key, value in attributes.items()]
    called = name or f"n{number}"
    return Node(number, called, kind, data_deps=list(before), duration_micros=duration, attr=attr)


def read(
    folder: Path, *traces: list[Node], shape: tuple[int, ...] | None = None, clock: Fraction = GHZ, **rules: Any
) -> TaskGraph:
    for npu, nodes in enumerate(traces):
        chakra.write(folder / f"w.{npu}.et", nodes)
    return read_traces(folder / "w", shape or (len(traces),), Rules(clock, **rules))


def before(graph: TaskGraph, task: int) -> list[int]:
    return graph.before[graph.before_start[task] : graph.before_start[task + 1]].tolist()


def test_each_type(tmp_path: Path) -> None:
    """Nodes of a file in any order; both kinds of dependencies; a name each."""
    one = [
        node(9, NodeType.COMM_COLL, 5, comm_type=int(CommType.ALL_GATHER), comm_size=64, comm_priority=3),
        node(5, NodeType.COMP, 2, duration=3),
        node(2, NodeType.METADATA),
        node(7, NodeType.COMM_SEND, 5, comm_dst=1, comm_size=100, comm_tag=8),
        node(6, NodeType.COMP, duration=2, is_cpu_op=True),
    ]
    one[1].ctrl_deps = [6, 2]
    other = [
        node(1, NodeType.COMM_COLL, comm_type=int(CommType.ALL_GATHER), comm_size=64, comm_priority=3),
        node(0, NodeType.COMM_RECV, comm_src=0, comm_dst=1, comm_size=100, comm_tag=8),
        node(3, NodeType.INVALID),
    ]
    graph = read(tmp_path, one, other)
    names = [graph.names[name] for name in graph.name]
    assert names == ["n2", "n5", "n6", "n7", "n9", "n0", "n1", "n3"]
    assert graph.npu.tolist() == [0] * 5 + [1] * 3
    kinds = [Kind.MARK, Kind.COMPUTE, Kind.COMPUTE, Kind.SEND, Kind.COLLECTIVE]
    assert graph.kind.tolist() == [*kinds, Kind.RECEIVE, Kind.COLLECTIVE, Kind.MARK]
    assert graph.ticks.tolist() == [0, 3000, 2000, 0, 0, 0, 0, 0]
    resources = [graph.resources[each][0] if each >= 0 else "" for each in graph.resource]
    assert resources == ["", "compute", "cpu", "communication", "communication", "", "communication", ""]
    assert [before(graph, task) for task in range(5)] == [[], [2, 0], [], [1], [1]]
    assert (graph.peer[3], graph.size[3], graph.match[3]) == (1, 100, 8)
    assert (graph.peer[5], graph.size[5], graph.match[5]) == (0, 100, 8)
    assert graph.calls == [Call("all-gather", 64, priority=3, name="n9")]
    assert graph.call[[4, 6]].tolist() == [0, 0]


@pytest.mark.parametrize("kind", list(CommType))
def test_all_collectives(tmp_path: Path, kind: CommType) -> None:
    graph = read(tmp_path, *([node(0, NodeType.COMM_COLL, comm_type=int(kind), comm_size=64)] for _ in range(2)))
    name = "reduce-scatter" if kind == CommType.REDUCE_SCATTER_BLOCK else kind.name.lower().replace("_", "-")
    assert graph.calls == [Call(name, 64, name="n0")]


def test_roots(tmp_path: Path) -> None:
    """In a group, an NPU; who sends to all, or receives from all."""
    down = {"comm_type": int(CommType.BROADCAST), "comm_size": 8, "pg_name": "g", "comm_src": 2}
    up = {"comm_type": int(CommType.REDUCE), "comm_size": 8, "pg_name": "g", "comm_dst": 0}
    nodes = [node(0, NodeType.COMM_COLL, **down), node(1, NodeType.COMM_COLL, **up)]
    graph = read(tmp_path, nodes, [], nodes, groups={"g": (2, 0)})
    assert [(call.kind, call.members, call.root) for call in graph.calls] == [
        ("broadcast", (2, 0), 2),
        ("reduce", (2, 0), 0),
    ]


def test_groups_count_for_themselves(tmp_path: Path) -> None:
    """The k-th of each group: NPU 0 has its groups in another order than NPU 1."""
    attr = {"comm_type": 0}
    a, b = {"pg_name": "a", "comm_size": 1, **attr}, {"pg_name": "b", "comm_size": 2, **attr}
    one = [node(0, NodeType.COMM_COLL, **a), node(1, NodeType.COMM_COLL, **b), node(2, NodeType.COMM_COLL, **a)]
    other = [node(0, NodeType.COMM_COLL, **b), node(4, NodeType.COMM_COLL, **a), node(5, NodeType.COMM_COLL, **a)]
    graph = read(tmp_path, one, other, groups={"a": (0, 1), "b": (1, 0)})
    assert [(call.size, call.members) for call in graph.calls] == [(1, (0, 1)), (2, (1, 0)), (1, (0, 1))]
    assert graph.call.tolist() == [0, 1, 2, 1, 0, 2]


@pytest.mark.parametrize(
    ("flags", "dims"),
    [([True, True], None), ([True, False], (0,)), ([False, True], (1,)), ([False, True, True, True], (1,))],
)
def test_dimensions(tmp_path: Path, flags: list[bool], dims: tuple[int, ...] | None) -> None:
    one = [node(0, NodeType.COMM_COLL, comm_type=0, comm_size=64, involved_dim=flags)]
    assert read(tmp_path, *[one] * 4, shape=(2, 2)).calls[0].dims == dims


@pytest.mark.parametrize(
    ("operations", "size", "exact", "ticks"),
    [
        (3000, 100, True, 1500),  # 2 operations in a ns
        (10, 999, True, 100),  # 10 bytes in a ns: 99.9 ns
        (10, 999, False, 99),
        (10, 0, True, 0),
        (10, 0, False, 0),
    ],
)
def test_roofline(tmp_path: Path, operations: int, size: int, exact: bool, ticks: int) -> None:
    roof = Roofline(2 * GHZ, 10 * GHZ)
    one = [
        node(0, NodeType.COMP, duration=7, num_ops=operations, tensor_size=size),
        node(1, NodeType.COMP, duration=7, num_ops=operations, tensor_size=size, is_cpu_op=True),
    ]
    graph = read(tmp_path, one, roofline=roof, exact=exact)
    assert graph.ticks.tolist() == [ticks, 7000]
    assert graph.kind[0] == (Kind.COMPUTE if size else Kind.MARK)


@pytest.mark.parametrize(("exact", "ticks"), [(True, [0, 667]), (False, [1, 667])])
def test_durations(tmp_path: Path, exact: bool, ticks: list[int]) -> None:
    """Microseconds, in cycles of 1.5 ns rounded up."""
    one = [node(0, NodeType.COMP), node(1, NodeType.COMP, duration=1)]
    assert read(tmp_path, one, clock=GHZ * 2 / 3, exact=exact).ticks.tolist() == ticks


def test_it_runs(tmp_path: Path) -> None:
    """One computation and one communication at a time: as ASTRA-sim 2 does it."""
    sums = {"comm_type": 0, "comm_size": 50}
    one = [
        node(0, NodeType.COMP, duration=1),
        node(1, NodeType.COMP, duration=1),
        node(2, NodeType.COMM_COLL, 0, **sums),
        node(3, NodeType.COMM_COLL, 0, **sums),
    ]
    job, hands = GraphJob(read(tmp_path, one, one)), FixedHands((2,))
    job.begin(hands)
    hands.run()
    assert job.times().end.tolist() == [1000, 2000, 1050, 1100] * 2


def test_memory(tmp_path: Path) -> None:
    """Of so many bytes, how long is not said here; without bytes it is the node's duration."""
    nodes = [
        node(0, NodeType.MEM_LOAD, tensor_size=100),
        node(1, NodeType.MEM_STORE, tensor_size=50, in_switch=True),
        node(2, NodeType.MEM_STORE, duration=4),
    ]
    graph = read(tmp_path, nodes)
    assert graph.kind.tolist() == [Kind.MEMORY] * 3
    assert graph.size.tolist() == [100, 50, 0]
    assert graph.match.tolist() == [Access.LOAD, Access.REDUCE, Access.STORE]
    assert graph.ticks.tolist() == [0, 0, 4000]


COLL = {"comm_type": 0, "comm_size": 64}
FAULTS: dict[str, tuple[list[Node], str]] = {
    "memory": ([node(4, NodeType.MEM_LOAD, tensor_size=-8)], "has tensor_size -8"),
    "storage": ([node(4, NodeType.STORAGE)], "is of type STORAGE, which is not supported"),
    "unknown": ([node(4, 77)], "is of type number 77, which is not supported"),
    "twice": ([node(4, NodeType.COMP), node(4, NodeType.COMP)], "occurs twice"),
    "dangling": ([node(4, NodeType.COMP, 3)], "waits for node 3, which does not exist"),
    "cpu": (
        [node(4, NodeType.COMM_COLL, is_cpu_op=True, **COLL)],
        "is a communication node, but sets is_cpu_op",
    ),
    "truth": ([node(4, NodeType.COMP, is_cpu_op="no")], "has a is_cpu_op that is neither true nor false"),
    "no size": ([node(4, NodeType.COMM_COLL, comm_type=0)], "has no comm_size"),
    "float": ([node(4, NodeType.COMM_COLL, comm_type=0, comm_size=1.5)], "has a comm_size that is not a whole"),
    "negative": (
        [node(4, NodeType.COMM_SEND, comm_dst=1, comm_size=-5)],
        "has comm_size -5; allowed: 0 to 4611686018427387904",
    ),
    "no bytes": ([node(4, NodeType.COMM_SEND, comm_dst=1, comm_size=0)], "sends or receives 0 bytes"),
    "nothing": ([node(4, NodeType.COMM_COLL, comm_type=0, comm_size=0)], "is a collective (all-reduce) of 0 bytes"),
    "type": ([node(4, NodeType.COMM_COLL, comm_type=10, comm_size=1)], "has comm_type 10; allowed: 0 to 9"),
    "peer": (
        [node(4, NodeType.COMM_SEND, comm_dst=2, comm_size=1)],
        "has comm_dst 2; allowed: another NPU of 0 to 1",
    ),
    "oneself": ([node(4, NodeType.COMM_RECV, comm_src=0, comm_size=1)], "has comm_src 0; allowed: another NPU"),
    "others": (
        [node(4, NodeType.COMM_SEND, comm_src=1, comm_dst=1, comm_size=1)],
        "has comm_src 1, but is in the trace of NPU 0",
    ),
    "group": (
        [node(4, NodeType.COMM_COLL, pg_name="dpp", **COLL)],
        "has the unknown pg_name 'dpp'; allowed: dp, tp; did you mean 'dp'?",
    ),
    "no text": ([node(4, NodeType.COMM_COLL, pg_name=3, **COLL)], "has a pg_name that is not a string"),
    "no member": (
        [node(4, NodeType.COMM_COLL, pg_name="tp", **COLL)],
        "has the group 'tp', which does not contain NPU 0",
    ),
    "dimensions": (
        [node(4, NodeType.COMM_COLL, involved_dim=[], **COLL)],
        "has involved_dim for 0 dimensions; allowed: 1, those of the network",
    ),
    "no dimension": (
        [node(4, NodeType.COMM_COLL, involved_dim=[False], **COLL)],
        "has an involved_dim without any dimension",
    ),
    "no list": (
        [node(4, NodeType.COMM_COLL, involved_dim=1, **COLL)],
        "has an involved_dim that is not a list of booleans",
    ),
    "long": ([node(4, NodeType.COMP, duration=2**63)], "takes too many cycles"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_one_line(tmp_path: Path, name: str) -> None:
    nodes, problem = FAULTS[name]
    with pytest.raises(InputError) as caught:
        read(tmp_path, nodes, [], groups={"dp": (0, 1), "tp": (1,)})
    told = str(caught.value)
    assert told.startswith(f"{tmp_path}/w.0.et: NPU 0, node 4 'n4': {problem}")
    assert "\n" not in told


def test_a_group_or_dimensions(tmp_path: Path) -> None:
    """A group is one ring, whatever dimensions are involved, as in ASTRA-sim 2."""
    one = [node(4, NodeType.COMM_COLL, pg_name="dp", involved_dim=[True, False], **COLL)]
    graph = read(tmp_path, one, one, [], [], shape=(2, 2), groups={"dp": (0, 1)})
    assert (graph.calls[0].members, graph.calls[0].dims) == ((0, 1), None)
    down = {"comm_type": int(CommType.BROADCAST), "comm_size": 8, "comm_src": 1, "involved_dim": [True, False]}
    with pytest.raises(InputError, match=r"has comm_src and involved_dim; allowed: a group"):
        read(tmp_path, [node(4, NodeType.COMM_COLL, **down)], [], [], [], shape=(2, 2))


def metadata(number: int, groups: object) -> Node:
    """As the converter of PyTorch's traces writes it: a text in brackets and quotes."""
    return Node(number, "groups", NodeType.METADATA, inputs=IOInfo(values=f"['{json.dumps(groups)}']"))


def test_process_groups(tmp_path: Path) -> None:
    """Each NPU has its own: the same name for several groups; one without ranks is of all; the node may come late."""
    sums = [node(1, NodeType.COMM_COLL, pg_name="7", **COLL), node(2, NodeType.COMM_COLL, pg_name="8", **COLL)]
    ranks = [[0, 2], [3, 1], [0, 2], [3, 1]]
    own = [[{"pg_name": "7", "ranks": each}, {"pg_name": "8", "ranks": []}] for each in ranks]
    graph = read(tmp_path, *([*sums, metadata(0, each)] for each in own), groups={"7": (0, 1, 2, 3)})
    assert [call.members for call in graph.calls] == [(0, 2), (0, 1, 2, 3), (3, 1)]
    assert graph.call[graph.call >= 0].tolist() == [0, 1, 2, 1, 0, 1, 2, 1]
    for other in ([1, 2], "text", {"a": 1}, [{"pg_name": "x", "ranks": [0]}], [{"ranks": [0]}]):
        assert len(read(tmp_path, [metadata(0, other)], [], [], [])) == 1  # metadata of something else
    strange = [metadata(0, [{"pg_name": "7", "ranks": [4]}])]
    with pytest.raises(InputError, match=r"node 0 'groups': has the process group '7', which has rank 4; allowed: 0"):
        read(tmp_path, strange, [], [], [])


@pytest.mark.parametrize("exact", [True, False])
def test_replay(tmp_path: Path, exact: bool) -> None:
    """Nothing is sent: each node takes its duration, where it stands in line; one of no duration 1 ns in ASTRA-sim."""
    one = [
        node(0, NodeType.COMM_COLL, duration=3, comm_type=0, comm_size=64),
        node(1, NodeType.COMM_RECV, duration=2),
        node(2, NodeType.MEM_LOAD),
        node(3, NodeType.COMP, duration=1, is_cpu_op=True),
        node(4, NodeType.METADATA, duration=9),
    ]
    graph = read(tmp_path, one, replay=True, exact=exact)
    assert graph.ticks.tolist() == [3000, 2000, 0 if exact else 1, 1000, 0]
    assert graph.kind.tolist() == [Kind.COMPUTE] * 4 + [Kind.MARK]
    names = [graph.resources[each][0] if each >= 0 else "" for each in graph.resource]
    assert names == ["communication", "", "communication", "cpu", ""]
    assert graph.calls == []


def test_durations_of_older_traces(tmp_path: Path) -> None:
    assert read(tmp_path, [node(0, NodeType.COMP, runtime=4)]).ticks.tolist() == [4000]


def test_collectives_that_do_not_fit(tmp_path: Path) -> None:
    one = [node(0, NodeType.COMM_COLL, name="sum", **COLL)]
    other = [node(3, NodeType.COMM_COLL, name="sum", comm_type=0, comm_size=65)]
    with pytest.raises(InputError) as caught:
        read(tmp_path, one, other)
    assert str(caught.value) == (
        f"{tmp_path}/w.1.et: NPU 1, node 3 'sum': is collective 0 of its group, with size 65; "
        "with NPU 0, node 0 'sum' it has size 64"
    )


def test_what_the_graph_shows_is_told_with_the_files(tmp_path: Path) -> None:
    """A circle, a member without its node, a message that nobody sends."""
    with pytest.raises(InputError, match=r"w\.\*\.et: NPU 0, 'n5' \(node 5\) waits for NPU 0, 'n8' \(node 8\) waits"):
        read(tmp_path, [node(5, NodeType.COMP, 8), node(8, NodeType.COMP, 5)])
    with pytest.raises(InputError, match=r"w\.\*\.et: NPU 1: has no task of collective 'n0' \(0\), as NPU 0, 'n0'"):
        read(tmp_path, [node(0, NodeType.COMM_COLL, **COLL)], [])
    with pytest.raises(InputError, match=r"NPU 1, 'n7' \(node 7\): waits for 5 bytes with tag 0 from NPU 0"):
        read(tmp_path, [], [node(7, NodeType.COMM_RECV, comm_src=0, comm_size=5)])


def test_a_trace_for_each_npu(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"/w: there is no trace of NPU 2; allowed: one trace for each of NPUs 0 to 2"):
        read(tmp_path, [node(0, NodeType.COMP)], [], shape=(3,))
    with pytest.raises(InputError, match=r"/w: there is a trace of NPU 1; allowed: one trace for each of NPUs 0 to 0"):
        read(tmp_path, [node(0, NodeType.COMP)], [], shape=(1,))


@pytest.mark.parametrize("end", [".et", ".json", ".jsonl", ".et.gz", ".jsonl.gz"])
def test_each_form(tmp_path: Path, end: str) -> None:
    """What PREFIX finds, and PREFIX.*.END."""
    for npu in range(2):
        chakra.write(tmp_path / f"w.{npu}{end}", [node(0, NodeType.COMP, duration=npu + 1)])
    for name in ("w", f"w.*{end}"):
        assert read_traces(tmp_path / name, (2,), Rules(GHZ)).ticks.tolist() == [1000, 2000]


def test_scales(tmp_path: Path) -> None:
    """Bytes are cut off to whole ones, times are not; also what a roofline says."""
    one = [
        node(0, NodeType.COMP, duration=3, num_ops=1000, tensor_size=1),
        node(1, NodeType.COMM_COLL, comm_type=0, comm_size=9),
        node(2, NodeType.COMM_SEND, comm_dst=1, comm_size=5),
    ]
    other = [one[1], node(2, NodeType.COMM_RECV, comm_src=0, comm_size=5)]
    scales = {"comm_scale": Fraction(1, 2), "compute_scale": Fraction(5, 2)}
    graph = read(tmp_path, one, other, **scales)
    assert (graph.ticks[0], graph.calls[0].size, graph.size[2]) == (7500, 4, 2)
    roofed = read(tmp_path, one, other, roofline=Roofline(GHZ, GHZ), **scales)
    assert roofed.ticks[0] == 2500
    with pytest.raises(InputError, match="sends or receives 0 bytes"):
        read(tmp_path, one, other, comm_scale=Fraction(1, 8))


@settings(max_examples=part_of(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**9))
def test_damaged_files(tmp_path: Path, seed: int) -> None:
    """Bytes changed, cut out or put in: refused with its file, or it is another workload; nothing else."""
    dice = random.Random(seed)
    traces = [
        [
            node(0, NodeType.COMP, duration=3),
            node(1, NodeType.COMM_COLL, 0, pg_name="g", comm_type=0, comm_size=64),
            node(2, NodeType.COMM_SEND if npu == 0 else NodeType.COMM_RECV, 0, **ends, comm_size=9),
            node(3, NodeType.METADATA, 1, 2),
        ]
        for npu, ends in enumerate([{"comm_dst": 1}, {"comm_src": 0}])
    ]
    for npu, nodes in enumerate(traces):
        chakra.write(tmp_path / f"w.{npu}.et", nodes)
    file = tmp_path / f"w.{dice.randrange(2)}.et"
    data = bytearray(file.read_bytes())
    for _ in range(dice.randint(1, 3)):
        at = dice.randrange(len(data))
        data[at : at + dice.randrange(3)] = dice.randbytes(dice.randrange(3))
    file.write_bytes(data)
    try:
        graph = read_traces(tmp_path / "w", (2,), Rules(GHZ, groups={"g": (0, 1)}))
    except InputError as error:
        told = str(error)
        assert all("/w." in line for line in told.splitlines())
        return
    job, hands = GraphJob(graph), FixedHands((2,))
    job.begin(hands)
    hands.run()
