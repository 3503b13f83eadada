"""Samples of flows at the ends of windows."""

from __future__ import annotations

import numpy as np

from pyxsim.network.ethernet.flow_samples import FlowSamples
from tests.network.ethernet.test_tables import network, run


def test_samples_of_a_single_flow_in_closed_form() -> None:
    """No congestion control: the rate of the port, a window of one bandwidth-delay product, the idle round trip."""
    backend = network([100, 100], window=1000, sampled_flows=4)
    table = run(backend, [0], [1], 100_000)["flow_windows"]
    there = 2 * (1050 * 80 + 500_000)
    back = 2 * ((84 * 80) + 500_000)
    assert len(table["time"]) > 5
    assert np.diff(table["time"]).tolist() == [1000] * (len(table["time"]) - 1)
    assert set(table["rate"]) == {100e9}
    assert set(table["rtt"]) <= {0, there + back}
    assert table["rtt"][-1] == there + back
    assert len(set(table["window"])) == 1
    assert (table["flight"] <= table["window"] + 1000).all()


def test_samples_follow_the_transport_and_leave_out_further_flows() -> None:
    backend = network([100] * 4, window=1000, sampled_flows=2, transport="dctcp")
    table = run(backend, [0, 1, 2], [3, 3, 3], 400_000)["flow_windows"]
    assert set(table["flow"]) == {0, 1}
    assert (np.diff(table["time"]) >= 0).all()
    assert table["window"].max() > 2 * table["window"].min()  # DCTCP reduces it in an incast


def test_samples_change_no_result() -> None:
    tables = [run(network([100] * 3, sampled_flows=n), [0, 1], [2, 2], 50_000) for n in (0, 8)]
    assert "flow_windows" not in tables[0]
    assert all(np.array_equal(tables[0]["flows"][name], tables[1]["flows"][name]) for name in tables[0]["flows"])


def test_the_last_sample_of_a_widened_window_remains() -> None:
    samples = FlowSamples()
    for cycle in (100, 200, 300):
        values = dict.fromkeys(("window", "flight", "rate", "rtt"), np.array([cycle, 0.0]))
        samples.record(cycle, {**values, "active": np.array([1.0, 0.0])}, 100)
    samples.record(400, {**values, "active": np.array([0.0, 0.0])}, 200)
    assert samples.table()["time"].tolist() == samples.table()["rtt"].tolist() == [200, 300]
