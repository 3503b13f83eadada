"""Credits as messages: the engine against the reference on every launch, in partitions and ranks, and invariants."""

from __future__ import annotations

import pickle
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.core.engine import Engine
from pyxsim.core.engine_options import CreditReturns, Links
from tests.core.changing_links import (
    EVERYWHERE,
    FAR,
    Change,
    any_case,
    changes,
    description,
    drive,
    launches_agree,
    loss_and_retry,
    partitions_agree,
    ranks_agree,
    results,
    run_to,
    same,
    varied,
    without_speedups,
)
from tests.examples import part_of
from tests.reference.cases import Case

few = settings(max_examples=part_of(150, usual=8), deadline=None, suppress_health_check=EVERYWHERE)
many = settings(few, max_examples=1000)
SHARES = [Fraction(0), Fraction(1), Fraction(1, 2), Fraction(1, 8), Fraction(2, 3)]


def opposite_links(links: Links) -> np.ndarray:
    """The link in the opposite direction of each, in order; -1 for those without."""
    count = len(links.src)
    src, dst = np.asarray(links.src), np.asarray(links.dst)
    found = np.full(count, -1)
    waiting: dict[tuple[Any, ...], list[int]] = {}
    for link in range(count):
        lane = link >= links.network
        ends = ("lane", max(src[link], dst[link])) if lane else (src[link], dst[link])
        other = (*ends, src[link] < 0) if lane else ends
        wanted = (*ends, src[link] >= 0) if lane else ends[::-1]
        if waiting.get(wanted):
            found[link] = waiting[wanted].pop(0)
            found[found[link]] = link
        else:
            waiting.setdefault(other, []).append(link)
    return found


@st.composite
def rules(draw: st.DrawFn) -> CreditReturns:
    share = draw(st.sampled_from(SHARES))
    flag = st.booleans()
    return CreditReturns(
        opposite=None,
        timeout=draw(st.sampled_from([1, 3, 20, 150])),
        share=share,
        batch=draw(st.sampled_from([1, 1, 2, 3, 9])),
        wait=draw(st.sampled_from([-1, -1, 0, 3, 30])) if share else -1,
        all_vcs=draw(flag),
        data_first=draw(flag),
        cumulative=draw(flag),
        resync=draw(st.sampled_from([0, 0, 7, 100, 900])),
        advertise=draw(flag),
    )


def with_credits(links: Links, rule: CreditReturns, *, skip: int = 0) -> Links:
    """Links whose credits return as `rule` says. `skip`: every so many pairs return them ideally; 0: none."""
    opposite = opposite_links(links)
    if skip:
        ideal = np.minimum(np.arange(len(opposite)), opposite) % skip == 0
        opposite = np.where(ideal, -1, opposite)
    den = rule.share.denominator
    rule = replace(rule, opposite=opposite, timeout=rule.timeout + np.arange(len(opposite)) % 3)
    num, dens = np.asarray(links.s_num, np.int64) * den, np.asarray(links.s_den, np.int64) * den
    return replace(links, s_num=num, s_den=dens, credits=rule)


def compare(case: Case, some: list[Change], rule: CreditReturns, *, lossy: bool, retry: list[int], skip: int) -> None:
    links = with_credits(varied(case, lossy=lossy, retry=retry), rule, skip=skip)
    engine, oracle, reason = launches_agree(case, links, some, lossy=lossy)
    if (links.credits.opposite >= 0).any():  # else the engine keeps no record of credits
        same(engine.credit_returns(), oracle.credit_returns())
    if reason in ("idle", "deadlock"):
        # what has not moved stays so
        oracle.step_to(oracle.now + 40)
        assert len(oracle.launches) == len(engine.trace())


@few
@given(any_case, changes, rules(), st.sampled_from([0, 0, 2, 3]))
def test_changing_links_agree(case: Case, some: list[Change], rule: CreditReturns, skip: int) -> None:
    compare(case, some, rule, lossy=False, retry=[], skip=skip)


@few
@given(any_case, changes, rules(), st.sampled_from([0, 0, 2, 3]))
def test_lost_credits_agree(case: Case, some: list[Change], rule: CreditReturns, skip: int) -> None:
    compare(case, some, rule, lossy=True, retry=[], skip=skip)


@few
@given(any_case, changes, rules(), st.lists(st.sampled_from([0, 1, 2, 7, 40]), min_size=1, max_size=4))
def test_retry_agrees(case: Case, some: list[Change], rule: CreditReturns, retry: list[int]) -> None:
    compare(without_speedups(case), some, rule, lossy=True, retry=retry, skip=0)


@pytest.mark.slow
@many
@given(
    any_case,
    changes,
    rules(),
    st.booleans(),
    st.lists(st.sampled_from([0, 1, 2, 7, 40]), max_size=4),
    st.sampled_from([0, 0, 2, 3]),
)
def test_many_credit_returns_agree(
    case: Case, some: list[Change], rule: CreditReturns, lossy: bool, retry: list[int], skip: int
) -> None:
    retry = retry if any(retry) else []
    compare(without_speedups(case) if retry else case, some, rule, lossy=lossy, retry=retry, skip=skip)


# --- ideal settings ---------------------------------------------------------------------------------------------------


@few
@given(any_case, changes, st.booleans())
def test_messages_of_no_size_are_ideal_credits(case: Case, some: list[Change], lossy: bool) -> None:
    """Every launch is the same as without messages, also where links lose flits.

    The one exception is left out: a change comes between the steps of its cycle. The ideal credit of a flit that an
    NPU consumes in that cycle leaves in step 1, with the old latency, its message in step 5, with the new one.
    """
    rule = CreditReturns(opposite=None, timeout=1, share=Fraction(0))
    plain = varied(case, lossy=lossy, retry=[])
    to_npu = np.asarray(plain.dst) < 0
    some = [replace(change, later=0) if to_npu[change.link % len(to_npu)] else change for change in some]
    traces = []
    for links in (plain, with_credits(plain, rule)):
        engine = Engine(*description(case, links), trace=True)
        for send in case.messages:
            engine.send(*send)
        traces.append((drive(engine, links, some, lossy=lossy), engine.trace().tolist(), engine.counters()))
    assert traces[0][:2] == traces[1][:2]
    same(traces[0][2], traces[1][2])


# --- partitions, ranks, pickles ---------------------------------------------------------------------------------------


@few
@given(any_case, changes, rules(), loss_and_retry, st.integers(2, 4), st.integers(0, 99))
def test_partitions_agree(
    case: Case, some: list[Change], rule: CreditReturns, kind: tuple[bool, list[int]], parts: int, seed: int
) -> None:
    lossy, retry = kind
    case = without_speedups(case)
    links = with_credits(varied(case, lossy=lossy, retry=retry if any(retry) else []), rule)
    partitions_agree(case, links, some, lossy=lossy, parts=parts, seed=seed)


@few
@given(any_case, changes, rules(), st.sampled_from([[], [3], [20]]), st.integers(2, 3), st.integers(0, 99))
def test_ranks_agree(
    case: Case, some: list[Change], rule: CreditReturns, retry: list[int], parts: int, seed: int
) -> None:
    case = without_speedups(case)
    lossy = bool(retry)  # without retry, the record of a lost packet is in another process
    links = with_credits(varied(case, lossy=lossy, retry=retry), rule)
    counts = ("flits", "messages", "riding", "vc_returned", "vc_carried", "vc_restored")
    ranks_agree(case, links, some, counts, lossy=lossy, parts=parts, seed=seed)


@few
@given(any_case, changes, rules(), loss_and_retry, st.integers(0, 60))
def test_a_pickle_continues(
    case: Case, some: list[Change], rule: CreditReturns, kind: tuple[bool, list[int]], cycle: int
) -> None:
    lossy, retry = kind
    case = without_speedups(case)
    links = with_credits(varied(case, lossy=lossy, retry=retry if any(retry) else []), rule)
    engine = Engine(*description(case, links), trace=True)
    for send in case.messages:
        engine.send(*send)
    run_to(engine, cycle)
    again = pickle.loads(pickle.dumps(engine))
    later = [change for change in some if change.cycle > engine.now]
    assert drive(again, links, later, lossy=lossy) == drive(engine, links, later, lossy=lossy)
    assert results(again) == results(engine)
    assert again.trace().tolist() == engine.trace().tolist()


@few
@given(any_case, rules())
def test_attribution_adds_up(case: Case, rule: CreditReturns) -> None:
    """The parts of each latency, waits for credits and for a link with a message among them, sum to it exactly."""
    links = with_credits(case.net.links(), rule)
    engine = Engine(*description(case, links), attribution=1)
    for send in case.messages:
        engine.send(*send)
    run_to(engine, FAR)
    engine.check()
    for message, split in enumerate(engine.splits().tolist()):
        at, _, last = engine.message_times(message)
        assert last < 0 or sum(split) == last - at
