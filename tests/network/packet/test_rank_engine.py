"""The network of a rank answers for the whole network: deadlocks, counters, windows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pyxsim.errors import DeadlockError, InputError
from tests.network.machines import drain
from tests.network.packet.test_watchdog import part_of_a_ring
from tests.ranks_in_threads import on_all, worlds


def stuck(
    watchdog: int, world: Any = None, **router: Any
) -> tuple[str, list[str], list[dict[str, Any]], dict[str, Any]]:
    """How a network ends that cannot move, or of which a part cannot, and its counters."""
    network = part_of_a_ring(watchdog, world, **router)
    with pytest.raises(DeadlockError) as caught:
        drain(network)
    counters = {name: values.tolist() for name, values in network.totals().items()}
    return str(caught.value), caught.value.cycle, network.engine.waiting(), counters


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("router", [{}, {"shared_buffer": 3, "shared_limit": 2}])
@pytest.mark.parametrize("watchdog", [100, 10**9])
def test_a_deadlock_is_the_same(size: int, router: dict[str, Any], watchdog: int) -> None:
    wanted = stuck(watchdog, **router)
    with ThreadPoolExecutor(size) as pool:
        assert on_all(pool, lambda world: stuck(watchdog, world, **router), worlds(size)) == [wanted] * size


def test_windows_and_peaks_are_the_same() -> None:
    def run(world: Any = None) -> tuple[Any, ...]:
        network = part_of_a_ring(10**9, world, vcs=4, buffer=8)
        network.set_tick_interval(50)
        drain(network)
        network.finish(network.now)
        windows = network.windows_table()
        table = {name: counts.tolist() for name, counts in windows.counts.items()}
        counts = {**network.counts(), "ranks": 1, "not_skipped": ""}
        return network.now, counts, network.buffer_max().tolist(), windows.start.tolist(), table

    wanted = run()
    with ThreadPoolExecutor(2) as pool:
        assert on_all(pool, run, worlds(2)) == [wanted] * 2


def test_too_many_ranks() -> None:
    with pytest.raises(InputError, match=r"9 ranks cannot divide this network; allowed: up to 8 ranks here"):
        part_of_a_ring(100, worlds(9)[0])
