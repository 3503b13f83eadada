"""One chunk in one dimension has a closed form: endpoint delays e, flights h, reductions f (docs/compat.md)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.compat.astra.system.originals import network, system
from tests.examples import part_of

MEMORY = Fraction(50)  # bytes per ns


def end(kind: str, algorithm: str, n: int, size: int, e: int, **options: Any) -> int:
    net = network("astra-sim-2", ["FullyConnected"], [n], [50], [500])
    layer = system(
        net, "astra-sim-2", [algorithm], endpoint_delay=e, reduction_bytes_per_cycle=MEMORY, chunks=1, **options
    )
    layer.issue(kind, size)
    return layer.run()


def flight(size: int) -> int:
    return int(500 + size / (50 * 2**30 / 10**9))


def reduction(size: int) -> int:
    return 3 * int(size / (50 * 1e9) * 1e9)


@settings(max_examples=part_of(40), deadline=None)
@given(n=st.integers(2, 12), piece=st.integers(1, 10**7), e=st.integers(1, 2000))
def test_ring(n: int, piece: int, e: int) -> None:
    h, f = flight(piece), reduction(piece)
    assert end("reduce-scatter", "ring", n, n * piece, e) == n * e + (n - 1) * (h + f)
    assert end("all-gather", "ring", n, piece, e) == n * e + (n - 1) * h
    assert end("all-reduce", "ring", n, n * piece, e) == (2 * n - 1) * e + 2 * (n - 1) * h + (n - 1) * f
    relayed = n * (n - 1) // 2
    assert end("all-to-all", "ring", n, n * piece, e) == (relayed + 1) * e + relayed * h


@settings(max_examples=part_of(20), deadline=None)
@given(n=st.integers(2, 12), piece=st.integers(1, 10**7), e=st.integers(1, 2000))
def test_direct_sends_all_at_once(n: int, piece: int, e: int) -> None:
    h, f = flight(piece), reduction(piece)
    assert end("all-to-all", "direct", n, n * piece, e) == 2 * e + h
    assert end("reduce-scatter", "direct", n, n * piece, e) == 2 * e + h + f


@settings(max_examples=part_of(20), deadline=None)
@given(power=st.integers(1, 4), piece=st.integers(1, 10**6), e=st.integers(1, 2000))
def test_halving_does_not_pay_for_its_last_addition(power: int, piece: int, e: int) -> None:
    n = 2**power
    sizes = [n * piece >> step for step in range(1, power + 1)]
    # The cost is that of the next message, half as large.
    paid = sum(reduction(size) for size in sizes[1:])
    assert (
        end("reduce-scatter", "halving-doubling", n, n * piece, e) == (power + 1) * e + sum(map(flight, sizes)) + paid
    )


def test_the_example_of_the_original() -> None:
    # 8 NPUs, 1 MiB in 4 chunks one after the other: 4 x (15 x 10 + 14 x 1110 + 7 x 3 x 655).
    net = network("astra-sim-2", ["Ring"], [8], [50], [500])
    layer = system(net, "astra-sim-2", ["ring"], chunks=4, reduction_bytes_per_cycle=MEMORY)
    layer.issue("all-reduce", 2**20)
    assert layer.run() == 117780


@pytest.mark.parametrize(("chunks", "times"), [(4, 5), (3, 4), (1, 1)])
def test_version_2_fills_the_last_chunk(chunks: int, times: int) -> None:
    net = network("astra-sim-2", ["Ring"], [4], [50], [500])
    layer = system(net, "astra-sim-2", ["ring"], chunks=chunks)
    layer.issue("reduce-scatter", 1_000_003)
    layer.run()
    assert len(layer.chunks) == times
    assert {chunk.size for chunk in layer.chunks} == {1_000_003 // chunks}


def test_version_1_gives_the_last_chunk_what_is_left() -> None:
    net = network("astra-sim-1", ["Ring"], [4], [50], [500])
    layer = system(net, "astra-sim-1", ["ring"], chunks=300)
    layer.issue("reduce-scatter", 1_000_399)
    layer.run()
    assert [chunk.size for chunk in layer.chunks] == [3334] * 300 + [199]
