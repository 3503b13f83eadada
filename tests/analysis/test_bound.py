"""The lower bound of a run, worked by hand: bytes over the links of the busiest dimension, and the shortest latency."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.analysis.bound import MOST_STARTS, Capacities, lower_bound_cycles
from pyxsim.runner.lifecycle import run
from pyxsim.runner.prepare import prepare
from pyxsim.runner.prepared import Prepared
from pyxsim.settings import load_experiment
from tests.examples import part_of


def bound(network: dict[str, Any], kind: str, size: int, **system: Any) -> Fraction:
    """In cycles of 1 GHz, of links with a flit of 4 B per cycle unless said otherwise."""
    tables = {
        "network": {"flit": "4 B", "packet": "64 B", "bandwidth": "4 GB/s", "latency": "10 ns", **network},
        "system": system,
        "collective": {"kind": kind, "size": f"{size} B"},
    }
    prepared = prepare(load_experiment(tables))
    return lower_bound_cycles(prepared.system.collectives, prepared.system, prepared.network)


WAY = 10  # the latency of a link; lanes and the stages of routers do not count


def test_a_ring() -> None:
    """All-reduce of 800 B on 4 NPUs: 2 * 3/4 * 800 B from each, over two links (both directions) of 4 B per cycle."""
    assert bound({"topology": "ring", "shape": [4]}, "all-reduce", 800) == 1200 / 8 + WAY
    one_way = {"topology": "ring", "shape": [4], "options": {"bidirectional": False}}
    assert bound(one_way, "all-reduce", 800) == 1200 / 4 + WAY


@pytest.mark.parametrize(
    ("kind", "each"), [("reduce-scatter", 600), ("all-to-all", 600), ("all-gather", 2400), ("all-reduce", 1200)]
)
def test_every_kind(kind: str, each: int) -> None:
    assert bound({"topology": "fully-connected", "shape": [4]}, kind, 800) == Fraction(each, 12) + WAY


def test_a_switch_is_two_links_away() -> None:
    assert bound({"topology": "switch", "shape": [4]}, "all-reduce", 800) == 1200 / 4 + 2 * WAY


def test_the_ends_of_a_mesh_have_one_link() -> None:
    """6 links for 4 NPUs: what all of them together can send."""
    assert bound({"topology": "mesh", "shape": [4]}, "all-reduce", 800) == Fraction(4 * 1200, 6 * 4) + WAY


def test_the_busiest_dimension_counts() -> None:
    """2 x 4, all-reduce with scatter and gather in the first: 2 * 1/2 * 800 B there, 2 * 3/4 * 400 B in the second."""
    torus = {"topology": "torus", "shape": [2, 4]}
    assert bound(torus, "all-reduce", 800) == 800 / 8 + WAY
    assert bound(torus | {"bandwidth": ["4 GB/s", "1 GB/s"]}, "all-reduce", 800) == 600 / 2 + WAY
    assert bound(torus, "all-reduce", 800, optimization="baseline") == 1200 / 8 + WAY


def test_delays_of_the_endpoint_count_once_on_each_side() -> None:
    ring = {"topology": "ring", "shape": [4]}
    assert bound(ring, "all-reduce", 800, endpoint_delay="25 ns") == 1200 / 8 + WAY + 50


def test_wide_links_count_in_full() -> None:
    """400 GB/s and flits of 4 B: the clock is 100 GHz, so that 10 ns are 1000 cycles."""
    ring = {"topology": "ring", "shape": [4]}
    assert bound(ring | {"bandwidth": "400 GB/s"}, "all-reduce", 800) == 1200 / 8 + 100 * WAY


def test_nothing_to_do_takes_no_time() -> None:
    assert bound({"topology": "ring", "shape": [1]}, "all-reduce", 800) == 0


def test_of_npus_that_share_a_router_only_what_leaves_it_counts() -> None:
    """2 leaves of 4 NPUs: each NPU all-reduces its 200 B of the leaf's sum with a partner in the other leaf.

    That is 2 * 1/2 * 200 B from each of 4 NPUs, over the two links of their leaf; the shortest way has two links.
    """
    tree = {"topology": "leaf-spine", "options": {"npus": 4, "leaves": 2, "spines": 2}, "host_links": False}
    found = bound(tree, "all-reduce", 800, all_reduce="direct")
    assert found == bound(tree | {"lane_bandwidth": "1 GB/s"}, "all-reduce", 800, all_reduce="direct")
    assert found == 4 * 200 / (2 * 4) + 2 * WAY


def test_host_links_carry_all_that_their_npu_sends() -> None:
    """2 leaves of 4 NPUs, direct: 2 * 3/4 * 800 B in the leaf, then 2 * 1/2 * 200 B; two latencies."""
    tree = {"topology": "leaf-spine", "options": {"npus": 4, "leaves": 2, "spines": 2}}
    assert bound(tree, "all-reduce", 800, all_reduce="direct") == (1200 + 200) // 4 + 2 * WAY
    narrow = tree | {"bandwidth": ["1 GB/s", "4 GB/s"]}
    assert bound(narrow, "all-reduce", 800, all_reduce="direct") == 1200 + 200 + 2 * WAY


@pytest.mark.parametrize("backend", ["packet", "analytical", "analytical-congestion", "flow"])
def test_an_incast_takes_the_host_link_of_its_destination(backend: str) -> None:
    """Three messages of 800 B to one NPU, two of them from its own leaf."""
    network = {"topology": "leaf-spine", "options": {"npus": 4, "leaves": 2, "spines": 2}}
    messages = [{"src": src, "dst": 0, "size": "800 B"} for src in (1, 2, 5)]
    assert bound_of(backend, network=network, message=messages) == 3 * 200 + 20


def test_a_detour_may_begin_in_any_dimension() -> None:
    """With Valiant's routing all four links of an NPU may carry what is sent in one dimension."""
    torus = {"topology": "torus", "shape": [4, 4], "router": {"vcs": 8}}
    valiant = torus | {"router": {"vcs": 8, "routing": "valiant"}}
    # Dimension 0: 2 * 3/4 * 800 B over two links; then 2 * 3/4 * 200 B in dimension 1.
    assert bound(torus, "all-reduce", 800) == 1200 / 8 + WAY
    assert bound(valiant, "all-reduce", 800) == (1200 + 300) // 16 + WAY  # whole cycles


def test_routers_do_not_count() -> None:
    ring = {"topology": "ring", "shape": [4]}
    for router in ({"lookahead": True}, {"speculation": True}, {"internal_speedup": 2}):
        assert bound(ring | {"router": router}, "all-reduce", 800) == 1200 / 8 + WAY


@settings(max_examples=part_of(100))
@given(st.integers(1, 8), st.integers(1, 2000))
def test_chunks_do_not_change_it(chunks: int, size: int) -> None:
    """However a collective is cut, the same bytes go over the same links."""
    torus = {"topology": "torus", "shape": [2, 3]}
    assert bound(torus, "all-reduce", size, chunks=chunks) == bound(torus, "all-reduce", size)


# -- kinds with a root, groups, several at once ------------------------------------------------------------------------


def bound_of(backend: str = "packet", **more: Any) -> Fraction:
    """In cycles, of links with 4 B per cycle, 10 cycles of latency, on a ring of 4 unless said otherwise."""
    network = {"flit": "4 B", "packet": "64 B", "bandwidth": "4 GB/s", "latency": "10 ns", **more.pop("network", RING)}
    prepared = prepare(load_experiment({"network": network, **more}), backend=backend)
    assert isinstance(prepared, Prepared)
    return prepared.lower_bound


RING = {"topology": "ring", "shape": [4]}
SWITCH = {"topology": "switch", "shape": [4]}


@pytest.mark.parametrize(
    ("kind", "busiest"),
    [
        ("broadcast", Fraction(3 * 800, 8 * 4)),  # all together: the root alone sends 800 B at least, over 2 links
        ("reduce", Fraction(3 * 800, 8 * 4)),
        ("gather", Fraction(3 * 800, 8)),  # what comes in at the root
        ("scatter", Fraction(600, 8)),  # what leaves it
    ],
)
def test_kinds_with_a_root(kind: str, busiest: Fraction) -> None:
    at_root = Fraction(800, 8) if kind in ("broadcast", "reduce") else busiest
    assert bound_of(collective={"kind": kind, "size": "800 B", "root": 2}) == max(busiest, at_root) + WAY


def test_a_switch_that_adds_up_is_sent_everything_once() -> None:
    collective = {"kind": "all-reduce", "size": "800 B"}
    usual = bound_of(network=SWITCH, collective=collective)
    summed = bound_of(network=SWITCH, collective=collective, system={"all_reduce": "in-switch"})
    assert (usual, summed) == (1200 / 4 + 2 * WAY, 800 / 4 + 2 * WAY)


def test_a_group_has_the_links_of_its_members() -> None:
    """Two of four: 2 * 1/2 * 800 B from each, over two links; of a longer list it is more."""
    assert bound_of(collective={"kind": "all-reduce", "size": "800 B", "npus": [0, 2]}) == 800 / 8 + WAY
    three = bound_of(collective={"kind": "all-reduce", "size": "900 B", "npus": [0, 2, 3]})
    assert three == Fraction(1200, 8) + WAY


def test_what_is_issued_together_shares_the_links() -> None:
    one = {"kind": "all-reduce", "size": "800 B"}
    assert bound_of(collective=[one, one]) == 2 * 1200 / 8 + WAY
    late = {**one, "at": "1 us"}
    assert bound_of(collective=[one, late]) == 1000 + 1200 / 8 + WAY
    soon = {**one, "at": "1 ns"}
    assert bound_of(collective=[one, soon]) == 2 * 1200 / 8 + WAY


def test_a_message() -> None:
    message = {"src": 0, "dst": 1, "size": "800 B"}
    assert bound_of(message=[message]) == 800 / 8 + WAY  # it could take both ways round
    assert bound_of(message=[message], collective={"kind": "barrier"}) >= 800 / 8 + WAY
    torus = {"topology": "torus", "shape": [4, 4]}
    assert bound_of(network=torus, message=[message]) == 800 / 8 + WAY
    # Its ends differ in both dimensions: all four links of an NPU count.
    assert bound_of(network=torus, message=[{**message, "dst": 5}]) == 800 / 16 + WAY


BACKENDS = ["packet", "analytical", "analytical-congestion", "flow"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_it_is_the_same_for_every_backend(backend: str) -> None:
    """1600 B to each of 4 NPUs of the narrow switch from 800 B blocks that were joined in the wide one.

    3 of 4 parts go over a link of 4 B per cycle, and two links of 20 cycles; 5 cycles at each end.
    """
    dims = [
        {"block": "switch", "npus": 2, "bandwidth": "40 GB/s", "latency": "10 ns"},
        {"block": "switch", "npus": 4, "bandwidth": "4 GB/s", "latency": "20 ns"},
    ]
    tables = {
        "network": {"dims": dims, "flit": "40 B", "packet": "80 B"},
        "collective": {"kind": "all-to-all", "size": "6400 B", "at": "30 ns"},
        "system": {"all_to_all": "direct", "endpoint_delay": "5 ns"},
    }
    result = run(tables, backend=backend)
    assert result.lower_bound_ns == result.json()["lower_bound_ns"] == 30 + 3 * 1600 / 4 + 2 * 20 + 2 * 5
    assert result.collectives[0]["lower_bound"] == 3 * 1600 / 4 + 2 * 20 + 2 * 5
    with pytest.warns(DeprecationWarning, match="renamed to 'lower_bound_ns'"):
        assert result.bound_ns == result.lower_bound_ns


@pytest.mark.parametrize("backend", BACKENDS)
def test_npus_that_all_share_a_router_need_no_link(backend: str) -> None:
    network = {"topology": "k-ary-n-tree", "options": {"k": 4, "n": 1}, "bandwidth": "10 GB/s", "host_links": False}
    assert bound_of(backend, network=network, collective={"kind": "all-reduce", "size": "1 KiB"}) == 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_messages_to_one_npu_take_its_link(backend: str) -> None:
    """Three messages of 800 B to an NPU at a switch, over one link of 4 B per cycle, two links away."""
    messages = [{"src": src, "dst": 0, "size": "800 B"} for src in (1, 2, 3)]
    assert bound_of(backend, network=SWITCH, message=messages) == 3 * 200 + 2 * 10


@pytest.mark.parametrize("backend", ["analytical-congestion", "flow", "packet"])
def test_one_of_several_has_the_bound_that_it_has_alone(backend: str) -> None:
    """Also of those that are alike, and of one over some NPUs; a queue is not that of others."""
    dims = [
        {"block": "switch", "npus": 2, "bandwidth": "40 GB/s", "latency": "10 ns"},
        {"block": "ring", "npus": 4, "bandwidth": "4 GB/s", "latency": "20 ns"},
    ]
    asked = [
        {"kind": "all-to-all", "size": "6400 B"},
        {"kind": "all-reduce", "size": "9 KiB", "at": "70 ns"},
        {"kind": "all-to-all", "size": "6400 B", "at": "1 us"},
        {"kind": "all-gather", "size": "5 KiB", "npus": [0, 3, 5]},
        {"kind": "all-reduce", "size": "9 KiB", "dims": [1]},
        {"kind": "broadcast", "size": "3 KiB", "root": 5},
    ]
    tables = {"system": {"all_reduce": "direct", "chunks": 3}, "message": [{"src": 0, "dst": 6, "size": "800 B"}]}
    prepared = prepare(
        load_experiment({"network": {"dims": dims, "flit": "4 B"}, **tables, "collective": asked}), backend=backend
    )
    assert isinstance(prepared, Prepared)
    found = [prepared.lower_bound_of(each.per_group) for each in prepared.job.collectives]
    del tables["message"]
    alone = [{key: value for key, value in each.items() if key != "at"} for each in asked]
    wanted = []
    for each in alone:
        single = prepare(
            load_experiment({"network": {"dims": dims, "flit": "4 B"}, **tables, "collective": each}), backend=backend
        )
        assert isinstance(single, Prepared)
        wanted.append(single.lower_bound)
    assert found == wanted
    assert found[0] == found[2]


# -- links alone -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["packet", "analytical"])
@pytest.mark.parametrize(
    ("network", "cycles"),
    [
        (RING, Fraction(1200, 8) + 10),  # both directions
        (SWITCH, Fraction(1200, 4) + 20),  # two links away
        ({"topology": "torus", "shape": [2, 4]}, Fraction(800, 8) + 10),
        # 2 leaves: half of the 2 * 7/8 * 800 B of each NPU leave its leaf, over 2 links; the shortest way there are 2.
        ({"topology": "leaf-spine", "options": {"npus": 4, "leaves": 2, "spines": 2}, "host_links": False}, None),
    ],
)
def test_links_alone_bound_every_backend_alike(network: dict[str, Any], cycles: Fraction | None, backend: str) -> None:
    tables = {
        "network": {"flit": "4 B", "packet": "64 B", "bandwidth": "4 GB/s", "latency": "10 ns", **network},
        "collective": {"kind": "all-reduce", "size": "800 B"},
    }
    prepared = prepare(load_experiment(tables), backend=backend)
    assert isinstance(prepared, Prepared)
    found = lower_bound_cycles(prepared.system.collectives, prepared.system, prepared.network)
    assert prepared.lower_bound == found
    if cycles is None:
        home, rows = prepared.topology.home, prepared.system.traffic()
        out = sum(int(size * count) for src, dst, _, size, count in rows.tolist() if home[src] == 0 != home[dst])
        cycles = Fraction(out, 2 * 4) + 20
    assert found == cycles


def test_a_switch_of_64_as_in_the_tutorial_of_astra_sim() -> None:
    """1 GiB, direct: 2 * 63/64 GiB through links of 50 GB/s that are 500 ns long. There a GB is 2^30 bytes: 39,375 us.

    The model without congestion gives 633 us.
    """
    tables = {
        "network": {"topology": "switch", "shape": [64], "bandwidth": f"{50 * 2**30} B/s", "latency": "500 ns"},
        "collective": {"kind": "all-reduce", "size": "1 GiB"},
        "system": {"all_reduce": "direct"},
    }
    prepared = prepare(load_experiment(tables), backend="analytical")
    assert isinstance(prepared, Prepared)
    assert prepared.lower_bound == 39_375_000 + 1000


SHAPES: list[dict[str, Any]] = [
    {"topology": "ring", "shape": [5]},
    {"topology": "torus", "shape": [3, 2], "bandwidth": ["4 GB/s", "1 GB/s"]},
    {"topology": "torus", "shape": [4, 2], "router": {"vcs": 8, "routing": "valiant"}},
    {"topology": "mesh", "shape": [2, 3]},
    {"topology": "switch", "shape": [6]},
    {"topology": "leaf-spine", "options": {"npus": 2, "leaves": 3, "spines": 1}},
    {"topology": "dragonfly", "options": {"p": 1, "a": 2, "h": 1}},
]


@settings(max_examples=part_of(200))
@given(
    st.sampled_from(SHAPES),
    st.sampled_from(["all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "scatter"]),
    st.sampled_from(["ring", "direct"]),
    st.integers(1, 20_000),
    st.integers(1, 4),
    st.integers(0, 2),
    st.sampled_from(BACKENDS),
)
def test_no_run_is_faster_than_its_links(
    network: dict[str, Any], kind: str, algorithm: str, size: int, chunks: int, later: int, backend: str
) -> None:
    """Only messages that do not share links are faster, and their result has a warning."""
    tables = {
        "network": {"flit": "4 B", "packet": "64 B", "bandwidth": "4 GB/s", "latency": "10 ns", **network},
        "system": {"chunks": chunks, "all_reduce": algorithm},
        "collective": [{"kind": kind, "size": f"{size} B"}] * (later + 1),
    }
    for number in range(later):
        tables["collective"][number] = {**tables["collective"][number], "at": f"{40 * number} ns"}  # type: ignore[index]
    result = run(tables, backend=backend)
    assert result.lower_bound_ns is not None
    early = result.time_ns < result.lower_bound_ns
    assert early == any("ignores that messages share links" in line for line in result.warnings)
    assert backend == "analytical" or not early


@settings(max_examples=part_of(100))
@given(
    st.sampled_from(SHAPES),
    st.sampled_from(["packet", "analytical-congestion", "flow"]),
    st.lists(
        st.tuples(
            st.sampled_from(["all-reduce", "all-gather", "all-to-all", "broadcast", "scatter"]),
            st.integers(1, 20_000),
            st.sampled_from([0, 40, 3000]),
        ),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from(["ring", "direct"]),
    st.integers(1, 3),
)
def test_no_collective_is_faster_than_its_links(
    network: dict[str, Any], backend: str, asked: list[tuple[str, int, int]], algorithm: str, chunks: int
) -> None:
    tables = {
        "network": {"flit": "4 B", "packet": "64 B", "bandwidth": "4 GB/s", "latency": "10 ns", **network},
        "system": {"chunks": chunks, "all_reduce": algorithm},
        "collective": [{"kind": kind, "size": f"{size} B", "at": f"{at} ns"} for kind, size, at in asked],
    }
    result = run(tables, backend=backend)
    for row in result.collectives:
        assert row["lower_bound"] <= row["end"] - row["start"]


@pytest.mark.parametrize("count", [MOST_STARTS, MOST_STARTS + 1])
def test_of_many_starts_only_what_is_sent_counts(count: int) -> None:
    """Messages of 800 B from NPU 0 of a ring, one every 150 ns: two links of 4 B per cycle need 100 for one, and 10.

    The last one, sent alone, ends latest. Of very many starts this is not looked at: all are taken to be there.
    """
    network = {"flit": "4 B", "packet": "64 B", "bandwidth": "4 GB/s", "latency": "10 ns", **RING}
    sent = [{"src": 0, "dst": 1, "size": "800 B", "at": f"{150 * turn} ns"} for turn in range(count)]
    prepared = prepare(load_experiment({"network": network, "message": sent}), backend="analytical")
    assert isinstance(prepared, Prepared)
    late = 150 * (count - 1) + 110 if count == MOST_STARTS else 100 * count + 10
    assert prepared.lower_bound == late


@settings(max_examples=part_of(100))
@given(
    st.lists(st.tuples(st.fractions(0, 100, max_denominator=10**12), st.integers(0, 5), st.booleans()), max_size=20),
    st.lists(st.integers(0, 2**60), min_size=6, max_size=6),
)
def test_the_longest_of_the_routers_is_what_fractions_say(
    links: list[tuple[Fraction, int, bool]], load: list[int]
) -> None:
    used, ends = (np.array([link[i] for link in links]) for i in (2, 1))
    found = Capacities.of([rate for rate, *_ in links], used.astype(bool), ends.astype(np.int32), 6)
    each = [sum((rate for rate, end, counts in links if counts and end == router), Fraction(0)) for router in range(6)]
    times = [Fraction(nbytes) / rate for nbytes, rate in zip(load, each, strict=True) if rate]
    assert found.longest(np.array(load, np.int64)) == max(times, default=0)
    assert found.together(np.array([1, 2, 5])) == each[1] + each[2] + each[5]
