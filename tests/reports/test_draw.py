"""Pictures of networks: everything is there, nothing hides anything, and values become colours."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import matplotlib
import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from matplotlib import pyplot
from matplotlib.collections import LineCollection, PatchCollection

from pyxsim.errors import InputError
from pyxsim.reports.plots.network_drawing import draw
from pyxsim.reports.plots.network_layout import layout
from pyxsim.topology import Block, Topology, build, product
from pyxsim.topology.from_networkx import from_networkx
from tests.examples import part_of
from tests.garnet_networks import garnet_switch, garnet_torus
from tests.topology.nets import products

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def close_figures() -> Iterator[None]:
    yield
    pyplot.close("all")


def tree() -> Topology:
    links = [(0, 4), (1, 4), (2, 5), (3, 5), (4, 6), (5, 6)]
    return product("tree", [Block.from_links("tree", 4, links, switches=3)])


def dims(*parts: tuple[str, int]) -> Topology:
    return build(None, None, [{"block": name, "npus": npus} for name, npus in parts])


NETS: dict[str, Callable[[], Topology]] = {
    "ring": lambda: build("ring", [8]),
    "ring of two": lambda: build("ring", [2]),
    "one NPU": lambda: build("ring", [1]),
    "line": lambda: build("mesh", [6]),
    "switch": lambda: build("switch", [8]),
    "fully connected": lambda: build("fully-connected", [6]),
    "torus": lambda: build("torus", [4, 4]),
    "mesh": lambda: build("mesh", [5, 4]),
    "stack": lambda: build("torus", [4, 4, 4]),
    "panels": lambda: build("torus", [3, 3, 6]),
    "panels with switches": lambda: dims(("ring", 3), ("mesh", 2), ("switch", 5)),
    "four dimensions": lambda: build("torus", [3, 3, 2, 2]),
    "five dimensions": lambda: build("mesh", [2, 2, 2, 2, 2]),
    "ring and switch": lambda: dims(("ring", 4), ("switch", 4)),
    "switch and clique": lambda: dims(("switch", 4), ("fully-connected", 4)),
    "three blocks": lambda: dims(("ring", 4), ("fully-connected", 4), ("switch", 2)),
    "tree": tree,
    "concentrated mesh": lambda: build("concentrated-mesh", options={"routers": [4, 3], "express": True}),
    "tiles": lambda: build("concentrated-mesh", options={"routers": [3, 3], "concentration": [2, 2]}),
    "HyperX": lambda: build("hyperx", options={"routers": [4, 4, 3], "concentration": 2}),
    "k-ary n-tree": lambda: build("k-ary-n-tree", options={"k": 2, "n": 4}),
    "one leaf": lambda: build("folded-clos", options={"children": [8], "parents": []}),
    "leaves and spines": lambda: build("leaf-spine", options={"npus": 8, "leaves": 4, "spines": 3, "parallel": 2}),
    "dragonfly": lambda: build("dragonfly", options={"p": 2, "a": 4, "h": 2}),
    "slim fly": lambda: build("slim-fly", options={"q": 4}),
    "random": lambda: build("random-regular", options={"routers": 14, "degree": 3}),
    "Petersen": lambda: from_networkx(nx.petersen_graph()),
    "two routers": lambda: from_networkx(nx.path_graph(2)),
    "Garnet's torus": lambda: garnet_torus(2, 2, 2, 2, 2, 2),
    "Garnet's switches": lambda: garnet_switch(4, 3, 2, 2),
}


def routers_apart(net: Topology) -> None:
    plan = layout(net)
    gaps = np.hypot(*(plan.at[:, None] - plan.at[None, :]).transpose(2, 0, 1))
    np.fill_diagonal(gaps, np.inf)
    assert gaps.min() > 2 * plan.radius


def links_attached(net: Topology) -> None:
    """Every link is drawn, and begins and ends at the edge of its routers."""
    plan = layout(net)
    assert sorted(set(plan.stroke_link)) == list(range(net.links))
    begins = {link: stroke[0] for link, stroke in reversed(list(zip(plan.stroke_link, plan.strokes, strict=True)))}
    ends = {link: stroke[-1] for link, stroke in zip(plan.stroke_link, plan.strokes, strict=True)}
    for link in range(net.links):
        for point, router in ((begins[link], net.link_src[link]), (ends[link], net.link_dst[link])):
            assert np.hypot(*(point - plan.at[router])) == pytest.approx(plan.radius, rel=0.15)


@pytest.mark.parametrize("name", NETS)
def test_routers_do_not_touch_and_links_are_attached(name: str) -> None:
    net = NETS[name]()
    routers_apart(net)
    links_attached(net)


@settings(max_examples=part_of(100))
@given(products(most=40))
def test_any_product_has_a_layout(net: Topology) -> None:
    routers_apart(net)
    links_attached(net)


@pytest.mark.parametrize("name", NETS)
def test_a_picture(name: str) -> None:
    net = NETS[name]()
    ax = draw(net)
    assert ax.get_title().startswith(f"{net.name} {' × '.join(map(str, net.shape))}: {net.npus} NPU")
    lines = [c for c in ax.collections if isinstance(c, LineCollection)]
    assert sum(len(c.get_segments()) for c in lines) == len(layout(net).strokes)
    circles, squares = [c for c in ax.collections if isinstance(c, PatchCollection)][:2]
    assert (len(circles.get_paths()), len(squares.get_paths())) == (net.routers - net.switches, net.switches)
    ax.figure.canvas.draw()


def labels(net: Topology) -> int:
    """Shapes of letters that are drawn on routers."""
    return len([c for c in draw(net).collections if isinstance(c, PatchCollection)][-1].get_paths())


def test_routers_tell_their_npus() -> None:
    # One run of numbers a line: 0-1 over 6-7 in a grid of 6 x 6 NPUs in tiles of 2 x 2.
    assert labels(build("concentrated-mesh", options={"routers": [3, 3], "concentration": [2, 2]})) == 2 * 9
    assert labels(build("concentrated-mesh", options={"routers": [3, 3], "concentration": 4})) == 9
    assert labels(build("concentrated-mesh", options={"routers": [2, 2], "concentration": [2, 9]})) == 3 * 4


def test_the_legend_tells_kinds_of_links() -> None:
    def legend(net: Topology) -> list[str]:
        found = draw(net).get_legend()
        return [text.get_text() for text in found.get_texts()] if found else []

    assert legend(build("dragonfly", options={"p": 1, "a": 2, "h": 1})) == ["local", "global"]
    assert legend(build("torus", [3, 4])) == ["dimension 0: ring of 3", "dimension 1: ring of 4"]
    assert legend(build("hyperx", options={"routers": [2, 3], "concentration": 2}))[1] == "dimension 1: fully-connected"
    assert legend(build("ring", [3])) == []


def test_values_become_colours_with_a_bar() -> None:
    net = build("ring", [4])
    values = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0, float("nan"), 0.5]
    ax = draw(net, values=values, label="flits per cycle")
    (lines,) = [c for c in ax.collections if isinstance(c, LineCollection)]
    # Drawn in order of width: the greyed link and the lowest value first, the highest last.
    widths = np.asarray(lines.get_linewidth())
    assert widths.tolist() == sorted(widths.tolist())
    colours = np.asarray(lines.get_colors())
    darkness = 3 - colours[:, :3].sum(axis=1)
    known = darkness[np.ptp(colours[:, :3], axis=1) > 0.1]
    assert len(known) == 7
    assert known.tolist() == sorted(known.tolist())
    (bar,) = [axes for axes in ax.figure.axes if axes is not ax]
    assert bar.get_ylabel() == "flits per cycle"
    assert bar.get_ylim() == (0.0, 1.0)


def test_the_axes_given_are_used() -> None:
    _, axes = pyplot.subplots(1, 2)
    assert draw(build("torus", [3, 3]), axes[1], values=np.zeros(36)) is axes[1]
    assert not axes[0].collections


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"values": [1.0]}, r"the values have shape \(1,\), but the network has 16 links; allowed: one per link"),
        ({"values": np.zeros(16), "cmap": "viridsi"}, "unknown colormap 'viridsi'.*did you mean 'viridis'"),
    ],
)
def test_faults(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        draw(build("ring", [8]), **arguments)


def test_too_large() -> None:
    with pytest.raises(InputError, match="98304 links"):
        draw(build("torus", [32, 32, 16]))


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r"matplotlib.*pip install .?pyxsim\[report\]"):
        draw(build("ring", [4]))
