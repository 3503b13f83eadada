"""Routers, links and NPUs of a network without its routes: the input of routing functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pyxsim.arrays import BoolArray, Int32Array
from pyxsim.errors import InputError
from pyxsim.routing.graph import distances
from pyxsim.routing.product_table import FIRST_SET, NONE
from pyxsim.routing.relation import ALWAYS, LEAST, RANDOM, TWO, Relation
from pyxsim.topology.options import KEY
from pyxsim.topology.size import check_size

WiresRouting = Callable[..., Relation]  # of the Wires, and options

SELECT = {"random": RANDOM, "least": LEAST, "two": TWO}


@dataclass(frozen=True, eq=False)
class Wires:
    """Routers, the links between them, and the router of each NPU.

    Destinations of routes are the routers that have an NPU, the *homes*: `homes[j]` is home number j, in order of
    router number.
    """

    routers: int
    home: Int32Array
    src: Int32Array
    dst: Int32Array
    name: Sequence[str]

    @property
    def links(self) -> int:
        """The number of links."""
        return len(self.src)

    @property
    def homes(self) -> Int32Array:
        """int32[homes]: routers with an NPU."""
        return np.unique(self.home)

    def distances(self) -> Int32Array:
        """Return int32[routers, homes]: links of the shortest path from a router to a home; FAR without a path."""
        return distances(self)

    def shortest(self) -> BoolArray:
        """Return bool[links, homes]: whether a link begins a shortest path to a home."""
        distance = self.distances()
        shorter: BoolArray = distance[self.dst] == distance[self.src] - 1
        return shorter

    def relation(
        self,
        allowed: BoolArray | Sequence[BoolArray],
        vc_class: ArrayLike | Sequence[ArrayLike] = 0,
        *,
        select: str | Sequence[str] = "random",
        classes: ArrayLike = 1,
        group: ArrayLike = -1,
    ) -> Relation:
        """Return the relation in which a packet at router r takes, toward home j, a link of r with `allowed[link, j]`.

        Several planes are a sequence for each of `allowed`, `vc_class` and `select`.

        Parameters
        ----------
        allowed
            bool[links, homes].
        vc_class
            int[links, homes], or an array that broadcasts to it: the VC class on that link.
        select
            How one of several links is selected: "random", "least" (least used) or "two" (less used of two).
        classes
            VC classes of all links, or int[links].
        group
            int[links]: a packet that stays in a group (>= 0) of links keeps its VC class.

        Raises
        ------
        InputError
            For wrong shapes, an unknown selection, or tables that are too large.
        """
        planes = [allowed] if isinstance(allowed, np.ndarray) else list(allowed)
        levels = [vc_class] * len(planes) if isinstance(allowed, np.ndarray) else list(vc_class)  # type: ignore[arg-type]
        chosen = [select] * len(planes) if isinstance(select, str) else list(select)
        homes = self.homes
        expected = (self.links, len(homes))
        for shape in (np.asarray(flags).shape for flags in planes):
            if shape != expected:
                raise InputError(f"allowed has shape {shape}; expected {expected}", key=KEY)
        for shape in (np.asarray(level).shape for level in levels):
            if not _stretches(shape, expected):
                raise InputError(f"vc_class has shape {shape}; expected {expected}", key=KEY)
        check_size(self.links, len(planes) * self.routers * len(homes))
        tables = [self._table(flags, np.asarray(level)) for flags, level in zip(planes, levels, strict=True)]
        sets = np.cumsum([0, *(len(table.count) for table in tables)])
        link = [np.where(t.link <= FIRST_SET, t.link - first, t.link) for t, first in zip(tables, sets, strict=False)]
        count = np.concatenate([np.zeros(1, np.int64), *(table.count for table in tables)])
        own_digit = np.full(self.routers, ALWAYS, np.int32)
        own_digit[homes] = np.arange(len(homes))
        rows = np.arange(len(planes) * self.routers, dtype=np.int64)
        return Relation(
            npus=len(self.home),
            routers=self.routers,
            planes=len(planes),
            digits=np.searchsorted(homes, self.home).astype(np.int32)[:, None],
            own=np.tile(own_digit, len(planes))[:, None],
            offset=(rows * len(homes))[:, None],
            link=np.concatenate(link).astype(np.int32),
            vc_class=np.concatenate([table.vc_class for table in tables]),
            link_src=self.src,
            link_dst=self.dst,
            link_classes=np.broadcast_to(np.asarray(classes, np.int32), self.links).copy(),
            link_group=np.broadcast_to(np.asarray(group, np.int32), self.links).copy(),
            link_name=self.name,
            home=self.home,
            set_start=np.cumsum(count),
            set_link=np.concatenate([table.set_link for table in tables]),
            set_class=np.concatenate([table.set_class for table in tables]),
            plane_select=np.array([_select(word) for word in chosen], np.int32),
        )

    def _table(self, allowed: BoolArray, vc_class: NDArray[Any]) -> _Table:
        """Entries [router, home] of one plane, with sets numbered from 0."""
        homes = len(self.homes)
        link, goal = np.nonzero(allowed)
        entry = self.src[link].astype(np.int64) * homes + goal
        order = np.argsort(entry, kind="stable")  # within an entry, in order of the links
        link, entry = link[order].astype(np.int32), entry[order]
        level = np.broadcast_to(vc_class, (self.links, homes))[link, goal[order]].astype(np.int32)
        count = np.bincount(entry, minlength=self.routers * homes)
        first = np.cumsum(count) - count
        table = np.full(self.routers * homes, NONE, np.int32)
        classes = np.zeros(self.routers * homes, np.int32)
        single = count == 1
        table[single], classes[single] = link[first[single]], level[first[single]]
        several = np.flatnonzero(count > 1)
        table[several] = FIRST_SET - np.arange(len(several))
        member = count[entry] > 1
        return _Table(table, classes, count[several], link[member], level[member])


def _stretches(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Whether numpy broadcasts an array of one shape to the other."""
    try:
        return np.broadcast_shapes(shape, target) == target
    except ValueError:
        return False


def _select(word: str) -> int:
    if word not in SELECT:
        raise InputError(f"unknown selection '{word}'", key=f"{KEY}_options.select", allowed=list(SELECT), given=word)
    return SELECT[word]


@dataclass(frozen=True, eq=False)
class _Table:
    link: Int32Array
    vc_class: Int32Array
    count: NDArray[np.int64]
    set_link: Int32Array
    set_class: Int32Array
