"""A network whose parts are in several engines, which exchange mail as ranks of MPI do, against the same network in one
engine: equal to the bit, at every stop. The engines are in threads of this process; tests/cli/test_mpi.py uses MPI."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyxsim.core.engine import Engine
from tests.core.test_oracle import FAR
from tests.core.test_partition import any_case, parts_of
from tests.examples import part_of
from tests.ranks_in_threads import on_all, worlds
from tests.reference.cases import Case

EVERYWHERE = [HealthCheck.too_slow, HealthCheck.data_too_large]
few = settings(max_examples=part_of(60), deadline=None, suppress_health_check=EVERYWHERE)
many = settings(few, max_examples=1000)


class Ranks:
    """The engines of all ranks."""

    def __init__(self, case: Case, part: np.ndarray[Any, Any], *, recycle: bool) -> None:
        size = int(part.max(initial=0)) + 1
        self.engines = [engine_of(case, recycle=recycle) for _ in range(size)]
        for world, engine in zip(worlds(size), self.engines, strict=True):
            engine.divide(part, world.rank, world.exchange)
        self.pool = ThreadPoolExecutor(size)

    def all(self, call: Callable[[Engine], Any]) -> list[Any]:
        """Call every engine, each in its thread."""
        return on_all(self.pool, call, self.engines)

    def same(self, call: Callable[[Engine], Any]) -> Any:
        """The value that a call has in all engines."""
        first, *others = self.all(call)
        assert all(other == first for other in others)
        return first


def engine_of(case: Case, *, recycle: bool = False) -> Engine:
    return Engine(case.net.routers, case.net.links(), case.net.routes(), case.options, recycle=recycle)


def same_network(ranks: Ranks, whole: Engine, delivered: list[int]) -> None:
    """Counters are those of the rank with the sender of a link, peaks those of the rank with the receiver."""
    of_ranks = [engine.counters() for engine in ranks.engines]
    for name, values in whole.counters().items():
        assert np.array_equal(sum(counters[name] for counters in of_ranks), values), name
    assert np.array_equal(np.max([engine.buffer_max() for engine in ranks.engines], axis=0), whole.buffer_max())
    assert ranks.same(lambda engine: engine.totals()) == whole.totals()
    assert ranks.same(lambda engine: (engine.flits_in_flight, engine.now)) == (whole.flits_in_flight, whole.now)
    for message in delivered:
        assert ranks.same(lambda engine, m=message: engine.message_times(m)) == whole.message_times(message)
    stuck = [entry for engine in ranks.engines for entry in engine.waiting()]
    assert sorted(stuck, key=lambda entry: (entry["link"], entry["vc"])) == whole.waiting()


def deliveries(engine: Engine) -> dict[str, list[int]]:
    return {name: rows.tolist() for name, rows in engine.deliveries().items()}


def same_run(case: Case, parts: int, seed: int, slices: list[int], slack: int, window: int, *, recycle: bool) -> None:
    whole = engine_of(case, recycle=recycle)
    ranks = Ranks(case, parts_of(case.net.routers, parts, seed), recycle=recycle)
    waiting, ends = list(case.messages), iter(slices)
    delivered: list[int] = []
    until = 0
    with ranks.pool:
        while whole.now < FAR:
            if whole.now >= until:
                until = min(FAR, whole.now + next(ends, FAR))
                while waiting and waiting[0][7] < until:
                    send = waiting.pop(0)
                    assert ranks.same(lambda engine, send=send: engine.send(*send)) == whole.send(*send)
            stop = whole.run(until, slack=slack, window=window)
            mine = ranks.all(partial(Engine.run, until=until, slack=slack, window=window, apart=True))
            for each in mine:
                assert (each.reason, each.cycle, each.delivered) == (stop.reason, stop.cycle, stop.delivered)
            delivered += stop.messages.tolist()
            same_network(ranks, whole, [] if recycle else delivered)
            if recycle:
                assert ranks.same(deliveries) == deliveries(whole)
            if stop.reason == "deadlock" or (stop.reason == "idle" and not waiting):
                return
            if stop.reason == "idle":
                until = whole.now


every_run = given(
    case=any_case,
    parts=st.integers(1, 4),
    seed=st.integers(0, 99),
    slices=st.lists(st.integers(1, 80), max_size=12),
    slack=st.sampled_from([0, 0, 1, 3, 10, FAR]),
    window=st.sampled_from([0, 0, 7, 50]),
    recycle=st.booleans(),
)


@few
@every_run
def test_ranks_are_the_whole(
    case: Case, parts: int, seed: int, slices: list[int], slack: int, window: int, recycle: bool
) -> None:
    same_run(case, parts, seed, slices, slack, window, recycle=recycle)


@pytest.mark.slow
@many
@every_run
def test_ranks_are_the_whole_many(
    case: Case, parts: int, seed: int, slices: list[int], slack: int, window: int, recycle: bool
) -> None:
    same_run(case, parts, seed, slices, slack, window, recycle=recycle)
