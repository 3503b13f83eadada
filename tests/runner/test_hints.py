"""Hints: one line for each kind of waste, in run, check and files; nothing where there is no waste."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pyxsim
from pyxsim.reports.text.summary import text

TORUS: dict[str, Any] = {"topology": "torus", "shape": [4, 4], "bandwidth": "256 GB/s", "latency": "10 ns"}


def hints(network: dict[str, Any] | None = None, size: str = "64 KiB", **more: Any) -> list[str]:
    """Of an all-reduce by rings in two chunks; flits of 256 B, packets of 4 KiB. Run and check have the same ones."""
    collective = {"kind": "all-reduce", "size": size, **more.pop("collective", {})}
    tables = {"network": {**TORUS, **(network or {})}, "system": {"chunks": 2, **more}, "collective": collective}
    found = pyxsim.run(tables).hints
    assert pyxsim.check(tables).json()["hints"] == found
    return found


def test_nothing_to_say() -> None:
    assert hints() == []
    assert pyxsim.run(Path(__file__).parents[2] / "inputs" / "torus_all_reduce.toml").hints == []


@pytest.mark.parametrize(
    ("network", "size", "share", "change"),
    [
        # Chunks of 640 B: 160 B to each of four in dimension 0, 40 B in dimension 1, as many messages, a flit each.
        ({}, "1280 B", 1 - 100 / 256, "a smaller network.flit or fewer system.chunks"),
        # 8 KiB and 2 KiB in packets of 4 KiB: as many of the former as of the latter, 3 packets for 10 KiB.
        ({"pad_packets": True}, "64 KiB", 1 - 10 / 12, "network.pad_packets = false"),
        # A header and a half flit of data, then the other half and nothing: of 512 B 256 B are data.
        ({"packet": "256 B", "header": "128 B"}, "64 KiB", 0.5, "a larger network.packet or a smaller network.header"),
    ],
)
def test_padding(network: dict[str, Any], size: str, share: float, change: str) -> None:
    (line,) = hints(network, size)
    assert line.startswith(f"network.flit: {100 * share:.1f} % of the bytes in flits of 256 B are overhead; ")
    assert change in line


def test_one_chunk_uses_one_direction() -> None:
    assert hints(chunks=1) == ["links d0-, d1- are idle: system.chunks = 2 or more may use both directions"]


@pytest.mark.parametrize(("lane", "narrow"), [("100 GB/s", True), ("450 GB/s", False), ("500 GB/s", False)])
def test_a_lane_that_is_narrower_than_its_links(lane: str, narrow: bool) -> None:
    """A message enters by one lane: 100 / 450 of the link is the most that it fills."""
    network = {**TORUS, "bandwidth": "450 GB/s", "lane_bandwidth": lane}
    tables = {"network": network, "message": [{"name": "a", "src": 0, "dst": 1, "size": "1 MiB"}]}
    expected = [
        "network.lane_bandwidth: a message enters by a lane of 100 GB/s and keeps a link of 450 GB/s at most 22.2 % "
        "busy; without lane_bandwidth a lane is as wide as its links"
    ]
    result = pyxsim.run(tables)
    assert result.hints == pyxsim.check(tables).hints == (expected if narrow else [])
    if narrow:
        assert result.link_utilization.max() == pytest.approx(100 / 450, rel=0.02)


def test_an_idle_dimension() -> None:
    (line,) = hints(collective={"dims": [0]})
    assert line == "collective: no message uses the 32 links of dimension 1; all dimensions would"


def test_they_are_in_the_summary_and_in_the_file(tmp_path: Path) -> None:
    tables = {"network": TORUS, "system": {"chunks": 1}, "collective": {"kind": "all-reduce", "size": "64 KiB"}}
    result = pyxsim.run(tables)
    assert f"hint: {result.hints[0]}" in " ".join(text(result).split())
    result.save(tmp_path / "out.h5")
    assert pyxsim.load(tmp_path / "out.h5").hints == result.hints
    assert pyxsim.run(tables, backend="flow").hints == []
