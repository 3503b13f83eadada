from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyxsim import library
from pyxsim.errors import InputError
from pyxsim.network.windows import Windows
from pyxsim.reports.plots import figure as plots
from pyxsim.reports.plots.figure import Plots, figure, save
from pyxsim.reports.plots.link_plots import bands
from pyxsim.reports.plots.style import Clock, nice_top, thinned
from pyxsim.results.links import LinkTable
from pyxsim.results.result import Result
from pyxsim.topology import build as build_topology

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")


@pytest.fixture
def torus(build: Callable[..., Result]) -> Result:
    """A 4x4 torus in which dimension 0 is busy in the first half and dimension 1 in the second."""
    library.load_all()
    topology = build_topology("torus", [4, 4])
    count = topology.links
    flits = np.zeros((10, count), dtype=np.uint64)
    flits[:5, topology.link_dim == 0] = 80
    flits[5:, topology.link_dim == 1] = 40
    per_link = np.ones(count, dtype=np.int64)
    links = LinkTable(
        list(topology.link_name),
        topology.link_src,
        topology.link_dst,
        topology.link_dim,
        np.full(count, 1e11),
        per_link * 500,
        per_link,
        per_link,
    )
    return build(
        time_cycles=1000,
        links=links,
        windows=Windows(np.arange(10) * 100, 100, {"flits": flits}),
        totals={"flits": flits.sum(axis=0).astype(np.int64), "stall_vc": per_link * 10},
        buffer_max=None,
        experiment_toml='[network]\ntopology = "torus"\nshape = [4, 4]',
    )


def test_utilization_shows_the_numbers(torus: Result) -> None:
    ax = torus.plot.utilization()
    images = ax.images
    assert len(images) == 4  # two dimensions, two directions
    assert np.allclose(images[0].get_array()[:, :5], 0.8)
    assert np.allclose(images[0].get_array()[:, 5:], 0)
    assert np.allclose(images[3].get_array()[:, 5:], 0.4)
    assert images[0].get_clim() == (0, 1)
    assert images[0].get_extent()[:2] == [0, 1]  # us
    assert ax.get_xlabel() == "simulated time (us)"
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels == [f"dim {dim}: 4 NPUs {sign}" for dim in (0, 1) for sign in "+-"]
    assert "100 ns" in ax.get_title(loc="left")
    matplotlib.pyplot.close(ax.figure)


def test_kinds_of_links_have_their_names(torus: Result) -> None:
    torus.link_kinds = ["local", "global"]
    ax = torus.plot.utilization()
    assert [label.get_text() for label in ax.get_yticklabels()] == ["local +", "local -", "global +", "global -"]
    for ax in (torus.plot.dimensions(), torus.plot.links()):
        assert [label.get_text() for label in ax.get_legend().get_texts()] == ["local", "global"]
    assert torus.plot.dimensions().get_title(loc="left").startswith("Kinds of links over time")
    assert torus.plot.links().get_xlabel() == "links of the kind, busiest first"
    assert [label.get_text() for label in torus.plot.stalls().get_yticklabels()] == ["local", "global"]
    matplotlib.pyplot.close("all")


def test_the_network_has_the_scale_of_the_links_over_time(torus: Result) -> None:
    ax = torus.plot.topology()
    bar = next(other for other in ax.figure.axes if other is not ax)
    assert bar.get_ylim() == (0, 1)
    matplotlib.pyplot.close("all")


def test_a_failure_is_in_the_headline(build: Callable[..., Result]) -> None:
    for failure, words in (("", "(interrupted)"), ("deadlock in cycle 40: a -> b", "(deadlock in cycle 40)")):
        page = build(complete=False, failure=failure).plot.figure()
        assert any(text.get_text().endswith(words) for text in page.axes[0].texts)
    assert "(failed)" in build(complete=False, failure="x" * 99).plot.figure().axes[0].texts[0].get_text()


def test_axes_are_taken_and_returned(torus: Result) -> None:
    _, axes = matplotlib.pyplot.subplots(6)
    for name, ax in zip(("utilization", "dimensions", "chunks", "stalls", "links", "topology"), axes, strict=True):
        assert getattr(torus.plot, name)(ax) is ax
    matplotlib.pyplot.close("all")


def test_few_links_are_named(result: Result) -> None:
    ax = result.plot.utilization()
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert sorted(labels) == sorted(result.links.name)
    # The row of a name shows that link: the busiest one first.
    assert labels[0] == "d0+:(0)->(1)"
    assert ax.images[0].get_array()[0].tolist() == [0.97, 0.5, 0.5]
    matplotlib.pyplot.close(ax.figure)


def test_bands_cover_every_link_once(torus: Result) -> None:
    rows = bands(torus)
    assert sorted(np.concatenate([band.links for band in rows]).tolist()) == list(range(64))
    assert [(band.dim, band.tag) for band in rows] == [(0, "+"), (0, "-"), (1, "+"), (1, "-")]
    assert all(above.bottom < below.top for above, below in itertools.pairwise(rows))


def test_chunks_of_another_npu(result: Result) -> None:
    ax = result.plot.chunks(npu=1)
    bars = [path.get_extents() for path in ax.collections[0].get_paths()]
    assert [(bar.x0, bar.x1) for bar in bars] == [(0, 110), (120, 240)]
    waits = [path.get_extents() for path in ax.collections[1].get_paths()]
    assert [(wait.x0, wait.x1) for wait in waits] == [(0, 0), (110, 120)]
    assert result.plot.chunks(npu=5).texts[0].get_text() == "no chunks on NPU 5"
    matplotlib.pyplot.close("all")


def test_thinned_keeps_the_mean() -> None:
    values = np.arange(10.0)[:, np.newaxis]
    few, starts = thinned(values, 4)  # groups of 3, 3, 3 and 1
    assert few[:, 0].tolist() == [1, 4, 7, 9]
    assert starts.tolist() == [0, 3, 6, 9]
    same, _ = thinned(values, 10)
    assert same.tolist() == values.tolist()


@pytest.mark.parametrize(
    ("share", "top"), [(0.0, 1e-5), (0.0042, 0.005), (0.3, 0.5), (0.51, 1.0), (1.0, 1.0), (1.7, 1.7)]
)
def test_scale(share: float, top: float) -> None:
    assert nice_top(share) == pytest.approx(top)


@pytest.mark.parametrize(
    ("cycles", "unit", "end"), [(0, "ns", 1), (999, "ns", 999), (2500, "us", 2.5), (3 * 10**9, "s", 3)]
)
def test_time_unit(build: Callable[..., Result], cycles: int, unit: str, end: float) -> None:
    clock = Clock.of(build(time_cycles=cycles))
    assert clock.unit == unit
    assert clock.end == pytest.approx(end)


def pixels(page: Any) -> Any:
    canvas = matplotlib.backends.backend_agg.FigureCanvasAgg(page)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())


def visible_titles(page: Any) -> list[str]:
    return [title for ax in page.axes if (title := ax.get_title(loc="left"))]


@pytest.mark.parametrize("which", ["result", "empty", "torus"])
def test_page(which: str, request: pytest.FixtureRequest) -> None:
    page = figure(request.getfixturevalue(which))
    image = pixels(page)
    assert image.shape == (1080, 1800, 4)
    assert (image[..., :3] != 255).any()


def test_page_without_chunks(build: Callable[..., Result], empty: Result) -> None:
    assert any("NPU 0" in title for title in visible_titles(figure(build())))
    assert not any("NPU 0" in title for title in visible_titles(figure(build(chunks=empty.chunks))))


def test_texts_of_a_page_do_not_overlap(torus: Result) -> None:
    page: Any = figure(torus)
    pixels(page)
    renderer = page.canvas.get_renderer()
    texts: list[Any] = []
    for ax in page.axes:
        legend = ax.get_legend()
        texts += [*ax.texts, ax._left_title, *ax.get_yticklabels(), *(legend.texts if legend else [])]
    texts = [text for text in texts if text.get_visible() and text.get_text().strip()]
    assert len(texts) > 30
    boxes = [(text.get_text(), text.get_window_extent(renderer)) for text in texts]
    width, height = page.canvas.get_width_height()
    for i, (name, box) in enumerate(boxes):
        assert box.x0 >= 0, name
        assert box.x1 <= width, name
        assert box.y0 >= 0, name
        assert box.y1 <= height, name
        for other, second in boxes[i + 1 :]:
            assert not box.overlaps(second), (name, other)


def test_a_loaded_result_knows_its_network_again(torus: Result, tmp_path: Path) -> None:
    torus.save(tmp_path / "out.h5")
    loaded = Result.load(tmp_path / "out.h5")
    assert loaded.topology is None
    assert any("spent sending" in title for title in visible_titles(figure(loaded)))
    other = Result.load(tmp_path / "out.h5")
    other.experiment_toml = other.experiment_toml.replace("torus", "mesh")
    assert plots.topology_of(other) is None


def test_save(torus: Result, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"new/out\.png: cannot be written: there is no folder '.*new'"):
        save(torus, tmp_path / "new" / "out.png")
    save(torus, tmp_path / "out.png")
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InputError, match=r"out\.xyz: cannot write the plot"):
        save(torus, tmp_path / "out.xyz")
    with pytest.raises(InputError, match="it is a folder"):
        save(torus, tmp_path)


def test_no_matplotlib(result: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for call in (result.plot.utilization, result.plot.figure, result.plot.chunks):
        with pytest.raises(InputError, match=r"pip install pyxsim\[report\]"):
            call()


def test_importing_plots_does_not_import_matplotlib() -> None:
    program = "import sys, pyxsim.reports; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_plot_is_an_accessor(result: Result) -> None:
    assert isinstance(result.plot, Plots)


def test_chunks_of_an_interrupted_run(build: Callable[..., Result]) -> None:
    """-1: not started, or not ended; then the bar goes on to the end of the run."""
    chunks = build().chunks
    chunks["end"][[2, 3]] = -1
    chunks["start"][3] = -1
    chunks["dimension"][:] = -1
    result = build(chunks=chunks, complete=False)
    ax = result.plot.chunks()
    bars = [path.get_extents() for path in ax.collections[0].get_paths()]
    assert [(bar.x0, bar.x1) for bar in bars] == [(0, 100), (105, 250)]
    assert ax.get_yticklabels()[0].get_text() == "all dims"
    assert len(result.plot.chunks(npu=1).collections[0].get_paths()) == 1
    matplotlib.pyplot.close("all")
