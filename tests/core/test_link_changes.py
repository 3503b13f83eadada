"""Links that change, err, lose flits and retry: the engine against the reference on every launch, and in partitions."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyxsim.core.engine import Engine
from pyxsim.core.engine_options import Links
from tests.core.test_oracle import agree, same_launches
from tests.core.test_partition import parts_of
from tests.examples import part_of
from tests.ranks_in_threads import on_all, worlds
from tests.reference.cases import Case, adaptive_nets, cases, nets, risky_nets, whole_options
from tests.reference.recording import RecordingEngine

END = 1_500  # cycles by which the last link is up again
FAR = END + 1_500
LONGEST = 200
EVERYWHERE = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
few = settings(max_examples=part_of(120), deadline=None, suppress_health_check=EVERYWHERE)
many = settings(few, max_examples=2000)


@dataclass(frozen=True)
class Change:
    """What becomes of a link in a cycle: `s`: times its flit time."""

    cycle: int
    link: int  # modulo the number of links
    s: int = 1
    later: int = 0  # cycles of latency
    down: bool = False
    lose: bool = False
    errors: int = 0  # log2 of one error in so many flits; 0: none


changes = st.lists(
    st.builds(
        Change,
        cycle=st.integers(0, END),
        link=st.integers(0, 999),
        s=st.sampled_from([1, 1, 2, 5]),
        later=st.sampled_from([0, 0, 1, 7, 40]),
        down=st.booleans(),
        lose=st.booleans(),
        errors=st.sampled_from([0, 0, 1, 3, 6]),
    ),
    max_size=12,
)
any_case = st.one_of(
    cases(limit=14),
    cases(of=adaptive_nets(), limit=14),
    cases(of=nets(), how=whole_options, limit=14),
    cases(of=risky_nets(), vcs=st.integers(1, 2), limit=16),
)


def varied(case: Case, *, lossy: bool, retry: list[int]) -> Links:
    """The links of a case, which may change. `retry`: slots of replay buffers by link; empty: no retry."""
    links = case.net.links()
    links.varies, links.longest, links.lossy = True, LONGEST, lossy
    if retry:
        count = len(links.src)
        slots = np.array([retry[link % len(retry)] for link in range(count)], np.int32)
        links.output_queue = np.where(slots > 0, 0, links.output_queue).astype(np.int32)
        links.replay, links.ack, links.timeout = slots, np.arange(count) % 4, 5 + np.arange(count) * 7 % 90
    return links


def apply(machine: Engine | RecordingEngine, links: Links, due: list[Change], *, lossy: bool) -> None:
    for change in due:
        link = change.link % len(links.src)
        bound = (2**64 >> change.errors) if lossy and change.errors else 0
        machine.change_links(
            [link],
            [int(links.s_num[link]) * change.s],
            [int(links.delay[link]) + change.later],
            [int(links.credit_delay[link]) + change.later],
            [change.down and change.cycle < END],
            lose=[change.lose and lossy],
            error_bound=np.array([bound], np.uint64),
            nack_bound=np.array([bound], np.uint64),
        )


def all_up(links: Links) -> list[Change]:
    return [Change(END, link) for link in range(len(links.src))]


def run_to(machine: Any, until: int, **how: Any) -> tuple[str, list[tuple[int, int]]]:
    delivered: list[tuple[int, int]] = []
    while True:
        stop = machine.run(until, **how)
        delivered += stop.delivered
        if stop.reason != "delivered" or machine.now >= until:
            return stop.reason, delivered


def schedule(links: Links, some: list[Change]) -> list[list[Change]]:
    """The changes by their cycle, in order; in the end all links are as they were."""
    rows = sorted((change for change in some if change.cycle < END), key=lambda change: change.cycle) + all_up(links)
    return [[c for c in rows if c.cycle == cycle] for cycle in sorted({c.cycle for c in rows})]


def compare(case: Case, some: list[Change], *, lossy: bool, retry: list[int]) -> None:
    links = varied(case, lossy=lossy, retry=retry)
    description = case.net.routers, links, case.net.routes(), case.options
    engine, oracle = Engine(*description, trace=True), RecordingEngine(*description, every=20)
    for send in case.messages:
        assert engine.send(*send) == oracle.send(*send)
    delivered: list[tuple[int, int]] = []
    for due in schedule(links, some):
        reason, more = run_to(engine, due[0].cycle, patient=True)
        assert reason in ("until", "delivered", "idle")
        if reason == "idle":
            run_to(engine, engine.now)
        delivered += more
        oracle.step_to(engine.now)
        oracle.arrive()
        if engine.now < due[0].cycle:
            break  # nothing is left
        apply(engine, links, due, lossy=lossy)
        apply(oracle, links, due, lossy=lossy)
        engine.check()
    reason, more = run_to(engine, FAR)
    delivered += more
    oracle.step_to(engine.now)
    if reason == "until":
        oracle.arrive()  # the output queues launch in step 1
    same_launches(engine, oracle)
    agree(engine, oracle, len(case.messages), reason)
    assert sorted(delivered) == sorted((m.number, m.last_arrival) for m in oracle.messages if m.last_arrival >= 0)
    for name, values in engine.losses().items():
        assert values.tolist() == oracle.losses()[name].tolist(), name
    assert engine.lost_messages().tolist() == oracle.lost_messages().tolist()
    if any(retry) and engine.retries()["held"].size:
        for name, values in engine.retries().items():
            assert values.tolist() == oracle.retries()[name].tolist(), name
    if lossy and retry and all(retry):
        assert engine.totals()["flits_lost"] == 0
    assert engine.flits_in_flight == oracle.flits_in_flight
    sent = sum((p - 1) * f + last for _, _, _, _, p, f, last, *_ in case.messages)
    totals = engine.totals()
    if reason == "idle":
        assert totals["flits"] + totals["flits_lost"] == sent


@few
@given(any_case, changes)
def test_changing_links_agree(case: Case, some: list[Change]) -> None:
    compare(case, some, lossy=False, retry=[])


@few
@given(any_case, changes)
def test_lossy_links_agree(case: Case, some: list[Change]) -> None:
    compare(case, some, lossy=True, retry=[])


def without_speedups(case: Case) -> Case:
    return Case(case.net, replace(case.options, speedup=1, output_speedup=1, queue_limit=0), case.messages)


@few
@given(any_case, changes, st.lists(st.sampled_from([0, 1, 2, 7, 40]), min_size=1, max_size=4))
def test_retry_agrees(case: Case, some: list[Change], retry: list[int]) -> None:
    compare(without_speedups(case), some, lossy=True, retry=retry)


@pytest.mark.slow
@many
@given(any_case, changes, st.booleans(), st.lists(st.sampled_from([0, 1, 2, 7, 40]), max_size=4))
def test_many_schedules_agree(case: Case, some: list[Change], lossy: bool, retry: list[int]) -> None:
    compare(without_speedups(case) if any(retry) else case, some, lossy=lossy, retry=retry if any(retry) else [])


# --- partitions and ranks -------------------------------------------------------------------------------------------


def drive(machine: Any, links: Links, some: list[Change], *, lossy: bool, **how: Any) -> list[tuple[int, int]]:
    """Run to the end, with the changes; the cycles of all deliveries."""
    delivered: list[tuple[int, int]] = []
    for due in schedule(links, some):
        reason, more = run_to(machine, due[0].cycle, patient=True, **how)
        delivered += more
        if reason == "idle":
            run_to(machine, machine.now, **how)
        if machine.now < due[0].cycle:
            break
        apply(machine, links, due, lossy=lossy)
    return [*delivered, *run_to(machine, FAR, **how)[1]]


def results(machine: Any) -> dict[str, Any]:
    """What every way of running the engine must give."""
    found = {"now": machine.now, "in flight": machine.flits_in_flight, "totals": machine.totals()}
    for name, values in (machine.counters() | machine.losses() | machine.retries()).items():
        found[name] = values.tolist()
    return found


kinds = st.tuples(st.booleans(), st.lists(st.sampled_from([0, 1, 7, 40]), max_size=3))


@few
@given(any_case, changes, kinds, st.integers(2, 4), st.integers(0, 99))
def test_partitions_agree(case: Case, some: list[Change], kind: tuple[bool, list[int]], parts: int, seed: int) -> None:
    lossy, retry = kind
    case = without_speedups(case)
    links = varied(case, lossy=lossy, retry=retry)
    description = case.net.routers, links, case.net.routes(), case.options
    whole, divided = Engine(*description, trace=True), Engine(*description, trace=True)
    divided.divide(parts_of(case.net.routers, parts, seed))
    for send in case.messages:
        assert whole.send(*send) == divided.send(*send)
    mine = drive(divided, links, some, lossy=lossy, apart=True)
    assert mine == drive(whole, links, some, lossy=lossy)
    assert results(divided) == results(whole)
    assert divided.lost_messages().tolist() == whole.lost_messages().tolist()
    assert sorted(map(tuple, divided.trace().tolist())) == sorted(map(tuple, whole.trace().tolist()))


@few
@given(any_case, changes, st.sampled_from([[], [3], [0, 20]]), st.integers(2, 3), st.integers(0, 99))
def test_ranks_agree(case: Case, some: list[Change], retry: list[int], parts: int, seed: int) -> None:
    case = without_speedups(case)
    lossy = bool(retry) and all(retry)  # without retry, the record of a lost packet is in another process
    links = varied(case, lossy=lossy, retry=retry)
    description = case.net.routers, links, case.net.routes(), case.options
    part = parts_of(case.net.routers, parts, seed)
    size = int(part.max(initial=0)) + 1
    whole, ranks = Engine(*description), [Engine(*description) for _ in range(size)]
    for world, engine in zip(worlds(size), ranks, strict=True):
        engine.divide(part, world.rank, world.exchange)
    with ThreadPoolExecutor(size) as pool:
        for send in case.messages:
            on_all(pool, partial(send_to, send), [whole, *ranks][1:])
            whole.send(*send)
        found = on_all(pool, partial(drive, links=links, some=some, lossy=lossy, apart=True), ranks)
    assert all(each == found[0] for each in found)
    assert found[0] == drive(whole, links, some, lossy=lossy)
    wanted, mine = results(whole), [results(engine) for engine in ranks]
    for name in ("now", "in flight", "totals"):
        assert all(each[name] == wanted[name] for each in mine), name
    for name in ("flits", "errors", "lost", *(("resent", "full") if any(retry) and any(links.replay) else ())):
        assert np.sum([each[name] for each in mine], axis=0).tolist() == wanted[name], name


def send_to(send: Any, engine: Engine) -> int:
    return engine.send(*send)
