"""Properties of every attribution of latency (docs/attribution.md), and small cases.

tests/reference/test_attribution.py compares the engine with the reference, number by number.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyxsim.core.engine import Engine
from pyxsim.core.engine_options import CAUSES, CUT_THROUGH, MOST_TAGS, STORE_AND_FORWARD, WORMHOLE
from tests.examples import part_of
from tests.in_turn import in_turn
from tests.reference.cases import Case, adaptive_nets, cases, risky_nets
from tests.reference.networks import BOOKSIM, Net, Stages, garnet, hub, line, options, style

FAR = 6_000
NO_TRAFFIC = -1
few = settings(max_examples=part_of(80), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
every_case = st.one_of(
    cases(limit=12),
    cases(of=risky_nets(), vcs=st.integers(1, 2), limit=16),
    cases(of=adaptive_nets(), vcs=st.integers(1, 3), limit=16),
)
Row = tuple[int, int, int, str]  # link, victim, culprit, cause


def engine_of(net: Net, how: Any, **more: Any) -> Engine:
    return Engine(net.routers, net.links(), net.routes(), how, **{"trace": True, "attribution": 2, **more})


def tag_of(message: int) -> int:
    return message % 3


def start(case: Case, **more: Any) -> Engine:
    engine = engine_of(case.net, case.options, **more)
    for number, send in enumerate(case.messages):
        engine.send(*send, tag=tag_of(number))
    return engine


def run(engine: Engine, until: int = FAR) -> Engine:
    while engine.run(until).reason == "delivered" and engine.now < until:
        pass
    return engine


def split(engine: Engine, message: int) -> dict[str, int]:
    row = engine.splits()[message].tolist()
    return {cause: cycles for cause, cycles in zip(CAUSES, row, strict=True) if cycles}


def waits(engine: Engine) -> dict[Row, int]:
    """Waits, without the time that a message takes alone."""
    told = {name: column.tolist() for name, column in engine.waits().items()}
    rows = zip(told["link"], told["victim"], told["culprit"], told["cause"], told["cycles"], strict=True)
    return {
        (link, victim, culprit, CAUSES[cause]): cycles
        for link, victim, culprit, cause, cycles in rows
        if CAUSES[cause] not in ("serialisation", "hops")
    }


# In every run


@few
@given(case=every_case, stop=st.integers(0, 200))
def test_every_cycle_is_told_once(case: Case, stop: int) -> None:
    engine = start(case)
    for until in (stop, FAR):
        run(engine, until)
        engine.check()
        told, stays, total = engine.waits(), engine.stays(), engine.totals()
        assert told["cycles"].sum() == stays[:, 3:].sum() == total["latency_sum"]
        assert (told["cycles"] > 0).all()
        assert (stays[:, 3:] >= 0).all()
        for number, row in enumerate(engine.splits().tolist()):
            at, _, last = engine.message_times(number)
            assert row == [-1] * len(CAUSES) if last < 0 else sum(row) == last - at


@few
@given(case=every_case)
def test_the_stays_of_a_packet_are_its_way(case: Case) -> None:
    """Stays are in order, lead from injection to ejection lane, and add up to the split of their message."""
    engine = run(start(case))
    links = case.net.links()
    rows = engine.stays()
    for number, parts in enumerate(engine.splits().tolist()):
        mine = rows[rows[:, 0] == number]
        if parts[0] < 0:
            continue
        packets = [mine[mine[:, 1] == packet] for packet in range(case.messages[number][4])]
        for stays in packets:
            way = stays[:, 2]
            assert way[0] == links.network + case.messages[number][0]
            assert way[-1] == links.network + links.injection + case.messages[number][1]
            assert all(links.dst[a] == links.src[b] for a, b in pairwise(way))
        assert parts in [stays[:, 3:].sum(axis=0).tolist() for stays in packets]


@few
@given(case=every_case)
def test_waits_are_the_stays_by_cause(case: Case) -> None:
    engine = run(start(case))
    rows, told = engine.stays(), engine.waits()
    links = max(rows[:, 2].max(initial=0), told["link"].max(initial=0)) + 1
    expected, found = np.zeros((2, links, 3, len(CAUSES)), np.int64)
    np.add.at(expected, (rows[:, 2], tag_of(rows[:, 0])), rows[:, 3:])
    np.add.at(found, (told["link"], told["victim"], told["cause"]), told["cycles"])
    assert (expected == found).all()


@few
@given(case=every_case, stop=st.integers(0, 300))
def test_it_only_counts(case: Case, stop: int) -> None:
    """Deciding state is the same with and without attribution, in every cycle."""
    engine, plain = start(case), start(case, attribution=0)
    for until in (stop, FAR):
        run(engine, until)
        run(plain, until)
        mine, other = engine.state(deciding=True), plain.state(deciding=True)
        assert mine.keys() == other.keys()
        assert all((mine[name] == other[name]).all() for name in mine)
    assert (engine.trace() == plain.trace()).all()
    assert not len(plain.waits()["cycles"])


@few
@given(case=every_case)
def test_deliveries_have_the_parts(case: Case) -> None:
    kept, forgotten = run(start(case)), run(start(case, recycle=True))
    told = forgotten.deliveries()
    assert (told["parts"] == kept.splits()[told["serial"]]).all()
    assert {name: column.tolist() for name, column in forgotten.waits().items()} == {
        name: column.tolist() for name, column in kept.waits().items()
    }
    with pytest.raises(ValueError, match="not recycled"):
        forgotten.splits()


def test_less_is_told_when_less_is_asked_for() -> None:
    net = line(3).plain(style(BOOKSIM, 1))
    engine = engine_of(net, options(BOOKSIM), attribution=1)
    engine.watch(1, 0)
    for _ in range(3):
        engine.send(0, 2, 2, 0, 2, 3, 3, 0)
    run(engine)
    assert set(engine.stays()[:, 0].tolist()) == {1}
    assert "parts" not in run(engine_of(net, options(BOOKSIM), attribution=0, recycle=True)).deliveries()


@pytest.mark.parametrize("tag", [-1, MOST_TAGS])
def test_unknown_traffic_is_refused(tag: int) -> None:
    engine = engine_of(hub(2).plain(style(BOOKSIM, 1)), options(BOOKSIM))
    with pytest.raises(IndexError, match="is not below 32"):
        engine.send(0, 1, 1, 0, 1, 1, 1, 0, tag=tag)


# Small cases


@pytest.mark.parametrize("flow", [WORMHOLE, CUT_THROUGH, STORE_AND_FORWARD])
@in_turn("stages", [BOOKSIM, garnet(1), garnet(3), Stages(bw=1, rc=2, va=3, sa=2, st=1)])
@in_turn("flits", [1, 2, 9])
@in_turn("s", [1, 2, 5])
def test_alone_it_waits_for_nobody(stages: Stages, flits: int, s: int, flow: int) -> None:
    """The head's route is `hops`; the rest is the length of the packet, once, or at each of its stops."""
    hops, latency = 3, 4

    def one(count: int) -> dict[str, int]:
        made = style(stages, latency, depth=64, s=s)
        engine = engine_of(line(hops).plain(made), options(stages, flow=flow))
        engine.send(0, hops - 1, hops - 1, 0, 1, count, count, 0)
        return split(run(engine), 0)

    stops = hops + 1 if flow == STORE_AND_FORWARD else 1
    length = {"serialisation": (flits - 1) * s * stops} if flits > 1 else {}
    assert one(flits) == length | {"hops": one(1)["hops"]}


def test_two_flows_blame_each_other() -> None:
    """Two long messages share one sink: each waits for the other, and for no other traffic."""
    engine = engine_of(hub(3).plain(style(BOOKSIM, 1, vcs=2)), options(BOOKSIM))
    for node in (0, 1):
        engine.send(node, 2, 2, 0, 1, 30, 30, 0, tag=node)
    run(engine)
    told = waits(engine)
    assert {(victim, culprit) for _, victim, culprit, _ in told} == {(0, 1), (1, 0)}
    ends = [engine.message_times(m)[2] for m in (0, 1)]
    alone = sum(split(engine, 0)[part] for part in ("serialisation", "hops"))
    assert max(ends) - alone == sum(cycles for (_, victim, _, _), cycles in told.items() if ends[victim] == max(ends))


def test_who_is_stuck_behind_another_blames_it() -> None:
    """Head-of-line blocking: 2 has a free route, but is behind 0, which waits for 1."""
    net = hub(4).plain(style(BOOKSIM, 1, vcs=1, depth=16))
    engine = engine_of(net, options(BOOKSIM))
    engine.send(1, 2, 2, 0, 1, 40, 40, 0, tag=1)
    engine.send(0, 2, 2, 0, 1, 4, 4, 1, tag=0)
    engine.send(0, 3, 3, 0, 1, 2, 2, 1, tag=2)
    run(engine)
    told = waits(engine)
    queued = {row: cycles for row, cycles in told.items() if row[3] == "queue"}
    assert list(queued) == [(7, 2, 0, "queue")]  # in front of the sink of node 3
    assert queued[7, 2, 0, "queue"] > 20
    assert all(culprit == 1 for _, victim, culprit, cause in told if victim == 0)


def test_a_buffer_that_is_too_small_is_nobodys_fault() -> None:
    """One slot on long links: each flit waits for the credit of the previous one, without other traffic."""
    flits, latency = 10, 20

    def run_with(depth: int) -> Engine:
        engine = engine_of(line(2).plain(style(BOOKSIM, latency, depth=depth)), options(BOOKSIM))
        engine.send(0, 1, 1, 0, 1, flits, flits, 0)
        return run(engine)

    small, large = run_with(1), run_with(200)
    assert "credit" not in split(large, 0)
    told = waits(small)
    assert {(culprit, cause) for _, _, culprit, cause in told} == {(NO_TRAFFIC, "credit")}
    extra = small.message_times(0)[2] - large.message_times(0)[2]
    assert sum(told.values()) >= extra * 3 // 4
    # The credit loop of the first link, docs/router.md: one flit per loop.
    loop = 1 + BOOKSIM.bw + BOOKSIM.sa + 2 * latency
    assert extra >= (flits - 1) * (loop - 1)


def test_a_slow_sink_is_blamed_through_the_routers() -> None:
    """Credits run out upstream of a shared link: the traffic that waits there for credits has the same culprit."""
    net = line(4).plain(style(BOOKSIM, 1, vcs=1, depth=8))
    engine = engine_of(net, options(BOOKSIM))
    engine.send(2, 3, 3, 0, 1, 200, 200, 0, tag=1)
    engine.send(0, 3, 3, 0, 1, 40, 40, 0, tag=0)
    run(engine)
    upstream = {row: cycles for row, cycles in waits(engine).items() if row[1] == 0 and row[3] == "credit"}
    assert upstream
    assert {culprit for _, _, culprit, _ in upstream} == {1}
