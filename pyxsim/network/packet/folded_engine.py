"""One engine for all congruent groups of messages (docs/folding.md).

Congruent groups in the same state that get the same messages stay in the same state. So one engine simulates a class of
groups as long as each of them gets the messages of the first one, in the same cycle and order; an arrival is one in
each group. When the messages of a group differ, it leaves the class with a copy of the engine, whose state is its own.
With more than `MOST_PARTS` classes of which most cycles are simulated, not skipped or replayed, the engines cost more
than they save: the network then continues with one engine of the whole network, which repeats what has been sent so far
(`DividedNetwork._unfold`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pyxsim.arrays import ArrayMemo, IntArray
from pyxsim.core.engine import Engine, Stop
from pyxsim.core.engine_options import Links
from pyxsim.core.state.record_dtypes import COUNTERS
from pyxsim.network.engine_config import EngineConfig
from pyxsim.network.packet.congruent_groups import CongruentGroups, Paths
from pyxsim.network.packet.episode_book import AT, Call, EpisodeBook
from pyxsim.network.packet.episode_cache import recall_episodes, remember_episodes
from pyxsim.network.packet.episodes import EpisodeEngine
from pyxsim.network.packet.independent_groups import slowest
from pyxsim.network.packet.part_engine import part_engine
from pyxsim.network.packet.split_engine import Part, SeveralWindows, SplitEngine, as_rows
from pyxsim.network.windows import WindowRecorder, Windows
from pyxsim.routing.relation import Relation

MOST_PARTS = 24
LEAST_REPEATED = 8  # visits for each simulated one, with more classes
VISITS_PER_RUN = 150  # that take as long as one short run of a class
MOST_SHARED = 1 << 22  # numbers in the known shares: 32 MB
FLITS = 5  # the column of the flits of a packet
FEWEST_RUNS = 2000  # after which the time of runs counts


@dataclass(frozen=True, eq=False)
class GroupEngine:
    """An engine for each group of a class, and which of its numbers is which of a group.

    Attributes
    ----------
    engine
        The engine of one group.
    pace, room, latency
        See `Groups`.
    counted
        Number of its first links that are counted.
    links
        int64[links and lanes]: its number of each link and lane of a group, in the order of the group.
    inject, eject, dst
        int64[lanes] each: its number of each injection and ejection lane of a group; its NPU
        behind each ejection lane.
    book
        What engines with its description have simulated.
    """

    engine: Engine
    pace: Fraction
    room: int
    latency: int
    counted: int
    links: IntArray
    inject: IntArray
    eject: IntArray
    dst: IntArray
    book: EpisodeBook

    def __deepcopy__(self, memo: object) -> GroupEngine:
        """Shared by its classes."""
        return self


class Fold(Part):
    """The engine of a class of congruent groups.

    Attributes
    ----------
    members
        int64[size]: its groups.
    ids
        int64[size, links and lanes]: the numbers of their links and lanes in the whole network.
    copies
        int64[copies, links and lanes] for each of its groups: likewise of the groups that it stands for, itself first.
    weight
        Number of groups that it stands for.
    """

    def __init__(self, of: GroupEngine, windows: WindowRecorder, members: IntArray, copies: Sequence[IntArray]) -> None:
        engine = EpisodeEngine(of.engine, of.book, windows)
        super().__init__(cast(Engine, engine), windows, np.arange(of.counted), of.pace, of.room, of.latency)
        self.episodes = engine
        self.of, self.members, self.copies = of, members, list(copies)
        self.weight = sum(map(len, self.copies))
        self.ids = np.array([each[0] for each in copies])
        # For each message of the engine: its number in each group; None: it has arrived.
        self._numbers: list[IntArray | None] = []
        # What was sent: rows of a group with cycles after another cycle, that cycle, and their numbers in each group.
        self.sent: list[tuple[IntArray, int, IntArray]] = []

    def share(self, rows: IntArray, messages: IntArray) -> Share:
        """Its share of a call, with the messages `rows` of each group, in numbers of the group; see `Share`."""
        inject, eject, *others = rows.T
        columns = [self.of.inject[inject], self.of.eject[eject], self.of.dst[eject], *others]
        call, first = Call.of(as_rows(columns))
        return Share(self, call, first, rows.copy(), messages)

    def send_share(self, share: Share, at: int, first: int) -> None:
        """Send its share of a call in cycle `at`, of which `first` is the number of the first message."""
        rows, numbers = share.call.rows, first + share.messages
        at += share.after
        self._wake(at if share.call.together else at + int(rows[:, AT].min()))
        self._note_sent(self.episodes.send(share.call, at), at, rows[:, AT], rows[:, FLITS])
        self._numbers += list(np.ascontiguousarray(numbers.T))
        self.sent.append((share.rows, at - share.after, numbers))

    def quiet(self) -> int:
        if (quiet := self.episodes.quiet_until) is None:
            return super().quiet()
        self._quiet = quiet
        return self._quiet

    @property
    def arrives_after_bound(self) -> bool:
        return self.episodes.next_arrival == self.bound + 1

    def _delivered(self, stop: Stop) -> tuple[IntArray, IntArray]:
        arrived = []
        for message in stop.messages.tolist():
            arrived.append(self._numbers[message])
            self._numbers[message] = None
        return np.concatenate(arrived), np.repeat(stop.cycles, len(self.members))

    def part_with(self, places: IntArray) -> Fold:
        """Let the groups at these places leave the class, with a copy of the engine."""
        other = copy.deepcopy(self)
        other.keep(places)
        self.keep(np.delete(np.arange(len(self.members)), places))
        return other

    def keep(self, places: IntArray) -> None:
        """Keep the groups at these places only."""
        self.members, self.ids = self.members[places], self.ids[places]
        self.copies = [self.copies[place] for place in places.tolist()]
        self.weight = sum(map(len, self.copies))
        self._numbers = [None if numbers is None else numbers[places] for numbers in self._numbers]
        self.sent = [(rows, at, numbers[places]) for rows, at, numbers in self.sent]

    @property
    def everywhere(self) -> IntArray:
        """int64[groups, links and lanes]: the numbers of the links and lanes of all groups that it stands for."""
        return np.concatenate(self.copies)

    def columns(self, network: int, injection: int, npu: IntArray) -> tuple[IntArray, IntArray]:
        """What was sent, as arguments of `Engine.send_many` for the whole network, and the numbers of the messages.

        `network`, `injection`: number of links and injection lanes; `npu`: behind each ejection lane.
        """
        first = network, network + injection
        into = self.ids[:, (self.ids[0] >= first[0]) & (self.ids[0] < first[1])] - first[0]
        out = self.ids[:, self.ids[0] >= first[1]] - first[1]
        columns, numbers = [], []
        for rows, at, own in self.sent:
            inject, eject = into[:, rows[:, 0]].ravel(), out[:, rows[:, 1]].ravel()
            others = np.tile(rows[:, 2:], (len(self.members), 1))
            others[:, AT - 3] += at  # without the lanes and the destination
            columns.append(np.column_stack([inject, eject, npu[eject], others]))
            numbers.append(own.ravel())
        return np.concatenate(columns), np.concatenate(numbers)

    def name(self, message: int) -> int:
        """The number of a message of the engine in the first group."""
        numbers = self._numbers[message]
        return -1 if numbers is None else int(numbers[0])


class Share(NamedTuple):
    """The messages of a class in a call of `FoldedEngine.send_many`.

    Attributes
    ----------
    fold
        The class.
    call, after
        What its engine sends, and how many cycles after the first message of the whole call.
    rows
        int64[K, columns]: the messages of a group, in numbers of the group, with cycles since the first message.
    messages
        int64[groups, K]: which messages of the whole call these are.
    """

    fold: Fold
    call: Call
    after: int
    rows: IntArray
    messages: IntArray


class FoldedEngine(SplitEngine):
    """The engines of all classes, with the interface that `PacketNetwork` uses.

    Parameters
    ----------
    folds
        The classes.
    group, eject_group
        int64[lanes] each: the group that uses a lane; -1: none.
    inject, eject
        int64[lanes] each: the number of a lane in its group.
    windows
        Of the whole network.
    links, vcs
        Number of links and lanes of the network; VCs of each.

    Attributes
    ----------
    groups
        Number of groups of the network.
    represents
        Whether groups stand for others that get no messages.
    copies
        int64[injection lanes]: number of groups for which the group that uses a lane stands.
    """

    def __init__(
        self,
        folds: Sequence[Fold],
        lanes: tuple[IntArray, IntArray, IntArray, IntArray],
        windows: WindowRecorder,
        links: int,
        vcs: int,
    ) -> None:
        self.parts: list[Fold] = list(folds)  # type: ignore[assignment]
        self.windows = FoldedWindows(self.parts, windows.links)
        self.group, self.eject_group, self.inject, self.eject = lanes
        self.links, self.vcs = links, vcs
        self.groups = sum(part.weight for part in self.parts)
        self.represents = any(part.weight > len(part.members) for part in self.parts)
        self._count = self.runs = self.now = 0
        self._judged = 0  # classes when their number was judged last
        self._due = FEWEST_RUNS  # when the runs of classes are judged next
        self._shares: ArrayMemo[list[Share]] = ArrayMemo(MOST_SHARED)
        known = int(self.group.max()) + 1
        self._part, self._place = np.zeros((2, known), np.int64)
        copies = np.ones(known + 1, np.int64)
        for part in self.parts:
            copies[part.members] = [len(each) for each in part.copies]
        self.copies = copies[self.group]
        for number in range(len(self.parts)):
            self._locate(number)

    def _locate(self, number: int) -> None:
        members = self.parts[number].members
        self._part[members], self._place[members] = number, np.arange(len(members))

    # -- messages --

    def send_many(self, *columns: ArrayLike) -> int:
        at = np.min(columns[AT])
        key = ArrayMemo.key([*columns[:AT], columns[AT] - at, *columns[AT + 1 :]])
        shares = self._shares.get(key)
        if shares is None:
            rows = as_rows(columns)
            rows[:, AT] -= at
            shares = self._divide(rows)
            self._shares.put(key, shares, 3 * rows.size)
        first = self._count
        self._count += np.size(columns[0])
        for share in shares:
            share.fold.send_share(share, int(at), first)
        return first

    def _divide(self, rows: IntArray) -> list[Share]:
        """The share of each class; groups with other messages than the first one of their class leave it."""
        inject, eject, _dst, *others = rows.T
        group = self.group[inject]
        if (group < 0).any() or (group != self.eject_group[eject]).any():
            raise RuntimeError("a message uses other lanes than `expect` announced")
        part, place = self._part[group], self._place[group]
        of_group = np.column_stack([self.inject[inject], self.eject[eject], *others])
        order = np.lexsort((place, part))
        begins = np.flatnonzero(np.diff(part[order], prepend=-1))
        shares = []
        for messages in np.split(order, begins[1:]):
            shares += self._divide_class(int(part[messages[0]]), place[messages], of_group[messages], messages)
        return shares

    def _divide_class(self, number: int, place: IntArray, rows: IntArray, messages: IntArray) -> list[Share]:
        """The shares of a class, or of those into which it divides. The messages are sorted by group."""
        fold = self.parts[number]
        size, each = len(fold.members), np.bincount(place, minlength=len(fold.members))
        if (each == each[0]).all():
            by_group = rows.reshape(size, int(each[0]), -1)
            if (by_group == by_group[0]).all():
                return [fold.share(by_group[0], messages.reshape(size, -1))]
        self._shares.clear()
        ends = np.cumsum(each)
        alike: dict[bytes, list[int]] = {}
        for member, (begin, end) in enumerate(zip((ends - each).tolist(), ends.tolist(), strict=True)):
            alike.setdefault(rows[begin:end].tobytes(), []).append(member)
        parts = [np.array(members) for members in alike.values()]
        members = fold.members
        left = np.arange(size)
        folds, shares = [], []
        for places in parts[1:]:
            folds.append(fold.part_with(np.searchsorted(left, places)))
            left = np.setdiff1d(left, places)
        for places, own in zip(parts, [fold, *folds], strict=True):
            if own is not fold:
                self.parts.append(own)
            self._locate(number if own is fold else len(self.parts) - 1)
            assert (own.members == members[places]).all()
            if each[places[0]]:
                begin, count = int(ends[places[0]] - each[places[0]]), int(each[places[0]])
                chosen = np.concatenate([messages[ends[place] - count : ends[place]] for place in places.tolist()])
                shares.append(own.share(rows[begin : begin + count], chosen.reshape(len(places), count)))
        return shares

    @property
    def books(self) -> list[EpisodeBook]:
        """The episodes of all classes."""
        return list({id(part.of.book): part.of.book for part in self.parts}.values())

    def remember(self) -> None:
        """Keep the episodes for later runs, in the cache."""
        for book in self.books:
            remember_episodes(book)

    @property
    def scattered(self) -> bool:
        """Whether the whole network takes less time: too many classes, or classes that stop too often."""
        return self._many_classes() or self._short_runs()

    def _many_classes(self) -> bool:
        if len(self.parts) <= max(MOST_PARTS, self._judged):
            return False
        self._judged = len(self.parts)
        visits = sum(part.engine.router_visits for part in self.parts)
        return visits <= LEAST_REPEATED * self._simulated

    def _short_runs(self) -> bool:
        """Judge at each doubling of the runs, so that at most twice the time of the whole network is lost."""
        if self.runs < self._due:
            return False
        self._due = 2 * self.runs
        return self._simulated + VISITS_PER_RUN * self.runs > self.router_visits

    def sent(self, links: Links, npu: IntArray) -> IntArray:
        """int64[messages, columns]: what was sent, as arguments of `Engine.send_many`, in the order of the messages."""
        parts = [part.columns(links.network, links.injection, npu) for part in self.parts if part.sent]
        columns, numbers = (np.concatenate(each) for each in zip(*parts, strict=True))
        return columns[np.argsort(numbers)]

    # -- results --

    def _sum(self, value: Callable[[Fold], int]) -> int:
        return sum(value(part) * part.weight for part in self.parts)

    @property
    def skipped_visits(self) -> int:
        """Those of all groups but the simulated ones, of skipped periods, and of replayed episodes."""
        return self.router_visits - self._simulated

    @property
    def _simulated(self) -> int:
        """Visits that were simulated."""
        known = sum(part.skipped_visits + part.episodes.replayed_visits for part in self.parts)
        return sum(part.engine.router_visits for part in self.parts) - known

    @property
    def flits_in_flight(self) -> int:
        return self._sum(lambda part: part.engine.flits_in_flight)

    @property
    def router_visits(self) -> int:
        return self._sum(lambda part: part.engine.router_visits)

    @property
    def messages_pending(self) -> int:
        return self._sum(lambda part: part.engine.messages_pending)

    def counters(self) -> dict[str, IntArray]:
        self.catch_up()
        counts: dict[str, IntArray] = {}
        for part in self.parts:
            for name, values in part.engine.counters().items():
                whole = counts.setdefault(name, np.zeros(self.links, values.dtype))
                whole[part.everywhere] = values[part.of.links]
        return counts

    def buffer_max(self) -> NDArray[np.int32]:
        self.catch_up()
        peaks = np.zeros((self.links, self.vcs), np.int32)
        for part in self.parts:
            peaks[part.everywhere] = part.engine.buffer_max().reshape(-1, self.vcs)[part.of.links]
        return peaks.ravel()

    def totals(self) -> dict[str, int]:
        self.catch_up()
        names = self.parts[0].engine.totals()
        return {name: self._sum(lambda part: part.engine.totals()[name]) for name in names}  # noqa: B023

    def waiting(self) -> list[dict[str, Any]]:
        """The front flits of the first group of each class."""
        found = []
        for part in self.parts:
            of = np.argsort(part.of.links)  # place in the group of each number of the engine
            for row in part.engine.waiting():
                links = {key: int(part.ids[0][of[row[key]]]) for key in ("link", "wants") if row[key] >= 0}
                found.append({**row, **links, "message": part.name(row["message"])})
        return found


class FoldedWindows(SeveralWindows):
    """The windows of all groups as those of one network."""

    def table(self) -> Windows:
        tables = [part.windows.table() for part in self._parts]
        first = max(tables, key=len)
        counts = {name: np.zeros((len(first), self.links), np.uint64) for name in COUNTERS}
        for part, windows in zip(self._parts, tables, strict=True):
            assert isinstance(part, Fold)
            counted = part.of.links < part.of.counted
            ids = part.everywhere[:, counted]
            for name, values in windows.counts.items():
                counts[name][: len(windows), ids] = values[:, None, part.of.links[counted]]
        return Windows(first.start, first.length, counts)


def fold(
    relation: Relation, config: EngineConfig, groups: CongruentGroups, windows: WindowRecorder, *, recall: bool = False
) -> FoldedEngine:
    """Make an engine for each class of groups; `recall`: with the episodes of earlier runs."""
    links = config.links
    injection, ejection = links.network, links.network + links.injection
    inject, eject, eject_group = np.full((3, max(links.injection, links.ejection)), -1)
    for members in groups.members:
        used = groups.used.alike(members)  # injection and ejection lanes are in the same columns
        lane = used[0]
        into = used[:, (lane >= injection) & (lane < ejection)] - injection
        out = used[:, lane >= ejection] - ejection
        inject[into], eject[out] = np.arange(into.shape[1]), np.arange(out.shape[1])
        eject_group[out] = members[:, None]
    folds = []
    books: dict[bytes, EpisodeBook] = {}
    for members, paths in zip(groups.members, groups.paths, strict=True):
        of = _engine_of(relation, config, groups.used[members[0]], paths, books, recall)
        recorder = WindowRecorder(windows.window, of.counted, of=windows.links)
        if groups.copies:
            copies: Sequence[IntArray] = [groups.used.alike(groups.copies[member]) for member in members.tolist()]
        else:
            copies = list(groups.used.alike(members)[:, None])
        folds.append(Fold(of, recorder, members, copies))
    lanes = groups.group, eject_group, inject, eject
    total = links.network + links.injection + links.ejection
    return FoldedEngine(folds, lanes, windows, total, int(links.vcs.max()))


def _engine_of(
    relation: Relation,
    config: EngineConfig,
    used: IntArray,
    paths: Paths,
    books: dict[bytes, EpisodeBook],
    recall: bool,
) -> GroupEngine:
    """The engine of a group with these links and lanes, in its order. Equal engines have one of the books."""
    links = config.links
    injection, ejection = links.network, links.network + links.injection
    engine, description, counted, ascending, npus = part_engine(relation, config, paths)
    book = books.get(description)
    if book is None:
        book = books[description] = EpisodeBook(description)
        if recall:
            recall_episodes(book, engine)
    into, out = used[(used >= injection) & (used < ejection)], used[used >= ejection]
    ends = np.column_stack([injection + paths.inject, paths.steps, ejection + paths.eject])
    return GroupEngine(
        engine,
        *slowest(links, ends),
        counted=counted,
        links=np.searchsorted(ascending, used),
        inject=np.searchsorted(np.sort(into), into),
        eject=np.searchsorted(np.sort(out), out),
        dst=np.searchsorted(npus, config.eject.npu[out - ejection]),
        book=book,
    )
