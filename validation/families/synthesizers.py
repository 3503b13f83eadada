"""What synthesizers of collectives publish, against the bottleneck cut of their networks, which nothing can beat."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import partial
from typing import NamedTuple

from pyxsim.topology.cut_bound import bottleneck_bandwidth
from validation.case import Case, Found, Picture, Series

FORESTCOLL = "liangyuRain/ForestColl 3c13aee, topologies.py and its result"
TACOS = "astra-sim/tacos 1811f1f, expected times of its tests of synthesis"

Link = tuple[str, str, int]

NVLINK, A100_NIC, XGMI, MI250_NIC = 300, 25, 50, 16  # GB/s
# Pairs of GPUs of an MI250 box that xGMI joins, by the number of links.
MI250_LINKS = {
    4: ((0, 1), (2, 3), (4, 5), (6, 7), (8, 9), (10, 11), (12, 13), (14, 15)),
    2: ((0, 4), (3, 7), (8, 12), (11, 15)),
    1: (
        *((0, 8), (1, 5), (1, 9), (1, 10), (2, 6), (2, 9), (2, 10), (3, 11), (4, 6), (5, 6), (5, 7)),
        *((9, 13), (10, 14), (12, 14), (13, 14), (13, 15)),
    ),
}


def both_ways(links: Sequence[Link]) -> list[Link]:
    return [way for a, b, rate in links for way in ((a, b, rate), (b, a, rate))]


def a100(boxes: int) -> tuple[list[Link], list[str]]:
    """Boxes of 8 GPUs at one switch; GPU i of all boxes has a NIC in rail i % 2."""
    gpus = [(box, gpu) for box in range(boxes) for gpu in range(8)]
    links = [(f"{box}.{gpu}", f"switch {box}", NVLINK) for box, gpu in gpus]
    if boxes > 1:
        links += [(f"{box}.{gpu}", f"rail {gpu % 2}", A100_NIC) for box, gpu in gpus]
    return both_ways(links), [f"{box}.{gpu}" for box, gpu in gpus]


def mi250(boxes: int) -> tuple[list[Link], list[str]]:
    """Boxes of 16 GPUs with direct links; every GPU has a NIC at one switch."""
    gpus = [(box, gpu) for box in range(boxes) for gpu in range(16)]
    links = [
        (f"{box}.{a}", f"{box}.{b}", count * XGMI)
        for box in range(boxes)
        for count, pairs in MI250_LINKS.items()
        for a, b in pairs
    ]
    if boxes > 1:
        links += [(f"{box}.{gpu}", "switch", MI250_NIC) for box, gpu in gpus]
    return both_ways(links), [f"{box}.{gpu}" for box, gpu in gpus]


class Grid(NamedTuple):
    """A published time of TACOS: an all-gather of `size` MiB on a grid; `rates`: GiB/s of links of each dimension."""

    name: str
    shape: tuple[int, ...]
    rates: tuple[int, ...]
    size: int
    microseconds: float
    torus: bool = False


GRIDS = (
    Grid("mesh-5x5", (5, 5), (50, 50), 1024, 9606.0),
    Grid("mesh-10x10", (10, 10), (100, 100), 1024, 5049.0),
    Grid("mesh-7x12", (7, 12), (100, 100), 4096, 19966.27),
    Grid("uneven-mesh-5x5", (5, 5), (50, 75), 1024, 8005.0),
    Grid("uneven-mesh-8x5", (8, 5), (80, 35), 1024, 8595.43),
    Grid("uneven-mesh-7x10", (7, 10), (16, 73), 4096, 44612.47),
    Grid("mesh-3x3x3", (3, 3, 3), (50,) * 3, 1024, 6671.17),
    Grid("mesh-3x4x5", (3, 4, 5), (50,) * 3, 2048, 13353.33),
    Grid("mesh-4x2x3", (4, 2, 3), (50,) * 3, 3072, 19178.17),
    Grid("torus-3x3x3", (3, 3, 3), (50,) * 3, 1024, 3706.20, torus=True),
    Grid("torus-3x4x5", (3, 4, 5), (50,) * 3, 2048, 6676.67, torus=True),
    Grid("torus-4x2x3", (4, 2, 3), (50,) * 3, 3072, 11673.67, torus=True),
)


def grid_links(grid: Grid) -> tuple[list[Link], list[str]]:
    """The links of a grid; the two ways around a ring of two are one link."""
    places: list[tuple[int, ...]] = [()]
    for size in grid.shape:
        places = [(*place, x) for place in places for x in range(size)]
    links = set[Link]()
    for place in places:
        for d, (size, rate) in enumerate(zip(grid.shape, grid.rates, strict=True)):
            x = place[d] + 1
            if x < size or (grid.torus and size > 1):
                links.add((str(place), str((*place[:d], x % size, *place[d + 1 :])), rate))
    return sorted({way for link in links for way in both_ways([link])}), [str(place) for place in places]


def forestcoll(links: list[Link], gpus: list[str], published: float) -> Found:
    """Return by how much the published bandwidth, of two decimals, differs from the cut's."""
    cut = bottleneck_bandwidth(links, gpus)
    cells = {"published": f"{published:.2f} GB/s", "cut": f"{float(cut):.2f} GB/s"}
    return Found(100 * abs(float(cut) / published - 1), _picture("GB/s", published, float(cut)), cells=cells)


def tacos(grid: Grid) -> Found:
    """Return by how much the published time exceeds that of the cut."""
    cut = bottleneck_bandwidth(*grid_links(grid))
    least = float(Fraction(grid.size, 1024) / cut) * 1e6
    cells = {"published": f"{grid.microseconds:.2f} us", "cut": f"{least:.2f} us"}
    excess = 100 * (grid.microseconds / least - 1)
    if excess < 0:
        return Found(100.0, _picture("us", grid.microseconds, least), cells=cells, note="faster than the cut allows")
    return Found(excess, _picture("us", grid.microseconds, least), cells=cells)


def _picture(unit: str, published: float, cut: float) -> Picture:
    return Picture(
        "one case", unit, [Series("published", [0], [published], "points"), Series("cut", [0, 1], [cut] * 2, "limit")]
    )


def cases() -> Iterator[Case]:
    claim = "The bottleneck cut of a network allows the bandwidth that ForestColl's trees reach"
    boxes = {
        "a100-8": (a100(1), 342.86),
        "a100-16": (a100(2), 346.67),
        "a100-32": (a100(4), 266.67),
        "mi250-16": (mi250(1), 342.86),
        "mi250-32": (mi250(2), 354.13),
    }
    for name, (network, published) in boxes.items():
        run = partial(forestcoll, *network, published)
        yield Case(f"synthesizers/forestcoll-{name}", claim, FORESTCOLL, 0.002, "%", run, 0.1)
    claim = "The published times of TACOS are not below those of the bottleneck cut, and at most 20 % above"
    for grid in GRIDS:
        yield Case(f"synthesizers/tacos-{grid.name}", claim, TACOS, 20, "%", partial(tacos, grid), 1)


FAMILY = ("synthesizers", "Synthesizers of collectives", ("published", "cut"), cases)
