"""Results of TACOS in CSV."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pyxsim.collective.checker import prove
from pyxsim.collective.lookup import get_schedule
from pyxsim.errors import InputError
from tests.collective.custom.synthesized import ring_links


@pytest.mark.parametrize(("n", "per_npu"), [(2, 1), (4, 1), (3, 3)])
def test_links_in_order(tmp_path: Path, n: int, per_npu: int) -> None:
    path = tmp_path / "x.csv"
    path.write_text(ring_links(n, per_npu))
    s = get_schedule("all-gather", str(path), n)
    prove(s)
    assert s.blocks == n * per_npu
    sent = ~s.local
    assert sent.sum() == n * (n - 1) * per_npu
    assert np.array_equal(s.dst[sent], (s.src[sent] + 1) % n)
    # Chunk c is of NPU c % n: the first one that a link carries is that of its own NPU.
    first = [int(s.blocks_of(int(np.flatnonzero(s.src == rank)[0]))[0]) for rank in range(n)]
    assert first == [rank * per_npu for rank in range(n)]


def test_a_chunk_that_arrives_twice_is_sent_twice(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(ring_links(3).replace("1,0,500,50,None", "1,0,500,50,1"))
    s = get_schedule("all-gather", str(path), 3)
    prove(s)
    assert ((s.src == 1) & (s.dst == 0)).sum() == 1
    assert (~s.local).sum() == 7


def test_it_runs_with_the_time_of_a_ring(tmp_path: Path) -> None:
    from pyxsim.runner.lifecycle import run

    (tmp_path / "x.csv").write_text(ring_links(4))
    network = {"topology": "ring", "shape": [4], "bandwidth": "64 GB/s", "latency": "500 ns"}
    times = [
        run(
            {
                "network": network,
                "system": {"all_gather": name},
                "collective": {"kind": "all-gather", "size": "64 KiB"},
                "output": {"carry": True},
            },
            backend=backend,
        ).time_cycles
        for backend in ("packet", "flow", "analytical")
        for name in (str(tmp_path / "x.csv"), "ring")
    ]
    assert times[::2] == times[1::2]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("NPUs Count,3", "NPU Count,3", r"x\.csv:1: 'NPU Count,3' is not the NPUs Count"),
        ("Chunks Count,3", "Chunks Count,4", r"x\.csv:3: 3 NPUs and 4 chunks"),
        ("SrcID,", "Src,", r"x\.csv:5: is not the line of the columns"),
        ("Links Count,6", "Links Count,7", r"x\.csv:2: 6 links follow; allowed: 7"),
        ("0,1,500,50,0,2", "0,0,500,50,0,2", r"x\.csv:6: is a link from NPU 0 to itself"),
        ("0,1,500,50,0,2", "0,1,500,fast,0,2", r"x\.csv:6: 'fast' is not a latency or bandwidth"),
        ("0,1,500,50,0,2", "0,1,500,50,0,3", r"x\.csv:6: '3' is not a chunk; allowed: 0 to 2"),
        ("0,1,500,50,0,2", "0,1,500,50,2,0", r"x\.csv:.*which no order of the transfers brings to it"),
        ("0,1,500,50,0,2", "0,1,500", r"x\.csv:6: has 3 columns"),
    ],
)
def test_what_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = ring_links(3)
    assert old in text
    text = text.replace(old, new, 1)
    if new.endswith("2,0"):  # and no other link has them
        text = text.replace("2,0,500,50,2,1", "2,0,500,50,1,2").replace("1,2,500,50,1,0", "1,2,500,50,0,1")
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        get_schedule("all-gather", str(tmp_path / "x.csv"), 3)
