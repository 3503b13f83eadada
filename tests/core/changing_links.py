"""Links that change during a run: schedules of changes, and runs of the engine that must agree."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from hypothesis import HealthCheck
from hypothesis import strategies as st

from pyxsim.core.engine import Engine
from pyxsim.core.engine_options import Links
from tests.core.test_oracle import agree, same_launches
from tests.core.test_partition import parts_of
from tests.ranks_in_threads import on_all, worlds
from tests.reference.cases import Case, adaptive_nets, cases, nets, risky_nets, whole_options
from tests.reference.recording import RecordingEngine, check_credits

END = 1_500  # cycles by which the last link is up again
FAR = END + 1_500
LONGEST = 200
EVERYWHERE = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


@dataclass(frozen=True)
class Change:
    """The state of a link from a cycle on."""

    cycle: int
    link: int  # modulo the number of links
    s: int = 1  # times its flit time
    later: int = 0  # cycles of latency in addition
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
loss_and_retry = st.tuples(st.booleans(), st.lists(st.sampled_from([0, 1, 7, 40]), max_size=3))


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


def without_speedups(case: Case) -> Case:
    return Case(case.net, replace(case.options, speedup=1, output_speedup=1, queue_limit=0), case.messages)


def description(case: Case, links: Links) -> tuple[Any, ...]:
    return case.net.routers, links, case.net.routes(), case.options


def apply(machine: Any, links: Links, due: list[Change], *, lossy: bool) -> None:
    for change in due:
        link = change.link % len(links.src)
        bound = np.array([(2**64 >> change.errors) if lossy and change.errors else 0], np.uint64)
        machine.change_links(
            [link],
            [int(links.s_num[link]) * change.s],
            [int(links.delay[link]) + change.later],
            [int(links.credit_delay[link]) + change.later],
            [change.down and change.cycle < END],
            lose=[change.lose and lossy],
            error_bound=bound,
            nack_bound=bound,
            credit_bound=bound,
        )


def run_to(machine: Any, until: int, **how: Any) -> tuple[str, list[tuple[int, int]]]:
    delivered: list[tuple[int, int]] = []
    while True:
        stop = machine.run(until, **how)
        delivered += stop.delivered
        if stop.reason != "delivered" or machine.now >= until:
            return stop.reason, delivered


def schedule(links: Links, some: list[Change]) -> list[list[Change]]:
    """The changes by their cycle, in order; in the end all links are as they were."""
    all_up = [Change(END, link) for link in range(len(links.src))]
    rows = sorted((change for change in some if change.cycle < END), key=lambda change: change.cycle) + all_up
    return [[c for c in rows if c.cycle == cycle] for cycle in sorted({c.cycle for c in rows})]


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
    """What a run must give with any number of partitions."""
    counts = {"now": machine.now, "in flight": machine.flits_in_flight, "totals": machine.totals()}
    arrays = machine.counters() | machine.losses() | machine.retries() | machine.credit_returns()
    return counts | {name: values.tolist() for name, values in arrays.items()}


def same(arrays: dict[str, Any], expected: dict[str, Any]) -> None:
    for name, values in arrays.items():
        assert values.tolist() == expected[name].tolist(), name


def conserved(oracle: RecordingEngine) -> None:
    """No credit is lost or doubled."""
    for link in oracle.links:
        check_credits(link)


def launches_agree(case: Case, links: Links, some: list[Change], *, lossy: bool) -> tuple[Engine, RecordingEngine, str]:
    """Assert that the engine and the reference launch the same flits; return both and why the run stopped."""
    engine = Engine(*description(case, links), trace=True)
    oracle = RecordingEngine(*description(case, links), every=20)
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
        conserved(oracle)
        if engine.now < due[0].cycle:
            break  # all messages have arrived
        apply(engine, links, due, lossy=lossy)
        apply(oracle, links, due, lossy=lossy)
        engine.check()
        conserved(oracle)
    reason, more = run_to(engine, FAR)
    delivered += more
    oracle.step_to(engine.now)
    if reason == "until":
        oracle.arrive()  # the output queues launch in step 1
    same_launches(engine, oracle)
    agree(engine, oracle, len(case.messages), reason)
    conserved(oracle)
    assert sorted(delivered) == sorted((m.number, m.last_arrival) for m in oracle.messages if m.last_arrival >= 0)
    same(engine.losses(), oracle.losses())
    if engine.retries()["held"].size:
        same(engine.retries(), oracle.retries())
    return engine, oracle, reason


def partitions_agree(
    case: Case, links: Links, some: list[Change], *, lossy: bool, parts: int, seed: int
) -> tuple[Engine, Engine]:
    """Assert that an engine in partitions gives the same as a whole one; return both."""
    whole, divided = (Engine(*description(case, links), trace=True) for _ in range(2))
    divided.divide(parts_of(case.net.routers, parts, seed))
    for send in case.messages:
        assert whole.send(*send) == divided.send(*send)
    assert drive(divided, links, some, lossy=lossy, apart=True) == drive(whole, links, some, lossy=lossy)
    assert results(divided) == results(whole)
    assert sorted(map(tuple, divided.trace().tolist())) == sorted(map(tuple, whole.trace().tolist()))
    return whole, divided


def ranks_agree(
    case: Case, links: Links, some: list[Change], counts: tuple[str, ...], *, lossy: bool, parts: int, seed: int
) -> None:
    """Assert that ranks, one partition each, deliver as a whole engine does, and that their counts add up to its."""
    part = parts_of(case.net.routers, parts, seed)
    size = int(part.max(initial=0)) + 1
    whole, *ranks = (Engine(*description(case, links)) for _ in range(1 + size))
    for world, engine in zip(worlds(size), ranks, strict=True):
        engine.divide(part, world.rank, world.exchange)
    with ThreadPoolExecutor(size) as pool:
        for send in case.messages:
            on_all(pool, partial(send_to, send), ranks)
            whole.send(*send)
        deliveries = on_all(pool, partial(drive, links=links, some=some, lossy=lossy, apart=True), ranks)
    assert all(each == deliveries[0] for each in deliveries)
    assert deliveries[0] == drive(whole, links, some, lossy=lossy)
    expected, by_rank = results(whole), [results(engine) for engine in ranks]
    for name in ("now", "in flight", "totals"):
        assert all(each[name] == expected[name] for each in by_rank), name
    for name in counts:
        if name in expected:
            assert np.sum([each[name] for each in by_rank], axis=0).tolist() == expected[name], name


def send_to(send: Any, engine: Engine) -> int:
    return engine.send(*send)
