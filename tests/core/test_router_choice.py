"""Which router runs: docs/router.md shows the conditions of router_choice.py, and engines follow them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from pyxsim.core.router_choice import (
    BATCH_CONDITIONS,
    BITMASK_CONDITIONS,
    Facts,
    RouterKind,
    choose_router,
    conditions_as_markdown,
)
from tests.core.test_repeat import engine_of_ring

TREE = Path(__file__).parents[2]
PAGE = (TREE / "docs" / "router.md").read_text(encoding="utf-8")
USUAL = Facts(
    bitmask_allowed=True,
    rc=1,
    va=1,
    input_speedup=1,
    ticks=1,
    ordered=False,
    speculative=False,
    drained=False,
    step_arbiter=False,
    separable_input_first=True,
    rotating_va=True,
    wormhole=True,
    priorities=False,
    unusual=False,
    bubble=False,
    shared_pool=False,
    output_queues=False,
    credit_routes=False,
    multi_candidates=False,
    observed=False,
    vcs=4,
    fan_in=5,
    fan_out=5,
    output_vcs=20,
    one_word=True,
    uniform=True,
    unit_rate=True,
    classes=1,
)


def test_the_page_shows_the_conditions() -> None:
    assert conditions_as_markdown() in PAGE


def test_the_files_on_a_flits_way_are_at_most_eight_and_define_what_the_page_says() -> None:
    section = PAGE.split("## How does a flit pass the fast path?")[1].split("\n## ")[0]
    rows = re.findall(r"^\| \d \| `([\w/.]+)` \| (.*) \|$", section, re.MULTILINE)
    assert 0 < len(rows) <= 8
    for file, text in rows:
        source = (TREE / "pyxsim" / "core" / file).read_text(encoding="utf-8")
        missing = [name for name in re.findall(r"`(\w+)`", text) if f"{name}(" not in source]
        assert not missing, f"{file} has no {missing}"


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({}, RouterKind.BATCH),
        ({"classes": 2}, RouterKind.BATCH),
        ({"observed": True}, RouterKind.BITMASK),
        ({"rotating_va": False}, RouterKind.BITMASK),
        ({"vcs": 65}, RouterKind.FULL_OPTION),
        ({"rc": 3}, RouterKind.FULL_OPTION),
        ({"bitmask_allowed": False}, RouterKind.FULL_OPTION),
    ],
)
def test_the_choice(change: dict[str, int], kind: RouterKind) -> None:
    choice = choose_router(replace(USUAL, **change))  # type: ignore[arg-type]
    assert choice.kind == kind
    assert choice.lane_batch == (not change)
    assert bool(choice.unmet) == (kind != RouterKind.BATCH)


def test_every_unmet_condition_is_named() -> None:
    conditions = dict([*BITMASK_CONDITIONS, *BATCH_CONDITIONS])
    for text in choose_router(replace(USUAL, wormhole=False, speculative=True)).unmet:
        assert not conditions[text](replace(USUAL, wormhole=False, speculative=True))


def test_an_engine_names_its_router() -> None:
    assert engine_of_ring().router == ("batch", ())
    assert engine_of_ring(bitmask=False).router == ("full-option", ("not disabled (`Engine(bitmask=False)`)",))
    assert engine_of_ring(trace=True).router == ("bitmask", ("no attribution, no trace",))
