"""The batch router equals the full-option router flit for flit.

Only networks without output queues and with VA by ranges use it, in runs that are not observed. So all counts are
compared, also where a run is cut.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyxsim.core.engine import Engine
from pyxsim.core.engine_options import RouterOptions
from tests.core.test_invariants import engine_of, run
from tests.examples import part_of
from tests.reference.cases import Case, cases, plain_nets, risky_nets
from tests.reference.networks import Style, grid, options

FAR = 50_000


def made_plain(case: Case, rc: int, va: int, *, unit: bool) -> Case:
    """The same network and messages; links without pools or queues, VA and SA by round robins. `unit`: with one flit
    per cycle."""

    def plain(style: Style) -> Style:
        return replace(style, s=Fraction(1) if unit else style.s, output_queue=False, pool=0)

    net, given = case.net, case.options
    net.styles = [plain(style) for style in net.styles]
    net.injection = [(node, plain(style)) for node, style in net.injection]
    net.ejection = [(node, plain(style)) for node, style in net.ejection]
    how = RouterOptions(
        rc=rc,
        va=va,
        vnets=given.vnets,
        class_vnet=given.class_vnet,
        class_priority=(0,) * len(given.class_vnet),
        interleaved=given.interleaved,
        seed=given.seed,
    )
    return Case(net, how, case.messages)


def counted(engine: Engine, messages: int) -> dict[str, Any]:
    return {
        "counters": {name: values.tolist() for name, values in engine.counters().items()},
        "buffer_max": engine.buffer_max().tolist(),
        "messages": [engine.message_times(m) for m in range(messages)],
        "totals": {name: value for name, value in engine.totals().items() if name != "router_visits"},
        "waiting": engine.waiting(),
    }


@settings(max_examples=part_of(150), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    case=st.one_of(cases(of=plain_nets(), limit=40), cases(of=risky_nets(), vcs=st.integers(1, 2), limit=16)),
    rc=st.integers(0, 1),
    va=st.integers(1, 2),
    unit=st.booleans(),
    stops=st.lists(st.integers(1, 60), max_size=8),
)
def test_stages_are_the_routers_one_by_one(case: Case, rc: int, va: int, unit: bool, stops: list[int]) -> None:
    case = made_plain(case, rc, va, unit=unit)
    engines = [engine_of(case, trace=False), engine_of(case, trace=False, bitmask=False)]
    for stop in [*stops, FAR]:
        until = engines[0].now + stop
        assert len({run(engine, until) for engine in engines}) == 1
        engines[0].check()
        assert counted(engines[0], len(case.messages)) == counted(engines[1], len(case.messages))
        if engines[0].now < until:  # deadlock, or nothing left
            break


@pytest.mark.parametrize("s", [Fraction(1), Fraction(64, 25), Fraction(7)])
@pytest.mark.parametrize(("vcs", "depth", "flits"), [(1, 2, 1), (2, 3, 5), (3, 4, 2), (4, 8, 5)])
def test_more_routers_than_a_batch_has_under_load(vcs: int, depth: int, flits: int, s: Fraction) -> None:
    """Two batches, and outputs with several requests in most cycles; on rings packets keep their class."""
    net = grid([9, 9], wrap=[vcs > 1, vcs > 1])
    how = Style(vcs, depth, s=s)
    lanes = [(node, how) for node in range(len(net.homes))]
    net.dress(lambda _: how, lanes, lanes)
    rng = np.random.default_rng(vcs)
    count = 3000
    lane, goal = rng.integers(0, 81, count), rng.integers(0, 81, count)
    at = np.sort(rng.integers(0, 150 * flits, count))
    messages = [
        (int(a), int(b), net.ejection[int(b)][0], 0, 1, flits, flits, int(t), 0)
        for a, b, t in zip(lane, goal, at, strict=True)
    ]
    case = Case(net, options(), messages)
    engines = [engine_of(case, trace=False), engine_of(case, trace=False, bitmask=False)]
    for until in (100, 101, 333, FAR):
        assert len({run(engine, until) for engine in engines}) == 1
        engines[0].check()
        assert counted(engines[0], count) == counted(engines[1], count)
    assert engines[0].totals()["messages"] == count
