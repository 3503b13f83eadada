"""A function for each topology of the shelf. Written by pyxsim.cli.network_functions."""

# ruff: noqa: N802  they read like classes: pyxsim.Torus([4, 4])

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Unpack

from pyxsim.settings.network import Network
from pyxsim.settings.network_keywords import NetworkSettings, network_of, show_keywords

__all__ = [
    "Butterfly",
    "ConcentratedMesh",
    "Dragonfly",
    "FoldedClos",
    "FullyConnected",
    "GarnetSwitch",
    "GarnetTorus",
    "Graph",
    "HyperX",
    "KAryNTree",
    "LeafSpine",
    "Mesh",
    "RailOptimized",
    "RandomRegular",
    "Ring",
    "SlimFly",
    "Switch",
    "Torus",
    "Tree4",
    "TwistedTorus",
]


def Butterfly(k: int, n: int, **settings: Unpack[NetworkSettings]) -> Network:
    """A k-ary n-fly: `n` stages of k x k switches; NPUs send into the first stage and receive from the last."""
    return network_of("butterfly", Butterfly, locals())


def ConcentratedMesh(
    routers: Sequence[int],
    *,
    concentration: int | Sequence[int] = 4,
    express: bool = False,
    floor_plan: bool = False,
    **settings: Unpack[NetworkSettings],
) -> Network:
    """A concentrated mesh: several NPUs at each router of a mesh, optionally with express links along its edges."""
    return network_of("concentrated-mesh", ConcentratedMesh, locals())


def Dragonfly(
    p: int, a: int, h: int, *, g: int = 0, arrangement: str = "consecutive", **settings: Unpack[NetworkSettings]
) -> Network:
    """A dragonfly: groups of fully connected routers, and links between all groups."""
    return network_of("dragonfly", Dragonfly, locals())


def FoldedClos(
    children: Sequence[int],
    parents: Sequence[int],
    *,
    parallel: Sequence[int] | None = None,
    **settings: Unpack[NetworkSettings],
) -> Network:
    """A folded Clos of any radix and taper: switches above switches, NPUs at the leaves."""
    return network_of("folded-clos", FoldedClos, locals())


def FullyConnected(shape: Sequence[int], **settings: Unpack[NetworkSettings]) -> Network:
    """Fully connected: a link from every NPU to every other."""
    return network_of("fully-connected", FullyConnected, locals())


def GarnetSwitch(
    shape: Sequence[int], *, local_rings: int = 1, links_per_tile: int = 1, **settings: Unpack[NetworkSettings]
) -> Network:
    """`NV_Switch`: shape = [local, packages]; every NPU has a link to each of `links_per_tile` switches."""
    return network_of("garnet-switch", GarnetSwitch, locals())


def GarnetTorus(
    shape: Sequence[int],
    *,
    local_rings: int = 1,
    horizontal_rings: int = 1,
    vertical_rings: int = 1,
    **settings: Unpack[NetworkSettings],
) -> Network:
    """`Torus3D`: shape = [local, horizontal, vertical]; pairs of rings; local rings have one direction."""
    return network_of("garnet-torus", GarnetTorus, locals())


def Graph(
    file: str | PathLike[str],
    *,
    npus: int = 1,
    dims: Sequence[int] | None = None,
    nodes: int = 1,
    rates: Mapping[str, str] | None = None,
    **settings: Unpack[NetworkSettings],
) -> Network:
    """Any network from a file: GraphML, GML, an edge list or an inventory."""
    return network_of("graph", Graph, locals())


def HyperX(
    routers: Sequence[int],
    *,
    concentration: int | Sequence[int] = 1,
    floor_plan: bool = False,
    **settings: Unpack[NetworkSettings],
) -> Network:
    """HyperX, or flattened butterfly: in each dimension every router has a link to every other."""
    return network_of("hyperx", HyperX, locals())


def KAryNTree(k: int, n: int, **settings: Unpack[NetworkSettings]) -> Network:
    """A full fat tree: `n` levels of switches with k links down and k up, k^n NPUs (Petrini and Vanneschi 1997)."""
    return network_of("k-ary-n-tree", KAryNTree, locals())


def LeafSpine(
    npus: int, leaves: int, spines: int, *, parallel: int = 1, **settings: Unpack[NetworkSettings]
) -> Network:
    """Leaves and spines: `leaves` switches with `npus` NPUs each, `parallel` links from each leaf to each spine."""
    return network_of("leaf-spine", LeafSpine, locals())


def Mesh(shape: Sequence[int], **settings: Unpack[NetworkSettings]) -> Network:
    """A mesh: a product of lines, routed in dimension order. A line has no cycle, so it needs no VC classes."""
    return network_of("mesh", Mesh, locals())


def RailOptimized(
    servers: int,
    *,
    npus: int = 8,
    pod: int = 0,
    spines: int = 0,
    parallel: int = 1,
    planes: int = 1,
    **settings: Unpack[NetworkSettings],
) -> Network:
    """Servers of `npus` NPUs with a rail for each of them; each NPU has a NIC port in each of `planes` copies."""
    return network_of("rail-optimized", RailOptimized, locals())


def RandomRegular(
    routers: int, degree: int, *, p: int = 1, seed: int = 0, **settings: Unpack[NetworkSettings]
) -> Network:
    """A random regular graph: `routers` routers with `degree` links and `p` NPUs each, as Jellyfish."""
    return network_of("random-regular", RandomRegular, locals())


def Ring(shape: Sequence[int], *, bidirectional: bool = True, **settings: Unpack[NetworkSettings]) -> Network:
    """A ring: every NPU has a link to the next one and, in a bidirectional ring, one to the previous."""
    return network_of("ring", Ring, locals())


def SlimFly(q: int, *, p: int = 0, **settings: Unpack[NetworkSettings]) -> Network:
    """A slim fly: 2 q^2 routers of diameter 2, after McKay, Miller and Siran."""
    return network_of("slim-fly", SlimFly, locals())


def Switch(shape: Sequence[int], **settings: Unpack[NetworkSettings]) -> Network:
    """A switch: every NPU has a link up to it and a link down from it."""
    return network_of("switch", Switch, locals())


def Torus(shape: Sequence[int], *, bidirectional: bool = True, **settings: Unpack[NetworkSettings]) -> Network:
    """A torus (k-ary n-cube): a product of rings, routed in dimension order."""
    return network_of("torus", Torus, locals())


def Tree4(**settings: Unpack[NetworkSettings]) -> Network:
    """BookSim2's tree of 64 NPUs: 16 leaves, 8 middle switches (two per pod), 4 top switches joined to all of them."""
    return network_of("tree4", Tree4, locals())


def TwistedTorus(shape: Sequence[int], **settings: Unpack[NetworkSettings]) -> Network:
    """A twisted torus: the wrap-around links of a short dimension are shifted by half of the long dimensions."""
    return network_of("twisted-torus", TwistedTorus, locals())


for _name in __all__:
    show_keywords(globals()[_name])
