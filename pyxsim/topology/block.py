"""A block: the network of one dimension, with its routing tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from pyxsim.arrays import AnyIntArray, Int32Array
from pyxsim.errors import InputError
from pyxsim.routing.shortest import shortest_paths
from pyxsim.topology.shape import check_npus


def _not_given() -> Int32Array:
    return np.zeros(0, np.int32)


@dataclass(frozen=True, eq=False, kw_only=True)
class Block:
    """One group of NPUs with its links, switches and routes; a network is a product of such groups.

    Routers are numbered inside the block: first those of the NPUs, 0 to npus - 1, then the switches. Links are
    directed and numbered as listed.

    Parameters
    ----------
    name
        Name on the shelf.
    npus, switches
        Number of NPUs and of switches.
    src, dst
        int32[links], the routers at the ends of each link; other integer types are converted.
    link_names
        list[links]: "+", "-", "up", ...; default: empty.
    next
        int32[planes, npus + switches, npus]: the link to take toward an NPU, -1 at its own router. The first axis may
        be omitted for one plane. Default: shortest paths; of several, the link listed first.
    vc_class
        Same shape: VC class for that hop (default: 0).
    classes
        VC classes that the links require.
    keep_class
        Whether a packet keeps the class with which it enters the block, whatever `vc_class` of later hops: a static
        dateline.
    directions
        2 if collectives may use both directions, on plane 0 (+1) and plane 1 (-1); else 1.
    algorithm
        Default collective algorithm.

    Raises
    ------
    InputError
        If the arrays are inconsistent.
    """

    name: str
    npus: int
    switches: int = 0
    src: AnyIntArray
    dst: AnyIntArray
    link_names: Sequence[str] = ()
    next: AnyIntArray = field(default_factory=_not_given)
    vc_class: AnyIntArray = field(default_factory=_not_given)
    classes: int = 1
    keep_class: bool = False
    directions: int = 1
    algorithm: str = "direct"

    def __post_init__(self) -> None:
        self._set("npus", check_npus(self.npus))
        if self.switches < 0:
            self._refuse(f"{self.switches} switches")
        self._set("src", self._numbers("src", self.src))
        self._set("dst", self._numbers("dst", self.dst))
        if self.src.ndim != 1 or self.src.shape != self.dst.shape:
            self._refuse(f"src has shape {self.src.shape} and dst {self.dst.shape}; expected one router per link")
        for ends in (self.src, self.dst):
            if ((ends < 0) | (ends >= self.routers)).any():
                self._refuse(f"a link starts or ends outside routers 0 to {self.routers - 1}")
        if (self.src == self.dst).any():
            self._refuse(f"link {int(np.argmax(self.src == self.dst))} leads from a router to itself")
        self._set("link_names", list(self.link_names) or [""] * self.links)
        if len(self.link_names) != self.links:
            self._refuse(f"{len(self.link_names)} link names for {self.links} links")
        if not np.size(self.next):
            self._set("next", shortest_paths(self.routers, self.npus, self.src, self.dst))
        self._set("next", self._table("next", self.next))
        self._set("vc_class", self._table("vc_class", self.vc_class if np.size(self.vc_class) else 0 * self.next))
        if self.next.shape != self.vc_class.shape:
            self._refuse(f"next has shape {self.next.shape} and vc_class {self.vc_class.shape}")
        self._check_routes()

    @classmethod
    def from_links(
        cls,
        name: str,
        npus: int,
        links: Iterable[tuple[int, int]],
        *,
        switches: int = 0,
        both_ways: bool = True,
        algorithm: str = "direct",
    ) -> Block:
        """Make a block from a list of (router, router), routed along shortest paths.

        Of several shortest paths it takes the one whose link is listed first. With `both_ways`, every pair gives two
        links, one in each direction.
        """
        pairs = [pair for a, b in links for pair in (((a, b), (b, a)) if both_ways else ((a, b),))]
        names, seen = [], dict.fromkeys(pairs, 0)
        for pair in pairs:
            names.append(f"#{seen[pair]}" if seen[pair] else "")  # parallel links need different names
            seen[pair] += 1
        table = np.array(pairs, np.int32).reshape(-1, 2)
        return cls(
            name=name,
            npus=npus,
            switches=switches,
            src=table[:, 0],
            dst=table[:, 1],
            link_names=names,
            algorithm=algorithm,
        )

    @property
    def routers(self) -> int:
        """NPUs and switches."""
        return self.npus + self.switches

    @property
    def links(self) -> int:
        """The number of links."""
        return len(self.src)

    @property
    def planes(self) -> int:
        """Routing tables of this block: 2 for a bidirectional ring (ties go in direction + or -)."""
        return len(self.next)

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _refuse(self, problem: str) -> None:
        raise InputError(f"block '{self.name}': {problem}")

    def _numbers(self, name: str, value: object) -> Int32Array:
        array = np.asarray(value)
        if array.size and array.dtype.kind not in "iu":
            self._refuse(f"{name} is not an array of integers")
        return array.astype(np.int32)

    def _table(self, name: str, value: object) -> Int32Array:
        table = self._numbers(name, value)
        table = table[None] if table.ndim == 2 else table
        if table.ndim != 3 or table.shape[1:] != (self.routers, self.npus) or not len(table):
            self._refuse(
                f"{name} has shape {table.shape}; expected (planes, routers, NPUs) = "
                f"({max(len(table), 1)}, {self.routers}, {self.npus})"
            )
        return table

    def _check_routes(self) -> None:
        if self.directions not in (1, self.planes):
            self._refuse(f"{self.directions} directions require {self.directions} planes; the block has {self.planes}")
        if self.classes < 1 or ((self.vc_class < 0) | (self.vc_class >= self.classes)).any():
            self._refuse(f"a VC class is outside 0 to {self.classes - 1}")
        if ((self.next < -1) | (self.next >= self.links)).any():
            self._refuse(f"next contains a link outside 0 to {self.links - 1}")
        if self.links:
            leaves = np.where(self.next >= 0, self.src[self.next], np.arange(self.routers)[:, None])
            wrong = np.argwhere(leaves != np.arange(self.routers)[:, None])
            if len(wrong):
                plane, router, goal = wrong[0].tolist()
                link = int(self.next[plane, router, goal])
                self._refuse(f"next[{plane}, {router}, {goal}] is link {link}, which does not leave router {router}")
