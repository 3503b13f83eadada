"""How the packet backend divides its network: an engine per class of congruent groups, or per independent group."""

from __future__ import annotations

from abc import abstractmethod
from array import array
from collections.abc import Sequence
from functools import cached_property
from typing import Any, cast

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.core.engine import Engine
from pyxsim.errors import LockstepLost
from pyxsim.network.engine_config import EngineConfig
from pyxsim.network.lanes import LaneChoice
from pyxsim.network.lines import Lines
from pyxsim.network.packet.congruent_groups import CongruentGroups, congruent_groups, long_enough
from pyxsim.network.packet.congruent_lines import represented
from pyxsim.network.packet.folded_engine import FoldedEngine, fold
from pyxsim.network.packet.independent_groups import independent_groups
from pyxsim.network.packet.link_faults import LinkFaults
from pyxsim.network.packet.split_engine import Groups, SplitEngine
from pyxsim.network.packet.still_time import StillTime
from pyxsim.network.protocol import Backend
from pyxsim.network.windows import WindowRecorder

FOREVER = 1 << 60


class DividedNetwork(Backend):
    """A packet network that may have several engines. Attributes: see PacketNetwork."""

    config: EngineConfig
    parts: SplitEngine | None
    windows: WindowRecorder
    faults: LinkFaults | None
    skips: bool
    still: StillTime
    attribution_level: int
    caches_episodes: bool
    _engine_options: dict[str, Any]
    _lanes: LaneChoice
    _bytes: array[int]
    _every_step: bool
    _traffic: IntArray
    _whole_windows: WindowRecorder | None  # while congruent groups are folded
    _repeating: bool
    _idle_since: int | None
    _next_start: int
    undelivered: int
    _skipped_visits: int  # by the engine of the whole network

    @cached_property
    def engine(self) -> Engine:
        """The engine of the whole network, made when it is first used; or that of the parts, with its interface."""
        return self._make_engine(**self._engine_options)

    @abstractmethod
    def _make_engine(self, **options: Any) -> Engine:
        """Make an engine of the whole network."""

    @abstractmethod
    def cut(self, nbytes: int) -> tuple[int, int, int]:
        """Return the packets of a message, the flits of each, and those of the last one."""

    @property
    def divisible(self) -> bool:
        """Whether independent groups may be simulated by themselves: with fast-forward, in a run that has not begun."""
        begun = "engine" in vars(self) and self.now
        fresh = self.parts is None and not begun and not len(self._bytes)
        fixed_lanes = not isinstance(self.settings.lanes, int)  # else they are used round robin
        every_cycle = self.attribution_level or self._every_step
        return (
            fresh
            and fixed_lanes
            and self.skips
            and not every_cycle
            and self.faults is None
            and (self.settings.credits is None)
        )

    @property
    def divided(self) -> bool:
        """Whether there are several engines."""
        return self.parts is not None

    @property
    def skipped_cycles(self) -> int:
        """Cycles that were not simulated."""
        return self.engine.skipped + self.still.passed

    @property
    def skipped_visits(self) -> int:
        """Router visits that were not simulated."""
        return self._skipped_visits if self.parts is None else self.parts.skipped_visits

    @property
    def _folded(self) -> dict[str, int]:
        """The congruent groups, how many of them were simulated at the end, and replays; nothing if all groups were."""
        parts = self.parts
        if not isinstance(parts, FoldedEngine):
            return {}
        replays = {
            "episodes": sum(book.replays for book in parts.books),
            "cached_episodes": sum(book.recalled_replays for book in parts.books),
        }
        return {"groups": parts.groups, "classes": len(parts.parts), **replays}

    def lanes_of(self, src: IntArray, dst: IntArray, plane: IntArray) -> tuple[IntArray, IntArray]:
        """Return the injection and ejection lanes of messages."""
        return self._lanes.many(src, dst, plane)

    @property
    def wants_traffic(self) -> bool:
        return self.divisible

    def expect(self, traffic: IntArray) -> None:
        if not self.divisible:
            return
        self._traffic = traffic
        alike = self._congruent(traffic)
        if alike is None or not self._fold(alike):
            self._try_split()

    def wants_lines(self, nbytes: int) -> bool:
        return self.divisible and long_enough(2 * nbytes // self.settings.flit)  # an all-reduce sends its bytes twice

    def expect_lines(self, kinds: Sequence[Lines]) -> bool:
        alike = self._congruent(np.concatenate([lines.traffic for lines in kinds]))
        simulated = None if alike is None else represented(alike, kinds)
        return simulated is not None and self._fold(simulated)

    def _congruent(self, traffic: IntArray) -> CongruentGroups | None:
        links, flit = self.config.links, self.settings.flit
        return congruent_groups(self.topology.relation, links, traffic, self.lanes_of, flit)

    def _fold(self, groups: CongruentGroups) -> bool:
        """Use an engine per class of groups, if messages interact on links and lanes only."""
        folded = fold(self.topology.relation, self.config, groups, self.windows, recall=self.caches_episodes)
        if not all(part.engine.independent_ports for part in folded.parts):
            return False
        vars(self).pop("engine", None)  # that of the whole network is made again if the run unfolds
        self._whole_windows = self.windows
        self._use(folded)
        return True

    def _try_split(self) -> None:
        """Use an engine per independent group where that pays."""
        if not self.engine.independent_ports:
            return
        links, engine_bytes = self.config.links, self.engine.nbytes
        groups = independent_groups(self.topology, links, self._traffic, self.lanes_of, self.cut, engine_bytes)
        if groups is not None:
            self.split(groups)

    def split(self, groups: Groups) -> None:
        """Use an engine per group from now on."""
        engines = [self.engine, *(self._make_engine() for _ in range(len(groups) - 1))]
        self._use(SplitEngine(engines, self.windows, groups))

    def _use(self, parts: SplitEngine) -> None:
        """Use other engines from now on."""
        self.parts = parts
        # Both have the interface of the originals, except for trace, watch and attribution.
        self.engine, self.windows = cast(Engine, self.parts), cast(WindowRecorder, self.parts.windows)

    def _unfold(self, folded: FoldedEngine) -> None:
        """Continue with the engine of the whole network, which repeats what was sent so far.

        Raises LockstepLost if only some of the messages were sent.
        """
        self._remember_episodes()
        if folded.represents:
            raise LockstepLost("too many links carry different messages")
        now, rows = folded.now, folded.sent(self.config.links, self.config.eject.npu)
        cycle = rows[:, 7]
        assert self._whole_windows is not None
        del self.engine  # the next use makes that of the whole network
        self.windows, self._whole_windows = self._whole_windows, None
        self.parts, self._repeating = None, True
        self._try_split()
        self.bytes_delivered = self.undelivered = self._skipped_visits = 0
        self._idle_since, self._next_start = None, FOREVER
        for messages in np.split(rows, np.flatnonzero(np.diff(cycle)) + 1):
            at = int(messages[0, 7])
            self._repeat(at)
            self.engine.send_many(*messages.T)
            self._next_start = min(self._next_start, at)
            self.undelivered += len(messages)
        self._repeat(now)
        self._repeating = False

    def _remember_episodes(self) -> None:
        """Keep what engines of congruent groups have simulated for later runs, if asked to."""
        if self.caches_episodes and isinstance(self.parts, FoldedEngine):
            self.parts.remember()

    def _repeat(self, cycle: int) -> None:
        """Let time pass to a cycle, up to which all arrivals are known."""
        while self.engine.now < cycle and len(self.advance(cycle)[0]):
            pass
