"""pyxsim check says what credits as messages take."""

from __future__ import annotations

import pytest

import pyxsim

LINK = {
    "topology": "mesh",
    "shape": [2],
    "bandwidth": "64 GB/s",
    "lane_bandwidth": "256 GB/s",
    "latency": "100 ns",
    "packet": "16 MiB",
}
MESSAGE = [{"src": 0, "dst": 1, "size": "64 KiB"}]


def test_the_share_and_the_buffer_of_a_batch() -> None:
    network = {**LINK, "router": {"vcs": 1, "buffer": 54}, "credits": {"size": "64 B", "batch": 4}}
    report = pyxsim.check({"network": network, "message": MESSAGE})
    found = report["credits"]
    assert found["links"] == 2
    assert found["most_share"] == pytest.approx((1 / 16) / (1 + 1 / 16))
    assert found["enough_flits"] == 56  # 206 / 4 + 3, in whole batches
    assert "5.9 %" in str(report)


def test_no_line_without_messages() -> None:
    assert "return in messages" not in str(pyxsim.check({"network": LINK, "message": MESSAGE}))
