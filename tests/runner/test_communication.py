"""Collectives on groups, several at once, beside messages: what is asked for, what is refused, and what is true of all.

Every run counts its bytes against the plan and carries real data: `run` fails where these are wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.errors import InputError, PyxsimError
from pyxsim.results.result import Result
from pyxsim.runner.closed_run import check_bytes
from pyxsim.runner.lifecycle import run
from pyxsim.runner.prepare import prepare
from pyxsim.runner.prepared import Prepared
from pyxsim.settings import load_experiment, resolved_toml
from tests.examples import part_of

TORUS: dict[str, Any] = {
    "topology": "torus",
    "shape": [4, 3],
    "latency": "20 ns",
    "flit": "16 B",
    "packet": "64 B",
    "bandwidth": "16 GB/s",
}
ALL = {"kind": "all-reduce", "size": "1200 B"}


def tables(**more: Any) -> dict[str, Any]:
    return {"network": TORUS, **more}


def told(**more: Any) -> list[str]:
    with pytest.raises(InputError) as caught:
        prepare(load_experiment(tables(**more)))
    return str(caught.value).splitlines()


# -- what is refused ---------------------------------------------------------------------------------------------------

GROUP = {"name": "g", "npus": [0, 5, 7]}
MESSAGE = {"src": 0, "dst": 1, "size": "1 B"}
FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"collective": {**ALL, "npus": [0, 12]}}, "collective.npus[1]: there is no NPU 12; allowed: NPUs 0 to 11"),
    (
        {"collective": [ALL, {**ALL, "npus": [0, 12]}]},
        "collective[1].npus[1]: there is no NPU 12; allowed: NPUs 0 to 11",
    ),
    (
        {"collective": ALL, "system": {"groups": [{"name": "g", "npus": [3, 40]}]}},
        "system.groups[0].npus[1]: there is no NPU 40; allowed: NPUs 0 to 11",
    ),
    (
        {"collective": ALL, "system": {"stragglers": [{"npus": [99], "start": "1 ns"}]}},
        "system.stragglers[0].npus[0]: there is no NPU 99; allowed: NPUs 0 to 11",
    ),
    (
        {"collective": {**ALL, "dims": [0, 2]}},
        "collective.dims[1]: there is no dimension 2; allowed: dimensions 0 to 1",
    ),
    (
        {"collective": {"kind": "reduce", "size": "1 B", "root": 12}},
        "collective.root: the root, NPU 12, does not participate; allowed: NPUs 0 to 11",
    ),
    (
        {"collective": {"kind": "reduce", "size": "1 B", "root": 1, "group": "g"}, "system": {"groups": [GROUP]}},
        "collective.root: the root, NPU 1, does not participate; allowed: one of NPUs 0, 5, 7",
    ),
    ({"message": [{**MESSAGE, "dst": 12}]}, "message[0].dst: there is no NPU 12; allowed: NPUs 0 to 11"),
    (
        {"collective": {**ALL, "algorithm": "rign"}},
        "collective.algorithm: unknown collective algorithm 'rign'",
    ),
    (
        {"collective": {**ALL, "algorithm": "pairwise"}},
        "collective.algorithm: pairwise does not support all-reduce; allowed: all-to-all, reduce-scatter with pairwise",
    ),
    (
        {"collective": {**ALL, "algorithm": ["ring"]}},
        "collective.algorithm: the list has 1 entries, but the network has 2 dimensions",
    ),
    (
        {"collective": {**ALL, "npus": [5, 0, 7], "algorithm": ["ring", "direct"]}},
        "collective.algorithm: these NPUs do not form a grid of the network's dimensions",
    ),
    (
        {"collective": {**ALL, "group": "g"}, "system": {"groups": [{**GROUP, "all_reduce": "bruk"}]}},
        "system.groups[0].all_reduce: unknown collective algorithm 'bruk'",
    ),
    (
        {"collective": {**ALL, "algorithm": "in-switch"}, "system": {"optimization": "baseline"}},
        "collective.algorithm: in-switch requires a single switch that reduces, but runs on ring 4; allowed: ",
    ),
    ({"collective": {**ALL, "size": "4 EB"}}, "collective.size: "),
    (
        {"collective": {**ALL, "dims": [0]}, "system": {"boost": True}},
        "collective.dims: this setting applies to only some NPUs, but ",
    ),
    (
        {"collective": {"kind": "scatter", "size": "1 B"}, "system": {"boost": True}},
        "collective.kind: this setting has a root, but system.boost assumes identical NPUs",
    ),
    (
        {"collective": ALL, "message": [MESSAGE], "system": {"boost": True}},
        "message: this setting applies to only two NPUs, but",
    ),
]


@pytest.mark.parametrize(("more", "line"), FAULTS, ids=[line[:60] for _, line in FAULTS])
def test_each_fault_is_one_line(more: dict[str, Any], line: str) -> None:
    (fault,) = told(**more)
    assert fault.startswith(line)


def test_all_faults_of_npus_are_told_at_once() -> None:
    lines = told(
        collective=[{**ALL, "npus": [0, 12]}, {**ALL, "dims": [3]}],
        message=[{**MESSAGE, "src": 70}],
        system={"groups": [{"name": "g", "npus": [3, 40]}]},
    )
    assert len(lines) == 4


def test_a_backend_that_is_not_there() -> None:
    experiment = load_experiment(tables(collective=ALL))
    with pytest.raises(InputError, match=r"^backend: unknown backend 'packets'; .*did you mean 'packet'\?"):
        prepare(experiment, backend="packets")
    traffic = load_experiment(tables(traffic={"load": 0.1}))
    with pytest.raises(InputError, match="does not support open traffic"):
        prepare(traffic, backend="analytical")


# -- what is asked for -------------------------------------------------------------------------------------------------


def rows(result: Result, **where: Any) -> list[dict[str, Any]]:
    return [row for row in result.collectives if all(row[key] == value for key, value in where.items())]


def test_groups_have_their_own_algorithms_and_rows() -> None:
    result = run(
        tables(
            system={"groups": [{"name": "left", "npus": [0, 4, 8], "all_reduce": "direct"}], "all_reduce": "ring"},
            collective=[
                {**ALL, "group": "left", "name": "a"},
                {**ALL, "npus": [1, 2, 3], "algorithm": "bidirectional-ring", "name": "b"},
                {**ALL, "at": "3 us"},
                {"kind": "broadcast", "size": "100 B", "root": 7, "name": "c"},
            ],
            output={"carry": True},
        )
    )
    told = [(row["name"], row["group"], row["npus"], row["root"], row["algorithm"]) for row in result.collectives]
    assert told[:3] == [
        ("a", "left", 3, -1, "direct"),
        ("b", "npus 1,2,3", 3, -1, "bidirectional-ring"),
        ("all-reduce", "all", 12, -1, "ring, ring"),
    ]
    assert told[3][:4] == ("c", "all", 12, 7)
    assert result.collectives[2]["start"] == 3000
    assert result.carried == 12
    assert set(result.chunks["collective"].tolist()) == {0, 1, 2, 3}
    assert set(result.chunks["rank"][result.chunks["collective"] == 0].tolist()) == {0, 4, 8}


def test_a_collective_along_a_dimension_is_one_row() -> None:
    result = run(tables(collective={**ALL, "dims": [1]}))
    (row,) = result.collectives
    assert (row["group"], row["npus"]) == ("dims 1", 12)
    assert len(set(result.chunks["rank"].tolist())) == 12
    assert set(result.chunks["dimension"].tolist()) == {1}
    assert row["end"] == result.time_cycles
    # Each of the four groups of three all-reduces by itself: as long as one of them alone.
    alone = run(tables(collective={**ALL, "npus": [0, 4, 8]}))
    assert alone.time_cycles == result.time_cycles
    assert alone.collectives[0]["lower_bound"] == row["lower_bound"]


def test_roots_are_npus() -> None:
    for root in (0, 5, 11):
        result = run(tables(collective={"kind": "scatter", "size": "1201 B", "root": root}, output={"carry": True}))
        assert result.collectives[0]["root"] == root
    default = run(tables(collective={"kind": "scatter", "size": "1201 B", "npus": [7, 3, 5]}, output={"carry": True}))
    assert default.collectives[0]["root"] == 7


def test_messages_among_collectives() -> None:
    message = {"src": 0, "dst": 5, "size": "640 B", "at": "100 ns", "name": "hello"}
    alone = run(tables(message=[message]))
    (row,) = alone.point_to_point
    assert (row["name"], row["src"], row["dst"], row["bytes"], row["start"]) == ("hello", 0, 5, 640, 100)
    assert alone.time_cycles == row["end"] > 100
    assert alone.lower_bound_ns is not None
    assert 100 < alone.lower_bound_ns <= row["end"]
    both = run(tables(message=[message, {**message, "src": 3}], collective={**ALL, "size": "40 kB"}))
    assert len(both.point_to_point) == 2
    assert both.point_to_point[0]["end"] > row["end"], "it shares its links with the collective"


def test_stragglers_and_skew() -> None:
    system = {"endpoint_delay": "10 ns"}
    usual = run(tables(system=system, collective=ALL)).time_cycles
    late = run(tables(system={**system, "stragglers": [{"npus": [4], "start": "5 us"}]}, collective=ALL)).time_cycles
    slow = run(tables(system={**system, "stragglers": [{"npus": [4], "slow": 30}]}, collective=ALL)).time_cycles
    assert 5000 < late <= 5000 + usual
    assert slow > usual + 250
    skew = {**system, "start_skew": "500 ns"}
    one, same, other = (
        run(tables(system=skew, collective=ALL, output={"seed": seed})).chunks["ready"] for seed in (1, 1, 2)
    )
    assert one.tolist() == same.tolist() != other.tolist()
    assert 0 < one[:12].max() <= 500


def test_paths_count_from_the_folder_of_the_experiment(tmp_path: Path) -> None:
    """Algorithms and system files; the resolved experiment is good from anywhere."""
    (tmp_path / "mine.py").write_text(
        "from pyxsim.collective.schedule import Schedule\n\n\n"
        "def mine(kind, n):\n"
        '    """Everybody to everybody."""\n'
        "    schedule = Schedule(kind, n)\n"
        "    for rank in range(n):\n"
        "        for other in range(n):\n"
        "            if other != rank:\n"
        "                schedule.send(rank, other, [rank])\n"
        "    return schedule\n",
        encoding="utf-8",
    )
    (tmp_path / "sys.txt").write_text("scheduling-policy: FIFO\npreferred-dataset-splits: 3\n", encoding="utf-8")
    experiment = load_experiment(
        tables(
            system={"file": "sys.txt", "compat": "none", "endpoint_delay": "7 ns", "all_gather": "mine.py:mine"},
            collective={"kind": "all-gather", "size": "100 B"},
        )
    )
    ready = prepare(experiment, folder=tmp_path)
    assert isinstance(ready, Prepared)
    system = ready.experiment.system
    assert (system.file, system.compat, system.scheduling, system.chunks) == (None, None, "FIFO", 3)
    assert system.endpoint_delay == Fraction(7, 10**9)
    assert system.all_gather == f"{tmp_path}/mine.py:mine"
    first = run(ready.experiment)
    (tmp_path / "again.toml").write_text(resolved_toml(ready.experiment), encoding="utf-8")
    again = run(tmp_path / "again.toml")
    assert first.time_cycles == again.time_cycles


def test_faults_of_a_system_file_name_it(tmp_path: Path) -> None:
    path = tmp_path / "sys.txt"
    path.write_text("all-reduce-implementation: ring_ring_ring\nscheduling-policy: LIFO\n", encoding="utf-8")
    experiment = load_experiment(tables(system={"file": "sys.txt", "compat": "none"}, collective=ALL))
    with pytest.raises(InputError) as caught:
        prepare(experiment, folder=tmp_path)
    told = f"{path}: all-reduce-implementation: the list has 3 entries, but the network has 2 dimensions"
    assert str(caught.value).startswith(told)
    experiment = load_experiment(tables(system={"file": "nothing.txt"}, collective=ALL))
    with pytest.raises(InputError, match=r"^system\.file: .*nothing\.txt: no such file"):
        prepare(experiment, folder=tmp_path)


def test_lost_bytes_are_a_bug_and_told() -> None:
    ready = prepare(load_experiment(tables(collective=ALL)))
    assert isinstance(ready, Prepared)
    with pytest.raises(PyxsimError, match=r"this is a bug of pyxsim: 0 bytes were delivered, but \d+ were planned"):
        check_bytes(ready)


# -- what is true of all -----------------------------------------------------------------------------------------------

SIZED = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all", "broadcast", "reduce", "gather", "scatter")
SHAPES = ([5], [4, 3], [2, 2, 3], [3, 1, 4])


@st.composite
def mixtures(draw: st.DrawFn, shapes: Sequence[list[int]] = SHAPES) -> dict[str, Any]:
    """Some collectives on some groups at some times, and some messages, on a small network."""
    shape = draw(st.sampled_from(shapes))
    npus = int(np.prod(shape))
    collectives = []
    for _ in range(draw(st.integers(0, 4))):
        each: dict[str, Any] = {
            "kind": draw(st.sampled_from([*SIZED, "barrier"])),
            "at": f"{draw(st.integers(0, 900))} ns",
        }
        if each["kind"] != "barrier":
            each["size"] = f"{draw(st.one_of(st.integers(1, 40), st.integers(1, 4000)))} B"
        who = draw(st.sampled_from(["all", "npus", "dims"]))
        members = list(range(npus))
        if who == "npus":
            members = draw(st.lists(st.integers(0, npus - 1), min_size=2, max_size=6, unique=True))
            each["npus"] = members
        elif who == "dims":
            each["dims"] = draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, unique=True))
        if each["kind"] in ("broadcast", "reduce", "gather", "scatter") and who != "dims" and draw(st.booleans()):
            each["root"] = draw(st.sampled_from(members))
        collectives.append(each)
    ends = st.lists(st.integers(0, npus - 1), min_size=2, max_size=2, unique=True)
    messages = []
    for src, dst in draw(st.lists(ends, min_size=0 if collectives else 1, max_size=3)):
        at, size = draw(st.integers(0, 900)), draw(st.integers(1, 3000))
        messages.append({"src": src, "dst": dst, "size": f"{size} B", "at": f"{at} ns"})
    return {
        "network": {**TORUS, "topology": draw(st.sampled_from(["torus", "mesh"])), "shape": shape},
        "system": {
            "chunks": draw(st.integers(1, 4)),
            "active_chunks": draw(st.integers(1, 3)),
            "scheduling": draw(st.sampled_from(["LIFO", "FIFO", "explicit"])),
            "intra_dimension": draw(st.sampled_from(["FIFO", "RG", "smallest-first", "fewest-phases-first"])),
            "inter_dimension": draw(st.sampled_from(["ascending", "round-robin", "themis", "themis-flex"])),
            "optimization": draw(st.sampled_from(["baseline", "localBWAware"])),
            "endpoint_delay": f"{draw(st.sampled_from([0, 0, 15]))} ns",
            "start_skew": f"{draw(st.sampled_from([0, 0, 300]))} ns",
            **({"stragglers": [{"npus": [0], "start": "200 ns"}]} if draw(st.booleans()) else {}),
        },
        **({"collective": collectives, "output": {"carry": True}} if collectives else {}),
        **({"message": messages} if messages else {}),
    }


@given(mixtures(), st.sampled_from(["packet", "analytical"]))
@settings(max_examples=part_of(60))
def test_every_mixture(tables: dict[str, Any], backend: str) -> None:
    check(tables, backend)


@given(mixtures(), st.sampled_from(["cut-through", "store-and-forward"]))
@settings(max_examples=part_of(30))
def test_every_mixture_where_messages_queue(tables: dict[str, Any], forwarding: str) -> None:
    network = {**tables["network"], "analytical": {"forwarding": forwarding}}
    check({**tables, "network": network}, "analytical-congestion")


@pytest.mark.slow
@given(mixtures(), st.sampled_from(["packet", "analytical"]))
@settings(max_examples=2000)
def test_many_more_mixtures(tables: dict[str, Any], backend: str) -> None:
    check(tables, backend)


def check(tables: dict[str, Any], backend: str) -> None:
    """Everything ends, nothing before its bound, with the right data (`run` compares them)."""
    result = run(tables, backend=backend)
    assert result.complete
    everything = [*result.collectives, *result.point_to_point]
    assert all(row["end"] >= row["start"] for row in everything)
    assert result.time_cycles == max(row["end"] for row in everything)
    # Without congestion messages do not share links: a time below the bound is possible, and reported.
    shared = backend != "analytical"
    for row in result.collectives:
        assert row["end"] - row["start"] >= row["lower_bound"] * shared >= 0
    assert result.lower_bound_ns is not None
    assert result.time_ns >= result.lower_bound_ns or (
        not shared and "ignores that messages share" in str(result.warnings)
    )
    assert (result.carried is not None) == bool(result.collectives)
    chunks = result.chunks
    assert (chunks["ready"] <= chunks["start"]).all()
    assert (chunks["start"] <= chunks["end"]).all()
    assert int(result.dimensions["bytes"].sum()) == result.counts["bytes_delivered"]
    assert (result.dimensions["occupancy"] <= 1).all()
