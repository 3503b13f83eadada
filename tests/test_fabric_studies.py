"""The studies under inputs/studies/fabric/: their conclusions hold, on smaller networks."""

from __future__ import annotations

import math
import runpy
from functools import cache
from pathlib import Path

import pytest

import pyxsim
from pyxsim.results.result import Result
from pyxsim.results.sweep import Point as SweptPoint
from pyxsim.results.sweep import Sweep
from pyxsim.runner.lifecycle import run
from pyxsim.settings.points import Point, points

ROOT = Path(__file__).resolve().parents[1]
INPUTS = ROOT / "inputs" / "studies" / "fabric"
PAGE = ROOT / "docs" / "fabric_studies.md"


@cache
def result(name: str, variant: str, *overrides: str) -> Result:
    (point,) = [point for point in points(INPUTS / f"{name}.toml", list(overrides)) if point.label == variant]
    return run(point.experiment)


def kind_of(point: Point) -> str:
    """The kind of the slow link; "" for none."""
    return str(point.swept["faults"]).partition(":")[0].strip("[]")


@pytest.fixture(scope="module")
def times(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], float]:
    """Times of the study of the slow link with 64 NPUs and 1 MiB, by variant and the kind of the slow link."""
    text = (INPUTS / "slow_link.toml").read_text(encoding="utf-8")
    for large, small in (("npus = 32, leaves = 32, spines = 32", "npus = 8, leaves = 8, spines = 8"), ("(32)", "(8)")):
        assert large in text
        text = text.replace(large, small)
    file = tmp_path_factory.mktemp("study") / "small.toml"
    file.write_text(text, encoding="utf-8")
    chosen = [point for point in points(file) if str(point.variant).endswith(": 1 MiB")]
    return {(str(point.variant), kind_of(point)): float(run(point.experiment).time_ns) for point in chosen}


def test_who_notices_a_slow_link(times: dict[tuple[str, str], float]) -> None:
    def slowdown(variant: str, kind: str) -> float:
        return times[f"{variant}: 1 MiB", kind] / times[f"{variant}: 1 MiB", ""]

    assert slowdown("ring", "level1") < 1.01
    assert slowdown("by level", "level1") < 1.02
    assert slowdown("halving and doubling", "level1") < 1.05
    assert slowdown("all-to-all", "level1") > 1.3
    assert slowdown("halving and doubling", "host") > 1.5
    assert slowdown("all-to-all", "host") > 1.3


def test_equal_shares_bound_the_all_to_all(times: dict[tuple[str, str], float]) -> None:
    """8 NPUs send 7/8 MiB each out of their leaf, an eighth of it over the slow link: 917,504 bytes at 25 GB/s."""
    assert times["all-to-all: 1 MiB", "level1"] > 917_504 / 25


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
@pytest.mark.parametrize("kind", ["", "level1", "host"])
def test_the_page_has_the_times(kind: str) -> None:
    variant = "halving and doubling: 1 MiB"
    every = points(INPUTS / "slow_link.toml")
    (point,) = [point for point in every if point.variant == variant and kind_of(point) == kind]
    assert f" {run(point.experiment).time_ns / 1000:.1f} " in PAGE.read_text(encoding="utf-8")


def test_the_figure_divides_by_the_times_without_a_fault(tmp_path: Path) -> None:
    names = runpy.run_path(str(ROOT / "examples" / "slow_link_figure.py"))
    found = {"[]": 100.0, "level1:(0)->(32) 25 GB/s": 150.0, "host:NPU 0->(0) 25 GB/s": 200.0}
    made = [
        SweptPoint(str(time), {"variant": f"ring: {size}", "faults": faults}, "done", {"time_ns": time * scale})
        for size, scale in (("16 MiB", 2), ("1 MiB", 1))
        for faults, time in found.items()
    ]
    slowdowns = names["slowdowns"](Sweep(tmp_path, "slow link", {}, made))
    both = {"16 MiB": 1.5, "1 MiB": 1.5}
    assert slowdowns == {"level1": {"ring": both}, "host": {"ring": dict.fromkeys(both, 2.0)}}
    (axes,) = names["draw"](slowdowns).axes
    assert [bar.get_width() for bar in axes.patches] == [0.5, 0.5, 1, 1]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["ring, 1 MiB", "ring, 16 MiB"]
