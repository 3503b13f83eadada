"""What faults do to a packet network: losses, NPUs that are cut off, and what keeps a run from ending."""

from __future__ import annotations

from abc import abstractmethod
from array import array
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from pyxsim.core.engine import Stop
from pyxsim.errors import StuckError
from pyxsim.network.fault_times import NEVER
from pyxsim.network.packet.credit_report import missing_credits
from pyxsim.network.packet.divided_network import DividedNetwork
from pyxsim.network.packet.fault_report import fault_report, held_messages
from pyxsim.network.packet.link_faults import LinkFaults
from pyxsim.network.packet.route_epochs import RouteEpochs
from pyxsim.settings import Experiment

# Beside background traffic, a run ends after this many cycles without an arrival, and this many times the longest delay
# of a link for each outstanding flit.
_LONG = 1 << 20
_SLOW = 10


def jobs_fail_with_links(experiment: Experiment) -> bool:
    """Return whether links fail under jobs that start again."""
    fails = any(fault.affects_links for fault in experiment.faults)
    return fails and any(job.restart is not None for job in experiment.job)


class FaultyNetwork(DividedNetwork):
    """A packet network whose links may fail. Attributes: see PacketNetwork.

    `jobs_fail`: whether jobs may end, and start again, because of links. `_losses`: messages for `take_losses`.
    """

    jobs_fail = False
    _npus: int | None = None  # if the other nodes of the topology are ports of its switch
    _losses: list[int]
    _last_start: int  # of the messages so far
    _progress = 0, 0, 0  # the messages that have not arrived, since when, and until when the next one should
    _src: array[int]

    def _begin_faults(self, faulty: Experiment | None) -> None:
        """Read [[faults]] into `faults`, and change the configuration of the engine accordingly. Raises InputError."""
        self.faults, self._losses = LinkFaults.of(faulty, self.topology, self.config), []
        if self.faults is None or faulty is None:
            return
        self.config = replace(self.config, links=self.faults.links)
        epochs = RouteEpochs.of(faulty, self.topology, self.config, self.faults, self._npus)
        self.config = self.faults.reroute(epochs, self.config)
        self.jobs_fail = jobs_fail_with_links(faulty) and self.settings.transactions is None
        reports = self.jobs_fail and self.faults.drops
        self.config = replace(self.config, links=replace(self.config.links, reports_losses=reports))

    # -- jobs that fail --

    def take_losses(self) -> Sequence[int]:
        losses, self._losses = self._losses, []
        return losses

    def _without_losses(self, stop: Stop) -> Stop:
        """Keep the messages that have lost packets for `take_losses`."""
        lost = stop.messages < 0
        self._losses += np.unique(~stop.messages[lost]).tolist()
        return replace(stop, messages=stop.messages[~lost], cycles=stop.cycles[~lost])

    @property
    def follows_links(self) -> bool:
        return self.faults is not None and self.faults.epochs is not None

    def parts_of(self, npus: Sequence[int], cycle: int) -> list[int]:
        return [0] * len(npus) if self.faults is None else self.faults.parts_of(npus, self.engine, cycle)

    def next_change(self, cycle: int) -> int:
        return NEVER if self.faults is None else self.faults.next_change(cycle)

    @property
    def bytes_lost(self) -> int:
        if not self.jobs_fail:
            return 0
        sent = np.frombuffer(self._bytes, np.int64)
        return int(sent[sent > 0].sum()) - self.bytes_delivered

    # -- reports --

    @property
    def _counts_losses(self) -> bool:
        """Whether flits may be lost, or sent again: then nothing is skipped."""
        return self.settings.retry is not None or (self.faults is not None and self.faults.loses)

    @property
    def _credit_messages(self) -> bool:
        """Whether credits return by messages: then nothing is skipped, either."""
        return self.config.links.credits is not None

    def fault_report(self) -> list[str]:
        if self.faults is None:
            return []
        held = partial(held_messages, self.engine, self._src, self.topology.links)
        lines = fault_report(self.engine, self.faults, self.link_name, self.message_name, held)
        if self._credit_messages:
            lines += missing_credits(self.engine, self.config.links, self.link_name)
        return lines

    def _other_work(self, limit: int, *, expected: bool) -> tuple[int, bool]:
        """Return whether work remains that need not wait for a link that is down, and until when that is known.

        Such work is an event that the system expects at `limit`, or a message that starts later.
        """
        if self.faults is None or expected or self._last_start <= self.engine.now:
            return limit, self.faults is not None and expected
        return min(limit, self._last_start), True

    def _check_progress(self) -> None:
        """Raise StuckError if no message has arrived for much longer than all would take.

        Beside background traffic something always moves, so that a quiet network does not tell.
        """
        if self.faults is None or not self.undelivered:
            return
        now, (undelivered, since, until) = self.engine.now, self._progress
        if undelivered != self.undelivered:
            sent = np.frombuffer(self._bytes, np.int64)  # those of the background are negative
            flits = (int(sent[sent > 0].sum()) - self.bytes_delivered) // self.settings.flit
            self._progress = self.undelivered, now, now + _LONG + _SLOW * self.config.links.longest * flits
        elif now > until and not self.faults.may_help(since, now):
            self._record()
            raise self._failed(now, "no message has arrived for long")

    def message_name(self, message: int) -> str:
        """Return the number of a message and its ends."""
        src, dst = self._ends_of(message)
        return f"message {message}, NPU {src} to {dst}"

    @abstractmethod
    def _record(self) -> None:
        """Record the counts of links up to now."""

    @abstractmethod
    def _ends_of(self, message: int) -> tuple[int, int]:
        """Return the NPUs that send and receive a message."""

    def planned_routes(self) -> list[tuple[int, int, str, str, int]]:
        return [] if self.faults is None or self.faults.epochs is None else self.faults.epochs.planned()

    def _failed(self, cycle: int, why: str) -> StuckError:
        lines = self.fault_report() or [f"flits are lost again and again in cycle {cycle}"]
        return StuckError(f"faults keep work from ending, and {why}: {lines[0]}", lines[1:])

    def moved(self) -> tuple[int, ...]:
        """What changes as long as anything moves."""
        engine = self.engine
        return engine.router_visits, engine.flits_in_flight, engine.messages_pending

    def _lost(self, totals: dict[str, int]) -> dict[str, Any]:
        """The packets and flits that were lost, and the flits in flight; nothing without faults and retry."""
        if self.faults is None and not self._counts_losses:
            return {}
        names = ("packets_lost", "flits_lost")
        return {name: totals[name] for name in names} | {"flits_in_flight": self.engine.flits_in_flight}
