"""What synthesizers of collectives publish, against the bottleneck cut of their networks, which nothing can beat.

And what `pyxsim synthesize` finds, simulated by flits, against the optimum and the algorithms of the shelf.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import networkx

import pyxsim
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


class Network(NamedTuple):
    """A network to synthesize for: its settings, and of a graph its links and NPUs."""

    name: str
    settings: str
    links: Sequence[Link] = ()
    gpus: Sequence[str] = ()


DEAD_LINK = networkx.random_regular_graph(4, 24, seed=5)
DEAD_LINK.remove_edge(*min(DEAD_LINK.edges))

# Flits of 4 kB, so that each run takes seconds; the fastest link carries one per cycle.
GRAPH = 'topology = "graph"\noptions = { file = "links.graphml" }\nrouter = { routing = "table" }\n'
NETWORKS = (
    Network("ring-8", 'topology = "ring"\nshape = [8]\nbandwidth = "50 GB/s"\nclock = "12500 kHz"\n'),
    Network("torus-4x4", 'topology = "torus"\nshape = [4, 4]\nbandwidth = "50 GB/s"\nclock = "12500 kHz"\n'),
    Network("mesh-4x4", 'topology = "mesh"\nshape = [4, 4]\nbandwidth = "50 GB/s"\nclock = "12500 kHz"\n'),
    Network("dgx-1", 'topology = "dgx-1"\nclock = "10 MHz"\n'),
    Network(
        "dead-link-24",
        f'{GRAPH}clock = "12500 kHz"\n',
        both_ways([(str(a), str(b), 50) for a, b in DEAD_LINK.edges]),
        [str(npu) for npu in range(24)],
    ),
    Network("mi250-16", f'{GRAPH}clock = "50 MHz"\n', *mi250(1)),
    Network("a100-16", f'{GRAPH}clock = "75 MHz"\n', *a100(2)),
)


def synthesized(network: Network, kind: str) -> Found:
    """Return by how much the best schedule takes longer than the optimum, for 256 MiB."""
    with TemporaryDirectory() as folder:
        graph = networkx.Graph()
        graph.add_nodes_from((gpu, {"npus": 1}) for gpu in network.gpus)
        for a, b, rate in network.links:
            graph.add_node(b, npus=int(b in network.gpus))
            graph.add_edge(a, b, bandwidth=f"{rate} GB/s")
        networkx.write_graphml(graph, f"{folder}/links.graphml")
        experiment = Path(folder) / "network.toml"
        latency = "" if network.name == "dgx-1" else 'latency = "500 ns"\n'
        experiment.write_text(f'[network]\n{network.settings}flit = "4000 B"\npacket = "64000 B"\n{latency}')
        found = pyxsim.synthesize(experiment, kind=kind, size="256 MiB")
    best, least = found["ranked"][found["best"]], found["bound_s"]
    shelf = min(
        (each for each in found["ranked"] if each["source"] == "shelf" and each["simulated_s"] is not None),
        key=lambda each: each["simulated_s"],
    )
    times = {"shelf": shelf["simulated_s"], "best": best["simulated_s"], "cut": least}
    cells = {name: f"{seconds * 1e6:.2f} us" for name, seconds in times.items()}
    excess = 100 * (best["simulated_s"] / least - 1)
    picture = _picture("us", best["simulated_s"] * 1e6, least * 1e6)
    # Where the shelf is already optimal, nothing can be faster.
    if best["backend"] != "packet" or best["simulated_s"] > max(shelf["simulated_s"], 1.01 * least):
        return Found(100.0, picture, cells=cells, note=f"{shelf['name']} of the shelf is faster, or not simulated")
    return Found(excess, picture, cells=cells, note=f"{best['name']}: {best['note']}; shelf: {shelf['name']}")


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
    claim = "What pyxsim synthesizes for 256 MiB takes at most 5 % longer than the optimum, and less than the shelf"
    for site in NETWORKS:
        for kind in ("all-reduce", "all-gather", "all-to-all"):
            run = partial(synthesized, site, kind)
            yield Case(f"synthesizers/{site.name}-{kind}", claim, "docs/optimum.md", 5, "%", run, 15)


FAMILY = ("synthesizers", "Synthesizers of collectives", ("published", "shelf", "best", "cut"), cases)
