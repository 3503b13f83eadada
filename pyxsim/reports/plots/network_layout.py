"""Layout of network drawings: positions of routers and courses of links, in grid steps.

One dimension is a circle (a line if open), two are a grid, three are a stack of grids in oblique view, or grids side by
side where the stack would be too deep; further dimensions repeat the drawing beside and above. Switches are at the end
of the row of NPUs that they connect. A link that would cross the whole drawing is cut into two stubs. Traffic keeps to
the right: the two directions between neighbors are two parallel lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import BoolArray, IntArray
from pyxsim.errors import InputError
from pyxsim.routing.graph import FAR, Graph, distances
from pyxsim.topology import Topology
from pyxsim.topology.place import Points, circle

RADIUS = 0.22  # of an NPU, in steps of a circle
LANE = 0.045

STEPS = 40  # points of a curved line
BEYOND = 0.85  # how far behind the last NPU a switch stands
DEEPEST = 4  # maximum distinguishable layers of a stack
SLANT = np.array([1.0, 0.72])  # the way into the picture


@dataclass(frozen=True, eq=False)
class Layout:
    """What to draw; positions in grid steps, y upward.

    Attributes
    ----------
    at
        float64[routers, 2], positions.
    radius
        Radius of an NPU; half the side of a switch.
    lane
        Distance of a line from the middle between its two directions.
    strokes
        Lines as float64[points, 2].
    stroke_link
        The link of each line; a cut link has two.
    notes
        (x, y, text).
    depth
        float64[routers], depth of the layer in a stack, from 0 in front to 1.
    """

    at: Points
    radius: float
    lane: float
    strokes: list[Points]
    stroke_link: list[int]
    notes: list[tuple[float, float, str]] = field(default_factory=list)
    depth: Points | None = None


@dataclass(frozen=True, eq=False)
class _Course:
    """The course of each link: height of its bow, flatness of long bows, and direction of the stubs if it is cut.

    `stub` is the distance from the center of an NPU to the end of a stub.
    """

    bow: Points
    sharp: Points
    cut: BoolArray
    way: Points
    stub: float


def layout(topology: Topology) -> Layout:
    """Return positions and lines for any topology."""
    if topology.place is not None:
        return _placed(topology, topology.place if len(topology.place) else springs(topology))
    grid = _Grid.of(topology)
    return _one_dimension(topology, grid) if len(grid.real) <= 1 else _grid(topology, grid)


@dataclass(frozen=True, eq=False)
class _Grid:
    """The routers with NPUs, which are the first ones of a grid: coordinates and shape."""

    coords: IntArray
    shape: tuple[int, ...]

    @classmethod
    def of(cls, topology: Topology) -> _Grid:
        """Make the grid; NPUs of one router are adjacent."""
        homes, first = np.unique(topology.home, return_index=True)
        if not np.array_equal(homes, np.arange(len(homes))):
            raise InputError(
                "the network cannot be drawn, because the routers of the NPUs do not come first",
                allowed="a `place` for each",
            )
        ranks = [np.unique(axis, return_inverse=True)[1] for axis in topology.coords[first].T]
        return cls(np.stack(ranks, axis=1).astype(np.int64), tuple(int(rank.max()) + 1 for rank in ranks))

    @property
    def routers(self) -> int:
        return len(self.coords)

    @property
    def real(self) -> list[int]:
        """Dimensions with more than one router."""
        return [dim for dim, size in enumerate(self.shape) if size > 1]


def _one_dimension(topology: Topology, grid: _Grid) -> Layout:
    npus, switches = grid.routers, topology.switches
    src, dst = topology.link_src, topology.link_dst
    reach = np.abs(src - dst)[(src < npus) & (dst < npus)]
    at = np.zeros((topology.routers, 2))
    if switches > 1:
        level = _levels(topology, npus)
        for tier in range(int(level.max()) + 1):
            members = np.flatnonzero(level == tier)
            at[members, 0] = npus * (np.arange(len(members)) + 0.5) / len(members)
            at[members, 1] = tier * max(1.5, npus / 6)
    elif npus > 2 and not switches and reach.max(initial=0) <= 1:
        at[:, 0] = np.arange(npus)
    else:
        at[:npus] = circle(npus)
    return _lines(topology, at, RADIUS, LANE, _straight(topology))


def _placed(topology: Topology, at: Points) -> Layout:
    """A layout with given positions; smaller circles where routers are close."""
    gap = nearest(at)
    radius = min(RADIUS, 0.36 * gap)
    return _lines(topology, at, radius, LANE * radius / RADIUS, _straight(topology))


def _straight(topology: Topology) -> _Course:
    links = topology.links
    return _Course(np.zeros(links), np.full(links, 2.0), np.zeros(links, np.bool_), np.zeros((links, 2)), 0.0)


def _levels(topology: Topology, npus: int) -> NDArray[np.int64]:
    """The distance of every router from the nearest NPU, in links."""
    level = np.full(topology.routers, -1, np.int64)
    level[:npus] = 0
    for tier in range(topology.switches):
        reached = topology.link_dst[level[topology.link_src] == tier]
        level[reached[level[reached] < 0]] = tier + 1
    level[level < 0] = 0
    return level


def _grid(topology: Topology, grid: _Grid) -> Layout:
    real = grid.real
    place = _coordinates(topology, grid)
    layers = grid.shape[real[2]] if len(real) > 2 else 1
    stacked, panels = 1 < layers <= DEEPEST, layers > DEEPEST
    step = min(0.3, 0.86 / float(place[:, 2].max())) if stacked else 0.0
    width, height = (float(place[:, i].max()) for i in (0, 1))
    at = place[:, :2].copy()
    notes: list[tuple[float, float, str]] = []
    if stacked:
        at += place[:, 2:3] * SLANT * step
    if panels:
        spots = np.unique(place[:, 2])
        columns = int(np.ceil(np.sqrt(len(spots))))
        which = np.searchsorted(spots, place[:, 2])
        corner = np.stack([which % columns * (width + 2.2), -(which // columns) * (height + 2.4)], axis=1)
        at += corner
        for spot in range(len(spots)):
            x, y = corner[which == spot][0]
            text = f"dimension {real[2]}: " + (str(int(spots[spot])) if spots[spot] < layers else "switches")
            notes.append((x + width / 2, y + height + 0.95, text))
    for i in range(3, len(real)):
        # Alternately beside and above the drawing so far.
        side = (i - 3) % 2
        at[:, side] += place[:, i] * (float(np.ptp(at[:, side])) + 1.2)
    radius = 0.32 * step if stacked else 0.2
    room = 0.5 * float(SLANT[1]) * step if stacked else 0.44
    course = _course(topology, grid, place, at, room, stacked, panels)
    depth = np.zeros(topology.routers)
    if stacked:
        depth[: grid.routers] = grid.coords[:, real[2]] / (layers - 1)
    return replace(_lines(topology, at, radius, 0.2 * radius, course, notes), depth=depth)


def _coordinates(topology: Topology, grid: _Grid) -> Points:
    """Coordinates of all routers in the real dimensions; switches lie beyond their NPUs."""
    npus, real = grid.routers, grid.real
    place = np.zeros((topology.routers, len(real)))
    place[:npus] = grid.coords[:, real]
    dimension = [real.index(d) if d in real else len(real) - 1 for d in topology.router_dim[npus:].tolist()]
    for switch, dim in enumerate(dimension, npus):
        ends = np.concatenate([topology.link_dst[topology.link_src == switch], [switch]])
        members = place[ends[ends < npus]] if (ends < npus).any() else place[:npus]
        place[switch] = (members.min(axis=0) + members.max(axis=0)) / 2
        place[switch, dim] = members[:, dim].max() + BEYOND
    # Switches at one position are placed side by side, over the width of their NPUs.
    spots, which = np.unique(place[npus:], axis=0, return_inverse=True)
    for spot in range(len(spots)):
        same = npus + np.flatnonzero(which == spot)
        side = 1 if dimension[int(same[0]) - npus] == 0 else 0
        width = max(0.8, 2 * float(spots[spot, side]))
        place[same, side] += width * ((np.arange(len(same)) + 0.5) / len(same) - 0.5)
    return place


def _course(
    topology: Topology, grid: _Grid, place: Points, at: Points, room: float, stacked: bool, panels: bool
) -> _Course:
    real = grid.real
    src, dst = topology.link_src, topology.link_dst
    column = np.array([real.index(d) if d in real else 0 for d in range(len(topology.shape))])
    dim = column[np.array(topology.kind_dims)[topology.link_dim]]
    delta = place[dst, dim] - place[src, dim]
    distance = np.abs(delta)
    wrap = np.zeros(len(distance), np.bool_)
    for i in range(len(real)):
        mine = dim == i
        last = grid.shape[real[i]] - 1
        if last > 1 and set(distance[mine].tolist()) == {1.0, float(last)}:
            wrap |= mine & (distance == last)
    # Bows pass the NPUs between their ends and do not reach the next row; long links bow most.
    longest = max(float(distance.max(initial=0)), 2.0)
    bow = np.where(distance > 1, room * (0.6 + 0.4 * (distance - 1) / (longest - 1)), 0.0)
    bow[dim > 2] = room
    line = np.abs(at[dst] - at[src])
    bow[(line > 0.4).all(axis=1) & (dim < 2)] = 0.0  # diagonal links need no bow
    sharp = np.maximum(2.0, 0.9 * np.hypot(*line.T))
    # A wraparound link leaves on the far side, so it points the other way.
    sign = np.where(wrap, -np.sign(delta), np.sign(delta))
    axes = np.array([[1.0, 0.0], [0.0, 1.0], SLANT / np.hypot(*SLANT), *[[1.0, 0.0]] * max(0, len(real) - 3)])
    cut = (wrap & (stacked | (dim > 2))) | ((dim == 2) & panels)
    return _Course(bow, sharp, cut, axes[dim] * sign[:, None], 3.5 * room if stacked else 0.45)


def _lines(
    topology: Topology,
    at: Points,
    radius: float,
    lane: float,
    course: _Course,
    notes: Sequence[tuple[float, float, str]] = (),
) -> Layout:
    """The lines of all links, next to each other where they are parallel."""
    src, dst = topology.link_src, topology.link_dst
    number = np.zeros(topology.links)
    seen: dict[tuple[int, int], int] = {}
    for link, ends in enumerate(zip(src.tolist(), dst.tolist(), strict=True)):
        number[link] = seen[ends] = seen.get(ends, -1) + 1
    lane = min(lane, 0.8 * radius / (2 * float(number.max(initial=0)) + 1))
    aside = lane * (1 + 2 * number)
    strokes: list[Points] = []
    stroke_link: list[int] = []
    for link in range(topology.links):
        a, b = at[src[link]], at[dst[link]]
        if course.cut[link]:
            along = course.way[link]
            left = np.array([-along[1], along[0]])
            reach = np.array([[radius], [course.stub]])
            strokes += [a + along * reach - left * aside[link], b - along * reach[::-1] - left * aside[link]]
            stroke_link += [link, link]
            continue
        along = (b - a) / max(float(np.hypot(*(b - a))), 1e-9)
        left = np.array([-along[1], along[0]])
        # Rows bow upward, columns to the left, so that both directions of a pair bow to the same side.
        up = 1.0 if left[1] - 0.5 * left[0] > 0 else -1.0
        if not course.bow[link]:
            # From circle to circle, at this distance from their centres.
            reach = along * np.sqrt(max(radius**2 - aside[link] ** 2, 0.0))
            strokes.append(np.stack([a + reach, b - reach]) - left * aside[link])
        else:
            # Dense points at the ends, where the line bends most; only those outside the circles remain.
            t = (0.5 - 0.5 * np.cos(np.linspace(0, np.pi, 12 * STEPS)))[:, None]
            rise = up * course.bow[link] * (1 - np.abs(2 * t - 1) ** course.sharp[link])
            path = a + t * (b - a) + left * (rise - aside[link])
            outside = np.flatnonzero((np.hypot(*(path - a).T) > radius) & (np.hypot(*(path - b).T) > radius))
            strokes.append(path[np.linspace(outside[0], outside[-1], STEPS).round().astype(int)])
        stroke_link.append(link)
    return Layout(at, radius, lane, strokes, stroke_link, list(notes))


MOST_SPRINGS = 400  # routers beyond which a circle is used
ROUNDS = 300


def springs(topology: Topology) -> Points:
    """Return positions whose distances approximate the hops between routers (stress; Kamada and Kawai 1989)."""
    count = topology.routers
    if not 3 <= count <= MOST_SPRINGS:
        return circle(count)
    graph = Graph(count, np.arange(count, dtype=np.int32), topology.link_src, topology.link_dst, topology.link_name)
    away = distances(graph)
    hops = np.where(away >= FAR, away[away < FAR].max() + 1, away).astype(np.float64)
    hops = 1.6 * (hops + hops.T) / 2
    at = _start(hops)
    # Stress majorisation (Gansner, Koren and North 2004): each router moves to the mean position of its distances.
    weight = 1 / np.where(hops > 0, hops, np.inf) ** 2
    for _ in range(ROUNDS):
        apart = at[:, None] - at[None, :]
        length = np.hypot(apart[..., 0], apart[..., 1])
        pull = weight * hops / np.where(length > 0, length, np.inf)
        at = (weight @ at + (pull[..., None] * apart).sum(axis=1)) / weight.sum(axis=1)[:, None]
    return at / max(nearest(at), 0.35)


def nearest(at: Points) -> float:
    """Return the smallest distance between two routers, at most 1."""
    if len(at) > 2000:
        order = np.lexsort(at.T)
        gaps = [np.hypot(*(at[order[k:]] - at[order[:-k]]).T).min() for k in (1, 2, 3)]
        return min(1.0, *map(float, gaps))
    gap = np.hypot(*(at[:, None] - at[None, :]).transpose(2, 0, 1))
    np.fill_diagonal(gap, 1.0)
    return min(1.0, float(gap.min(initial=1.0)))


def _start(hops: Points) -> Points:
    """Classical multidimensional scaling."""
    square = hops**2
    centred = -0.5 * (square - square.mean(axis=0) - square.mean(axis=1)[:, None] + square.mean())
    values, vectors = np.linalg.eigh(centred)
    # The sign of an eigenvector is arbitrary: its largest component is positive.
    vectors = vectors * np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(len(vectors))])
    at: Points = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 1e-6))
    # Separate routers at equal positions.
    return at + 0.05 * circle(len(at), 1.0)
