"""The case studies of ASTRA-sim 2.0 and COMET: their files are read, their page says what follows from sizes."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from pyxsim.runner.lifecycle import run
from pyxsim.settings.points import Point, points
from pyxsim.workload.parallel import training_plan
from pyxsim.workload.parallel.footprint import footprint

ROOT = Path(__file__).resolve().parents[1]
INPUTS = ROOT / "inputs" / "studies"
PAGE = ROOT / "docs" / "case_studies.md"
FILES = sorted(
    path for name in ("wafer", "scaling", "disaggregated", "comet") for path in (INPUTS / name).glob("*.toml")
)
GIB = 2**30


def point(name: str, label: str, *overrides: str) -> Point:
    (found,) = [each for each in points(INPUTS / name, list(overrides)) if each.label == label]
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_file_is_read_and_stands_on_the_page(path: Path) -> None:
    assert points(path)
    assert f"](../{path.relative_to(ROOT)})" in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize(("network", "wafer"), [("Conv-3D", "W-1D 350"), ("W-2D", "W-1D 500")])
@pytest.mark.slow
def test_with_themis_a_conventional_network_is_as_fast_as_a_wafer_of_its_bandwidth(network: str, wafer: str) -> None:
    times = [
        run(
            point("wafer/all_reduce.toml", f"{name}, inter_dimension=themis").experiment,
            backend="analytical-congestion",
        ).time_ns
        for name in (network, wafer)
    ]
    assert times[0] == pytest.approx(times[1], rel=0.03)


def test_a_larger_wafer_gains_what_the_links_gain() -> None:
    """2.50 with ascending dimensions, but for the latency of the steps; 2.51 is published."""

    def links(shape: tuple[int, ...]) -> float:
        before, times = 1, []
        for npus, rate in zip(shape, (1000, 200, 100, 50), strict=True):
            times.append(2 * (npus - 1) / npus * GIB / before / rate)
            before *= npus
        return max(times)

    assert links((2, 8, 8, 4)) / links((8, 8, 8, 4)) == pytest.approx(2.5)
    found = []
    for label, shape in {"512": (2, 8, 8, 4), "2048, larger": (8, 8, 8, 4)}.items():
        each = point("scaling/all_reduce.toml", f"{label}, inter_dimension=ascending")
        result = run(each.experiment, backend="analytical")
        assert result.lower_bound_ns == pytest.approx(links(shape) + 500, rel=1e-6)  # and the latency of a link
        found.append(result.time_ns)
    assert 2.2 < found[0] / found[1] < 2.5


def test_what_an_npu_holds_shrinks_with_the_degree() -> None:
    """2 bytes of each of P / T parameters; gradients and the optimizer's state, 14 bytes, divided among all NPUs."""
    parameters, needed = 1.008e12, []
    for each in points(INPUTS / "comet/parallelism.toml", ["workload.model=models/transformer_1t.toml"]):
        experiment = each.experiment
        workload, dims = experiment.workload, experiment.network.dims
        assert workload is not None
        assert dims is not None
        shape = tuple(dim.npus for dim in dims)
        plan = training_plan(workload, experiment.system.npu, shape, experiment.network.clock, INPUTS / "comet")
        terms = footprint(plan, 0)
        assert terms["weights"] == pytest.approx(2 * parameters / plan.parallelism.tensor, rel=0.01)
        assert terms["gradients"] + terms["optimizer"] == pytest.approx(14 * parameters / 1024, rel=0.01)
        needed.append(sum(terms.values()))
        assert f"| {sum(terms.values()) / 1e9:.1f} GB |" in PAGE.read_text(encoding="utf-8")
    degrees = sorted(set(needed), reverse=True)
    assert all(more > less for more, less in pairwise(degrees))
    assert [size > 80e9 for size in degrees] == [True, True, True, False, False]
