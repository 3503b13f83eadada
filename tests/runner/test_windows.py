"""Windows of whole runs: what is counted is booked where it happened, also around idle time and at the end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyxsim.runner.lifecycle import run

CASES = [
    # (NPUs, bytes, chunks, endpoint delay, kind): the network is idle while endpoints work, and at the end of the run.
    (5, 95_802, 8, 10, "reduce-scatter"),
    (8, 64_737, 1, 10, "all-to-all"),
    (3, 1_000, 2, 500, "all-reduce"),
    (4, 20_000, 1, 0, "all-reduce"),
]


def ring(npus: int, size: int, chunks: int, delay: int, kind: str, window: int) -> dict[str, Any]:
    return {
        "network": {"topology": "ring", "shape": [npus], "latency": "1 ns"},
        "system": {"chunks": chunks, "endpoint_delay": f"{delay} ns", "reduction_delay": f"{delay} ns"},
        "collective": {"kind": kind, "size": f"{size} B"},
        "output": {"window": f"{window} cycles"},
    }


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("window", [50, 1000])
def test_windows_are_sums_of_finer_ones(case: tuple[int, int, int, int, str], window: int) -> None:
    fine, coarse = run(ring(*case, window=10)), run(ring(*case, window=window))
    assert fine.time_cycles == coarse.time_cycles
    assert coarse.windows.length % fine.windows.length == 0
    step = coarse.windows.length // fine.windows.length
    rows = np.arange(len(fine.windows)) // step
    for name, counts in coarse.windows.counts.items():
        summed = np.zeros_like(counts)
        np.add.at(summed, rows, fine.windows.counts[name])
        np.testing.assert_array_equal(counts, summed, err_msg=name)


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("window", [1, 50, 1000])
def test_the_last_window_begins_before_the_end(case: tuple[int, int, int, int, str], window: int) -> None:
    result = run(ring(*case, window=window))
    assert result.windows.start[-1] < result.time_cycles
    assert float(result.utilization.max()) <= 1.0
