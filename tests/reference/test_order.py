"""What the text promises of any implementation: the order of visits cannot matter, and no slot is lost or made."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import part_of
from tests.reference.cases import Case, cases, free_nets
from tests.reference.recording import RecordingEngine

LIMIT = 3000


def outcome(case: Case, **how: Any) -> dict[str, Any]:
    machine = RecordingEngine(case.net.routers, case.net.links(), case.net.routes(), case.options, **how)
    for send in case.messages:
        machine.send(*send)
    while not (machine.finished or machine.deadlocked or machine.now > LIMIT):
        machine.step()
    return {
        "now": machine.now,
        "launches": sorted(machine.launches),
        "counters": {name: column.tolist() for name, column in machine.counters().items()},
        "buffer_max": machine.buffer_max().tolist(),
        "messages": [machine.message_times(m) for m in range(len(case.messages))],
        "hops": [message.hops for message in machine.messages],
    }


def any_order(case: Case, seed: int) -> None:
    """The one in order proves its invariants after every cycle."""
    assert outcome(case, shuffle=random.Random(seed).shuffle, every=50) == outcome(case)


@settings(max_examples=part_of(40), suppress_health_check=list(HealthCheck))
@given(case=cases(of=free_nets()), seed=st.integers(0, 999))
def test_the_order_of_visits_cannot_matter(case: Case, seed: int) -> None:
    any_order(case, seed)


@pytest.mark.slow
@settings(max_examples=1000, suppress_health_check=list(HealthCheck))
@given(case=cases(), seed=st.integers(0, 999))
def test_the_order_of_visits_cannot_matter_many(case: Case, seed: int) -> None:
    any_order(case, seed)
