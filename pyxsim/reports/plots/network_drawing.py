"""Drawings of networks: routers, links, and an optional value per link."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pyxsim.errors import InputError
from pyxsim.reports.plots.network_layout import Layout, layout
from pyxsim.reports.plots.style import STYLE, colour, need_matplotlib
from pyxsim.topology import Topology
from pyxsim.topology.place import Points

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import Patch

NEAR, FAR, SWITCH, INK, UNKNOWN = "#FFFFFF", "#C3D3E2", "#FFE9A8", "#2B3440", "#D5DAE0"
MAX_LINKS = 50_000  # more links would be a grey square
MAX_ARROWS = 700
MANY = 300  # links from which lines get thinner
MAX_LABELS = 1500
MAX_LINES = 4  # of one label


def draw(
    topology: Topology,
    ax: Axes | None = None,
    values: ArrayLike | None = None,
    label: str = "",
    cmap: str = "YlOrRd",
    scale: tuple[float, float] | None = None,
) -> Axes:
    """Draw a topology and return the axes.

    Parameters
    ----------
    topology
        The network.
    values
        float64[links], shown by colour and width with a colour bar; NaN is grey. By default links are coloured by
        dimension.
    label
        Label of the colour bar.
    scale
        Values at the ends of the colours; by default minimum and maximum.

    Raises
    ------
    InputError
        If matplotlib is missing, the values do not fit, or the network is too large to draw.
    """
    need_matplotlib()
    if topology.links > MAX_LINKS:
        raise InputError(f"a picture cannot show {topology.links} links", allowed=f"at most {MAX_LINKS}")
    plan = layout(topology)
    low, high = _extent(plan)
    ax = ax or _figure(plan, high - low, values is not None)
    ax.set_aspect("equal")
    ax.set_axis_off()
    ax.set_xlim(low[0], high[0])
    ax.set_ylim(low[1], high[1])
    title = _title(topology)
    # A character is about 0.6 of its size wide: long titles get a smaller font.
    room = 72 * float(ax.get_window_extent().width) / float(ax.figure.dpi)
    ax.set_title(title, fontsize=min(12.0, max(6.0, room / (0.6 * len(title)))))
    if values is None:
        colours, widths = _by_dimension(topology, ax), np.full(topology.links, _thin(topology))
    else:
        colours, widths = _by_value(topology, ax, values, label, cmap, scale)
    _draw_links(ax, plan, colours, widths)
    _draw_routers(ax, topology, plan)
    return ax


def _figure(plan: Layout, size: Points, bar: bool) -> Axes:
    """Create axes in which an NPU is about 0.3 inch wide, within limits of the figure size."""
    from matplotlib import pyplot

    scale = float(np.clip(0.3 / (2 * plan.radius), 3.2 / max(size), 15 / max(size)))
    width, height = size * scale
    # Inches: a title above, a legend below or a bar to the right. A legend may be wider than the picture, which
    # layout engines answer by making the picture small.
    width, above, below = max(width, 4.2) + (1.5 if bar else 0.0), 0.4, 0.2 if bar else 0.65
    whole = height + above + below
    style: Any = STYLE
    with pyplot.rc_context(style):
        figure = pyplot.figure(figsize=(width, whole))
        # The words beside the bar stand outside of what it takes from the axes.
        return figure.add_axes((0.02, below / whole, 0.96 - (0.6 / width if bar else 0.0), height / whole))


def _extent(plan: Layout) -> tuple[Points, Points]:
    points = np.concatenate([plan.at - plan.radius, plan.at + plan.radius, *plan.strokes])
    low, high = points.min(axis=0), points.max(axis=0)
    if plan.notes:
        high = np.maximum(high, [high[0], max(y for _, y, _ in plan.notes) + 0.4])
    return low - 0.6 * plan.radius, high + 0.6 * plan.radius


def _title(topology: Topology) -> str:
    shape = " × ".join(map(str, topology.shape))
    switches = f", {topology.switches} switch{'es' if topology.switches > 1 else ''}" if topology.switches else ""
    homes = topology.routers - topology.switches
    shared = f" at {homes} routers" if homes < topology.npus else ""
    return f"{topology.name} {shape}: {topology.npus} NPUs{shared}{switches}, {topology.links} links"


def _by_dimension(topology: Topology, ax: Axes) -> NDArray[Any]:
    from matplotlib.colors import to_rgba_array
    from matplotlib.lines import Line2D

    palette = to_rgba_array([colour(kind) for kind in range(len(topology.link_kinds))])
    used = np.unique(topology.link_dim).tolist()
    if len(used) > 1:
        handles = [Line2D([], [], color=colour(kind), lw=2) for kind in used]
        texts = [_kind(topology, kind) for kind in used]
        # Inches of an entry: its line and about 0.085 for each letter.
        wide = 0.6 + 0.085 * max(map(len, texts))
        columns = max(1, min(len(used), int(ax.figure.bbox.width / ax.figure.dpi / wide)))
        ax.legend(handles, texts, loc="upper center", bbox_to_anchor=(0.5, 0), ncols=columns, frameon=False)
    return palette[topology.link_dim]


def _kind(topology: Topology, kind: int) -> str:
    """The name of a kind of links in the legend."""
    name, dim = topology.link_kinds[kind], topology.dims[topology.kind_dims[kind]]
    if name != f"d{kind}":
        return name
    alone = topology.routers - topology.switches == topology.npus
    return f"dimension {kind}: {dim.name} of {dim.npus}" if alone else f"dimension {kind}: {dim.name}"


def _by_value(
    topology: Topology, ax: Axes, values: ArrayLike, label: str, cmap: str, scale: tuple[float, float] | None
) -> tuple[NDArray[Any], NDArray[Any]]:
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, Normalize, to_rgba

    numbers = np.asarray(values, float)
    if numbers.shape != (topology.links,):
        raise InputError(
            f"the values have shape {numbers.shape}, but the network has {topology.links} links", allowed="one per link"
        )
    if cmap not in colormaps:
        raise InputError(f"unknown colormap '{cmap}'", allowed=sorted(colormaps), given=cmap)
    # The palest quarter of a colour map that starts near white is not visible as a line.
    whole = colormaps[cmap]
    pale = min(whole(0.0)[:3]) > 0.7
    ramp = LinearSegmentedColormap.from_list(cmap, whole(np.linspace(0.25 if pale else 0.0, 1, 256)))
    known = np.isfinite(numbers)
    low, top = scale or (float(numbers[known].min(initial=0)), float(numbers[known].max(initial=0)))
    norm = Normalize(low, top or 1.0)
    share = np.clip(np.asarray(norm(np.where(known, numbers, 0))), 0, 1)
    colours = ramp(share)
    colours[~known] = to_rgba(UNKNOWN)
    bar = ax.figure.colorbar(ScalarMappable(norm, ramp), ax=ax, shrink=0.7, fraction=0.05, pad=0.02)
    bar.set_label(label)
    return colours, _thin(topology) * np.where(known, 0.8 + 1.7 * share, 0.8)


def _thin(topology: Topology) -> float:
    """Line width in points; many links get thinner lines."""
    return 1.2 * float(np.clip(np.sqrt(MANY / max(topology.links, 1)), 0.35, 1.0))


def _draw_links(ax: Axes, plan: Layout, colours: NDArray[Any], widths: NDArray[Any]) -> None:
    from matplotlib.collections import LineCollection, PolyCollection

    of = np.array(plan.stroke_link, int)
    if not len(of):
        return
    order = np.argsort(widths[of], kind="stable")  # the busiest on top
    strokes = [plan.strokes[i] for i in order]
    tints = colours[of[order]]
    ax.add_collection(LineCollection(strokes, colors=tints, linewidths=widths[of[order]], zorder=1))
    if len(strokes) <= MAX_ARROWS:
        heads = [_arrow(stroke, min(0.3 * plan.radius, 1.3 * plan.lane)) for stroke in strokes]
        ax.add_collection(PolyCollection(heads, facecolors=tints, edgecolors="none", zorder=2))


def _arrow(stroke: Points, size: float) -> Points:
    """A triangle on a line, behind its middle, so that those of opposite directions do not touch."""
    cut = max(1, round(0.65 * (len(stroke) - 1)))
    a, b = stroke[cut - 1], stroke[cut]
    along = (b - a) / max(float(np.hypot(*(b - a))), 1e-9)
    middle = a + (b - a) * (0.65 if len(stroke) == 2 else 1)
    side = np.array([-along[1], along[0]]) * size * 0.9
    return np.array([middle + 1.5 * along * size, middle - along * size + side, middle - along * size - side])


def _draw_routers(ax: Axes, topology: Topology, plan: Layout) -> None:
    from matplotlib.collections import PatchCollection
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Circle, Rectangle

    r = plan.radius
    homes = np.unique(topology.home)
    switches = np.setdiff1d(np.arange(topology.routers), homes)
    circles = [Circle((x, y), r) for x, y in plan.at[homes]]
    squares = [Rectangle((x - r, y - r), 2 * r, 2 * r) for x, y in plan.at[switches]]
    # Deeper layers of a stack are darker.
    depth = (plan.depth if plan.depth is not None else np.zeros(topology.routers))[homes]
    tints = np.array(to_rgb(NEAR)) * (1 - depth[:, None]) + np.array(to_rgb(FAR)) * depth[:, None]
    ax.add_collection(PatchCollection(circles, facecolors=tints, edgecolor=INK, linewidth=0.7, zorder=3))
    ax.add_collection(PatchCollection(squares, facecolor=SWITCH, edgecolor=INK, linewidth=0.7, zorder=3))
    if topology.routers <= MAX_LABELS:
        lines = [*_npu_lines(topology), *([f"S{i}"] for i in range(len(switches)))]
        _draw_labels(ax, lines, plan.at[np.concatenate([homes, switches])], 1.45 * r, 0.8 * r)
    if plan.notes:
        _draw_labels(ax, [[text] for *_, text in plan.notes], np.array([note[:2] for note in plan.notes]), 9.0, 0.38)


def _npu_lines(topology: Topology) -> list[list[str]]:
    """The NPUs of each router as lines of text, one per range: "0-1" over "8-9"."""
    order = np.argsort(topology.home, kind="stable")
    starts = np.flatnonzero(np.diff(topology.home[order], prepend=-1))
    labels = []
    for npus in np.split(order, starts[1:]):
        runs = np.split(npus, np.flatnonzero(np.diff(npus) != 1) + 1)
        lines = [f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]
        labels.append(lines if len(lines) <= MAX_LINES else [lines[0], "..", lines[-1]])
    return labels


def _draw_labels(ax: Axes, labels: Sequence[Sequence[str]], at: Points, width: float, height: float) -> None:
    """Draw lines of text as shapes that fit a given width and height at any figure size."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import PathPatch
    from matplotlib.textpath import TextPath
    from matplotlib.transforms import Affine2D

    shapes: list[Patch] = []
    tallest = TextPath((0, 0), "0", size=10).get_extents()
    # The widest text and the most lines set the size of all. Lines are half a line apart.
    paths = [[TextPath((0, 0), text, size=10) for text in lines] for lines in labels]
    boxes = [[path.get_extents() for path in lines] for lines in paths]
    widest = max((box.width for lines in boxes for box in lines), default=1.0)
    most = max((len(lines) for lines in labels), default=1)
    high = tallest.height * (1.5 * most - 0.5)
    scale = min((height if most == 1 else 1.5 * height) / high, width / widest)
    for lines, sizes, (x, y) in zip(paths, boxes, at, strict=True):
        for i, (path, box) in enumerate(zip(lines, sizes, strict=True)):
            up = tallest.height * (1.5 * ((len(lines) - 1) / 2 - i) - 0.5)
            move = Affine2D().translate(-(box.x0 + box.x1) / 2, up).scale(scale).translate(x, y)
            shapes.append(PathPatch(path.transformed(move)))
    ax.add_collection(PatchCollection(shapes, facecolor=INK, edgecolor="none", zorder=4))
