"""A picture of a network: its routers, its links, and a value for each link if there is one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pyxsim.errors import InputError
from pyxsim.report.layout import Layout, Points, layout
from pyxsim.report.style import STYLE, colour, need_matplotlib
from pyxsim.topology import Topology

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import Patch

NEAR, FAR, SWITCH, INK, UNKNOWN = "#FFFFFF", "#C3D3E2", "#FFE9A8", "#2B3440", "#D5DAE0"
MAX_LINKS = 50_000  # a picture of more is a grey square
MAX_ARROWS = 2000
MAX_LABELS = 1500


def draw(
    topology: Topology,
    ax: Axes | None = None,
    values: ArrayLike | None = None,
    label: str = "",
    cmap: str = "YlOrRd",
) -> Axes:
    """Draw a topology and return the axes.

    values   one number per link, shown by colour and width with a colour bar called `label`; NaN: no value (grey).
             Without values links are coloured by dimension.
    Raises InputError when matplotlib is missing, the values do not fit, or the network is too large for a picture.
    """
    need_matplotlib()
    if topology.links > MAX_LINKS:
        raise InputError(f"{topology.links} links are too many for a picture", allowed=f"at most {MAX_LINKS}")
    plan = layout(topology)
    low, high = _extent(plan)
    ax = ax or _figure(plan, high - low, values is not None)
    ax.set_aspect("equal")
    ax.set_axis_off()
    ax.set_xlim(low[0], high[0])
    ax.set_ylim(low[1], high[1])
    ax.set_title(_title(topology))
    if values is None:
        colours, widths = _by_dimension(topology, ax), np.full(topology.links, 1.2)
    else:
        colours, widths = _by_value(topology, ax, values, label, cmap)
    _draw_links(ax, plan, colours, widths)
    _draw_routers(ax, topology, plan)
    return ax


def _figure(plan: Layout, size: Points, bar: bool) -> Axes:
    """New axes in which an NPU is about 0.3 inch wide, if the figure stays of a reasonable size."""
    from matplotlib import pyplot

    scale = float(np.clip(0.3 / (2 * plan.radius), 3.2 / max(size), 15 / max(size)))
    width, height = size * scale
    # Inches: a title above, a legend below or a bar to the right. A legend may be wider than the picture, which
    # layout engines answer by making the picture small.
    width, above, below = max(width, 4.2) + (1.5 if bar else 0.0), 0.4, 0.2 if bar else 0.6
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
    return f"{topology.name} {shape}: {topology.npus} NPUs{switches}, {topology.links} links"


def _by_dimension(topology: Topology, ax: Axes) -> NDArray[Any]:
    from matplotlib.colors import to_rgba_array
    from matplotlib.lines import Line2D

    palette = to_rgba_array([colour(dim) for dim in range(len(topology.shape))])
    used = np.unique(topology.link_dim).tolist()
    if len(used) > 1:
        handles = [Line2D([], [], color=colour(dim), lw=2) for dim in used]
        texts = [f"dimension {dim}: {topology.dims[dim].name} of {topology.shape[dim]}" for dim in used]
        columns = max(1, min(len(used), int(ax.figure.get_figwidth() / 1.9)))  # type: ignore[union-attr]
        ax.legend(handles, texts, loc="upper center", bbox_to_anchor=(0.5, 0), ncols=columns, frameon=False)
    return palette[topology.link_dim]


def _by_value(
    topology: Topology, ax: Axes, values: ArrayLike, label: str, cmap: str
) -> tuple[NDArray[Any], NDArray[Any]]:
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, Normalize, to_rgba

    numbers = np.asarray(values, float)
    if numbers.shape != (topology.links,):
        raise InputError(f"values of the shape {numbers.shape} for {topology.links} links", allowed="one per link")
    if cmap not in colormaps:
        raise InputError(f"unknown colour map '{cmap}'", allowed=sorted(colormaps), given=cmap)
    # The palest quarter of a colour map that begins near white cannot be seen as a line on paper.
    whole = colormaps[cmap]
    pale = min(whole(0.0)[:3]) > 0.7
    ramp = LinearSegmentedColormap.from_list(cmap, whole(np.linspace(0.25 if pale else 0.0, 1, 256)))
    known = np.isfinite(numbers)
    top = float(numbers[known].max(initial=0))
    norm = Normalize(float(numbers[known].min(initial=0)), top or 1.0)
    share = np.asarray(norm(np.where(known, numbers, 0)))
    colours = ramp(share)
    colours[~known] = to_rgba(UNKNOWN)
    bar = ax.figure.colorbar(ScalarMappable(norm, ramp), ax=ax, shrink=0.7, fraction=0.05, pad=0.02)
    bar.set_label(label)
    return colours, np.where(known, 1.0 + 2.0 * share, 1.0)


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
    """A triangle on a line, behind its middle, so that those of two directions do not meet."""
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

    npus, r = topology.npus, plan.radius
    circles = [Circle((x, y), r) for x, y in plan.at[:npus]]
    squares = [Rectangle((x - r, y - r), 2 * r, 2 * r) for x, y in plan.at[npus:]]
    # The layers of a stack get darker with their depth.
    real = [dim for dim, size in enumerate(topology.shape) if size > 1]
    stacked = len(real) > 2 and not plan.notes
    depth = topology.coords[:, real[2]] / (topology.shape[real[2]] - 1) if stacked else np.zeros(npus)
    tints = np.array(to_rgb(NEAR)) * (1 - depth[:, None]) + np.array(to_rgb(FAR)) * depth[:, None]
    ax.add_collection(PatchCollection(circles, facecolors=tints, edgecolor=INK, linewidth=0.7, zorder=3))
    ax.add_collection(PatchCollection(squares, facecolor=SWITCH, edgecolor=INK, linewidth=0.7, zorder=3))
    if topology.routers <= MAX_LABELS:
        labels = [str(i) for i in range(npus)] + [f"S{i}" for i in range(topology.switches)]
        _draw_labels(ax, labels, plan.at, 1.45 * r, 0.8 * r)
    if plan.notes:
        _draw_labels(ax, [text for *_, text in plan.notes], np.array([note[:2] for note in plan.notes]), 9.0, 0.38)


def _draw_labels(ax: Axes, texts: Sequence[str], at: Points, width: float, height: float) -> None:
    """Texts as shapes, so that they fit whatever the size of the figure: not wider nor higher than told."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import PathPatch
    from matplotlib.textpath import TextPath
    from matplotlib.transforms import Affine2D

    shapes: list[Patch] = []
    tallest = TextPath((0, 0), "0", size=10).get_extents()
    # The widest text sets the size of all.
    paths = [TextPath((0, 0), text, size=10) for text in texts]
    boxes = [path.get_extents() for path in paths]
    scale = min(height / tallest.height, width / max((box.width for box in boxes), default=1.0))
    for path, box, (x, y) in zip(paths, boxes, at, strict=True):
        move = Affine2D().translate(-(box.x0 + box.x1) / 2, -tallest.height / 2).scale(scale).translate(x, y)
        shapes.append(PathPatch(path.transformed(move)))
    ax.add_collection(PatchCollection(shapes, facecolor=INK, edgecolor="none", zorder=4))
