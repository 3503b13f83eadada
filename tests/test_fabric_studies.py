"""The studies under inputs/studies/fabric/: their conclusions hold, on smaller networks."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path

import pytest

import pyxsim
from pyxsim.results.result import Result
from pyxsim.runner.lifecycle import run
from pyxsim.settings.points import points

ROOT = Path(__file__).resolve().parents[1]
INPUTS = ROOT / "inputs" / "studies" / "fabric"
PAGE = ROOT / "docs" / "fabric_studies.md"
SMALL = ("network.options={npus=8, leaves=8, spines=8}", "faults[0].link='level1:(0)->(8)'")


@cache
def result(name: str, variant: str, *overrides: str) -> Result:
    (point,) = [point for point in points(INPUTS / f"{name}.toml", list(overrides)) if point.label == variant]
    return run(point.experiment)


def slowdown(variant: str) -> float:
    half, whole = (
        result("slow_link", variant, *SMALL, f"faults[0].bandwidth='{rate} GB/s'").time_ns for rate in ("25", "49.9")
    )
    return float(half / whole)


def test_only_what_fills_the_links_notices_a_slow_one() -> None:
    assert slowdown("ring") < 1.01
    assert slowdown("halving and doubling") < 1.05
    assert slowdown("by level") < 1.02
    assert slowdown("all-to-all") > 1.3


def test_equal_shares_bound_the_all_to_all() -> None:
    """8 NPUs send 7/8 MiB each out of their leaf, an eighth of it over the slow link: 917,504 bytes at 25 GB/s."""
    assert result("slow_link", "all-to-all", *SMALL, "faults[0].bandwidth='25 GB/s'").time_ns > 917_504 / 25


@pytest.mark.parametrize("exponent", [7, 6, 5])
@pytest.mark.parametrize(
    ("name", "flit", "efficiency"),
    [("PCIe, 256 B", 256, 236 / 256), ("UALink, 640 B", 640, 628 / 640), ("UEC, 1 KiB", 1024, 1.0)],
)
def test_goodput_is_that_of_the_formula(name: str, flit: int, efficiency: float, exponent: int) -> None:
    found = result("bit_errors", name, f"faults[0].bit_error_rate=1e-{exponent}")
    wrong = -math.expm1(8 * flit / efficiency * math.log1p(-(10.0**-exponent)))
    cycles = flit / 128 / efficiency  # of 1 ns
    round_trip = math.ceil(cycles) + 200
    flits = 2**22 / flit
    errors = int(found.backend_tables["link_faults"].columns["errors"].sum())
    expected = flits * wrong / (1 - wrong)
    assert abs(errors - expected) < 4 * math.sqrt(expected / (1 - wrong)) + 1
    assert found.time_ns == pytest.approx(flits * cycles + errors * round_trip + 100, rel=0.04)


def test_one_bad_cable_costs_almost_as_much_as_all() -> None:
    rate = "faults[0].bit_error_rate=1e-5"
    good = result("bit_errors_cluster", "one cable", "faults[0].bit_error_rate=1e-9").time_ns
    one, every = (result("bit_errors_cluster", name, rate).time_ns for name in ("one cable", "all links"))
    assert good * 2 < one < every < 1.5 * one


def test_a_placement_without_interference_may_be_the_slower_one() -> None:
    packed, scattered = (
        pyxsim.jobs(INPUTS / "two_jobs.toml", overrides=[f"job[0].placement={place}"])
        for place in ("packed", "scattered")
    )
    assert [row["slowdown"] for row in packed.jobs] == [1, 1]
    assert all(row["slowdown"] > 1.1 for row in scattered.jobs)
    assert all(each["alone"] < other["alone"] for each, other in zip(scattered.jobs, packed.jobs, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["all-to-all", "all-to-all, adaptive", "halving and doubling"])
def test_the_page_has_the_times(variant: str) -> None:
    found = result("slow_link", variant, "faults[0].bandwidth='25 GB/s'")
    assert f" {found.time_ns / 1000:.1f} " in PAGE.read_text(encoding="utf-8")
