"""Attribution of message latencies to causes, and of delays to the traffic that caused them.

docs/attribution.md defines the parts. Times are whole cycles of the network clock; all sums are exact.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import IntArray
from pyxsim.core.engine_options import CAUSES

PARTS = CAUSES
WAITING = PARTS[3:]
"""The parts that are waiting inside the network."""
NO_TRAFFIC = "none"
"""The name of culprit -1."""
FAULTS = "faults"
"""The name of culprit -2: a link that was down, slowed or retried."""
BLAME = ("link", "victim", "culprit", "cause", "cycles", "packets")
LATENCY = ("message", "src", "dst", "bytes", "traffic", "sent", "arrived", *PARTS)
STAYS = ("message", "packet", "place", *PARTS)  # "link" is a part
MOST_PAIRS = 20  # of victim and culprit in JSON
ALIKE = 0.01
"""Equivalent links differ by at most this share in the cycles waited, and in the share of each cause."""
MOST_ROWS = 1 << 20
"""Maximum rows of `latency` and of `stays`; the first ones are kept, the others counted."""


@dataclass(frozen=True)
class HotLink:
    """A link or lane at which packets waited.

    Attributes
    ----------
    cycles
        Waiting over all packets.
    waiting
        Mean number of waiting packets over the run.
    causes, victims, culprits
        The same cycles by cause, victim and culprit, in descending order.
    busy
        Share of the run in which the link was sending; NaN for a lane.
    like
        Equivalent links: of the same kind, with about the same cycles, causes, victim and culprit. The numbers are
        those of this one.
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
        """Its name, and the number of equivalent links."""
        return f"{self.name} and {len(self.like):,} like it" if self.like else self.name


def _empty(names: tuple[str, ...]) -> dict[str, IntArray]:
    return {name: np.zeros(0, np.int64) for name in names}


@dataclass(eq=False, repr=False)
class Attribution:
    """Latency of V traffics (collectives, messages of one name, classes of open traffic) on L links and lanes.

    Attributes
    ----------
    traffic_names
        Names of the traffics.
    link_names
        The network links in their order, then injection lanes, then ejection lanes.
    messages
        int64[V]: delivered messages; of open traffic, measured packets.
    parts
        int64[V, 9]: the parts of their latency, added up, in the order of PARTS.
    blame
        Columns, one row per link, victim, culprit (-1: none, -2: faults) and cause: codes of the lists above and of
        PARTS, `cycles`, and `packets`, the number of stays. The sum of cycles is the latency of all delivered packets.
    latency
        Columns, one row per delivered message; the parts add up to `arrived - sent`. Empty for open traffic.
    stays
        Columns, one row per packet at the source and in each buffer. Empty unless `output.attribution = "messages"`.
    left_out
        Rows missing in `latency` and `stays`; the sums include them.
    """

    traffic_names: list[str]
    link_names: list[str]
    messages: IntArray
    parts: IntArray
    blame: dict[str, IntArray]
    latency: dict[str, IntArray] = field(default_factory=lambda: _empty(LATENCY))
    stays: dict[str, IntArray] = field(default_factory=lambda: _empty(STAYS))
    left_out: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, table, columns in (("blame", self.blame, BLAME), *self._long()):
            if tuple(table) != columns or len({len(values) for values in table.values()}) > 1:
                raise ValueError(f"{name} requires the columns {', '.join(columns)}, all of the same length")
        if self.messages.shape != (len(self.traffic_names),) or self.parts.shape != (*self.messages.shape, len(PARTS)):
            raise ValueError(f"{self.messages.shape} messages and {self.parts.shape} parts of {self.traffic_names}")

    def _long(self) -> tuple[tuple[str, dict[str, IntArray], tuple[str, ...]], ...]:
        return ("latency", self.latency, LATENCY), ("stays", self.stays, STAYS)

    def __repr__(self) -> str:
        return f"Attribution({len(self.traffic_names)} traffics on {len(self.link_names)} links and lanes)"

    # Sums

    @property
    def of_messages(self) -> dict[str, int]:
        """Cycles of each part, over the latencies of all messages."""
        return dict(zip(PARTS, self.parts.sum(axis=0).tolist(), strict=True))

    @property
    def of_packets(self) -> dict[str, int]:
        """Cycles of each part, over the latencies of all packets; concurrent packets of a message count each."""
        sums = np.zeros(len(PARTS), np.int64)
        np.add.at(sums, self.blame["cause"], self.blame["cycles"])
        return dict(zip(PARTS, sums.tolist(), strict=True))

    @property
    def parts_shown(self) -> tuple[str, ...]:
        """The parts that tables and pictures show: `fault` only if any message met one."""
        return PARTS if self.parts[:, PARTS.index("fault")].any() else PARTS[:-1]

    def congestion(self, what: str = "cycles") -> IntArray:
        """Return int64[L, V, 9]: cycles ("packets": stays) of each link, victim and part, over all culprits."""
        sums = np.zeros((len(self.link_names), len(self.traffic_names), len(PARTS)), np.int64)
        np.add.at(sums, tuple(self.blame[name] for name in ("link", "victim", "cause")), self.blame[what])
        return sums

    @cached_property
    def waits(self) -> dict[str, IntArray]:
        """The rows of `blame` that are waiting in the network."""
        waiting = self.blame["cause"] >= PARTS.index(WAITING[0])
        return {name: values[waiting] for name, values in self.blame.items()}

    @cached_property
    def culprits(self) -> list[str]:
        """The names of culprits by number: the traffics; then, with negative numbers, faults if any, and none."""
        faults = [FAULTS] if (self.blame["culprit"] < -1).any() else []
        return [*self.traffic_names, *faults, NO_TRAFFIC]

    @property
    def matrix(self) -> IntArray:
        """int64[V, culprits]: cycles that a traffic (row) waited in the network for each of `culprits` (column)."""
        sums = np.zeros((len(self.traffic_names), len(self.culprits)), np.int64)
        np.add.at(sums, (self.waits["victim"], self.waits["culprit"]), self.waits["cycles"])  # -1 is the last column
        return sums

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
        profiles = _profiles(self, total)
        groups: list[list[int]] = []
        similar: dict[tuple[str, int, int], list[list[int]]] = {}
        for link in order.tolist():
            kind = f"{dims[link]}" if link < network else self.link_names[link].partition(" ")[0]
            candidates = similar.setdefault((kind, *profiles.main[link]), [])
            for group in candidates:
                first = group[0]
                near = total[first] - total[link] <= ALIKE * total[first]
                if near and np.abs(profiles.causes[link] - profiles.causes[first]).max() <= ALIKE:
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
            culprits=_added(rows["culprit"], cycles, self.culprits),  # -1 indexes the last one
            busy=float(utilization[link]) if link < len(utilization) else float("nan"),
            like=like,
        )

    def json(self, hot_links: list[HotLink]) -> dict[str, Any]:
        """The key `attribution` of the JSON summary."""
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
                {
                    "victim": self.traffic_names[victim],
                    "culprit": self.culprits[culprit],
                    "cycles": int(matrix[victim, culprit]),
                }
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
    """Waiting at each link: float64[L, 9], the share of each cause; and its main victim and culprit."""

    causes: NDArray[np.float64]
    main: list[tuple[int, int]]


def _profiles(attribution: Attribution, total: IntArray) -> _Profiles:
    waits, links = attribution.waits, len(attribution.link_names)
    traffics, culprits = len(attribution.traffic_names), len(attribution.culprits)

    def sums(column: str, width: int) -> IntArray:
        cycles = np.zeros((links, width), np.int64)
        np.add.at(cycles, (waits["link"], waits[column]), waits["cycles"])  # -1, no culprit, is the last column
        return cycles

    causes = sums("cause", len(PARTS)) / np.maximum(total, 1)[:, np.newaxis]
    main = [sums("victim", traffics).argmax(axis=1), sums("culprit", culprits).argmax(axis=1)]
    return _Profiles(causes, list(zip(*(share.tolist() for share in main), strict=True)))


def _added(keys: IntArray, cycles: IntArray, names: tuple[str, ...] | list[str]) -> dict[str, int]:
    """Add up cycles by the name of their key, in descending order."""
    distinct, index = np.unique(keys, return_inverse=True)
    sums = np.zeros(len(distinct), np.int64)
    np.add.at(sums, index, cycles)
    order = np.argsort(-sums, kind="stable")
    return {names[distinct[i]]: int(sums[i]) for i in order.tolist() if sums[i]}
