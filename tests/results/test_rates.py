from __future__ import annotations

import pytest

from pyxsim.results.rates import rates


@pytest.mark.parametrize(
    ("kind", "algorithm", "bus"),
    [
        # 8 NPUs, 1000 bytes each, in 1 us; factors of nccl-tests doc/PERFORMANCE.md
        ("all-reduce", 1e9, 1e9 * 14 / 8),
        ("reduce-scatter", 1e9, 1e9 * 7 / 8),
        ("all-to-all", 1e9, 1e9 * 7 / 8),
        ("all-gather", 8e9, 8e9 * 7 / 8),  # every NPU ends with 8 shards of 1000 bytes
    ],
)
def test_rates(kind: str, algorithm: float, bus: float) -> None:
    found = rates(kind, 8, 1000, 1e-6)
    assert found is not None
    assert found.algorithm == pytest.approx(algorithm)
    assert found.bus == pytest.approx(bus)


def test_an_all_reduce_is_a_reduce_scatter_and_an_all_gather() -> None:
    """At the same bus bandwidth of the links the two halves take as long as the whole: the point of the measure."""
    n, size = 4, 4000
    halves = [("reduce-scatter", size), ("all-gather", size // n)]
    bus = 1e9
    seconds = 0.0
    for kind, of in halves:
        found = rates(kind, n, of, 1.0)
        assert found is not None
        seconds += found.bus / bus
    whole = rates("all-reduce", n, size, 1.0)
    assert whole is not None
    assert whole.bus / bus == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("kind", "npus", "seconds"), [("barrier", 8, 1.0), ("all-reduce", 1, 1.0), ("all-reduce", 8, 0.0)]
)
def test_no_rates(kind: str, npus: int, seconds: float) -> None:
    assert rates(kind, npus, 1000, seconds) is None
