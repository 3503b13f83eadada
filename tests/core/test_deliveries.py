"""Deliveries of an engine that recycles records, against the reference, which keeps them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyxsim.core.engine import Engine
from tests.core.test_oracle import FAR, counts, oracle_of
from tests.examples import part_of
from tests.reference.cases import Case, cases

few = settings(max_examples=part_of(60), suppress_health_check=list(HealthCheck))
Row = tuple[int, ...]


def taken(engine: Engine) -> list[Row]:
    """The rows of `deliveries`: serial, class, at, first, last, hops, packets, flits."""
    told = engine.deliveries()
    names = ("serial", "klass", "at", "first", "last", "hops", "packets", "flits")
    assert set(told) == set(names)
    return [tuple(row) for row in np.stack([told[name] for name in names], axis=1).tolist()]


def forgetful_run(case: Case, slices: list[int], *, many: bool) -> None:
    """Messages are sent as late as possible, in one call or several, so that records are reused."""
    engine = Engine(case.net.routers, case.net.links(), case.net.routes(), case.options, trace=True, recycle=True)
    oracle = oracle_of(case)
    waiting = list(case.messages)
    rows: list[Row] = []
    ends = iter(slices)
    while True:
        until = min(FAR, engine.now + next(ends, FAR))
        due = [send for send in waiting if send[7] < until]
        del waiting[: len(due)]
        if many and due:
            columns = [list(column) for column in zip(*due, strict=True)]
            assert engine.send_many(*columns) == len(oracle.messages)
        for send in due:
            serial = oracle.send(*send)
            assert many or engine.send(*send) == serial
        stop = engine.run(until)
        assert stop.delivered == []
        engine.check()
        rows += taken(engine)
        if stop.reason == "deadlock" or (stop.reason == "idle" and not waiting) or engine.now >= FAR:
            break
    oracle.step_to(engine.now)
    oracle.arrive()
    done = sorted((m for m in oracle.messages if m.last_arrival >= 0), key=lambda m: (m.last_arrival, m.number))
    assert rows == [
        (m.number, m.kind.number, m.at, m.first_launch, m.last_arrival, m.hops, m.packets, m.total) for m in done
    ]
    assert taken(engine) == []
    assert [tuple(row) for row in engine.trace().tolist()] == sorted(oracle.launches)
    assert counts(engine, 0) == counts(oracle, 0)


@few
@given(case=cases(limit=14), slices=st.lists(st.integers(1, 60), max_size=12), many=st.booleans())
def test_deliveries(case: Case, slices: list[int], many: bool) -> None:
    forgetful_run(case, slices, many=many)


@pytest.mark.slow
@settings(few, max_examples=1500)
@given(case=cases(limit=20), slices=st.lists(st.integers(1, 60), max_size=40), many=st.booleans())
def test_deliveries_many(case: Case, slices: list[int], many: bool) -> None:
    forgetful_run(case, slices, many=many)
