"""A partitioned network, a thread per partition, against the same network with one thread: equal to the bit, at every
stop."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyxsim.core.engine import Engine
from pyxsim.core.state.record_dtypes import DERIVED
from tests.core.test_oracle import FAR, counts
from tests.examples import part_of
from tests.reference.cases import Case, adaptive_nets, cases, nets, ranked_options, risky_nets, whole_options

EVERYWHERE = [HealthCheck.too_slow, HealthCheck.data_too_large]
few = settings(max_examples=part_of(60), deadline=None, suppress_health_check=EVERYWHERE)
many = settings(few, max_examples=1000)

NUMBERED = {"vc.head", "vc.tail", "link.queue_head", "link.queue_tail", "fifo"}  # of FIFO nodes: arbitrary
SCRATCH = {"link.pick_vc", "link.pick_port", "link.pick_key", "link.eligible", "ranges.pick"}
UNKNOWN = SCRATCH | {f"{kind}.{name}" for kind, names in DERIVED.items() for name in names}  # derived: see Engine.check
PACKETS = ("vc.packet", "out.send_packet")  # numbers of packets: arbitrary, if consistent

any_case = st.one_of(
    cases(limit=14),
    cases(of=adaptive_nets(), limit=14),
    cases(of=nets(), how=ranked_options, limit=14),
    cases(of=nets(), how=whole_options, limit=14),
    cases(of=risky_nets(), vcs=st.integers(1, 2), limit=16),
)


def engine_of(case: Case, *, recycle: bool = False) -> Engine:
    return Engine(case.net.routers, case.net.links(), case.net.routes(), case.options, trace=True, recycle=recycle)


def parts_of(routers: int, parts: int, seed: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Any routers in any partition; none is empty, if there are enough."""
    found = np.arange(routers) % parts
    return np.random.default_rng(seed).permutation(found)


def known(engine: Engine) -> dict[str, np.ndarray[Any, Any]]:
    """Deciding state, and counting fields of records."""
    counted = {name: values for name, values in engine.state(False).items() if "." in name and name not in UNKNOWN}
    found = engine.state(True) | counted
    found["pending"].sort()  # a heap: its order depends on its history
    for name in ("source_head", "source_tail"):  # numbers of message records: arbitrary
        found[name] = np.where(found["source_head"] < 0, -1, 0)
    return found


def same_state(mine: Engine, other: Engine) -> None:
    """Everything that decides or is counted. Records of packets may have other numbers, consistently."""
    mine.check()
    found, wanted = known(mine), known(other)
    assert set(found) == set(wanted)
    number: dict[int, int] = dict(zip(wanted["fifo"][:, 1].tolist(), found["fifo"][:, 1].tolist(), strict=True))
    assert len(set(number.values())) == len(number)
    assert np.array_equal(found["fifo"][:, 0], wanted["fifo"][:, 0])
    alive = wanted["vc.state"] > 0
    sending = wanted["out.send_left"] > 0
    for name, each in zip(PACKETS, (alive, sending), strict=True):
        assert found[name][each].tolist() == [number[packet] for packet in wanted[name][each].tolist()], name
    for name in sorted(set(wanted) - NUMBERED - set(PACKETS)):
        assert np.array_equal(found[name], wanted[name]), name
    assert mine.waiting() == other.waiting()


def both(
    case: Case, divided: Engine, whole: Engine, slices: list[int], windows: tuple[int, ...] = (0,), **how: int
) -> Iterator[tuple[Any, Any]]:
    """Messages are sent as late as possible, and both run from stop to stop. `windows`: one slice after another."""
    waiting = list(case.messages)
    ends, window_of = iter(slices), cycle(windows)
    until = window = 0
    while True:
        if whole.now >= until:
            until, window = min(FAR, whole.now + next(ends, FAR)), next(window_of)
            while waiting and waiting[0][7] < until:
                send = waiting.pop(0)
                assert divided.send(*send) == whole.send(*send)
        mine, other = divided.run(until, apart=True, window=window, **how), whole.run(until, window=window, **how)
        yield mine, other
        if other.reason == "deadlock" or (other.reason == "idle" and not waiting) or whole.now >= FAR:
            return
        if other.reason == "idle":
            until = whole.now


def same_run(
    case: Case,
    parts: int,
    seed: int,
    slices: list[int],
    slack: int,
    windows: tuple[int, ...],
    looks: list[bool],
    *,
    recycle: bool,
) -> None:
    divided, whole = engine_of(case, recycle=recycle), engine_of(case, recycle=recycle)
    divided.divide(parts_of(case.net.routers, parts, seed))
    look = iter(looks)
    for mine, other in both(case, divided, whole, slices, windows, slack=slack):
        assert (mine.reason, mine.cycle, mine.delivered) == (other.reason, other.cycle, other.delivered)
        sent = 0 if recycle else whole.totals()["messages"]
        found, wanted = counts(divided, sent), counts(whole, sent)
        for name in wanted:
            assert found[name] == wanted[name], name
        assert divided.flits_in_flight == whole.flits_in_flight
        if recycle:
            taken, wanted = divided.deliveries(), whole.deliveries()
            assert {name: rows.tolist() for name, rows in taken.items()} == {
                name: rows.tolist() for name, rows in wanted.items()
            }
        if next(look, False):
            same_state(divided, whole)
    assert np.array_equal(divided.trace(), whole.trace())
    assert divided.router_visits == whole.router_visits
    same_state(divided, whole)


every_run = given(
    case=any_case,
    parts=st.integers(1, 4),
    seed=st.integers(0, 99),
    slices=st.lists(st.integers(1, 80), max_size=12),
    slack=st.sampled_from([0, 0, 1, 3, 10, FAR]),
    windows=st.sampled_from([(0,), (7,), (50,), (0, 7), (50, 0)]),
    looks=st.lists(st.booleans(), max_size=12),
    recycle=st.booleans(),
)


@few
@every_run
def test_parts_are_the_whole(
    case: Case,
    parts: int,
    seed: int,
    slices: list[int],
    slack: int,
    windows: tuple[int, ...],
    looks: list[bool],
    recycle: bool,
) -> None:
    same_run(case, parts, seed, slices, slack, windows, looks, recycle=recycle)


@pytest.mark.slow
@many
@every_run
def test_parts_are_the_whole_many(
    case: Case,
    parts: int,
    seed: int,
    slices: list[int],
    slack: int,
    windows: tuple[int, ...],
    looks: list[bool],
    recycle: bool,
) -> None:
    same_run(case, parts, seed, slices, slack, windows, looks, recycle=recycle)
