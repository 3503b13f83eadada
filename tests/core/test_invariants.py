"""Properties of every run of the engine: nothing is lost, reordered, or left to chance."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from pyxsim.core.engine import Engine
from tests.examples import part_of
from tests.network.machines import packet_network
from tests.reference.cases import Case, cases, risky_nets

FAR = 50_000
few = settings(max_examples=part_of(100), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
every_case = st.one_of(cases(), cases(of=risky_nets(), vcs=st.integers(1, 2), limit=16))

Launch = tuple[int, int, int, int, int, int]


def engine_of(case: Case, *, send: bool = True, **how: Any) -> Engine:
    engine = Engine(case.net.routers, case.net.links(), case.net.routes(), case.options, **{"trace": True} | how)
    if send:
        for message in case.messages:
            engine.send(*message)
    return engine


def run(engine: Engine, until: int = FAR, **how: int) -> str:
    while True:
        stop = engine.run(until, **how)
        if stop.reason not in ("delivered", "window") or engine.now >= until:
            return stop.reason


def launches(engine: Engine) -> list[Launch]:
    return [(c, link, vc, m, p, f) for c, link, vc, m, p, f in engine.trace().tolist()]


def flits_of(message: tuple[int, ...]) -> list[tuple[int, int]]:
    """(packet, flit) of a message, in order."""
    packets, flits, last = message[4:7]
    return [(p, f) for p in range(packets) for f in range(last if p == packets - 1 else flits)]


def everything(engine: Engine, messages: int) -> dict[str, Any]:
    return {
        "trace": engine.trace().tolist(),
        "counters": {name: values.tolist() for name, values in engine.counters().items()},
        "buffer_max": engine.buffer_max().tolist(),
        "messages": [engine.message_times(m) for m in range(messages)],
        "totals": {name: value for name, value in engine.totals().items() if name != "router_visits"},
    }


@few
@given(case=every_case, stops=st.lists(st.integers(1, 80), min_size=1, max_size=15))
def test_check_holds_at_any_stop(case: Case, stops: list[int]) -> None:
    engine = engine_of(case)
    engine.check()
    for stop in stops:
        run(engine, engine.now + stop)
        engine.check()


@few
@given(case=every_case)
def test_every_flit_goes_in_once_and_comes_out_once(case: Case) -> None:
    engine = engine_of(case)
    assume(run(engine) == "idle")
    inside = len(case.net.wires)
    outside = inside + len(case.net.injection)
    entered: dict[int, list[tuple[int, int]]] = defaultdict(list)
    left: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for _, link, _, message, packet, flit in launches(engine):
        if inside <= link < outside:
            assert link == inside + case.messages[message][0]
            entered[message].append((packet, flit))
        elif link >= outside:
            assert link == outside + case.messages[message][1]
            left[message].append((packet, flit))
    for number, sent in enumerate(case.messages):
        assert sorted(entered[number]) == flits_of(sent)
        assert sorted(left[number]) == flits_of(sent)
    assert engine.flits_in_flight == 0
    assert engine.messages_pending == 0
    totals = engine.totals()
    assert totals["messages_delivered"] == totals["messages"] == len(case.messages)
    assert totals["packets"] == sum(sent[4] for sent in case.messages)
    assert totals["flits"] == sum(len(flits_of(sent)) for sent in case.messages)


@few
@given(case=every_case)
def test_a_vc_carries_whole_packets_in_order(case: Case) -> None:
    """From the head to the tail of a packet nothing else uses its VC, and its flits follow one path in order."""
    engine = engine_of(case)
    run(engine)
    streams: dict[tuple[int, int], list[tuple[int, int, int]]] = defaultdict(list)
    paths: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    for _, link, vc, message, packet, flit in launches(engine):
        streams[link, vc].append((message, packet, flit))
        paths[message, packet, flit].append(link)
    for stream in streams.values():
        before: tuple[int, int, int] | None = None
        for message, packet, flit in stream:
            if flit == 0:
                # The previous flit was a tail, or this is the first.
                assert before is None or before[2] == size(case, before) - 1
            else:
                assert before == (message, packet, flit - 1)
            before = (message, packet, flit)
    for (message, packet, flit), path in paths.items():
        if flit > 0:
            # A flit may still be in flight if the run ended in a deadlock.
            assert path == paths[message, packet, 0][: len(path)]


def size(case: Case, flit: tuple[int, int, int]) -> int:
    message, packet, _ = flit
    packets, flits, last = case.messages[message][4:7]
    return last if packet == packets - 1 else flits


@few
@given(case=every_case)
def test_no_link_is_faster_than_its_width(case: Case) -> None:
    """A flit launched in cycle t starts in [t, t+1), and the k-th one after it at least k*s later."""
    engine = engine_of(case)
    run(engine)
    links = case.net.links()
    by_link: dict[int, list[int]] = defaultdict(list)
    for cycle, link, *_ in launches(engine):
        by_link[link].append(cycle)
    for link, at in by_link.items():
        s = Fraction(int(links.s_num[link]), int(links.s_den[link]))
        assert all(at[k] - at[0] > k * s - 1 for k in range(1, len(at)))
        assert all(b - a > s - 1 for a, b in pairwise(at))
        assert engine.counters()["flits"][link] == len(at)


@few
@given(case=every_case)
def test_the_same_run_twice_is_the_same_to_the_bit(case: Case) -> None:
    one, two = engine_of(case), engine_of(case)
    for engine in (one, two):
        run(engine)
    ours, theirs = one.state(), two.state()
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        np.testing.assert_array_equal(array, theirs[name], err_msg=name)
    assert everything(one, len(case.messages)) == everything(two, len(case.messages))


@few
@given(
    case=every_case,
    stops=st.lists(st.integers(1, 40), max_size=20),
    window=st.sampled_from([0, 1, 3, 50]),
    slack=st.integers(0, 5),
)
def test_a_run_may_be_cut_anywhere(case: Case, stops: list[int], window: int, slack: int) -> None:
    whole, cut = engine_of(case), engine_of(case, send=False)
    verdict = run(whole)
    waiting = list(case.messages)
    for stop in [*stops, FAR]:
        until = cut.now + stop
        while waiting and waiting[0][7] < until:
            cut.send(*waiting.pop(0))
        reason = run(cut, until, window=window, slack=slack)
        if reason == "deadlock" and not waiting:  # with messages to come, others may still move
            break
    assert reason == verdict
    assert everything(cut, len(case.messages)) == everything(whole, len(case.messages))


@few
@given(case=every_case, attribution=st.integers(0, 1))
def test_the_switch_by_masks_does_what_the_one_with_all_options_does(case: Case, attribution: int) -> None:
    """A run without a trace equals a traced one."""
    plain = engine_of(case, attribution=attribution, bitmask=False)
    verdict = run(plain)
    for trace in (False, True):
        masked = engine_of(case, attribution=attribution, trace=trace)
        assert run(masked) == verdict
        ours, theirs = everything(masked, len(case.messages)), everything(plain, len(case.messages))
        if not trace:
            ours["trace"] = theirs["trace"]
        assert ours == theirs
        assert masked.waiting() == plain.waiting()
        if attribution:
            assert masked.splits().tolist() == plain.splits().tolist()
            waits = masked.waits(), plain.waits()
            assert {name: column.tolist() for name, column in waits[0].items()} == {
                name: column.tolist() for name, column in waits[1].items()
            }


@pytest.mark.parametrize("router", [{"ordered": True}, {"sa_allocator": "islip"}], ids=["ordered", "islip"])
def test_a_router_with_more_words_of_input_vcs_than_marks(router: dict[str, Any]) -> None:
    """70 ports of 64 VCs: the words from the 64th on share a mark. Without conflicts all take as long as one."""
    ends = []
    for npus, vcs in ((2, 1), (70, 64)):
        network = packet_network("switch", [npus], latency=3, router={"vcs": vcs, **router})
        for src in range(npus):
            network.send(src, (src + 1) % npus, 3, at=src % 5)
        engine, arrived = network.engine, []
        while (stop := engine.run(engine.now + 1, slack=FAR)).reason != "idle":
            arrived += [
                int(cycle) - int(message) % 5 for message, cycle in zip(stop.messages, stop.cycles, strict=True)
            ]
            engine.check()
        ends.append(set(arrived))
        assert len(arrived) == npus
    assert engine.state()["router.words"].max() == 70
    assert engine.state()["router.filled"].max() == 1 << 63  # and no other is left
    assert ends[0] == ends[1]
    assert len(ends[0]) == 1
