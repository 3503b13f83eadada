"""The case studies of ASTRA-sim 2.0 and COMET: their files are read, and their page has what follows from sizes.

`pyxsim validate case-studies` checks ratios and times; here are the numbers of the page, those of sweeps with --slow.
"""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from pyxsim.results.result import Result
from pyxsim.settings.points import Point, plan_of
from pyxsim.workload.parallel import training_plan
from pyxsim.workload.parallel.footprint import footprint
from validation.families.case_studies import points, seconds_in_switches, select, simulated

ROOT = Path(__file__).resolve().parents[1]
INPUTS = ROOT / "inputs" / "studies"
PAGE = (ROOT / "docs" / "case_studies.md").read_text(encoding="utf-8")
FILES = sorted(
    path for name in ("wafer", "scaling", "disaggregated", "comet") for path in (INPUTS / name).glob("*.toml")
)
GIB = 2**30
ALL_REDUCE, REMOTE, COMET = "wafer/all_reduce.toml", "disaggregated/systems.toml", "comet/parallelism.toml"
# The systems of remote memory, and the first cell of their rows.
SYSTEMS = {
    "ZeRO-Infinity": "ZeRO-Infinity",
    "pool": "pool",
    "pool, in switches": "pool, collectives in switches",
    "groups of 500 GB/s": "and memory groups with 500 GB/s",
    "NPU links of 512 GB/s": "or NPU links with 512 GB/s",
    "both": "both",
    "both, 1 TB/s": "both, NPU links with 1024 GB/s",
}


def cells(first: str) -> list[str]:
    """Return the cells of the row of the page that begins with a text."""
    (line,) = re.findall(rf"^\| {re.escape(first)} \| (.*) \|$", PAGE, re.MULTILINE)
    return [cell.strip() for cell in line.split("|")]


def seconds(result: Result, key: str) -> float:
    return float(result.json()[key]["mean"]) / 1e9


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_file_is_read_and_stands_on_the_page(path: Path) -> None:
    assert plan_of(path).points
    assert f"](../{path.relative_to(ROOT)})" in PAGE


@pytest.mark.parametrize(("network", "bandwidth", "wafer"), [("Conv-3D", 350, "W-1D 350"), ("W-2D", 500, "W-1D 500")])
@pytest.mark.slow
def test_with_themis_a_conventional_network_is_as_fast_as_a_wafer_of_its_bandwidth(
    network: str, bandwidth: int, wafer: str
) -> None:
    times = [
        simulated(ALL_REDUCE, select(ALL_REDUCE, f"{name}, inter_dimension=themis"), "analytical-congestion").time_ns
        for name in (network, wafer)
    ]
    assert times[0] == pytest.approx(times[1], rel=0.03)
    row = cells(f"{network}, {bandwidth} GB/s")
    assert row[2] == f"{times[0] / 1e6:.3f}"
    assert row[-2:] == [f"{times[1] / 1e6:.3f}", f"{times[0] / times[1]:.2f}"]


def links(shape: tuple[int, ...]) -> float:
    """Nanoseconds of 1 GiB with ascending dimensions."""
    before, times = 1, []
    for npus, rate in zip(shape, (1000, 200, 100, 50), strict=True):
        times.append(2 * (npus - 1) / npus * GIB / before / rate)
        before *= npus
    return max(times)


@pytest.mark.parametrize("shape", [(2, 8, 8, 4), (2, 8, 8, 32), (4, 8, 8, 4), (8, 8, 8, 4), (16, 8, 8, 4)])
def test_the_page_has_what_the_links_allow(shape: tuple[int, ...]) -> None:
    (row,) = [line for line in PAGE.splitlines() if f"| {' x '.join(map(str, shape))} |" in line]
    assert f"| {links(shape) / 1e6:.3f} ms | {links((2, 8, 8, 4)) / links(shape):.2f} |" in row


def test_a_larger_wafer_gains_what_the_links_gain() -> None:
    """2.50 with ascending dimensions, but for the latency of the steps; 2.51 is published."""
    assert links((2, 8, 8, 4)) / links((8, 8, 8, 4)) == pytest.approx(2.5)
    found = []
    for label, shape in {"512": (2, 8, 8, 4), "2048, larger": (8, 8, 8, 4)}.items():
        file = "scaling/all_reduce.toml"
        result = simulated(file, select(file, f"{label}, inter_dimension=ascending"), "analytical")
        assert result.lower_bound_ns == pytest.approx(links(shape) + 500, rel=1e-6)  # and the latency of a link
        assert f"| {result.time_ns / 1e6:.3f} ms |" in PAGE
        found.append(result.time_ns)
    assert f"| {found[0] / found[1]:.2f} |" in PAGE


@pytest.mark.parametrize("name", list(SYSTEMS)[2:])
def test_the_page_has_the_closed_form_of_collectives_in_switches(name: str) -> None:
    memory = select(REMOTE, name).experiment.system.remote_memory
    assert memory is not None
    assert cells(SYSTEMS[name])[-1] == f"{seconds_in_switches(memory):.2f} s"


@pytest.mark.slow
def test_the_page_has_the_steps_of_all_systems_of_memory() -> None:
    found = {name: simulated(REMOTE, select(REMOTE, name), "analytical-congestion") for name in SYSTEMS}
    first = found["ZeRO-Infinity"]
    for name, result in found.items():
        step, computing = result.time_ns / 1e9, seconds(result, "compute_ns")
        speed_up = (first.time_ns / 1e9 - seconds(first, "compute_ns")) / (step - computing)
        assert cells(SYSTEMS[name])[:-1] == [
            f"{step:.3f} s" if name in ("ZeRO-Infinity", "pool") else f"{step:.2f} s",
            f"{first.time_ns / result.time_ns:.2f}",
            f"{step - computing:.2f} s",
            f"{speed_up:.2f}",
            f"{seconds(result, 'memory_ns'):.2f} s",
        ]


@pytest.mark.parametrize(
    ("row", "backend", "bandwidth"),
    [
        ("time with 2039 GB/s", "analytical-congestion", "2039 GB/s"),
        ("time with 500 GB/s", "analytical-congestion", "500 GB/s"),
        ("`flow`, 2039 GB/s", "flow", "2039 GB/s"),
        ("`flow`, 500 GB/s", "flow", "500 GB/s"),
    ],
)
@pytest.mark.slow
def test_the_page_has_the_times_of_all_degrees(row: str, backend: str, bandwidth: str) -> None:
    mine = [each for each in points(COMET) if each.swept["system.npu.memory_bandwidth"] == bandwidth]
    found = [simulated(COMET, each, backend) for each in mine]
    assert cells(row) == [f"{result.time_ns / 1e6:.1f} ms" for result in found]
    if row == "time with 2039 GB/s":
        exposed = [f"{1000 * seconds(result, 'exposed_ns'):.1f} ms" for result in found]
        assert cells("of this, exposed communication") == exposed


def footprint_of(point: Point) -> tuple[int, dict[str, int]]:
    """Return the tensor-parallel degree of a point, and what an NPU holds by terms."""
    workload, dims = point.experiment.workload, point.experiment.network.dims
    assert workload is not None
    assert dims is not None
    shape = tuple(dim.npus for dim in dims)
    plan = training_plan(workload, point.experiment.system.npu, shape, point.experiment.network.clock, INPUTS / "comet")
    return plan.parallelism.tensor, dict(footprint(plan, 0))


def test_what_an_npu_holds_shrinks_with_the_degree() -> None:
    """2 bytes of each of P / T parameters; gradients and the optimizer's state, 14 bytes, divided among all NPUs."""
    parameters, needed = 1.008e12, []
    for each in points(COMET, ["workload.model=models/transformer_1t.toml"]):
        tensor, terms = footprint_of(each)
        assert terms["weights"] == pytest.approx(2 * parameters / tensor, rel=0.01)
        assert terms["gradients"] + terms["optimizer"] == pytest.approx(14 * parameters / 1024, rel=0.01)
        needed.append(sum(terms.values()))
        assert f"| {sum(terms.values()) / 1e9:.1f} GB |" in PAGE
    degrees = sorted(set(needed), reverse=True)
    assert all(more > less for more, less in pairwise(degrees))
    assert [size > 80e9 for size in degrees] == [True, True, True, False, False]
