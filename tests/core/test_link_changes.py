"""Links that change, err, lose flits and retry: the engine against the reference on every launch, and in partitions."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.changing_links import (
    EVERYWHERE,
    Change,
    any_case,
    changes,
    launches_agree,
    loss_and_retry,
    partitions_agree,
    ranks_agree,
    varied,
    without_speedups,
)
from tests.examples import part_of
from tests.reference.cases import Case

few = settings(max_examples=part_of(120, usual=7), deadline=None, suppress_health_check=EVERYWHERE)
many = settings(few, max_examples=2000)


def compare(case: Case, some: list[Change], *, lossy: bool, retry: list[int]) -> None:
    engine, oracle, reason = launches_agree(case, varied(case, lossy=lossy, retry=retry), some, lossy=lossy)
    assert engine.lost_messages().tolist() == oracle.lost_messages().tolist()
    assert engine.flits_in_flight == oracle.flits_in_flight
    totals = engine.totals()
    if lossy and retry and all(retry):
        assert totals["flits_lost"] == 0
    sent = sum((p - 1) * f + last for _, _, _, _, p, f, last, *_ in case.messages)
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


@few
@given(any_case, changes, st.lists(st.sampled_from([0, 1, 2, 7, 40]), min_size=1, max_size=4))
def test_retry_agrees(case: Case, some: list[Change], retry: list[int]) -> None:
    compare(without_speedups(case), some, lossy=True, retry=retry)


@pytest.mark.slow
@many
@given(any_case, changes, st.booleans(), st.lists(st.sampled_from([0, 1, 2, 7, 40]), max_size=4))
def test_many_schedules_agree(case: Case, some: list[Change], lossy: bool, retry: list[int]) -> None:
    compare(without_speedups(case) if any(retry) else case, some, lossy=lossy, retry=retry if any(retry) else [])


@few
@given(any_case, changes, loss_and_retry, st.integers(2, 4), st.integers(0, 99))
def test_partitions_agree(case: Case, some: list[Change], kind: tuple[bool, list[int]], parts: int, seed: int) -> None:
    lossy, retry = kind
    case = without_speedups(case)
    links = varied(case, lossy=lossy, retry=retry)
    whole, divided = partitions_agree(case, links, some, lossy=lossy, parts=parts, seed=seed)
    assert divided.lost_messages().tolist() == whole.lost_messages().tolist()


@few
@given(any_case, changes, st.sampled_from([[], [3], [0, 20]]), st.integers(2, 3), st.integers(0, 99))
def test_ranks_agree(case: Case, some: list[Change], retry: list[int], parts: int, seed: int) -> None:
    case = without_speedups(case)
    lossy = bool(retry) and all(retry)  # without retry, the record of a lost packet is in another process
    links = varied(case, lossy=lossy, retry=retry)
    counts = ("flits", "errors", "lost", *(("resent", "full") if any(retry) and any(links.replay) else ()))
    ranks_agree(case, links, some, counts, lossy=lossy, parts=parts, seed=seed)
