"""Chunks, workloads, latencies and attribution on the page: the numbers are those of the result."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pyxsim
from pyxsim.network.windows import Windows
from pyxsim.reports.html import key_findings
from pyxsim.reports.html.elements import Detail
from pyxsim.reports.html.panels import latency, settings_table
from pyxsim.reports.html.result_chapter import sections
from pyxsim.results.result import Result

UNIFORM = {
    "network": {"topology": "mesh", "shape": [3, 3], "flit": "64 B", "bandwidth": "64 GB/s", "latency": "2 ns"},
    "traffic": {"pattern": "uniform", "load": 0.2, "packet_flits": 3, "warmup": 200, "measure": 2000},
    "output": {"window": "100 ns", "attribution": "links"},
}


@pytest.fixture(scope="module")
def uniform() -> Result:
    return pyxsim.run(UNIFORM)


@pytest.fixture(scope="module")
def dlrm(tree: Any) -> Result:
    return pyxsim.run(tree / "inputs/training/dlrm.toml", backend="analytical")


def figures(result: Result) -> dict[str, Any]:
    """Every panel of a result by its title."""
    return {panel.title: panel for section in sections(result, Detail()) for panel in section.panels}


def test_bars_of_chunks_are_the_rows_of_an_npu(torus: Result) -> None:
    panel = figures(torus)["Chunks over time"]
    menu = panel.figure.layout.updatemenus[0].buttons
    npus = [int(button.label.removeprefix("NPU ")) for button in menu]
    assert npus[0] == 0
    assert len(panel.figure.data) == 2 * len(npus)
    microsecond = 1e-3
    for i, npu in enumerate(npus):
        waits, bars = panel.figure.data[2 * i : 2 * i + 2]
        mine = torus.chunks["rank"] == npu
        ready, start, end = (torus.chunks[name][mine] * microsecond for name in ("ready", "start", "end"))
        drawn, told = (
            np.array(sorted(zip(*each, strict=True))) for each in ((bars.base, bars.x), (start, end - start))
        )
        np.testing.assert_allclose(drawn, told, atol=1e-9)
        assert np.sum(waits.x) == pytest.approx((start - ready).sum())
        assert [trace.visible for trace in panel.figure.data][2 * i : 2 * i + 2] == [i == 0] * 2
        assert menu[i].args[0]["visible"] == [j == i for j in range(len(npus)) for _ in (0, 1)]


def test_bars_of_a_lane_do_not_overlap(torus: Result) -> None:
    bars = figures(torus)["Chunks over time"].figure.data[1]
    for lane in set(bars.y):
        mine = sorted((b, b + x) for b, x, y in zip(bars.base, bars.x, bars.y, strict=True) if y == lane)
        assert all(first[1] <= second[0] + 1e-9 for first, second in itertools.pairwise(mine))


def test_few_bars_are_the_longest(torus: Result) -> None:
    (section,) = [each for each in sections(torus, Detail(1e-9)) if each.key == "chunks"]
    bars = section.panels[0].figure.data[1]
    mine = torus.chunks["rank"] == 0
    took = (torus.chunks["end"] - torus.chunks["start"])[mine] * 1e-3
    assert sorted(bars.x) == pytest.approx(sorted(took)[-8:])
    assert any(f"without up to {len(took) - 8} shorter ones" in note for note in section.panels[0].notes)


def test_chunks_of_an_interrupted_run(build: Callable[..., Result], result: Result) -> None:
    """What has begun and not ended is drawn to the end of what was simulated."""
    chunks = {**result.chunks, "end": np.array([100, 110, -1, -1]), "start": np.array([0, 0, 105, -1])}
    bars = figures(build(chunks=chunks, complete=False))["Chunks over time"].figure.data[1]
    assert max(base + x for base, x in zip(bars.base, bars.x, strict=True)) == pytest.approx(250)


def milliseconds(result: Result, cycles: float) -> float:
    return 1000 * float(cycles) / float(result.clock_hz)


def test_an_npu_s_time_is_what_its_bars_add_up_to(dlrm: Result) -> None:
    panel = figures(dlrm)["What NPUs do"]
    told = {trace.name: trace for trace in panel.figure.data}
    for name in ("compute", "communication"):
        assert np.sum(told[name].x) == pytest.approx(milliseconds(dlrm, dlrm.npus[name][0]))  # all are alike
    path = told["critical path"]
    assert path.x[0] == 0
    assert path.x[-1] == pytest.approx(milliseconds(dlrm, dlrm.time_cycles))


def test_layers_add_up_to_the_time_of_npus(dlrm: Result) -> None:
    panel = figures(dlrm)["Layers"]
    compute, exposed = panel.figure.data
    assert np.sum(compute.x) == pytest.approx(milliseconds(dlrm, dlrm.npus["compute"].mean()))
    assert np.sum(exposed.x) == pytest.approx(milliseconds(dlrm, dlrm.npus["exposed"].mean()))
    assert list(compute.y) == dlrm.layers["name"].tolist()


def test_what_limits_a_workload(dlrm: Result) -> None:
    share = dlrm.npus["compute"].mean() / dlrm.time_cycles
    assert any(f"computed {100 * share:.1f} % of the time" in text for text in key_findings.sentences(dlrm))


def test_latencies_are_those_that_were_measured(uniform: Result) -> None:
    assert uniform.traffic is not None
    panel = figures(uniform)["Latency of packets"]
    (bars,) = panel.figure.data
    counts = uniform.traffic.packets.sum(axis=0)
    assert np.sum(bars.y) == pytest.approx(1)
    # Each bar holds the packets between its edges.
    for share, (low, high) in zip(bars.y, bars.customdata, strict=True):
        inside = (uniform.traffic.latency >= low) & (uniform.traffic.latency < high)
        assert share == pytest.approx(counts[inside].sum() / counts.sum())
    told = uniform.traffic.summary
    assert f"p99 {told['packet_latency_p99']:g}" in panel.text
    assert f"{told['measured_packets']:,} measured packets" in panel.text
    assert next(shape.x0 for shape in panel.figure.layout.shapes) == told["packet_latency_p50"]


def test_percentiles_are_numpy_s() -> None:
    values = np.repeat([3, 7, 8, 100], [50, 40, 9, 1])
    found = latency.percentiles(*np.unique(values, return_counts=True))
    expected = {
        name: int(np.percentile(values, 100 * share, method="inverted_cdf")) for name, share in latency.MARKS.items()
    }
    assert found == expected


def test_a_long_tail_is_drawn_in_decades() -> None:
    groups = [("a", np.array([10, 20, 5000]), np.array([50, 49, 1]))]
    panel = latency.histogram("t", "packets", groups, "latency", 1.0, "cycles")
    assert panel.figure.layout.xaxis.type == "log"
    assert np.sum(panel.figure.data[0].y) == pytest.approx(1)


def test_many_classes_are_together() -> None:
    groups = [(f"class {i}", np.array([10 + i]), np.array([1])) for i in range(20)]
    panel = latency.histogram("t", "packets", groups, "latency", 1.0, "cycles")
    assert [trace.name for trace in panel.figure.data][-1] == "others"
    assert sum(np.sum(trace.y) for trace in panel.figure.data) == pytest.approx(1)
    assert panel.notes


def test_course_and_nodes(uniform: Result) -> None:
    assert uniform.traffic is not None
    shown = figures(uniform)
    mean, backlog = shown["Course of the run"].figure.data
    np.testing.assert_array_equal(mean.x, uniform.traffic.batches["start"])
    np.testing.assert_array_equal(backlog.y, uniform.traffic.batches["backlog"])
    (nodes,) = shown["Accepted load of the nodes"].figure.data
    np.testing.assert_array_equal(np.sort(nodes.y), np.sort(uniform.traffic.accepted))


def test_messages_have_latencies_where_each_is_known(torus: Result) -> None:
    panel = figures(torus)["Latency of messages"]
    took = torus.latency["arrived"] - torus.latency["sent"]
    assert f"{len(took):,} messages; mean {took.mean() / 1000:.4g}" in panel.text


def test_parts_of_the_time_are_those_of_the_messages(torus: Result) -> None:
    assert torus.attribution is not None
    panel = figures(torus)["Where the time went"]
    whole = torus.attribution.of_messages
    for trace in panel.figure.data:
        part = {"VC": "vc"}.get(trace.name, trace.name)
        assert trace.x[0] == pytest.approx(whole[part] / sum(whole.values()))
    assert sum(trace.x[0] for trace in panel.figure.data) == pytest.approx(1)


def test_waiting_at_links_is_all_of_it(uniform: Result) -> None:
    told = uniform.attribution
    assert told is not None
    shown = figures(uniform)
    panel = shown["Where packets waited"]
    first = np.bincount(told.waits["link"], told.waits["cycles"]).max()
    assert sum(trace.x[0] for trace in panel.figure.data) == pytest.approx(first / uniform.time_cycles)
    blame = shown["Delays by traffic"].figure.data[0]
    assert np.sum(blame.customdata) == told.waits["cycles"].sum()
    assert len(shown["Causes at the worst links"].sentences) == 4


def test_runs_that_do_not_tell_show_nothing_of_it(build: Callable[..., Result]) -> None:
    keys = [section.key for section in sections(build(), Detail())]
    assert keys == ["links", "chunks", "waiting", "hot", "numbers", "settings"]


@pytest.mark.parametrize(
    ("backend", "options"),
    [("packet", ""), ("flow", " --backend flow"), ("pipe", " --backend pipe --library DIR")],
)
def test_the_command_that_reproduces_a_result(build: Callable[..., Result], backend: str, options: str) -> None:
    panel = settings_table.provenance(build(backend=backend))
    assert panel.sheet is not None
    assert panel.sheet.rows[0] == ["again", f"pyxsim run settings.toml{options} -o out.h5"]
    assert ("'pipe' does not ship with pyxsim" in panel.text) == (backend == "pipe")


def test_what_limits_a_run(build: Callable[..., Result]) -> None:
    slow, quick = build(), build(lower_bound_ns=249)
    assert any(
        "1.250 times" in text and "20.0 % of its time has other causes" in text for text in key_findings.sentences(slow)
    )
    assert any("of the links limit it" in text for text in key_findings.sentences(quick))
    assert not any("times the lower bound" in text for text in key_findings.sentences(build(complete=False)))
    assert key_findings.sentences(build(complete=False, failure="deadlock in cycle 40")) == []


@pytest.mark.parametrize(
    ("backend", "ignored"), [("analytical", "that messages share links"), ("pipe", "limits of the links")]
)
def test_a_time_below_the_bound_is_not_limited_by_links(
    build: Callable[..., Result], backend: str, ignored: str
) -> None:
    first = key_findings.sentences(build(backend=backend, lower_bound_ns=500))[0]
    assert first == (
        "The run took 0.500 times the lower bound of its plan on these links: "
        f"this backend ignores {ignored}, so its time is below the bound."
    )


def test_what_limits_the_links(build: Callable[..., Result], result: Result) -> None:
    """Four links of one flit per 2.5 cycles, or one: flits over 250 cycles in a dimension each."""

    def told(flits: list[int], **stalls: list[int]) -> str:
        links = replace(result.links, dim=np.array([0, 0, 1, 1]))
        counts = {"flits": np.array(flits), **{name: np.array(each) for name, each in stalls.items()}}
        changed = build(
            links=links, totals=counts, windows=Windows.whole(250, counts), dimension_names=["ring 2", "bus 2"]
        )
        return " ".join(key_findings.sentences(changed))

    assert "dimension 0: ring 2; they were busy 96.0 % of the time" in told([96, 96, 0, 0])
    assert "their bandwidth limits the run" in told([96, 96, 0, 0])
    assert "the busiest one 90.0 %: a few links are overloaded" in told([90, 50, 0, 0])
    assert (
        "But a link of dimension 1: bus 2 was busy 90.0 % of the time, and the links of its kind 45.0 % on average"
        in told([50, 60, 0, 225])
    )
    assert "ignores the capacity of links" in told([150, 0, 0, 0])
    waits = told([10, 0, 0, 0], stall_credit=[0, 0, 100, 0], stall_vc=[10, 10, 0, 0])
    assert "before links of dimension 1: bus 2 for a credit in 20.0 % of the time; larger buffers" in waits


def test_captions_use_the_words_of_their_table(build: Callable[..., Result]) -> None:
    (panel,) = [
        panel for section in sections(build(), Detail()) for panel in section.panels if "at work" in _head(panel)
    ]
    assert panel.text.startswith("At work: ")


def _head(panel: Any) -> tuple[str, ...]:
    return tuple(panel.sheet.head) if panel.sheet is not None else ()


def test_a_saturated_network_says_so(uniform: Result) -> None:
    assert uniform.traffic is not None
    full = replace(uniform.traffic, summary={**uniform.traffic.summary, "saturated": True})
    changed = Result(**{**_fields(uniform), "traffic": full})
    assert key_findings.sentences(changed)[0].startswith("The network is saturated")


def _fields(result: Result) -> dict[str, Any]:
    return {name: getattr(result, name) for name in result.__dataclass_fields__ if name != "views"}
