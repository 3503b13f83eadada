"""Graphs as Chakra traces: what is written and read back is the same graph, and others can read what Chakra has words
for."""

from __future__ import annotations

import json
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim import chakra
from pyxsim.chakra import Metadata, Node, NodeType
from pyxsim.chakra.check import check as check_traces
from pyxsim.chakra.groups import read_groups
from pyxsim.chakra.statistics import statistics
from pyxsim.chakra.trace_graph import load
from pyxsim.errors import InputError
from pyxsim.settings import Workload
from pyxsim.workload.export import Written, export, star
from pyxsim.workload.graph import RESOURCES, Access, Call, GraphBuilder, Kind, Part, TaskGraph
from pyxsim.workload.graph_job import GraphJob
from pyxsim.workload.logical_dims import logical_dims
from pyxsim.workload.text_workload import PARALLELISMS, read_text_workload
from pyxsim.workload.trace_head import seen_dims
from pyxsim.workload.traces import Rules, read_traces
from pyxsim.workload.training_loop import LoopOptions, training_loop
from tests.examples import part_of
from tests.workload.services import FixedHands

GHZ = Fraction(10**9)
CLOCKS = (GHZ, Fraction(13 * 10**8), Fraction(10**12), Fraction(1), Fraction(2 * 10**9, 3))
ROOTED = ("broadcast", "reduce", "gather", "scatter")
SHAPES = ((2,), (3,), (2, 2), (3, 2))


def tasks_of(graph: TaskGraph) -> list[list[Any]]:
    """All that counts of each task, NPU by NPU: numbers of tasks are counted there, and dependencies have no order."""
    order = np.argsort(graph.npu, kind="stable")
    number = np.empty(len(graph), np.int64)
    number[order] = np.arange(len(graph))
    rows = []
    for task in order.tolist():
        kind = Kind(graph.kind[task])
        resource = graph.resources[graph.resource[task]] if graph.resource[task] >= 0 else None
        own: list[Any] = [int(graph.npu[task]), kind, graph.names[graph.name[task]], resource]
        own += [int(graph.layer[task]), int(graph.part[task])]
        own.append(sorted(number[graph.before[graph.before_start[task] : graph.before_start[task + 1]]].tolist()))
        counts = {
            Kind.COMPUTE: ("ticks", "size"),
            Kind.MEMORY: ("ticks", "size", "match"),
            Kind.MARK: ("ticks",),
            Kind.COLLECTIVE: ("call",),
        }
        rows.append(own + [int(getattr(graph, each)[task]) for each in counts.get(kind, ("size", "peer", "match"))])
    return rows


def same(one: TaskGraph, other: TaskGraph, shape: tuple[int, ...]) -> None:
    assert tasks_of(one) == tasks_of(other)
    assert [usual(call, shape) for call in one.calls] == [usual(call, shape) for call in other.calls]
    assert (one.npus, one.resources, one.layers) == (other.npus, other.resources, other.layers)


def usual(call: Call, shape: tuple[int, ...]) -> Call:
    """Along all dimensions: all; dimensions have no order; a root counts where there can be one."""
    dims = None if call.dims is None or len(set(call.dims)) == len(shape) else tuple(sorted(set(call.dims)))
    root = call.root if call.kind in ROOTED else None
    return Call(call.kind, call.size, call.members, dims, call.algorithms, call.priority, call.name, root)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[TaskGraph, tuple[int, ...]]:
    """Any that can be carried out: what a task waits for has a smaller number, messages and members come in pairs."""
    shape = draw(st.sampled_from(SHAPES))
    npus = int(np.prod(shape))
    resources = draw(st.sampled_from([RESOURCES, (), (("engine", 3), ("compute", 2))]))
    layers = draw(st.sampled_from([(), ("embedding", "head")]))
    build = GraphBuilder(npus, resources, layers=layers)
    drawn: list[dict[str, Any]] = []
    for item in range(draw(st.integers(1, 8))):
        what = draw(st.sampled_from(["own", "own", "message", "collective", "collective"]))
        if what == "message":
            src, by = draw(st.integers(0, npus - 1)), draw(st.integers(1, npus - 1))
            dst, common = (src + by) % npus, {"size": draw(st.integers(1, 2**40)), "match": draw(st.integers(0, 2**40))}
            drawn.append({"npu": src, "kind": Kind.SEND, "peer": dst, **common})
            drawn.append({"npu": dst, "kind": Kind.RECEIVE, "peer": src, **common})
        elif what == "collective":
            call = draw(calls(shape, f"c{item}"))
            members = range(npus) if call.members is None else call.members
            number = build.call(call)
            name = draw(st.sampled_from(["", call.name]))
            drawn += [{"npu": npu, "kind": Kind.COLLECTIVE, "call": number, "name": name} for npu in members]
        else:
            drawn.append({"npu": draw(st.integers(0, npus - 1)), **draw(st.sampled_from(OWN))})
            if drawn[-1]["kind"] != Kind.MEMORY or not drawn[-1].get("size"):
                drawn[-1]["ticks"] = draw(st.sampled_from([0, 1, 999, 1000, 2_500_000]))
    order = draw(st.permutations(range(len(drawn))))
    numbers: dict[int, list[int]] = {}  # of the tasks of each NPU so far
    for place in order:
        task = drawn[place]
        earlier = numbers.setdefault(task["npu"], [])
        before = draw(st.lists(st.sampled_from(earlier), max_size=2, unique=True)) if earlier else []
        if resources and task["kind"] != Kind.MARK and draw(st.booleans()):
            task["resource"] = draw(st.sampled_from(resources))[0]
        task["layer"] = draw(st.integers(-1, len(layers) - 1 if layers else 3))
        task["part"] = draw(st.sampled_from(list(Part)))
        earlier.append(build.task(**{"name": f"t{place}", **task, "before": before}))
    return build.graph(), shape


OWN = (
    {"kind": Kind.COMPUTE},
    {"kind": Kind.COMPUTE, "size": 4096},
    {"kind": Kind.MARK},
    {"kind": Kind.MEMORY},
    {"kind": Kind.MEMORY, "match": int(Access.STORE)},
    *({"kind": Kind.MEMORY, "size": 2**33, "match": int(access)} for access in Access),
)


@st.composite
def calls(draw: st.DrawFn, shape: tuple[int, ...], name: str) -> Call:
    npus = int(np.prod(shape))
    kind = draw(st.sampled_from(["all-reduce", "all-gather", "all-to-all", "reduce-scatter", "barrier", *ROOTED]))
    members, dims, root = None, None, None
    if draw(st.booleans()):
        members = tuple(draw(st.lists(st.integers(0, npus - 1), min_size=1, unique=True)))
    elif draw(st.booleans()):
        dims = tuple(draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, unique=True)))
    if kind in ROOTED and draw(st.booleans()):
        root = 0 if dims is not None else draw(st.sampled_from(range(npus) if members is None else members))
    priority = draw(st.sampled_from([None, 0, 7, -3, 10**8, 2**40]))
    algorithms = draw(st.sampled_from([None, ("ring",) * len(dims or shape)]))
    size = 0 if kind == "barrier" else draw(st.integers(1, 2**40))
    return Call(kind, size, members, dims, algorithms, priority, draw(st.sampled_from(["", name])), root)


def written(graph: TaskGraph, folder: str, shape: tuple[int, ...], clock: Fraction = GHZ, end: str = "") -> Written:
    return export(graph, f"{folder}/w{end}", shape, clock)


def again(told: Written, shape: tuple[int, ...], clock: Fraction = GHZ) -> TaskGraph:
    groups = None if told.groups is None else read_groups(told.groups)
    return read_traces(told.files, shape, Rules(clock, groups=groups))


@given(graphs(), st.sampled_from(CLOCKS), st.sampled_from(["", ".*.jsonl"]))
@settings(max_examples=part_of(80), deadline=None)
def test_what_is_read_back_is_the_same_graph(
    drawn: tuple[TaskGraph, tuple[int, ...]], clock: Fraction, end: str
) -> None:
    graph, shape = drawn
    with tempfile.TemporaryDirectory() as folder:
        told = written(graph, folder, shape, clock, end)
        assert (told.traces, told.nodes) == (graph.npus, len(graph))
        same(again(told, shape, clock), graph, shape)


def test_it_runs_to_the_same_end() -> None:
    """Members in different orders at different NPUs, priorities of both signs, all kinds of resources."""
    build = GraphBuilder(3)
    pair, trio = (build.call(Call("all-reduce", size, members)) for size, members in ((7, (2, 0)), (9, None)))
    for npu, order in ((0, (pair, trio)), (1, (trio,)), (2, (trio, pair))):
        work = build.task(npu, Kind.COMPUTE, ticks=1_234_567 + npu, resource="cpu" if npu else "compute")
        late = build.task(npu, Kind.MARK, "update", ticks=3, before=[work])
        for call in order:
            build.task(npu, Kind.COLLECTIVE, call=call, before=[late])
    graph = build.graph()
    with tempfile.TemporaryDirectory() as folder:
        read = again(written(graph, folder, (3,)), (3,))
    ends = []
    for each in (graph, read):
        hands, job = FixedHands((3,)), GraphJob(each)
        job.begin(hands)
        hands.run()
        ends.append(job.end)
    assert ends == [1_234_569 + 3 + 9] * 2


LAYER = "{name} -1 500 ALLGATHER 4096 700 REDUCESCATTER 8192 900 ALLREDUCE 65536 10{policy}\n"
HEADS = {
    "HYBRID_DLRM": " 1",
    "HYBRID_DLRM_ENHANCED": " 0",
    "HYBRID_TRANSFORMER": " model_parallel_NPU_group: 2",
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD": " model_parallel_NPU_group: 4 checkpoints: 1 0 checkpoint_initiates: 1 2",
}


@pytest.mark.parametrize("keyword", PARALLELISMS)
@pytest.mark.parametrize("newest_first", [True, False])
def test_every_loop(keyword: str, newest_first: bool, tmp_path: Path) -> None:
    policy = " HYBRID_DATA_MODEL" if keyword == "HYBRID_CUSTOMIZED" else ""
    layers = "".join(LAYER.format(name=name, policy=policy) for name in "abc")
    (tmp_path / "text").write_text(f"{keyword}{HEADS.get(keyword, '')}\n3\n{layers}", encoding="utf-8")
    text = read_text_workload(tmp_path / "text")
    dims = logical_dims(text, (4, 2))
    manner = LoopOptions(newest_first, start=13, step=1)
    graph, _ = training_loop(text, Workload(file="text", passes=2), dims, manner)
    told = export(graph, tmp_path / "w", dims.shape)
    same(read_traces(told.files, dims.shape, Rules(GHZ)), graph, dims.shape)
    assert seen_dims(told.files, (4, 2)).shape == dims.shape


def test_in_chakras_own_words(tmp_path: Path) -> None:
    """What others read: their attributes in the types that Chakra's feeder takes, whole microseconds, and groups."""
    build = GraphBuilder(2)
    call = build.call(Call("broadcast", 4096, (1, 0), root=1, priority=2, name="weights"))
    for npu in range(2):
        work = build.task(npu, Kind.COMPUTE, "forward", ticks=2_500, size=64, resource="compute")
        build.task(npu, Kind.COLLECTIVE, "weights", call=call, resource="communication", before=[work])
    build.task(0, Kind.SEND, "there", peer=1, size=10, match=5, resource="communication")
    build.task(1, Kind.RECEIVE, "here", peer=0, size=10, match=5)
    told = export(build.graph(), tmp_path / "w", (2,))
    assert told == Written(str(tmp_path / "w.*.et"), 2, 6, tmp_path / "w.groups.json")
    assert json.loads((tmp_path / "w.groups.json").read_text()) == {"1": [1, 0]}
    forward, weights, there = chakra.read(tmp_path / "w.0.et").nodes
    assert (forward.type, forward.duration_micros, weights.data_deps) == (NodeType.COMP, 3, [0])
    assert [(each.name, each.type, each.value) for each in weights.attr] == [
        ("comm_type", "int64_val", 5),
        ("comm_size", "int64_val", 4096),
        ("pg_name", "string_val", "1"),
        ("comm_src", "int32_val", 1),
        ("comm_priority", "int32_val", 2),
    ]
    assert [(each.name, each.type, each.value) for each in there.attr] == [
        ("comm_src", "int32_val", 0),
        ("comm_dst", "int32_val", 1),
        ("comm_size", "int64_val", 10),
        ("comm_tag", "int32_val", 5),
    ]
    assert forward.get("tensor_size") == 64
    assert forward.get("duration_ps") == 2_500_000


def test_numbers_of_collectives_only_where_they_are_needed(tmp_path: Path) -> None:
    def nodes(orders: list[list[int]]) -> list[Node]:
        build = GraphBuilder(2)
        numbers = [build.call(Call("all-reduce", 8 + each)) for each in range(2)]
        for npu, order in enumerate(orders):
            for each in order:
                build.task(npu, Kind.COLLECTIVE, call=numbers[each])
        return list(chakra.read(export(build.graph(), tmp_path / "w", (2,)).files.replace("*", "1")).nodes)

    assert [each.get("collective") for each in nodes([[0, 1], [0, 1]])] == [None, None]
    assert [each.get("collective") for each in nodes([[0, 1], [1, 0]])] == [1, 0]
    assert [each.get("collective") for each in nodes([[1, 0], [1, 0]])] == [1, 0]


def test_nothing_is_wrong_with_what_is_written(tmp_path: Path) -> None:
    """`pyxsim workload check` and `show` know our own attributes: members in any order, memory without bytes, times."""
    build = GraphBuilder(2)
    calls = [build.call(Call("all-reduce", 8 + each, priority=-each)) for each in range(2)]
    for npu, order in ((0, calls), (1, calls[::-1])):
        work = build.task(npu, Kind.COMPUTE, ticks=1_400, resource="compute")
        build.task(npu, Kind.MEMORY, ticks=30, before=[work])
        for call in order:
            build.task(npu, Kind.COLLECTIVE, call=call, before=[work])
    told = export(build.graph(), tmp_path / "w", (2,))
    traces = {npu: load(told.files.replace("*", str(npu)), npu) for npu in range(2)}
    assert check_traces(traces) == []
    found = statistics(traces[0])
    assert (found.compute_ns, found.critical_ns) == (1_400, 1_430)


@pytest.mark.parametrize(
    ("target", "files"),
    [("a/w", "a/w.*.et"), ("w.*.et", "w.*.et"), ("w.*.json.gz", "w.*.json.gz"), ("w.3b", "w.3b.*.et")],
)
def test_names(target: str, files: str) -> None:
    assert star(target)[0] == files


@pytest.mark.parametrize("target", ["w.et", "w.json", "w.*.csv", "*.et", "w.*.*.et"])
def test_names_that_are_none(target: str) -> None:
    with pytest.raises(InputError, match=r"allowed: PREFIX\.\*\.et"):
        star(target)


@pytest.mark.parametrize(
    ("task", "problem"),
    [
        ({"kind": Kind.COMPUTE, "ticks": 2**60}, r"takes \d+ cycles; allowed: up to \d+ picoseconds in a trace"),
        ({"kind": Kind.SEND, "size": 1, "peer": 1, "match": -1}, r"a message with tag -1; allowed: 0 to"),
    ],
)
def test_what_no_trace_can_say(task: dict[str, Any], problem: str, tmp_path: Path) -> None:
    build = GraphBuilder(2)
    build.task(0, name="late", **task)
    if task["kind"] == Kind.SEND:
        build.task(1, Kind.RECEIVE, size=1, peer=0, match=-1)
    with pytest.raises(InputError, match=problem):
        export(build.graph(), tmp_path / "w", (2,))
    assert not list(tmp_path.iterdir())


def test_a_target_that_cannot_be(tmp_path: Path) -> None:
    build = GraphBuilder(1)
    build.task(0, Kind.MARK)
    (tmp_path / "file").write_text("")
    (tmp_path / "w.0.et").mkdir()
    for target, problem in (("file/w", r"cannot be written"), ("w", r"w\.0\.et: is a folder")):
        with pytest.raises(InputError, match=problem):
            export(build.graph(), tmp_path / target, (1,))


def head(folder: Path, **attributes: tuple[str, Any]) -> str:
    attr = [chakra.Attribute(name, *value) for name, value in attributes.items()]
    chakra.write(folder / "w.0.et", [], Metadata("0.0.4", attr))
    return str(folder / "w.*.et")


@pytest.mark.parametrize(
    ("said", "network", "broken"),
    [((4, 2), (4, 2), None), ((2, 2, 2), (4, 2), 0), ((4, 1, 2), (4, 2), 0), ((4, 2, 3), (4, 6), 1)],
)
def test_dimensions_as_the_workload_sees_them(
    said: tuple[int, ...], network: tuple[int, ...], broken: int | None, tmp_path: Path
) -> None:
    dims = seen_dims(head(tmp_path, shape=("int64_list", list(said))), network)
    assert (dims.shape, dims.broken) == (said, broken)


@pytest.mark.parametrize("said", [(8,), (2, 4), (2, 2, 2, 1), (3, 3, 2)])
def test_dimensions_of_another_network(said: tuple[int, ...], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"was written for a network of .*, but this one has 4 x 2; allowed: "):
        seen_dims(head(tmp_path, shape=("int64_list", list(said))), (4, 2))


@pytest.mark.parametrize(
    ("attributes", "problem"),
    [
        ({"layers": ("int64_list", [1])}, r"the metadata has invalid values in 'layers'; allowed: a list of strings"),
        ({"shape": ("string_val", "4x2")}, r"the metadata has invalid values in 'shape'; allowed: a list of whole"),
        ({"resources": ("string_list", ["a"])}, r"has .* 0 resource_rooms; allowed: the same number"),
    ],
)
def test_a_head_that_is_wrong(attributes: dict[str, Any], problem: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=problem):
        read_traces(head(tmp_path, **attributes), (1,), Rules(GHZ))
