"""From settings to the engine's numbers: links, lanes, buffers, and what is said when something cannot be as asked."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.errors import InputError
from pyxsim.network.machine import Machine, build_machine
from pyxsim.network.wires import Wire
from tests.network.machines import cycles, drain, machine_of, packet_network, rate


def machine(*args: Any, **kwargs: Any) -> Machine:
    return build_machine(*machine_of(*args, **kwargs))


def per_kind(m: Machine, values: Any) -> tuple[list[Any], list[Any], list[Any]]:
    """Values of network links, injection lanes, ejection lanes."""
    a, b = m.links.network, m.links.network + m.links.injection
    return values[:a].tolist(), values[a:b].tolist(), values[b:].tolist()


# -- delays ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("router", "delays", "credits"),
    [
        # Network link: latency 10 + st + (bw + sa - 1); lanes of latency 3: into the router bw + sa - 1, out of it st.
        ({}, (11, 3, 4), (11, 4, 4)),
        ({"pipeline": "garnet"}, (10, 3, 3), (11, 4, 4)),
        ({"pipeline": "garnet", "latency": 5}, (14, 7, 3), (11, 4, 4)),
        ({"pipeline": {"bw": 2, "sa": 3, "st": 4}}, (18, 7, 7), (11, 4, 4)),
        # s = 1: serdes has no part in it.
        ({"serdes": 4, "serdes_credit": 9}, (11, 3, 4), (11, 4, 4)),
    ],
)
def test_delays(router: dict[str, Any], delays: tuple[int, ...], credits: tuple[int, ...]) -> None:
    m = machine("ring", [3], latency=10, lane_latency=cycles(3), router=router)
    assert tuple(set(kind) for kind in per_kind(m, m.links.delay)) == tuple({d} for d in delays)
    assert tuple(set(kind) for kind in per_kind(m, m.links.credit_delay)) == tuple({c} for c in credits)


@pytest.mark.parametrize(
    ("extra", "credit"),
    [({}, 11 + 4 + 3 - 1), ({"serdes_credit": 2}, 11 + 2), ({"serdes_credit": 0}, 11)],
)
def test_serdes_where_a_flit_takes_longer_than_a_cycle(extra: dict[str, Any], credit: int) -> None:
    """docs/router.md: serdes per hop; credits come serdes + ceil(s) - 1 later, or as serdes_credit says."""
    m = machine("mesh", [2], s=Fraction(5, 2), latency=10, router={"serdes": 4, **extra})
    assert m.wires[0] == Wire(Fraction(5, 2), 10, 10 + 1 + 4, credit)
    # Launched in cycle 0 the flit arrives in 3 + 15; its credit is used `credit` cycles after it left.
    assert m.wires[0].loop == 3 + 15 + credit


def test_each_dimension_has_its_own_links() -> None:
    m = machine("torus", [2, 3], s=[1, Fraction(7, 3)], latency=[5, 9], router={"serdes_credit": [1, 2]})
    assert m.wires == [Wire(Fraction(1), 5, 6, 6), Wire(Fraction(7, 3), 9, 10, 12)]
    network = slice(0, m.links.network)
    assert [m.links.s_num[0], m.links.s_den[0]] == [1, 1]
    assert set(m.links.s_num[network].tolist()) == {1, 7}
    # Dimension 0: 3 groups of 2 NPUs, both ways, dimension 1: 2 groups of 3.
    assert m.links.s_num[network].tolist() == [1] * 12 + [7] * 12


def test_a_dimension_of_the_dims_counts_before_the_network() -> None:
    dims = [
        {"block": "ring", "npus": 3, "bandwidth": rate(4), "latency": cycles(8)},
        {"block": "switch", "npus": 2},
    ]
    network = machine_of(s=2, latency=3, dims=[{"block": d["block"], "npus": d["npus"]} for d in dims])[0]
    settings = machine_of(s=2, latency=3, dims=[{"block": d["block"], "npus": d["npus"]} for d in dims])[1]
    own = settings.model_validate(settings.model_dump(exclude={"dims"}) | {"dims": dims})
    assert [(int(w.s), w.latency) for w in build_machine(network, own).wires] == [(4, 8), (2, 3)]


# -- buffers -----------------------------------------------------------------------------------------------------------


@given(
    st.fractions(1, 50, max_denominator=9),
    st.integers(1, 200),
    st.sampled_from([{}, {"pipeline": "garnet", "latency": 4}, {"pipeline": {"bw": 3, "rc": 5, "va": 0, "sa": 2}}]),
    st.integers(0, 6),
)
def test_automatic_buffers(s: Fraction, latency: int, router: dict[str, Any], serdes: int) -> None:
    """Enough for the credit loop of every link at full rate, and not more than two flits too many."""
    m = machine("ring", [3], s=s, latency=latency, router=router | {"serdes": serdes})
    num, den = m.links.s_num.astype(object), m.links.s_den.astype(object)
    whole = -(-num // den)
    loop = whole + m.links.delay + m.links.credit_delay
    slots = m.links.depth.astype(object)
    waits = m.stages.rc + m.stages.va
    assert (slots * num >= loop * den).all()
    assert (slots * num < (loop + waits) * den + 2 * num).all()


def test_given_buffers_are_taken_as_they_are() -> None:
    m = machine("ring", [3], latency=500, router={"buffer": 7})
    assert set(m.links.depth.tolist()) == {7}


# -- lanes -------------------------------------------------------------------------------------------------------------


def test_a_lane_for_every_link() -> None:
    topology, settings = machine_of("torus", [3, 4], s=[1, 3])
    m = build_machine(topology, settings)
    assert m.links.injection == m.links.ejection == topology.links == 48
    for npu in range(12):
        out = np.flatnonzero(topology.link_src == npu).tolist()
        into = np.flatnonzero(topology.link_dst == npu).tolist()
        assert list(m.inject[npu]) == out
        assert list(m.eject[npu]) == into
        for lanes, first in ((m.inject[npu], m.links.network), (m.eject[npu], m.links.network + m.links.injection)):
            for link, lane in lanes.items():
                # As wide as the link.
                assert m.links.s_num[first + lane] == m.links.s_num[link]
    # Lane numbers: NPU by NPU.
    assert sorted(lane for npu in m.inject for lane in npu.values()) == list(range(48))
    assert m.links.dst[m.links.network + m.inject[5][next(iter(m.inject[5]))]] == 5


def test_a_lane_for_every_dimension() -> None:
    m = machine("torus", [3, 4], s=[1, 3], lanes="per-dimension")
    assert all(list(lanes) == [0, 1] for lanes in [*m.inject, *m.eject])
    _, into, out = per_kind(m, m.links.s_num)
    assert into == out == [1, 3] * 12


@pytest.mark.parametrize("lanes", [1, 3])
def test_a_number_of_lanes(lanes: int) -> None:
    m = machine("torus", [3, 4], s=[2, 3], lanes=lanes)
    assert all(list(each) == list(range(lanes)) for each in [*m.inject, *m.eject])
    _, into, out = per_kind(m, m.links.s_num)
    assert into == out == [2] * 12 * lanes  # the widest of the links that it serves


def test_a_lane_of_its_own_width() -> None:
    m = machine("torus", [3, 4], s=[2, 3], lanes=1, lane_bandwidth=rate(Fraction(9, 4)))
    network, into, out = per_kind(m, m.links.s_num)
    assert set(into) == set(out) == {9}
    assert set(network) == {2, 3}
    assert set(per_kind(m, m.links.s_den)[1]) == {4}


def test_garnet_has_a_lane_for_every_plane() -> None:
    topology, settings = machine_of("garnet-torus", [2, 2, 1], lanes=7)
    m = build_machine(topology, settings)
    assert topology.planes == 5
    assert all(list(each) == [0, 1, 2, 3, 4] for each in [*m.inject, *m.eject])


def test_a_message_takes_the_lanes_of_its_first_and_last_link() -> None:
    network = packet_network("torus", [4, 4], trace=True)
    topology, links = network.topology, network.machine.links
    network.send(0, 1 + 3 * 4, 1, at=0)  # + in dimension 0, then - in dimension 1
    drain(network)
    inject, first, last, eject = network.engine.trace()[:, 1].tolist()
    assert topology.link_name[first] == "d0+:(0,0)->(1,0)"
    assert topology.link_name[last] == "d1-:(1,0)->(1,3)"
    assert inject - links.network == network.machine.inject[0][first]
    assert eject - links.network - links.injection == network.machine.eject[13][last]


def test_numbered_lanes_take_turns() -> None:
    network = packet_network("ring", [4], lanes=3, trace=True)
    for _ in range(4):
        network.send(0, 1, 1, at=0)
    drain(network)
    trace = network.engine.trace()
    links = network.machine.links
    opened = {int(row[3]): int(row[1]) - links.network for row in trace if row[1] >= links.network and row[0] < 3}
    lanes = list(network.machine.inject[0].values())
    assert opened == {0: lanes[0], 1: lanes[1], 2: lanes[2], 3: lanes[0]}


def test_one_lane_serves_all_links_one_after_the_other() -> None:
    """Two messages over two links: side by side with a lane each, one behind the other with one lane for both."""
    times = {}
    for lanes in ("per-link", "per-dimension", 1, 2):
        network = packet_network("ring", [4], lanes=lanes)
        network.send(0, 1, 100, at=0)
        network.send(0, 3, 100, at=0)
        times[lanes] = drain(network)[-1][1]
    # 2 routers of 4, latencies 1 + 1 + 1, and 100 flits, or 200 through one lane.
    assert times == {"per-link": 111, "per-dimension": 211, 1: 211, 2: 111}


# -- what cannot be as asked -------------------------------------------------------------------------------------------


def test_a_link_carries_a_flit_per_cycle_at_most() -> None:
    m = machine("torus", [2, 2], s=[Fraction(1, 2), Fraction(1, 3)])
    assert [w.s for w in m.wires] == [1, 1]
    assert m.warnings == [
        "network.bandwidth: 2 GB/s is more than a flit per cycle; simulated as 1 GB/s "
        "(a larger flit or a faster clock carries more)",
        "network.bandwidth: 3 GB/s is more than a flit per cycle; simulated as 1 GB/s "
        "(a larger flit or a faster clock carries more)",
    ]
    assert machine("torus", [2, 2], s=[1, 2]).warnings == []


def test_the_same_bandwidth_is_told_once() -> None:
    assert len(machine("torus", [2, 2], s=Fraction(1, 2)).warnings) == 1


def test_so_does_a_lane() -> None:
    m = machine("ring", [3], s=2, lane_bandwidth=rate(Fraction(1, 2)))
    assert m.warnings == [
        "network.lane_bandwidth: 2 GB/s is more than a flit per cycle; simulated as 1 GB/s "
        "(a larger flit or a faster clock carries more)"
    ]
    assert set(per_kind(m, m.links.s_num)[1]) == {1}


@pytest.mark.parametrize(
    ("network", "told"),
    [
        ({"router": {"vcs": 1}}, "network.router.vcs: 1 VCs per link are too few: .* allowed: at least 2"),
        ({"latency": 2**24}, "network.latency: a flit would be 167772"),
        ({"s": 2**24}, "network.bandwidth: a flit would be 167772"),
        ({"lane_latency": "1 s"}, "network.lane_latency: a flit would be"),
        ({"lane_bandwidth": "1 B/s"}, "network.lane_bandwidth: a flit would be"),
        ({"s": Fraction(2**22 + 2, 2**22 + 1)}, "network.bandwidth: a flit would take 4194306/4194305 cycles"),
    ],
)
def test_what_cannot_be_simulated_is_refused(network: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        machine("ring", [3], **network)


def test_the_limits_can_be_reached() -> None:
    """The finest fraction and the longest flit that are allowed are simulated, to the cycle."""
    fine = packet_network(s=Fraction(2**22 + 1, 2**22), latency=3)
    fine.send(0, 1, 1, at=0)
    # Each of the three links takes a cycle more than at s = 1, where it is 2R + D + D_in + D_out + 1.
    assert drain(fine) == [(0, 2 * 4 + 3 + 2 + 1 + 3)]
    slow = packet_network(s=2**23, latency=2**22)
    slow.send(0, 1, 1, at=0)
    assert drain(slow) == [(0, 2 * 4 + 2**22 + 2 + 1 + 3 * (2**23 - 1))]
