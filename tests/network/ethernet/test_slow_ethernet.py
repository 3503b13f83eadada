"""The engine against a slow second implementation, compared after every event time.

After each time at which either has an event, all counters of all ports and flows and the depth of all queues are equal:
so are the times of every transmission, arrival, mark, pause and drop.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyxsim.network.ethernet.engine import Engine
from pyxsim.network.ethernet.ethernet_network import EthernetNetwork
from pyxsim.settings import Network
from pyxsim.topology.from_networkx import from_networkx
from pyxsim.topology.topology import Topology
from tests.examples import part_of
from tests.network.ethernet.slow_ethernet import SlowEthernet
from tests.network.ethernet.slow_records import Link, Rules
from tests.network.ethernet.slow_transports import MICROSECOND, SlowDcqcn, SlowDctcp, SlowTransport

GIGABIT, NANOSECOND = 10**9, 1000
Message = tuple[int, int, int, int]
EVERYWHERE = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
# increase sooner than by default: these runs take some hundred microseconds
TIMERS = {"increase_interval": 30 * MICROSECOND, "alpha_interval": 3 * MICROSECOND}
COLUMNS = ("sent", "resent", "delivered", "marked", "trimmed", "dropped", "errors", "out_of_order", "duplicates")


@st.composite
def graphs(draw: st.DrawFn) -> tuple[nx.Graph, list[int | None]]:
    """A connected graph of NPUs and switches with links of different speed, and the NPU of each node."""
    count = draw(st.integers(3, 7))
    order = draw(st.permutations(range(count)))
    graph = nx.Graph()
    switches = set(draw(st.lists(st.integers(0, count - 1), max_size=count - 3)))
    graph.add_nodes_from((node, {"npus": int(node not in switches)}) for node in range(count))
    edges = {tuple(sorted((order[i], order[draw(st.integers(0, i - 1))]))) for i in range(1, count)}
    pairs = [(a, b) for a in range(count) for b in range(a + 1, count)]
    edges |= set(draw(st.lists(st.sampled_from(pairs), max_size=count)))
    equal = draw(st.booleans())
    for edge in sorted(edges):
        gbps = 100 if equal else draw(st.sampled_from([25, 40, 100]))
        graph.add_edge(*edge, gbps=gbps, ns=500 if equal else draw(st.sampled_from([10, 250, 1000])))
    for _, _, attributes in graph.edges(data=True):
        attributes |= {"bandwidth": f"{attributes['gbps']} Gb/s", "latency": f"{attributes['ns']} ns"}
    npus = iter(range(count))
    return graph, [next(npus) if graph.nodes[node]["npus"] else None for node in range(count)]


@st.composite
def rules(draw: st.DrawFn) -> Rules:
    pfc = draw(st.booleans())
    selective = draw(st.booleans())
    kmin = draw(st.sampled_from([0, 1000, 4000]))
    return Rules(
        mtu=draw(st.sampled_from([200, 1000])),
        header=draw(st.sampled_from([36, 82])),
        ack=draw(st.sampled_from([48, 84])),
        forwarding=draw(st.sampled_from(["store-and-forward", "cut-through"])),
        load_balancing=draw(st.sampled_from(["ecmp", "spray", "adaptive"])),
        reliability="selective" if selective else "go-back-n",
        ack_interval=draw(st.sampled_from([1, 3])),
        nack_interval=draw(st.sampled_from([1, 20])) * MICROSECOND,
        cnp_interval=draw(st.sampled_from([0, 2])) * MICROSECOND,
        timeout=draw(st.sampled_from([15, 60])) * MICROSECOND,
        trim=draw(st.sampled_from([0, 64])) if selective else 0,
        end=draw(st.sampled_from(["received", "acknowledged"])),
        resolution=draw(st.sampled_from([0, 1000])),
        capacity=draw(st.sampled_from([5_000, 10_000, 100_000])),
        queue=draw(st.sampled_from([None, None, 4000])) if not pfc else None,
        alpha=draw(st.sampled_from([0.125, 0.5, 1.0] if pfc else [0.0, 0.5, 1.0])),
        reserve=draw(st.sampled_from([0, 1500])),
        ecn=draw(st.booleans()),
        kmin=kmin,
        kmax=kmin + draw(st.sampled_from([0, 6000])),
        pmax=draw(st.sampled_from([0.25, 1.0])),
        mark=draw(st.sampled_from(["dequeue", "enqueue"])),
        pfc=pfc,
        headroom=draw(st.sampled_from([None, None, 500, 3000])) if pfc else None,
        resume=draw(st.sampled_from([0, 1000])),
        frame=draw(st.sampled_from([31, 84])),
        error_rate=draw(st.sampled_from([0.0, 0.0, 0.02])),
    )


@st.composite
def messages(draw: st.DrawFn, npus: int) -> list[Message]:
    """Cycle, source, destination, bytes: some at the same time, half of the time to one destination."""
    sink = draw(st.sampled_from([None, 0, 0]))
    count = draw(st.integers(1, 5)) * draw(st.integers(1, 4))
    sent = []
    for _ in range(count):
        src = draw(st.integers(0, npus - 1))
        dst = (src + draw(st.integers(1, npus - 1))) % npus
        if sink is not None and src != sink:
            dst = sink
        nbytes = draw(st.sampled_from([20_000, 12_345, 8_000, 1000, 200, 1]))
        sent.append((draw(st.sampled_from([0, 0, 0, 1, 700, 40_000])), src, dst, nbytes))
    return sorted(sent)


def settings_of(rules: Rules, transport: SlowTransport) -> dict[str, Any]:
    """[network.ethernet] with these rules."""
    name = {SlowDctcp: "dctcp", SlowDcqcn: "dcqcn"}.get(type(transport), "none")
    options: dict[str, Any] = {"window": transport.windowed, "variable": transport.variable}
    if name == "dcqcn":
        options |= {key: f"{value} ps" for key, value in TIMERS.items()}
    pfc: dict[str, Any] = {"enabled": rules.pfc, "resume": f"{rules.resume} B", "frame": f"{rules.frame} B"}
    if rules.headroom is not None:
        pfc["headroom"] = f"{rules.headroom} B"
    buffer: dict[str, Any] = {"capacity": f"{rules.capacity} B", "alpha": rules.alpha, "reserve": f"{rules.reserve} B"}
    if rules.queue is not None:
        buffer["queue"] = f"{rules.queue} B"
    ecn = {"enabled": rules.ecn, "pmax": rules.pmax, "mark": rules.mark}
    return {
        "transport": name,
        "transport_options": options,
        **{name: f"{getattr(rules, name)} B" for name in ("mtu", "header", "ack", "trim")},
        **{name: getattr(rules, name) for name in ("forwarding", "load_balancing", "reliability", "ack_interval")},
        **{name: f"{getattr(rules, name)} ps" for name in ("nack_interval", "cnp_interval", "timeout", "resolution")},
        "end": rules.end,
        "retries": 0,
        "ecn": {**ecn, "kmin": f"{rules.kmin} B", "kmax": f"{rules.kmax} B"},
        "buffer": buffer,
        "pfc": pfc,
        "links": [{"link": "*", "packet_error_rate": rules.error_rate}] if rules.error_rate else [],
    }


class Both:
    """The engine and the slow network with the same messages."""

    def __init__(self, network: EthernetNetwork, slow: SlowEthernet, sent: list[Message]) -> None:
        assert isinstance(network.engine, Engine)
        self.engine, self.slow = network.engine, slow
        entropy = np.random.Generator(np.random.PCG64(7))
        for cycle, src, dst, nbytes in sent:
            network.send_many(np.array([src]), np.array([dst]), np.array([nbytes]), np.array([0]), cycle)
            slow.send(src, dst, nbytes, int(entropy.integers(49152, 65536, 1)[0]) | 4791 << 16, cycle * NANOSECOND)

    def run(self, until: int) -> int:
        """Compare at every event time up to `until`; return how many there were."""
        steps = 0
        while True:
            times = [time for time in (self.engine.next_time, self.slow.next_time) if time >= 0]
            if not times or (now := min(times)) > until:
                return steps
            while 0 <= self.engine.next_time <= now:
                self.engine.run(now, 1, 1, 0)
            self.slow.run(now)
            self.compare(now)
            steps += 1

    def compare(self, now: int) -> None:
        slow, counts = self.slow, self.engine.counts
        assert {name: counts[name] for name in slow.counts} == slow.counts, now
        self.engine.window_peaks()  # the peaks of the next one are the present depths
        depths = self.engine.window_peaks().tolist()
        assert depths == [max(port.depth(0), port.depth(1)) for port in slow.ports], now
        counters = self.engine.port_counters()
        for name in counters:
            expected = [getattr(port, name) if name == "peak" else port.counted[name] for port in slow.ports]
            if name == "paused_time":
                expected = [
                    total + (now - port.paused_since) * port.paused
                    for total, port in zip(expected, slow.ports, strict=True)
                ]
            assert counters[name].tolist() == expected, (now, name)
        flows = self.engine.flow_table()
        assert flows["end"].tolist() == [flow.end for flow in slow.flows], now
        for name in (*COLUMNS, "timeouts"):
            assert flows[name].tolist() == [flow.counted[name] for flow in slow.flows], (now, name)


def links_of(topology: Topology, graph: nx.Graph) -> list[Link]:
    """The links of a graph, in the order of the engine's ports."""
    ends = zip(topology.link_src.tolist(), topology.link_dst.tolist(), strict=True)
    return [Link(a, b, graph.edges[a, b]["gbps"] * GIGABIT, graph.edges[a, b]["ns"] * NANOSECOND) for a, b in ends]


TRANSPORTS = (SlowTransport, SlowDctcp, SlowDctcp, SlowDcqcn)


def both_of(
    graph: nx.Graph, npu_of: list[int | None], drawn: Rules, transport: SlowTransport, sent: list[Message]
) -> Both:
    topology = from_networkx(graph)
    links = links_of(topology, graph)
    # the shared part of the smallest buffer has the drawn size
    held = -min(node.pool for node in SlowEthernet(links, npu_of, replace(drawn, capacity=0), transport, 7).nodes)
    drawn = replace(drawn, capacity=drawn.capacity + held)
    ethernet = settings_of(drawn, transport)
    network = Network(topology="graph", options={"file": "random"}, ethernet=ethernet, clock="1 GHz")
    slow = SlowEthernet(links, npu_of, drawn, transport, 7)
    return Both(EthernetNetwork(topology, network, seed=7), slow, sent)


@st.composite
def pairs_of_networks(draw: st.DrawFn) -> Both:
    graph, npu_of = draw(graphs())
    npus = sum(npu is not None for npu in npu_of)
    kind = draw(st.sampled_from(TRANSPORTS))
    windows = {"windowed": draw(st.sampled_from([True, True, False])), "variable": draw(st.booleans())}
    options: dict[str, Any] = {**windows, **(TIMERS if kind is SlowDcqcn else {})}
    return both_of(graph, npu_of, draw(rules()), kind(**options), draw(messages(npus)))


def check(both: Both) -> None:
    """Until everything has arrived, or for 3 ms: some of these networks lose every other packet, some deadlock."""
    both.run(3 * 10**9)


@settings(max_examples=part_of(15), suppress_health_check=EVERYWHERE)
@given(pairs_of_networks())
def test_engine_equals_the_slow_network(both: Both) -> None:
    check(both)


@pytest.mark.slow
@settings(max_examples=1500, suppress_health_check=EVERYWHERE)
@given(pairs_of_networks())
def test_engine_equals_1500_slow_networks(both: Both) -> None:
    check(both)


INCAST = Rules(
    mtu=1000,
    header=82,
    ack=84,
    forwarding="store-and-forward",
    load_balancing="spray",
    reliability="go-back-n",
    ack_interval=1,
    nack_interval=5 * MICROSECOND,
    cnp_interval=0,
    timeout=20 * MICROSECOND,
    trim=0,
    end="received",
    resolution=0,
    capacity=15_000,
    queue=None,
    alpha=1.0,
    reserve=0,
    ecn=True,
    kmin=2000,
    kmax=9000,
    pmax=0.3,
    mark="dequeue",
    pfc=False,
    headroom=None,
    resume=1000,
    frame=84,
)


RULES: list[tuple[dict[str, Any], set[str]]] = [
    ({}, {"marked", "dropped"}),
    ({"reliability": "selective"}, {"marked", "dropped"}),
    ({"reliability": "selective", "trim": 64}, {"marked", "trimmed"}),
    ({"reliability": "selective", "trim": 64, "pfc": True, "headroom": 1500}, {"pauses", "trimmed"}),
    ({"pfc": True}, {"marked", "pauses"}),
    ({"pfc": True, "cnp_interval": 2 * MICROSECOND, "reserve": 1500}, {"marked", "pauses"}),
    ({"pfc": True, "headroom": 3000, "alpha": 0.25}, {"pauses", "dropped"}),
    ({"forwarding": "cut-through", "mark": "enqueue", "queue": 6000}, {"marked", "dropped"}),
]
"""What differs from INCAST, and what happens then."""


@pytest.mark.parametrize(
    ("changes", "happens", "kind"),
    [
        pytest.param(*rules, kind, marks=() if (number + second) % 2 else pytest.mark.slow)
        for second, kind in enumerate([SlowDctcp, SlowDcqcn])
        for number, rules in enumerate(RULES)
    ],
)
def test_engine_equals_the_slow_network_in_an_incast(
    changes: dict[str, Any], happens: set[str], kind: type[SlowTransport]
) -> None:
    """Hosts 0 and 1 receive from all others over two switches; 70 short messages of host 5 use its slots again."""
    graph = nx.Graph()
    graph.add_nodes_from((node, {"npus": int(node < 6)}) for node in range(8))
    for host in range(6):
        graph.add_edge(host, 6 + host % 2, gbps=100 if host else 40, ns=250)
    graph.add_edge(6, 7, gbps=100, ns=500)
    for _, _, attributes in graph.edges(data=True):
        attributes |= {"bandwidth": f"{attributes['gbps']} Gb/s", "latency": f"{attributes['ns']} ns"}
    sent = [(0, src, dst, 12_500) for dst in (0, 1) for src in range(2, 6)]
    sent += [(1 + 50 * i, 5, i % 5, 300) for i in range(70)]
    options: dict[str, Any] = {"windowed": False, **(TIMERS if kind is SlowDcqcn else {})}
    both = both_of(graph, [*range(6), None, None], replace(INCAST, **changes), kind(**options), sent)
    check(both)
    assert all(sum(port.counted[name] for port in both.slow.ports) for name in happens)
    assert all(flow.end >= 0 for flow in both.slow.flows)
