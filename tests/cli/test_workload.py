"""`pyxsim workload`: statistics, faults, conversion of Chakra traces."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyxsim import chakra
from pyxsim.chakra import Attribute, Node, NodeType
from pyxsim.chakra.trace_graph import Graph, load
from pyxsim.reports.plots.task_graph import MAX_NODES, trace_graph
from tests.cli.inputs import Command


def link(number: int, kind: NodeType, before: list[int], **numbers: int) -> Node:
    attributes = [Attribute(name, "int64_val", value) for name, value in numbers.items()]
    return Node(number, f"n{number}", kind, [], before, duration_micros=3 * (kind == NodeType.COMP), attr=attributes)


@pytest.fixture
def ring(folder: Path) -> Path:
    """Three ranks: each computes, sends to the next, adds up with all."""
    for rank in range(3):
        nodes = [
            link(0, NodeType.COMP, []),
            link(1, NodeType.COMM_SEND, [0], comm_dst=(rank + 1) % 3, comm_size=2048),
            link(2, NodeType.COMM_RECV, [], comm_src=(rank - 1) % 3, comm_size=2048),
            link(3, NodeType.COMM_COLL, [1, 2], comm_type=0, comm_size=4096),
        ]
        chakra.write(folder / f"ring.{rank}.et", nodes)
    return folder


def test_show(pyxsim: Command, ring: Path) -> None:
    ended = pyxsim("workload", "show", "ring")
    assert (ended.code, ended.out) == (0, "")
    rows = [line.split() for line in ended.err.splitlines()]
    assert ["rank", "nodes", "dependencies", "depth", "width", "compute", "longest", "way"] in rows
    assert ["2", "4", "3", "3", "2", "3", "us", "3", "us"] in rows
    assert ["all", "12", "9", "3", "2", "9", "us", "3", "us"] in rows
    assert any(row[:2] == ["COMM_COLL", "3"] for row in rows)
    assert ["COMM_RECV", "3", "all-reduce", "12", "KiB"] in rows
    one = json.loads(pyxsim("workload", "show", "ring.1.et", "--json").out)
    assert one["total"] == one["ranks"]["1"]
    assert one["total"]["bytes"] == {"send": 2048, "receive": 2048, "all-reduce": 4096}
    assert one["total"]["nodes"] == {"COMP": 1, "COMM_SEND": 1, "COMM_RECV": 1, "COMM_COLL": 1}
    assert (one["faults"], one["file"]) == (0, None)


def test_show_draws(pyxsim: Command, ring: Path) -> None:
    pytest.importorskip("matplotlib")
    ended = pyxsim("workload", "show", "ring", "--plot", "graph.svg")
    assert (ended.code, ended.lines[-1]) == (0, "wrote graph.svg")
    assert "<svg" in (ring / "graph.svg").read_text()
    assert pyxsim("workload", "show", "ring", "--plot", "graph.txt").code == 2


def test_the_picture_of_a_large_trace_counts_levels(folder: Path) -> None:
    pytest.importorskip("matplotlib")
    import matplotlib.pyplot as plt

    chain = [link(0, NodeType.COMP, [])] + [link(k, NodeType.COMP, [k - 1]) for k in range(1, MAX_NODES + 1)]
    chakra.write(folder / "a.0.et", [*chain, link(999, NodeType.METADATA, [0])])
    ax = trace_graph(load(folder / "a.0.et"))
    heights = [sum(bar.get_height() for bar in bars) for bars in ax.containers]
    assert heights == [1, MAX_NODES + 1]  # METADATA, COMP
    assert ax.get_title(loc="left") == f"a.0.et: {MAX_NODES + 2} nodes, {MAX_NODES + 1} levels"
    small = trace_graph(load_small(folder))
    assert [text.get_text() for text in small.texts] == ["n0", "n1", r"pay \$"]
    plt.close("all")


def load_small(folder: Path) -> Graph:
    nodes = [link(0, NodeType.COMP, []), link(1, NodeType.COMP, [0]), link(2, NodeType.COMP, [3])]
    nodes[2].name = "pay $"
    chakra.write(folder / "b.et", nodes)
    return load(folder / "b.et")


def test_check(pyxsim: Command, ring: Path) -> None:
    ended = pyxsim("workload", "check", "ring")
    assert (ended.code, ended.lines) == (0, ["3 traces, 12 nodes: no faults"])
    assert json.loads(pyxsim("workload", "check", "ring.*.et", "--json").out) == {
        "traces": 3,
        "nodes": 12,
        "between": True,
    }
    one = pyxsim("workload", "check", "ring.0.et")
    assert one.lines == ["1 trace, 4 nodes: no faults within this trace; PREFIX.*.et also compares the ranks"]


def test_check_tells_all_faults(pyxsim: Command, ring: Path) -> None:
    chakra.write(ring / "ring.1.et", [link(5, NodeType.COMP, [9]), link(6, NodeType.COMM_COLL, [], comm_type=0)])
    ended = pyxsim("workload", "check", "ring")
    assert (ended.code, ended.out) == (2, "")
    assert [line.partition("; allowed")[0] for line in ended.lines] == [
        "pyxsim: ring.1.et: node 6 (n6) has no comm_size",
        "pyxsim: ring.1.et: node 5 (n5) depends on node 9, which does not exist",
        "pyxsim: ring.0.et: node 1 (n1) has no partner: rank 0 sends 1 messages with tag 0 to rank 1, which receives 0",
        "pyxsim: ring.2.et: node 2 (n2) has no partner: rank 1 sends 0 messages with tag 0 to rank 2, which receives 1",
    ]
    (ring / "ring.2.et").write_bytes(b"\x99")
    assert len(pyxsim("workload", "check", "ring").lines) == 3  # of the two that can be read, alone; and the third
    errors = json.loads(pyxsim("workload", "check", "ring", "--json").out)
    assert (errors["exit_code"], len(errors["errors"])) == (2, 3)


def test_check_with_groups(pyxsim: Command, ring: Path) -> None:
    for rank in range(3):
        nodes = list(chakra.read(ring / f"ring.{rank}.et").nodes)
        nodes[3].attr.append(Attribute("pg_name", "string_val", "4"))
        chakra.write(ring / f"ring.{rank}.et", nodes)
    (ring / "groups.json").write_text('{"4": [0, 1, 2]}')
    assert pyxsim("workload", "check", "ring", "--groups", "groups.json").code == 0
    (ring / "groups.json").write_text('{"4": [0, 1, 3]}')
    assert pyxsim("workload", "check", "ring", "--groups", "groups.json").lines == [
        "pyxsim: groups.json: 4: has rank 3; allowed: 0 to 2"
    ]
    assert len(pyxsim("workload", "check", "ring").lines) == 3
    (ring / "ring.groups.json").write_text('{"4": [0, 1, 2]}')
    for name in ("ring", "ring.*.et", "ring.1.et"):
        assert pyxsim("workload", "check", name).code == 0
    assert pyxsim("workload", "check", "ring", "--groups", "groups.json").code == 2
    assert pyxsim("workload", "convert", "ring", "ring.goal").code == 0
    network = '[network]\ntopology = "switch"\nshape = [3]\n'
    (ring / "e.toml").write_text(f'{network}[workload]\nfile = "ring"\n')
    ended = pyxsim("run", "e.toml", "--backend", "analytical")
    assert ended.code == 2
    unknown = "has the unknown pg_name '4'; allowed: no group, because [workload] groups names no file of groups"
    assert unknown in ended.lines[0]


def test_convert(pyxsim: Command, ring: Path) -> None:
    steps = [("ring", "a.*.json"), ("a", "b.*.jsonl.gz"), ("b.*.jsonl.gz", "c.*.et")]
    for source, target in steps:
        ended = pyxsim("workload", "convert", source, target)
        assert (ended.code, ended.lines) == (0, [f"wrote 3 traces, 12 nodes: {target}"])
    for rank in range(3):
        assert (ring / f"c.{rank}.et").read_bytes() == (ring / f"ring.{rank}.et").read_bytes()
    assert pyxsim("workload", "convert", "ring.0.et", "one.json").code == 0
    assert (ring / "one.json").read_bytes() == (ring / "a.0.json").read_bytes()


@pytest.mark.parametrize(
    ("source", "target", "told"),
    [
        ("ring", "x.json", "x.json: is one file, but ring has one trace per rank; allowed: PREFIX.*.et"),
        ("ring", "x.*.xml", "x.*.xml: the extension is not one of a trace; allowed: .et, .json, .jsonl"),
        ("ring.0.et", "ring.0.et", "ring.0.et: is also an input; allowed: another name"),
        ("rung", "x.*.et", "rung: no such traces exist"),
        ("bad.et", "x.et", "bad.et: not a Chakra trace, or damaged"),
    ],
)
def test_what_cannot_be_converted(pyxsim: Command, ring: Path, source: str, target: str, told: str) -> None:
    (ring / "bad.et").write_bytes((ring / "ring.0.et").read_bytes()[:-1])
    before = sorted(path.name for path in ring.iterdir())
    ended = pyxsim("workload", "convert", source, target)
    assert ended.code == 2
    assert ended.lines[0].startswith(f"pyxsim: {told}")
    assert sorted(path.name for path in ring.iterdir()) == before


def test_words(pyxsim: Command) -> None:
    allowed = "show, check, convert, generate, expand, learn, synthesize, collect"
    assert pyxsim("workload", "shwo").lines == [
        f"pyxsim: unknown command 'shwo'; allowed: {allowed}; did you mean 'show'?"
    ]
    ended = pyxsim("workload")
    assert (ended.code, ended.out) == (2, "")
    assert "convert" in ended.err
