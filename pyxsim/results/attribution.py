"""Where the time of messages went, and who made whom wait: what the packet backend tells of it, as plain data.

docs/attribution.md says what each part is. All times are whole cycles of the network clock, and all sums are exact.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.core.options import CAUSES

if TYPE_CHECKING:
    from pyxsim.results.result import Result

Longs = NDArray[np.int64]

PARTS = CAUSES
WAITING = PARTS[3:]
"""The parts that are waiting inside the network."""
NOBODY = "nobody"
"""The name of culprit -1."""
BLAME = ("link", "victim", "culprit", "cause", "cycles", "packets")
LATENCY = ("message", "src", "dst", "bytes", "traffic", "sent", "arrived", *PARTS)
STAYS = ("message", "packet", "place", *PARTS)  # "link" is a part
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


def hot_links(result: Result, count: int = 10) -> list[HotLink]:
    """The links and lanes at which packets waited longest, those that are alike as one; none where the run did not
    tell."""
    told = result.attribution
    if told is None or not told.traffic_names:
        return []
    waits, network = told.waits, len(result.links)
    total = np.zeros(len(told.link_names), np.int64)
    np.add.at(total, waits["link"], waits["cycles"])
    order = np.argsort(-total, kind="stable")
    order = order[: np.count_nonzero(total)]
    looks = _looks(told, total)
    groups: list[list[int]] = []
    alike: dict[tuple[str, int, int], list[list[int]]] = {}
    for link in order.tolist():
        kind = f"{result.links.dim[link]}" if link < network else told.link_names[link].partition(" ")[0]
        mates = alike.setdefault((kind, *looks.most[link]), [])
        for group in mates:
            first = group[0]
            near = total[first] - total[link] <= ALIKE * total[first]
            if near and np.abs(looks.causes[link] - looks.causes[first]).max() <= ALIKE:
                group.append(link)
                break
        else:
            if len(groups) == count:
                if total[link] < (1 - ALIKE) * total[groups[-1][0]]:
                    break  # nobody that follows is like one of these
                continue
            groups.append([link])
            mates.append(groups[-1])
    return [_hot_link(result, told, group) for group in groups]


ALIKE = 0.01
"""Links that are alike differ by no more in the cycles waited, and in the share of each cause."""


@dataclass(frozen=True)
class _Looks:
    """What tells links from each other: float64[L, 5], the shares of what was waited for; and of each the traffic that
    waited longest, and the one that was waited for longest."""

    causes: NDArray[np.float64]
    most: list[tuple[int, int]]


def _looks(told: Attribution, total: Longs) -> _Looks:
    waits, links, traffics = told.waits, len(told.link_names), len(told.traffic_names)

    def sums(column: str, width: int) -> Longs:
        found = np.zeros((links, width), np.int64)
        np.add.at(found, (waits["link"], waits[column]), waits["cycles"])  # nobody, -1, is the last one
        return found

    causes = sums("cause", len(PARTS)) / np.maximum(total, 1)[:, np.newaxis]
    most = [sums("victim", traffics).argmax(axis=1), sums("culprit", traffics + 1).argmax(axis=1)]
    return _Looks(causes, list(zip(*(each.tolist() for each in most), strict=True)))


def _hot_link(result: Result, told: Attribution, group: list[int]) -> HotLink:
    link, *like = group
    mine = {name: values[told.waits["link"] == link] for name, values in told.waits.items()}
    cycles = mine["cycles"]
    return HotLink(
        name=told.link_names[link],
        link=link,
        cycles=int(cycles.sum()),
        waiting=int(cycles.sum()) / max(1, result.time_cycles),
        causes=_added(mine["cause"], cycles, PARTS),
        victims=_added(mine["victim"], cycles, told.traffic_names),
        culprits=_added(mine["culprit"], cycles, [*told.traffic_names, NOBODY]),  # where -1 is the last one
        busy=float(result.link_utilization[link]) if link < len(result.links) else float("nan"),
        like=like,
    )


def _added(keys: Longs, cycles: Longs, names: tuple[str, ...] | list[str]) -> dict[str, int]:
    """Cycles by the name of their key, the most first."""
    there, place = np.unique(keys, return_inverse=True)
    sums = np.zeros(len(there), np.int64)
    np.add.at(sums, place, cycles)
    order = np.argsort(-sums, kind="stable")
    return {names[there[i]]: int(sums[i]) for i in order.tolist() if sums[i]}


def told(result: Result) -> dict[str, Any] | None:
    """What the JSON summary says of it; None where the run did not tell."""
    found = result.attribution
    if found is None:
        return None
    names = [*found.traffic_names, NOBODY]
    matrix = found.matrix
    pairs = np.argwhere(matrix)
    pairs = pairs[np.argsort(-matrix[tuple(pairs.T)], kind="stable")][:_MOST_PAIRS]
    return {
        "messages": found.of_messages,
        "packets": found.of_packets,
        "traffic": [
            {"name": name, "messages": int(count), **dict(zip(PARTS, parts.tolist(), strict=True))}
            for name, count, parts in zip(found.traffic_names, found.messages, found.parts, strict=True)
        ],
        "blame": [
            {"victim": names[victim], "culprit": names[culprit], "cycles": int(matrix[victim, culprit])}
            for victim, culprit in pairs.tolist()
        ],
        "links": [
            {
                "link": each.name,
                "like": [found.link_names[link] for link in each.like],
                "cycles": each.cycles,
                "waiting": each.waiting,
                "busy": None if np.isnan(each.busy) else each.busy,
                "causes": each.causes,
                "victims": each.victims,
                "culprits": each.culprits,
            }
            for each in hot_links(result)
        ],
        "left_out": found.left_out,
    }


_MOST_PAIRS = 20
