"""Congestion control in closed form: DCTCP's sawtooth, DCQCN's fixed point, equal shares of a link."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyxsim.arrays import FloatArray
from pyxsim.network.ethernet.ethernet_network import EthernetNetwork
from pyxsim.settings import Network
from pyxsim.topology.build import network_of
from tests.network.ethernet.closed_form_networks import begin, engine_of, port_to, star

MICROSECOND, MILLISECOND = 10**6, 10**9  # ps


def root(function: Any, low: float, high: float) -> float:
    """Where a rising function is zero, by bisection of the logarithm."""
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if function(middle) < 0 else (low, middle)
    return low


# -- DCTCP --

GAIN = 1 / 16


def sawtooth(threshold: int, mbps: int) -> tuple[float, float, FloatArray, FloatArray]:
    """One flow at a link of 10 Gb/s with a mark beyond `threshold` packets, after its start.

    Returns the step of the window per round trip, the window that fills the path and the queue, samples of the window,
    and samples of the queue; all in packets.
    """
    mtu, packet, link = 1000, 1082, 10**10
    marks = {"mark": "enqueue", "kmin": f"{threshold * packet} B", "kmax": f"{threshold * packet} B"}
    options = {"additive": f"{mbps} Mb/s", "gain": GAIN}
    frame = {"mtu": f"{mtu} B", "header": f"{packet - mtu} B"}
    network = star(
        1, 100_000, 10_000, delay=20 * MICROSECOND, transport="dctcp", transport_options=options, ecn=marks, **frame
    )
    begin(network, [1], [0], 10**9)
    base = int(network.base_rtt(np.array([1]), np.array([0]))[0])
    round_trip = base + threshold * packet * 8 * 10**12 // link
    engine, port = engine_of(network), port_to(network, 0)
    window, depth = [], []
    for time in range(200 * round_trip, 500 * round_trip, round_trip // 6):
        network.advance(time)
        window.append(engine.flow_control()["window"][0] / mtu)
        engine.window_peaks()  # the next peaks are the present depths
        depth.append(engine.window_peaks()[port] / packet)
    step = mbps * 10**6 * base / 8e12 / mtu
    return step, link * base / 8e12 / packet + threshold, np.array(window), np.array(depth)


@pytest.mark.parametrize(
    ("threshold", "mbps"),
    [
        (300, 500),
        pytest.param(300, 1000, marks=pytest.mark.slow),
        pytest.param(500, 500, marks=pytest.mark.slow),
        (500, 2000),
    ],
)
def test_sawtooth_of_dctcp(threshold: int, mbps: int) -> None:
    """The window falls when path and queue are full, on average half a step beyond (Alizadeh et al. 2010, section 3.3).

    A cycle of T round trips has one with marks, which raises alpha by g (1 - alpha), and T - 1 without; the window does
    not grow in two of them. So alpha at the cut is g (1 - g)^(T-1) / (1 - (1 - g)^T), and the cut, alpha / 2 of the
    window, is T - 2 steps. Cycles are whole numbers of round trips, and some skip a pause: they are up to 15 % shorter.
    """
    step, full, window, depth = sawtooth(threshold, mbps)
    cuts = np.flatnonzero(np.diff(window) < 0)
    assert len(cuts) > 30
    peak, cut = window[cuts].mean(), (window[cuts] - window[cuts + 1]).mean()
    assert peak == pytest.approx(full + step / 2, rel=0.01)

    def too_long(trips: float) -> float:
        alpha = GAIN * (1 - GAIN) ** (trips - 1) / (1 - (1 - GAIN) ** trips)
        return trips - 2 - peak * alpha / 2 / step

    expected = (root(too_long, 2, 1000) - 2) * step
    assert 0.85 * expected < cut < expected
    assert depth.max() <= threshold + 2 * step + 1
    assert depth.min() >= threshold - 2 * expected


def test_the_queue_of_dctcp_never_empties_above_a_seventh_of_the_path() -> None:
    """The guideline of section 3.4: K > C RTT / 7 keeps the link busy; the path has 93 packets here."""
    busy = sawtooth(14, 300)
    idle = sawtooth(2, 3000)
    assert busy[3].min() >= 0
    assert (busy[3] > 0).mean() > 0.99 > 0.9 > (idle[3] > 0).mean()


# -- DCQCN --

TIMER, CUTS, ALPHA, FAST, ADDITIVE, DCQCN_GAIN = 55, 50, 55, 5, 40, 1 / 256  # us and Mb/s


def fixed_point(rate: float) -> float:
    """The probability of a mark at which a flow keeps this rate (packets per second).

    Zhu et al., "ECN or delay", CoNEXT 2016, equations 3 to 9, without the byte counter: cuts by alpha / 2 balance steps
    of the timer half the way to the target, and steps of the target balance its cuts.
    """
    cuts, timer = CUTS * 1e-6, TIMER * 1e-6
    additive = ADDITIVE * 1e6 / 8 / 1048

    def excess(p: float) -> float:
        def marked(time: float) -> float:
            return 1 - (1 - p) ** (time * rate)

        steps = rate * p / ((1 - p) ** (-timer * rate) - 1)
        above = additive * (1 - p) ** (FAST * timer * rate) * steps * cuts / marked(cuts)  # target less rate
        return rate * marked(ALPHA * 1e-6) / (2 * cuts) * marked(cuts) - above / 2 * steps

    return root(excess, 1e-9, 0.5)


def dcqcn(flows: int, gbps: int, kmax: int, pmax: float) -> EthernetNetwork:
    """Flows without end into one port."""
    network = star(
        flows,
        gbps * 1000,
        delay=MICROSECOND,
        transport="dcqcn",
        mtu="1000 B",
        header="48 B",
        ecn={"kmin": "5 kB", "kmax": f"{kmax} kB", "pmax": pmax},
        transport_options={
            "window": False,
            "clamp": True,
            "alpha_interval": f"{ALPHA} us",
            "decrease_interval": f"{CUTS} us",
            "increase_interval": f"{TIMER} us",
            "fast_recovery": FAST,
            "additive": f"{ADDITIVE} Mb/s",
            "hyper": f"{ADDITIVE} Mb/s",
            "gain": DCQCN_GAIN,
            "least": "10 Mb/s",
        },
    )
    begin(network, list(range(1, flows + 1)), [0] * flows, 2 * 10**9)
    return network


BOTTLENECKS = pytest.mark.parametrize(
    ("flows", "gbps", "kmax", "pmax"),
    [
        pytest.param(2, 40, 200, 0.01, marks=pytest.mark.slow),
        pytest.param(4, 40, 1000, 0.1, marks=pytest.mark.slow),
        (2, 10, 1000, 0.1),
    ],
)


@BOTTLENECKS
def test_fixed_point_of_dcqcn(flows: int, gbps: int, kmax: int, pmax: float) -> None:
    """As many marks as the fluid model has, and a queue of the depth that gives them."""
    network = dcqcn(flows, gbps, kmax, pmax)
    engine, port = engine_of(network), port_to(network, 0)
    network.advance(60 * MILLISECOND)
    before = engine.flow_table()
    depth = []
    for time in range(60 * MILLISECOND, 260 * MILLISECOND, 50 * MICROSECOND):
        network.advance(time)
        engine.window_peaks()
        depth.append(engine.window_peaks()[port] / 1000)
    after = engine.flow_table()
    sent = after["sent"] - before["sent"]
    expected = fixed_point(gbps * 1e9 / 8 / 1048 / flows)
    assert (after["marked"] - before["marked"]).sum() / sent.sum() == pytest.approx(expected, rel=0.2)
    assert np.mean(depth) == pytest.approx(5 + expected / pmax * (kmax - 5), rel=0.2)


@pytest.mark.slow
@BOTTLENECKS
def test_shares_of_dcqcn(flows: int, gbps: int, kmax: int, pmax: float) -> None:
    """Equal shares within 2 % on average of 1.5 s; in 200 ms, random marks move them by up to 7 %."""
    network = dcqcn(flows, gbps, kmax, pmax)
    network.advance(60 * MILLISECOND)
    before = engine_of(network).flow_table()["sent"]
    network.advance(1560 * MILLISECOND)
    sent = engine_of(network).flow_table()["sent"] - before
    assert sent / sent.mean() == pytest.approx(np.ones(flows), abs=0.02)


# -- shares --

TCP = {"min_rto": "500 us", "initial_rto": "1 ms"}
# Of HPCC, the paper's W_AI = W (1 - eta) / N (section 4.2): 5 % of 400 Gb/s for 4 flows.
# Time in ms: of random marks and losses, the longer one averages more (with --slow).
SHARING: list[tuple[str, dict[str, Any], int, int]] = [
    ("none", {}, 20, 40),
    ("dctcp", {}, 75, 100),
    ("hpcc", {"transport_options": {"additive": "5 Gb/s"}}, 20, 40),
    ("hpcc-pint", {"transport_options": {"additive": "5 Gb/s"}}, 20, 40),
    ("swift", {"transport_options": {"scaling": "40 us"}}, 30, 60),
    ("newreno", {"transport_options": {**TCP, "sack": True}}, 150, 200),
    ("cubic", {"transport_options": TCP}, 250, 500),
    ("ndp", {}, 20, 20),
    ("nscc", {}, 50, 100),
    ("rccc", {}, 20, 20),
    ("nscc-rccc", {}, 20, 20),
]


def delivered(transport: str, ethernet: dict[str, Any], time: int, gigabytes: int = 50) -> Any:
    """Packets of four flows into one link in so many ms, from 20 ms on; as parts of their mean."""
    options = {"npus": 5, "leaves": 1, "spines": 1}
    settings = {"transport": transport, **ethernet}
    rate = {"bandwidth": f"{gigabytes} GB/s", "latency": "3 us"}
    network = Network.model_validate({"topology": "leaf-spine", "options": options, **rate, "ethernet": settings})
    fabric = EthernetNetwork(network_of(network, Path()), network, seed=1)
    for sender in range(1, 5):
        zero = np.array([0])
        fabric.send_many(np.array([sender]), zero, np.array([10**10]), zero, (sender - 1) * 300_000)
    fabric.advance(20 * 10**6)
    before = fabric.engine.flow_table()["delivered"]
    fabric.advance((20 + time) * 10**6)
    packets = fabric.engine.flow_table()["delivered"] - before
    assert packets.sum() * (4096 + 82) > 0.88 * gigabytes * time * 10**6
    return packets / packets.mean()


@pytest.mark.parametrize(("transport", "ethernet", "short", "long"), SHARING, ids=[each[0] for each in SHARING])
def test_flows_that_start_one_after_the_other_share_a_link_equally(
    transport: str, ethernet: dict[str, Any], short: int, long: int, request: pytest.FixtureRequest
) -> None:
    """Four flows into one link of 400 Gb/s, a round trip of 13 us: after 20 ms, equal shares within 2 %.

    TIMELY is missing: it has no unique fixed point (Zhu et al. 2016, theorem 4).
    """
    time = long if request.config.getoption("--slow") else short
    assert delivered(transport, ethernet, time) == pytest.approx(np.ones(4), abs=0.02)


@pytest.mark.parametrize(("gigabytes", "time"), [(12, 200), pytest.param(50, 400, marks=pytest.mark.slow)])
def test_flows_of_dcqcn_share_a_link_equally(gigabytes: int, time: int) -> None:
    """Within 5 %, as random marks move its rates about the fixed point for tens of milliseconds: the faster the link,
    the longer (test_shares_of_dcqcn has a longer average)."""
    assert delivered("dcqcn", {}, time, gigabytes) == pytest.approx(np.ones(4), abs=0.05)
