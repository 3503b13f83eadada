"""The plot of a workload: a bar for each kind of NPU, and the critical path along them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from pyxsim.reports.plots import gantt
from pyxsim.reports.plots.figure import figure
from pyxsim.results import work
from pyxsim.results.result import Result
from pyxsim.results.work import Work
from pyxsim.workload.graph import GraphBuilder, Kind
from tests.results.conftest import make_work
from tests.workload.test_graph_job import run

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")
Build = Callable[..., Result]


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    matplotlib.pyplot.close("all")


def pipeline(build: Build, stages: int, width: int, *, apart: bool) -> Result:
    """Stages of NPUs that compute one after the other; `apart`: each NPU takes another time."""
    b = GraphBuilder(stages * width)
    done = None
    for stage in range(stages):
        npus = np.arange(stage * width, (stage + 1) * width)
        before = []
        if done is not None:
            b.tasks(npus - width, Kind.SEND, size=3, peer=npus, before=[done])
            before = [b.tasks(npus, Kind.RECEIVE, size=3, peer=npus - width)]
        done = b.tasks(npus, Kind.COMPUTE, ticks=100 + np.arange(width) * apart, before=before)
    job, _ = run(b.graph(), (stages * width,))
    return build(work=Work.of(job.graph, job.times(), job.end), time_cycles=job.end)


def labels(ax: object) -> list[str]:
    return [text.get_text() for text in ax.get_yticklabels()]  # type: ignore[attr-defined]


def test_alike(build: Build) -> None:
    """The NPUs of a stage are one bar; the path goes over all stages."""
    result = pipeline(build, 3, 50, apart=False)
    ax = gantt.gantt(result)
    assert labels(ax) == ["NPU 0 and 49 like it", "NPU 50 and 49 like it", "NPU 100 and 49 like it"]
    assert ax.get_title(loc="left") == "Activity of 150 NPUs"
    assert result.npus["like"].tolist() == [0] * 50 + [50] * 50 + [100] * 50
    along, across = (lines.get_segments() for lines in ax.collections[-2:])
    assert len(along) == 3 + 2  # each stage computes; between them a message
    assert [[round(y) for _, y in segment] for segment in across] == [[1, 2], [2, 3]]
    assert sum(segment[1][0] - segment[0][0] for segment in along) == pytest.approx(result.time_cycles)


def test_some_of_many(build: Build) -> None:
    """Those of the path are among them: the slowest."""
    result = pipeline(build, 2, 60, apart=True)
    ax = gantt.gantt(result)
    shown = [int(label.split()[1]) for label in labels(ax)]
    assert len(shown) <= work.MOST_SHOWN
    assert {59, 119, int(result.npus["idle"].argmax()), int(result.npus["idle"].argmin())} <= set(shown)
    assert ax.get_title(loc="left") == f"Activity of {len(shown)} of 120 NPUs"


def test_steps_elsewhere(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the path goes over more NPUs than there is room for, the others have one line."""
    monkeypatch.setattr(work, "MOST_SHOWN", 4)
    monkeypatch.setattr(gantt, "MOST_SHOWN", 4)
    assert labels(gantt.gantt(pipeline(build, 9, 1, apart=True)))[-1] == "others"


def test_many_stretches(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    """Short gaps are closed until there are few; what an NPU does stays inside of what it did."""
    monkeypatch.setattr(work, "MOST_SPANS", 8)
    b = GraphBuilder(1)
    last = b.task(0, Kind.COMPUTE, ticks=5)
    for gap in (1, 50, 2, 60, 3, 2, 1, 70, 1, 2, 3, 4):
        last = b.task(0, Kind.COMPUTE, ticks=5, before=[b.task(0, Kind.MARK, ticks=gap, before=[last])])
    job, _ = run(b.graph(), (1,))
    table = Work.of(job.graph, job.times(), job.end).timeline
    assert len(table["npu"]) <= 8
    gaps = table["begin"][1:] - table["end"][:-1]
    assert {50, 60, 70} <= set(gaps.tolist())
    assert (table["begin"][0], table["end"][-1]) == (0, job.end)


def test_page(build: Build) -> None:
    with_, without = figure(build(work=make_work())), figure(build())
    assert with_.get_figheight() > without.get_figheight()
    titles = [ax.get_title(loc="left") for part in with_.subfigs for ax in part.axes]
    assert "Activity of 2 NPUs" in titles
    assert "no task graph" in gantt.gantt(build()).texts[0].get_text()
