"""Where the time of messages went, and who made whom wait: what the packet backend tells of it, as plain data.

docs/attribution.md says what each part is. All times are whole cycles of the network clock, and all sums are exact.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.core.options import CAUSES

Longs = NDArray[np.int64]

PARTS = CAUSES
WAITING = PARTS[3:]
"""The parts that are waiting inside the network."""
NOBODY = "nobody"
"""The name of culprit -1."""
BLAME = ("link", "victim", "culprit", "cause", "cycles", "packets")
LATENCY = ("message", "src", "dst", "bytes", "traffic", "sent", "arrived", *PARTS)
STAYS = ("message", "packet", "place", *PARTS)  # "link" is a part
MOST_PAIRS = 20  # of victim and culprit in JSON
ALIKE = 0.01
"""Links that are alike differ by no more in the cycles waited, and in the share of each cause."""
MOST_ROWS = 1 << 20
"""Rows of `latency` and of `stays`; of a run with more of them the first ones are kept, and the others counted."""


@dataclass(frozen=True)
class HotLink:
    """A link, or a lane, at which packets waited, and those `like` it: of the same kind, where as much was waited for
    the same, by the same and because of the same.

    `cycles`: how long, over all packets; `waiting`: how many waited there on average over the run. `causes`, `victims`
    and `culprits` divide the cycles, each the most first. `busy`: share of the run in which it was sending; NaN for a
    lane. Of several links that are alike these are the numbers of the first one.
    """

    name: str
    link: int
    cycles: int
    waiting: float
    causes: dict[str, int]
    victims: dict[str, int]
    culprits: dict[str, int]
    busy: float
    like: list[int] = field(default_factory=list)

    @property
    def title(self) -> str:
        """Its name, and how many are like it."""
        return f"{self.name} and {len(self.like):,} like it" if self.like else self.name


def _none(names: tuple[str, ...]) -> dict[str, Longs]:
    return {name: np.zeros(0, np.int64) for name in names}


@dataclass(eq=False)
class Attribution:
    """Of V traffics (collectives, messages of one name, classes of open traffic) on L links and lanes.

    traffic_names  whose traffic there is
    link_names     the network links in their order, then the injection lanes, then the ejection lanes
    messages       int64[V]: messages that have arrived; of open traffic, packets that were measured
    parts          int64[V, 8]: the parts of their latency, added up, in the order of PARTS
    blame          columns, a row for each link, victim, culprit and cause: numbers of the lists above and of PARTS,
                   `cycles`, and `packets`: how many stays of packets these are of. `culprit` is -1 for nobody.
                   Over all rows it is the latency of all packets that have arrived
    latency        columns, a row for each message that has arrived: `message` (its number), src, dst, bytes, traffic,
                   sent, arrived, and its parts by name, which make `arrived - sent`. Empty for open traffic
    stays          columns, a row for each packet at the source and in each buffer: message, packet, place (the number
                   of the link or lane by which it leaves), and the parts by name. Empty unless the settings ask for
                   "messages"
    left_out       rows that are not in `latency` and `stays` because there were too many; the sums have them
    """

    traffic_names: list[str]
    link_names: list[str]
    messages: Longs
    parts: Longs
    blame: dict[str, Longs]
    latency: dict[str, Longs] = field(default_factory=lambda: _none(LATENCY))
    stays: dict[str, Longs] = field(default_factory=lambda: _none(STAYS))
    left_out: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, table, columns in (("blame", self.blame, BLAME), *self._long()):
            if tuple(table) != columns or len({len(values) for values in table.values()}) > 1:
                raise ValueError(f"{name} needs the columns {', '.join(columns)}, of one length")
        if self.messages.shape != (len(self.traffic_names),) or self.parts.shape != (*self.messages.shape, len(PARTS)):
            raise ValueError(f"{self.messages.shape} messages and {self.parts.shape} parts of {self.traffic_names}")

    def _long(self) -> tuple[tuple[str, dict[str, Longs], tuple[str, ...]], ...]:
        return ("latency", self.latency, LATENCY), ("stays", self.stays, STAYS)

    # Sums

    @property
    def of_messages(self) -> dict[str, int]:
        """Cycles of each part, over the latencies of all messages."""
        return dict(zip(PARTS, self.parts.sum(axis=0).tolist(), strict=True))

    @property
    def of_packets(self) -> dict[str, int]:
        """The same over the latencies of all packets: of those of a message that go side by side, each counts."""
        found = np.zeros(len(PARTS), np.int64)
        np.add.at(found, self.blame["cause"], self.blame["cycles"])
        return dict(zip(PARTS, found.tolist(), strict=True))

    def congestion(self, what: str = "cycles") -> Longs:
        """int64[L, V, 8]: the cycles ("packets": the stays) of each link, victim and part, whoever was the culprit."""
        found = np.zeros((len(self.link_names), len(self.traffic_names), len(PARTS)), np.int64)
        np.add.at(found, tuple(self.blame[name] for name in ("link", "victim", "cause")), self.blame[what])
        return found

    @cached_property
    def waits(self) -> dict[str, Longs]:
        """The rows of `blame` that are waiting in the network."""
        there = self.blame["cause"] >= PARTS.index(WAITING[0])
        return {name: values[there] for name, values in self.blame.items()}

    @property
    def matrix(self) -> Longs:
        """int64[V, V + 1]: cycles that a traffic (row) waited in the network for a traffic (column; last: nobody)."""
        count = len(self.traffic_names)
        found = np.zeros((count, count + 1), np.int64)
        np.add.at(found, (self.waits["victim"], self.waits["culprit"]), self.waits["cycles"])  # -1 is the last column
        return found

    def hot_links(
        self, dims: NDArray[np.int32], utilization: NDArray[np.float64], run: int, count: int = 10
    ) -> list[HotLink]:
        """Return the links and lanes at which packets waited longest, equivalent ones as one.

        Parameters
        ----------
        dims
            Dimension or kind of each network link.
        utilization
            Share of the run in which each network link was sending.
        run
            Cycles of the run.
        count
            At most how many.
        """
        if not self.traffic_names:
            return []
        waits, network = self.waits, len(dims)
        total = np.zeros(len(self.link_names), np.int64)
        np.add.at(total, waits["link"], waits["cycles"])
        order = np.argsort(-total, kind="stable")
        order = order[: np.count_nonzero(total)]
        looks = _profiles(self, total)
        groups: list[list[int]] = []
        similar: dict[tuple[str, int, int], list[list[int]]] = {}
        for link in order.tolist():
            kind = f"{dims[link]}" if link < network else self.link_names[link].partition(" ")[0]
            candidates = similar.setdefault((kind, *looks.most[link]), [])
            for group in candidates:
                first = group[0]
                near = total[first] - total[link] <= ALIKE * total[first]
                if near and np.abs(looks.causes[link] - looks.causes[first]).max() <= ALIKE:
                    group.append(link)
                    break
            else:
                if len(groups) == count:
                    if total[link] < (1 - ALIKE) * total[groups[-1][0]]:
                        break  # no later link can join one of these groups
                    continue
                groups.append([link])
                candidates.append(groups[-1])
        return [self._hot_link(group, utilization, run) for group in groups]

    def _hot_link(self, group: list[int], utilization: NDArray[np.float64], run: int) -> HotLink:
        link, *like = group
        rows = {name: values[self.waits["link"] == link] for name, values in self.waits.items()}
        cycles = rows["cycles"]
        return HotLink(
            name=self.link_names[link],
            link=link,
            cycles=int(cycles.sum()),
            waiting=int(cycles.sum()) / max(1, run),
            causes=_added(rows["cause"], cycles, PARTS),
            victims=_added(rows["victim"], cycles, self.traffic_names),
            culprits=_added(rows["culprit"], cycles, [*self.traffic_names, NOBODY]),  # -1 indexes the last one
            busy=float(utilization[link]) if link < len(utilization) else float("nan"),
            like=like,
        )

    def json(self, hot_links: list[HotLink]) -> dict[str, Any]:
        """The key `attribution` of the JSON summary."""
        names = [*self.traffic_names, NOBODY]
        matrix = self.matrix
        pairs = np.argwhere(matrix)
        pairs = pairs[np.argsort(-matrix[tuple(pairs.T)], kind="stable")][:MOST_PAIRS]
        return {
            "messages": self.of_messages,
            "packets": self.of_packets,
            "traffic": [
                {"name": name, "messages": int(count), **dict(zip(PARTS, parts.tolist(), strict=True))}
                for name, count, parts in zip(self.traffic_names, self.messages, self.parts, strict=True)
            ],
            "blame": [
                {"victim": names[victim], "culprit": names[culprit], "cycles": int(matrix[victim, culprit])}
                for victim, culprit in pairs.tolist()
            ],
            "links": [
                {
                    "link": hot.name,
                    "like": [self.link_names[link] for link in hot.like],
                    "cycles": hot.cycles,
                    "waiting": hot.waiting,
                    "busy": None if np.isnan(hot.busy) else hot.busy,
                    "causes": hot.causes,
                    "victims": hot.victims,
                    "culprits": hot.culprits,
                }
                for hot in hot_links
            ],
            "left_out": self.left_out,
        }


@dataclass(frozen=True)
class _Profiles:
    """What tells links from each other: float64[L, 5], the shares of what was waited for; and of each the traffic that
    waited longest, and the one that was waited for longest."""

    causes: NDArray[np.float64]
    most: list[tuple[int, int]]


def _profiles(attribution: Attribution, total: Longs) -> _Profiles:
    waits, links, traffics = attribution.waits, len(attribution.link_names), len(attribution.traffic_names)

    def sums(column: str, width: int) -> Longs:
        found = np.zeros((links, width), np.int64)
        np.add.at(found, (waits["link"], waits[column]), waits["cycles"])  # nobody, -1, is the last one
        return found

    causes = sums("cause", len(PARTS)) / np.maximum(total, 1)[:, np.newaxis]
    most = [sums("victim", traffics).argmax(axis=1), sums("culprit", traffics + 1).argmax(axis=1)]
    return _Profiles(causes, list(zip(*(each.tolist() for each in most), strict=True)))


def _added(keys: Longs, cycles: Longs, names: tuple[str, ...] | list[str]) -> dict[str, int]:
    """Cycles by the name of their key, the most first."""
    there, place = np.unique(keys, return_inverse=True)
    sums = np.zeros(len(there), np.int64)
    np.add.at(sums, place, cycles)
    order = np.argsort(-sums, kind="stable")
    return {names[there[i]]: int(sums[i]) for i in order.tolist() if sums[i]}
