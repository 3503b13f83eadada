"""From settings to the engine's numbers: links, lanes, buffers, and what is said when something cannot be as asked."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.core import engine_options as core
from pyxsim.core.engine_options import RouterOptions
from pyxsim.errors import InputError
from pyxsim.network.engine_config import EngineConfig, MessageClass, build_engine_config
from pyxsim.network.link_params import LinkParams
from tests.network.machines import cycles, drain, machine_of, packet_network, rate


def config(*args: Any, **kwargs: Any) -> EngineConfig:
    return build_engine_config(*machine_of(*args, **kwargs))


def per_kind(m: EngineConfig, values: Any) -> tuple[list[Any], list[Any], list[Any]]:
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
    m = config("ring", [3], latency=10, lane_latency=cycles(3), router=router)
    assert tuple(set(kind) for kind in per_kind(m, m.links.delay)) == tuple({d} for d in delays)
    assert tuple(set(kind) for kind in per_kind(m, m.links.credit_delay)) == tuple({c} for c in credits)


@pytest.mark.parametrize(
    ("extra", "credit"),
    [({}, 11 + 4 + 3 - 1), ({"serdes_credit": 2}, 11 + 2), ({"serdes_credit": 0}, 11)],
)
def test_serdes_where_a_flit_takes_longer_than_a_cycle(extra: dict[str, Any], credit: int) -> None:
    """docs/router.md: serdes per hop; credits come serdes + ceil(s) - 1 later, or as serdes_credit says."""
    m = config("mesh", [2], s=Fraction(5, 2), latency=10, router={"serdes": 4, **extra})
    assert m.wires[0] == LinkParams(Fraction(5, 2), 10, 10 + 1 + 4, credit)
    # Launched in cycle 0 the flit arrives in 3 + 15; its credit is used `credit` cycles after it left.
    assert m.wires[0].loop == 3 + 15 + credit


def test_each_dimension_has_its_own_links() -> None:
    m = config("torus", [2, 3], s=[1, Fraction(7, 3)], latency=[5, 9], router={"serdes_credit": [1, 2]})
    assert m.wires == [LinkParams(Fraction(1), 5, 6, 6), LinkParams(Fraction(7, 3), 9, 10, 12)]
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
    assert [(int(w.s), w.latency) for w in build_engine_config(network, own).wires] == [(4, 8), (2, 3)]


# -- buffers -----------------------------------------------------------------------------------------------------------


@given(
    st.fractions(1, 50, max_denominator=9),
    st.integers(1, 200),
    st.sampled_from([{}, {"pipeline": "garnet", "latency": 4}, {"pipeline": {"bw": 3, "rc": 5, "va": 0, "sa": 2}}]),
    st.integers(0, 6),
)
def test_automatic_buffers(s: Fraction, latency: int, router: dict[str, Any], serdes: int) -> None:
    """Enough for the credit loop of every link at full rate, and not more than two flits too many."""
    m = config("ring", [3], s=s, latency=latency, router=router | {"serdes": serdes})
    num, den = m.links.s_num.astype(object), m.links.s_den.astype(object)
    whole = -(-num // den)
    loop = whole + m.links.delay + m.links.credit_delay
    slots = m.links.depth.astype(object)
    waits = m.stages.rc + m.stages.va
    assert (slots * num >= loop * den).all()
    assert (slots * num < (loop + waits) * den + 2 * num).all()


def test_given_buffers_are_taken_as_they_are() -> None:
    m = config("ring", [3], latency=500, router={"buffer": 7})
    assert set(m.links.depth.tolist()) == {7}


# -- lanes -------------------------------------------------------------------------------------------------------------


def test_a_lane_for_every_link() -> None:
    topology, settings = machine_of("torus", [3, 4], s=[1, 3])
    m = build_engine_config(topology, settings)
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
    m = config("torus", [3, 4], s=[1, 3], lanes="per-dimension")
    assert all(list(lanes) == [0, 1] for lanes in [*m.inject, *m.eject])
    _, into, out = per_kind(m, m.links.s_num)
    assert into == out == [1, 3] * 12


def test_lanes_where_packets_choose_their_links() -> None:
    """Messages take the lanes in turn, so each lane serves all links, and is as wide as the widest of them."""
    m = config("torus", [3, 4], s=[1, 3], router={"routing": "minimal-adaptive"})
    assert [len(lanes) for lanes in [*m.inject, *m.eject]] == [4] * 24
    _, into, out = per_kind(m, m.links.s_num)
    assert into == out == [1] * 48


@pytest.mark.parametrize("lanes", [1, 3])
def test_a_number_of_lanes(lanes: int) -> None:
    m = config("torus", [3, 4], s=[2, 3], lanes=lanes)
    assert all(list(each) == list(range(lanes)) for each in [*m.inject, *m.eject])
    _, into, out = per_kind(m, m.links.s_num)
    assert into == out == [2] * 12 * lanes  # the widest of the links that it serves


def test_a_lane_of_its_own_width() -> None:
    m = config("torus", [3, 4], s=[2, 3], lanes=1, lane_bandwidth=rate(Fraction(9, 4)))
    network, into, out = per_kind(m, m.links.s_num)
    assert set(into) == set(out) == {9}
    assert set(network) == {2, 3}
    assert set(per_kind(m, m.links.s_den)[1]) == {4}


def test_garnet_has_a_lane_for_every_plane() -> None:
    topology, settings = machine_of("garnet-torus", [2, 2, 1], lanes=7)
    m = build_engine_config(topology, settings)
    assert topology.planes == 5
    assert all(list(each) == [0, 1, 2, 3, 4] for each in [*m.inject, *m.eject])


def test_a_message_takes_the_lanes_of_its_first_and_last_link() -> None:
    network = packet_network("torus", [4, 4], trace=True)
    topology, links = network.topology, network.config.links
    network.send(0, 1 + 3 * 4, 1, at=0)  # + in dimension 0, then - in dimension 1
    drain(network)
    inject, first, last, eject = network.engine.trace()[:, 1].tolist()
    assert topology.link_name[first] == "d0+:(0,0)->(1,0)"
    assert topology.link_name[last] == "d1-:(1,0)->(1,3)"
    assert inject - links.network == network.config.inject[0][first]
    assert eject - links.network - links.injection == network.config.eject[13][last]


def test_numbered_lanes_take_turns() -> None:
    network = packet_network("ring", [4], lanes=3, trace=True)
    for _ in range(4):
        network.send(0, 1, 1, at=0)
    drain(network)
    trace = network.engine.trace()
    links = network.config.links
    opened = {int(row[3]): int(row[1]) - links.network for row in trace if row[1] >= links.network and row[0] < 3}
    lanes = list(network.config.inject[0].values())
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
    with pytest.raises(InputError) as caught:
        config("torus", [2, 2], s=[Fraction(1, 2), Fraction(1, 3)])
    assert str(caught.value) == (
        "network.bandwidth: 2 GB/s is more than a flit of 1 B per cycle of 1 GHz; allowed: at most 1 GB/s; or a larger "
        "network.flit, or a network.clock of at least 2 GHz (without network.clock, pyxsim chooses it)"
    )
    assert config("torus", [2, 2], s=[1, 2]).warnings == []


def test_so_does_a_lane() -> None:
    with pytest.raises(InputError, match=r"network\.lane_bandwidth: 2 GB/s is more than a flit of 1 B per cycle"):
        config("ring", [3], s=2, lane_bandwidth=rate(Fraction(1, 2)))


@pytest.mark.parametrize(
    ("network", "told"),
    [
        ({"router": {"vcs": 1}}, "network.router.vcs: 1 VCs per link are too few: .* allowed: at least 2"),
        ({"latency": 2**24}, "network.latency: a flit would spend 167772"),
        ({"s": 2**24}, "network.bandwidth: a flit would spend 167772"),
        ({"lane_latency": "1 s"}, "network.lane_latency: a flit would spend"),
        ({"lane_bandwidth": "1 B/s"}, "network.lane_bandwidth: a flit would spend"),
        ({"s": Fraction(2**22 + 2, 2**22 + 1)}, "network.bandwidth: the flit time would be 4194306/4194305 cycles"),
    ],
)
def test_what_cannot_be_simulated_is_refused(network: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        config("ring", [3], **network)


def test_the_limits_can_be_reached() -> None:
    """The finest fraction and the longest flit that are allowed are simulated, to the cycle."""
    fine = packet_network(s=Fraction(2**22 + 1, 2**22), latency=3)
    fine.send(0, 1, 1, at=0)
    # Each of the three links takes a cycle more than at s = 1, where it is 2R + D + D_in + D_out + 1.
    assert drain(fine) == [(0, 2 * 4 + 3 + 2 + 1 + 3)]
    slow = packet_network(s=2**23, latency=2**22)
    slow.send(0, 1, 1, at=0)
    assert drain(slow) == [(0, 2 * 4 + 2**22 + 2 + 1 + 3 * (2**23 - 1))]


# -- kinds of links, and links with words of their own -----------------------------------------------------------------


def dragonfly(**network: Any) -> tuple[Any, Any]:
    return machine_of("dragonfly", None, options={"p": 2, "a": 2, "h": 1}, **network)


def test_a_list_tells_of_each_kind_of_links() -> None:
    topology, settings = dragonfly(s=[1, Fraction(5, 2)], latency=[3, 40])
    m = build_engine_config(topology, settings)
    assert topology.link_kinds == ("local", "global")
    assert m.wires == [LinkParams(Fraction(1), 3, 4, 4), LinkParams(Fraction(5, 2), 40, 41, 41)]
    assert [m.link_params[link] for link in range(topology.links)] == [m.wires[kind] for kind in topology.link_dim]
    assert m.links.delay[: topology.links].tolist() == [4 + 37 * int(kind) for kind in topology.link_dim]


def test_lengths_multiply_latencies() -> None:
    topology, settings = machine_of("mesh", [4], latency=7)
    lengths = np.array([1, 3, 2, 1, 5, 1], np.int32)
    m = build_engine_config(replace(topology, link_length=lengths), settings)
    assert [wire.latency for wire in m.link_params] == (7 * lengths).tolist()
    assert m.links.credit_delay[:6].tolist() == (1 + 7 * lengths).tolist()
    # The buffers of "auto" cover the loop of each link: 2 D + 3, and RC and VA.
    assert m.links.depth[:6].tolist() == (2 * 7 * lengths + 3 + 2 + 1).tolist()
    assert m.wires == [LinkParams(Fraction(1), 7, 8, 8)]


def test_a_link_may_have_words_of_its_own() -> None:
    topology, settings = machine_of("mesh", [3], s=2, latency=7)
    own = replace(
        topology,
        link_length=np.array([1, 2, 1, 2], np.int32),
        link_bandwidth=(None, rate(5), None, rate(1)),
        link_latency=("9 cycles", None, None, "1.5 ns"),
    )
    m = build_engine_config(own, settings)
    assert [(int(wire.s), wire.latency) for wire in m.link_params] == [(2, 9), (5, 14), (2, 7), (1, 2)]
    name = topology.link_name[3]
    assert m.warnings == [
        f"latency of link {name}: 1.5 ns is simulated as 2 cycles of the 1 GHz clock",
    ]
    with pytest.raises(InputError, match=f"bandwidth of link {re.escape(name)}: 2 GB/s is more than a flit"):
        build_engine_config(replace(own, link_bandwidth=(None, rate(5), None, rate(Fraction(1, 2)))), settings)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({"link_latency": ("0 ns",)}, "latency of link .*: '0 ns' is zero"),
        ({"link_latency": ("3 GB/s",)}, "latency of link .*'GB/s' in '3 GB/s' is not a unit of time"),
        ({"link_bandwidth": ("0 B/s",)}, "bandwidth of link .*: '0 B/s' is zero"),
        ({"link_bandwidth": ("fast",)}, "bandwidth of link .*'fast' is not a bandwidth"),
    ],
)
def test_what_a_link_says_must_make_sense(words: dict[str, Any], told: str) -> None:
    topology, settings = machine_of("ring", [2], options={"bidirectional": False})
    words = {key: value * topology.links for key, value in words.items()}
    with pytest.raises(InputError, match=told):
        build_engine_config(replace(topology, **words), settings)


# -- lanes of NPUs that share a router ---------------------------------------------------------------------------------


def test_npus_that_share_a_router_have_one_lane_each() -> None:
    topology, settings = dragonfly(s=[3, 1])
    m = build_engine_config(topology, settings)
    assert (m.links.injection, m.links.ejection) == (12, 12)
    assert all(list(lanes) == [0] for lanes in [*m.inject, *m.eject])
    # As wide as the widest link of the router; both ends of each lane are its NPU and the NPU's router.
    network, into, _ = per_kind(m, m.links.s_num)
    assert set(network) == {1, 3}
    assert into == [1] * 12
    assert m.inject.npu.tolist() == m.eject.npu.tolist() == list(range(12))
    _, ends, _ = per_kind(m, m.links.dst)
    _, _, starts = per_kind(m, m.links.src)
    assert ends == starts == [npu // 2 for npu in range(12)]


def test_lanes_of_shared_routers_by_number_and_by_link() -> None:
    topology, settings = dragonfly(lanes=3)
    assert build_engine_config(topology, settings).links.injection == 36
    topology, settings = dragonfly(lanes="per-link")
    m = build_engine_config(topology, settings)
    # Each router has a local link and a global one.
    assert [len(lanes) for lanes in m.inject] == [2] * 12
    for npu, lanes in enumerate(m.inject):
        assert list(lanes) == np.flatnonzero(topology.link_src == topology.home[npu]).tolist()


def test_messages_between_npus_of_one_router() -> None:
    network = packet_network("dragonfly", None, options={"p": 2, "a": 2, "h": 1}, lanes="per-link")
    network.send(0, 1, 4, plane=-1, at=0)
    assert drain(network) == [(0, 4 + 1 + 1 + 1 + 3)]


def test_collectives_have_a_lane_for_each_link_and_open_traffic_one() -> None:
    topology, settings = machine_of("torus", [3, 3])
    assert build_engine_config(topology, settings).links.injection == 36
    assert build_engine_config(topology, settings, open_traffic=True).links.injection == 9
    own = machine_of("torus", [3, 3], lanes=2)[1]
    assert build_engine_config(topology, own, open_traffic=True).links.injection == 18


# -- VCs of virtual networks and classes -------------------------------------------------------------------------------


def vcs_of(m: EngineConfig, link: int, vnet: int, vc_class: int) -> range:
    row = int(m.links.ranges[link]) + vnet * int(m.links.classes[link]) + vc_class
    return range(int(m.links.low[row]), int(m.links.high[row]))


def test_classes_share_the_vcs_of_a_virtual_network() -> None:
    m = config("torus", [3, 3], router={"vcs": 7, "virtual_networks": [3, 4]})
    for link in range(m.links.network):
        assert [vcs_of(m, link, v, c) for v in range(2) for c in range(2)] == [
            range(0, 1),
            range(1, 3),
            range(3, 5),
            range(5, 7),
        ]
    for lane in range(m.links.network, m.links.network + m.links.injection + m.links.ejection):
        assert m.links.classes[lane] == 1
        assert [vcs_of(m, lane, v, 0) for v in range(2)] == [range(0, 3), range(3, 7)]
    assert m.options.vnets == 2


def test_escape_classes_have_one_vc_each() -> None:
    m = config("torus", [4, 4], router={"vcs": 6, "routing": "minimal-adaptive"})
    classes = int(m.links.classes[0])
    assert [vcs_of(m, 0, 0, c) for c in range(classes)] == [range(0, 1), range(1, 2), range(2, 6)]


def test_too_many_adaptive_vcs_are_told_as_such() -> None:
    router = {"vcs": 4, "routing": "minimal-adaptive", "routing_options": {"adaptive_vcs": 9}}
    told = (
        r"network\.router\.routing_options\.adaptive_vcs: 9 adaptive VCs are too many: the escape requires 2 VC classes"
    )
    with pytest.raises(InputError, match=told + r" of the 4 VCs; allowed: 0 \(all that remain\) to 2"):
        config("torus", [4, 4], router=router)
    assert config("torus", [4, 4], router={**router, "routing_options": {"adaptive_vcs": 2}}).links.vcs[0] == 4
    with pytest.raises(InputError, match=r"network\.router\.vcs: 2 VCs per link are too few"):
        config("torus", [4, 4], router={**router, "vcs": 2})


def test_links_may_differ_in_classes() -> None:
    dims = [{"block": "ring", "npus": 4}, {"block": "mesh", "npus": 3}]
    m = build_engine_config(*machine_of(dims=dims, latency=3, router={"vcs": 4}))
    topology = machine_of(dims=dims)[0]
    for link, dim in enumerate(topology.link_dim):
        expected = [range(0, 2), range(2, 4)] if dim == 0 else [range(0, 4)]
        assert [vcs_of(m, link, 0, c) for c in range(len(expected))] == expected


def test_every_network_needs_vcs_for_all_classes() -> None:
    told = r"network\.router\.virtual_networks\[1\]: 1 VCs per link are too few: the routing requires 2 VC classes"
    with pytest.raises(InputError, match=told):
        config("ring", [4], router={"vcs": 4, "virtual_networks": [3, 1]})


# -- options of the router ---------------------------------------------------------------------------------------------


def test_without_more_words_the_options_are_the_engines_own() -> None:
    assert config("ring", [4]).options == RouterOptions(class_vnet=[0], class_priority=[0])


def test_options_in_the_engines_numbers() -> None:
    words = {
        "va_allocator": "islip:3",
        "sa_allocator": "separable-output-first",
        "speculation": True,
        "input_speedup": 2,
        "flow_control": "store-and-forward",
        "virtual_networks": [1, 3],
        "vc_reuse": "drained",
        "lookahead": True,
    }
    topology, settings = machine_of("mesh", [3], packet="5 B", router=words)
    classes = [MessageClass(0, 4), MessageClass(1, 2), MessageClass(1)]
    m = build_engine_config(topology, settings, classes=classes, seed=-1)
    assert m.options == RouterOptions(
        rc=0,
        va=1,
        drained=True,
        va_allocator="islip",
        va_iterations=3,
        sa_allocator="separable-output-first",
        sa_iterations=1,
        speculative=True,
        input_speedup=2,
        flow=core.STORE_AND_FORWARD,
        vnets=2,
        class_vnet=[0, 1, 1],
        class_priority=[4, 2, 0],
        seed=2**64 - 1,
    )
    assert m.head_wait == 0


@pytest.mark.parametrize("name", ["wavefront", "age", "separable-input-first", "separable-output-first", "islip"])
def test_allocators_go_by_their_names(name: str) -> None:
    m = config("mesh", [3], router={"va_allocator": name, "sa_allocator": name})
    assert (m.options.va_allocator, m.options.va_iterations) == (name, 1)
    assert (m.options.sa_allocator, m.options.sa_iterations) == (name, 1)


def test_an_internal_speed_up_queues_where_links_leave_a_router() -> None:
    pipeline = {"bw": 1, "rc": 2, "va": 1, "st": 5}
    m = config("ring", [3], latency=10, router={"internal_speedup": 2, "pipeline": pipeline})
    assert tuple(map(set, per_kind(m, m.links.output_queue))) == ({1}, {0}, {1})
    # ST is the router's own affair: 2 whole cycles, before the queue.
    assert tuple(map(set, per_kind(m, m.links.delay))) == ({10 + 1}, {1 + 1}, {1})
    assert (m.options.speedup, m.options.st, m.options.rc, m.options.va) == (2, 5, 2, 1)
    assert m.wires[0].loop == 2 + 1 + 11 + 11
    assert m.head_wait == (2 + 1 + 5) // 2
    plain = config("ring", [3], router={"output_queue": True})
    assert tuple(map(set, per_kind(plain, plain.links.output_queue))) == ({1}, {0}, {0})


def test_routers_may_take_their_time_for_credits() -> None:
    m = config("ring", [3], latency=10, lane_latency=cycles(3), router={"credit_delay": 7})
    assert tuple(map(set, per_kind(m, m.links.credit_delay))) == ({1 + 10 + 7}, {1 + 3}, {1 + 3 + 7})


def test_a_pool_at_every_link() -> None:
    m = config("ring", [3], router={"buffer": 2, "shared_buffer": 9})
    assert set(m.links.pool.tolist()) == {9}
    assert set(m.links.depth.tolist()) == {2}


@pytest.mark.parametrize(("flow", "packets"), [("virtual-cut-through", 1), ("store-and-forward", 2)])
def test_buffers_for_whole_packets(flow: str, packets: int) -> None:
    wormhole = config("ring", [3], latency=5, packet="40 B")
    m = config("ring", [3], latency=5, packet="40 B", header="1 B", router={"flow_control": flow})
    assert (m.links.depth - wormhole.links.depth).tolist() == [41 * packets] * len(m.links.depth)
    config("ring", [3], packet="40 B", router={"flow_control": flow, "buffer": 30, "shared_buffer": 10})
    told = f"{flow} requires buffers of a packet: 40 flits, not 30 and 9 shared; allowed: at least 31"
    with pytest.raises(InputError, match=told):
        config("ring", [3], packet="40 B", router={"flow_control": flow, "buffer": 30, "shared_buffer": 9})


def test_what_does_not_go_with_an_adaptive_routing() -> None:
    adaptive = {"routing": "minimal-adaptive", "vcs": 6}
    with pytest.raises(InputError, match=r"network\.router\.pipeline: adaptive routing requests VCs of several"):
        config("torus", [4, 4], router={**adaptive, "pipeline": "garnet"})
    with pytest.raises(InputError, match=r"network\.router\.ordered: adaptive routing cannot keep packets in order"):
        config("torus", [4, 4], router={**adaptive, "ordered": True})
    config("torus", [4, 4], router=adaptive)
