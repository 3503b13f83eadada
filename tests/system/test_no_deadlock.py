"""The system layer never stops forever, however unlike its dimensions are.

astra-sim issue 370: an all-reduce over several dimensions with very different latencies and bandwidths, with more
chunks than may be active, stops there: chunks hold the only slot of a dimension at one NPU while the chunk that they
wait for is kept out by another one elsewhere, in a circle. Here a waiting task takes no room from one that can go on.
"""

from __future__ import annotations

import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pyxsim.system.system as module
from pyxsim.errors import StuckError
from pyxsim.results.result import Result
from pyxsim.runner.lifecycle import run
from pyxsim.system import System
from pyxsim.system.chunk_queue import ChunkQueue
from tests.examples import part_of
from tests.system.ideal import system


def all_reduce(dims: list[dict[str, Any]], system: dict[str, Any], size: int = 4096) -> Result:
    return run(
        {
            "network": {"dims": dims, "flit": "16 B", "packet": "64 B"},
            "system": {"all_reduce": "ring", **system},
            "collective": {"kind": "all-reduce", "size": f"{size} B"},
        }
    )


def dim(npus: int, bandwidth: str, latency: str, block: str = "ring") -> dict[str, Any]:
    return {"block": block, "npus": npus, "bandwidth": bandwidth, "latency": latency}


@pytest.mark.parametrize("scheduling", ["LIFO", "FIFO"])
@pytest.mark.parametrize("chunks", [8, 32, 64])
@pytest.mark.parametrize("active", [1, 2])
@pytest.mark.parametrize("compat", [False, True])
def test_issue_370(scheduling: str, chunks: int, active: int, compat: bool) -> None:
    """Three rings: a fast one, one with a thousand times the latency, one with a fiftieth of the bandwidth."""
    system: dict[str, Any] = {"chunks": chunks, "active_chunks": active, "scheduling": scheduling, "queues": 1}
    if compat:
        system["compat"] = "astra-sim-1"
    dims = [dim(2, "16 GB/s", "2 ns"), dim(3, "16 GB/s", "2 us"), dim(2, "0.3 GB/s", "50 ns")]
    size = 64 * 12 * 8  # blocks of whole bytes, whatever the chunks: ASTRA-sim loses what is left over
    result = all_reduce(dims, system, size)
    assert result.complete
    # 12 NPUs: 2(N-1)/N of the buffer each, in all.
    assert result.counts["bytes_delivered"] == 2 * 11 * size
    assert (result.chunks["end"] >= 0).all()
    assert len(result.chunks["end"]) == chunks * 5 * 12


@given(
    dims=st.lists(
        st.builds(
            dim,
            st.integers(2, 4),
            st.sampled_from(["16 GB/s", "3 GB/s", "0.2 GB/s"]),
            st.sampled_from(["1 ns", "30 ns", "700 ns", "9 us"]),
            st.sampled_from(["ring", "mesh", "switch", "fully-connected"]),
        ),
        min_size=2,
        max_size=3,
    ),
    chunks=st.integers(2, 16),
    active=st.integers(1, 3),
    scheduling=st.sampled_from(["LIFO", "FIFO"]),
    order=st.sampled_from(["ascending", "round-robin", "themis", "themis-flex"]),
    intra=st.sampled_from(["FIFO", "RG", "smallest-first", "fewest-phases-first"]),
    optimization=st.sampled_from(["baseline", "localBWAware"]),
    queues=st.sampled_from([None, 1, 2]),
    algorithm=st.sampled_from(["ring", "direct", "direct:1", "halving-doubling"]),
    endpoint=st.sampled_from(["0 ns", "400 ns"]),
)
@settings(max_examples=part_of(40))
def test_random_asymmetric_dimensions(
    dims: list[dict[str, Any]],
    chunks: int,
    active: int,
    scheduling: str,
    order: str,
    intra: str,
    optimization: str,
    queues: int | None,
    algorithm: str,
    endpoint: str,
) -> None:
    system: dict[str, Any] = {
        "chunks": chunks,
        "active_chunks": active,
        "scheduling": scheduling,
        "inter_dimension": order,
        "intra_dimension": intra,
        "optimization": optimization,
        "all_reduce": algorithm,
        "endpoint_delay": endpoint,
    }
    if queues is not None:
        system["queues"] = queues
    result = all_reduce(dims, system, 1000)
    assert result.complete
    assert (result.chunks["end"] >= result.chunks["start"]).all()


# -- the same without flits, where a plainer rule is seen to stop ------------------------------------------------------


class Plain(ChunkQueue):
    """The obvious rule: whoever is first in line takes a slot, and holds it until its chunk is through."""

    def _next(self) -> Any:
        if self.running + self.early >= self.slots or not self._waiting:
            return None
        return self._waiting.pop(0)[-1]


def unlike(shape: list[int], delays: list[int], begins: list[int], **options: Any) -> System:
    """All-reduces on a network with a delay per dimension, and links in it that differ up to five times."""
    strides = [1]
    for size in shape:
        strides.append(strides[-1] * size)

    def time(src: int, dst: int, size: int) -> int:
        dim = next(i for i, n in enumerate(shape) if src // strides[i] % n != dst // strides[i] % n)
        return delays[dim] * (1 + zlib.crc32(bytes([src, dst])) % 5)

    made = system(shape, time, "ring", **options)
    for at in begins:
        made.issue("all-reduce", 4096, at=at)
    return made


STOPPING: list[tuple[list[int], list[int], list[int], dict[str, Any]]] = [
    # Chunks go through the dimensions in different orders.
    ([2, 2, 2], [100, 3000, 100], [0], {"chunks": 4, "inter_dimension": "themis", "optimization": "baseline"}),
    ([2, 2, 2], [1, 100, 1], [0], {"chunks": 4, "inter_dimension": "themis", "scheduling": "FIFO"}),
    ([4, 2], [10, 100], [0, 500], {"chunks": 8, "inter_dimension": "round-robin"}),
    ([3, 4, 2], [3000, 3000, 100], [0, 0], {"chunks": 4, "inter_dimension": "round-robin"}),
    # A later collective overtakes, here earlier than there.
    ([3, 4, 2], [100, 10, 10], [0, 500], {"chunks": 16}),
    ([3, 3, 2], [3000, 3000, 100], [0, 500], {"chunks": 4, "scheduling": "FIFO"}),
]


@pytest.mark.parametrize(("shape", "delays", "begins", "options"), STOPPING)
def test_slots_held_while_waiting_stop_for_ever(
    shape: list[int], delays: list[int], begins: list[int], options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cases are real: with the obvious rule they stop, with ours they end."""
    assert unlike(shape, delays, begins, **options).run() > 0
    monkeypatch.setattr(module, "ChunkQueue", Plain)
    with pytest.raises(StuckError, match=r"nothing moves after cycle .*waits for"):
        unlike(shape, delays, begins, **options).run()
