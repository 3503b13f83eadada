"""The shared bus in the few cases that can be worked out by hand: nothing waits for anything else."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from pyxsim.system.options import SharedBus
from tests.compat.astra.system.originals import network, system

LATENCY, OVERHEAD, G = 30, 7, Fraction(1, 50)
MEMORY_G = 0.0038


def end(kind: str, size: int, **options: Any) -> tuple[int, int, int]:
    """The end, the time of one crossing of the bus to the memory, and of the bus to the endpoint."""
    bus = SharedBus(LATENCY, OVERHEAD, 0, G, Fraction(3), 50)
    net = network("astra-sim-2", ["FullyConnected"], [2], [50], [500])
    layer = system(net, "astra-sim-2", ["ring"], shared_bus=bus, chunks=1, **options)
    layer.issue(kind, size)
    message = size if kind == "all-gather" else size // 2
    memory = int((message - 1) * MEMORY_G + LATENCY + 2 * OVERHEAD)
    endpoint = int((message - 1) * float(np.float32(float(G))) + LATENCY + 2 * OVERHEAD)
    return layer.run(), memory, endpoint


@pytest.mark.parametrize("size", [1, 1000, 123_457])
def test_out_and_in(size: int) -> None:
    time, memory, endpoint = end("all-gather", size)
    # From the memory and over the bus; the flight; over the bus and to the memory.
    assert time == 2 * (memory + endpoint) + int(500 + size / (50 * 2**30 / 10**9))


@pytest.mark.parametrize("message", [1, 1000, 123_457])
def test_a_reduction_fetches_the_other_operand(message: int) -> None:
    time, memory, endpoint = end("reduce-scatter", 2 * message, reduction_bytes_per_cycle=Fraction(50))
    flight = int(500 + message / (50 * 2**30 / 10**9))
    # In: to the memory and back, 3 cycles for each 100 bytes and 50, to the memory; and then the local memory's time.
    processing = message // 100 * 3 + 50
    local = 3 * int(message / (50 * 1e9) * 1e9)
    assert time == memory + endpoint + flight + endpoint + 2 * memory + processing + memory + local


def test_one_at_a_time() -> None:
    """Three messages at once leave one behind the other."""
    bus = SharedBus(LATENCY, OVERHEAD, 20, G)
    net = network("astra-sim-2", ["FullyConnected"], [4], [50], [500])
    layer = system(net, "astra-sim-2", ["direct"], shared_bus=bus, chunks=1)
    layer.issue("all-to-all", 4 * 5000)
    together = layer.run()
    alone, _, _ = end("all-gather", 5000)
    assert together > alone + 2 * int(4999 * float(G))
