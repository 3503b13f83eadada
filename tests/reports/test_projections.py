"""A large network seen along its dimensions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pyxsim import library
from pyxsim.network.windows import Windows
from pyxsim.reports.plots import figure as plots
from pyxsim.reports.plots.projections import MOST_DRAWN, busiest, projections
from pyxsim.results.links import LinkTable
from pyxsim.results.result import Result
from pyxsim.topology import Topology
from pyxsim.topology import build as build_topology

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")
library.load_all()


def measured(make: Callable[..., Result], topology: Topology, flits: np.ndarray) -> Result:
    """A run of 100 cycles, of one window."""
    ones = np.ones(topology.links, np.int64)
    ends = (topology.link_src, topology.link_dst, topology.link_dim)
    links = LinkTable(list(topology.link_name), *ends, np.full(topology.links, 1e11), ones, ones, ones)
    totals = {"flits": flits.astype(np.int64)}
    return make(time_cycles=100, links=links, windows=Windows.whole(100, totals), totals=totals, topology=topology)


def test_one_busy_link_is_one_cell_of_each_view(build: Callable[..., Result]) -> None:
    topology = build_topology("torus", [12, 11, 10])
    assert topology.links > MOST_DRAWN
    hot = int(np.flatnonzero((topology.link_src == topology.npu((3, 5, 7))) & (topology.link_dim == 1))[0])
    ax = plots.network(measured(build, topology, np.where(np.arange(topology.links) == hot, 80, 10)))
    views = [view for view in ax.child_axes if view.images and view.get_xlabel()]
    assert [(view.get_xlabel()[-1], view.get_ylabel()[-1]) for view in views] == [("0", "1"), ("0", "2"), ("1", "2")]
    for view, (x, y) in zip(views, [(3, 5), (3, 7), (5, 7)], strict=True):
        shown = np.asarray(view.images[0].get_array()).T
        assert shown[x, y] == pytest.approx(0.8)
        assert np.count_nonzero(shown == shown[x, y]) == 1
        assert shown.min() == pytest.approx(0.1)
    assert "1,320 routers, 7,920 links" in "".join(text.get_text() for text in ax.texts)
    assert not ax.collections  # no link is drawn


def test_a_small_network_is_drawn(build: Callable[..., Result]) -> None:
    topology = build_topology("torus", [4, 4])
    ax = plots.network(measured(build, topology, np.full(topology.links, 10)))
    assert len(ax.collections) > 1


@pytest.mark.parametrize(("name", "shape", "options"), [("switch", [5], {}), ("k-ary-n-tree", None, {"k": 3, "n": 3})])
def test_links_at_switches_count_where_npus_are(name: str, shape: list[int] | None, options: dict[str, int]) -> None:
    topology = build_topology(name, shape, None, options)
    values = np.random.default_rng(3).random(topology.links)
    dims = range(len(topology.shape))
    for across in dims:
        for up in [None, *(dim for dim in dims if dim > across)]:
            found, has = busiest(topology, values, across, up)
            wanted = np.zeros_like(found)
            for npu, router in enumerate(topology.home.tolist()):
                place = topology.coords[npu, across], 0 if up is None else topology.coords[npu, up]
                # No link leads from one router with NPUs to another here.
                mine = values[(topology.link_src == router) | (topology.link_dst == router)]
                wanted[place] = max(wanted[place], mine.max())
            assert (found == wanted).all()
            assert has.all()


def test_one_dimension_is_one_strip(build: Callable[..., Result]) -> None:
    topology = build_topology("switch", [40])
    ax = projections(measured(build, topology, np.full(topology.links, 10)), topology)
    assert np.asarray(ax.child_axes[0].images[0].get_array()).shape == (1, 40)
