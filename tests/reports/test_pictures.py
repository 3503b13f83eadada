"""Pictures have no empty panels, bars for values without an order, and layouts by distance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyxsim
from pyxsim import library
from pyxsim.registry import topologies
from pyxsim.reports.plots import backend_ratios
from pyxsim.reports.plots.network_layout import layout, springs
from pyxsim.topology.place import circle

matplotlib = pytest.importorskip("matplotlib")
TREE = Path(__file__).resolve().parents[2]
RING: dict[str, Any] = {
    "network": {"topology": "ring", "shape": [4]},
    "collective": {"kind": "all-reduce", "size": "64 KiB"},
}
EMPTY = ("not measured by this backend", "no packet waited in the network")


def texts(page: Any) -> list[Any]:
    """The visible texts of a figure, drawn."""
    page.canvas.draw()
    return [each for each in page.findobj(matplotlib.text.Text) if each.get_visible() and each.get_text().strip()]


def test_a_training_has_no_empty_panel() -> None:
    small = ["workload.batch=8", "network.dims[1].npus=2", "network.dims[2].npus=2"]
    small += ["workload.parallelism.data=2", "workload.parallelism.pipeline=2"]
    result = pyxsim.run(TREE / "inputs" / "training" / "llama3.toml", overrides=small, backend="analytical")
    page = result.plot.figure()
    shown = texts(page)
    assert not [text for text in shown if text.get_text().startswith(EMPTY)]


def test_a_comparison_has_no_empty_panel() -> None:
    pages = []
    for sweep in ({}, {"sweep": {"system.chunks": [1, 2]}}):
        comparison = pyxsim.compare({**RING, **sweep}, backends=["packet", "analytical"])
        assert not len(comparison.points[0].result("packet").attribution.waits["cycles"])
        pages.append(backend_ratios.figure(comparison))
    for page in pages:
        assert not [text for text in texts(page) if text.get_text().startswith(EMPTY)]


def test_values_without_an_order_are_bars(tmp_path: Path) -> None:
    networks = {"a": {"topology": "ring", "shape": [4]}, "b": {"topology": "mesh", "shape": [2, 2]}}
    axes = {"network": networks, "collective.size": ["1 KiB", "2 KiB"], "backend": ["analytical", "flow"]}
    swept = pyxsim.sweep({**RING, "sweep": axes}, tmp_path / "s", workers=1)
    ax = swept.plot("network", "time_ns", "backend")
    assert [len(bars) for bars in ax.containers if hasattr(bars, "patches")] == [2, 2]  # a and b of each backend
    heights = [patch.get_height() for patch in ax.containers[0].patches]
    times = [point.values["time_ns"] for point in swept.points if point.changed["backend"] == "analytical"]
    assert heights == [np.mean(times[:2]), np.mean(times[2:])]
    assert len(swept.plot("size", "time_ns", "backend").lines) == 2  # sizes have an order
    pyxsim.report(swept.folder, tmp_path / "page.html")


def test_random_graphs_are_arranged_by_distance() -> None:
    library.load_all(())
    topology = topologies.get("random-regular")(routers=32, degree=4)
    src, dst = topology.link_src, topology.link_dst

    def link_length(at: Any) -> float:
        """The mean length of a link over the mean distance of all pairs."""
        pairs = np.hypot(*(at[:, None] - at[None, :]).transpose(2, 0, 1))
        return float(np.hypot(*(at[src] - at[dst]).T).mean() / pairs.mean())

    at = layout(topology).at
    assert link_length(at) < 0.75 * link_length(circle(32))  # neighbours are near
    assert np.array_equal(at, layout(topology).at)
    first = springs(topology)
    assert np.allclose(first, springs(topology), atol=0)
