"""Pass over time in which nothing can move: packets wait for a link that is down, or the next message is far away.

The engine visits no cycle in which nothing is active, but a run stops at the ends of windows, for the watchdog, and for
progress. While nothing moves, each of these stops finds the same: every counter grows by the same in each cycle, so the
totals at the ends of windows lie on a line, and a search of the watchdog that found nothing in this state finds nothing
again. So one call of the engine takes the place of all of them, up to the next event: an entry of the calendar, a
message, a change of links or routes, or the end of the patience with links that flap.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from pyxsim.core.engine import Engine
from pyxsim.errors import StuckError
from pyxsim.network.engine_config import EngineConfig
from pyxsim.network.packet.link_faults import LinkFaults
from pyxsim.network.packet.watchdog import Watchdog
from pyxsim.network.windows import Totals, WindowRecorder

WORTHWHILE = 2  # windows, or searches of the watchdog: shorter times are simulated
MOST_TIME = 1 << 62  # in cycles times the denominator of a link's flit time
MOST_TOTALS = 1 << 20  # at window ends, that are recorded at once: about 8 MB


class Passing(Protocol):
    """What of a packet network passes over still time."""

    config: EngineConfig
    windows: WindowRecorder
    faults: LinkFaults | None

    @property
    def engine(self) -> Engine: ...
    @property
    def watchdog(self) -> Watchdog: ...
    @property
    def divided(self) -> bool: ...
    def moved(self) -> tuple[int, ...]: ...
    def totals(self) -> Totals: ...


class StillTime:
    """The still time of a run.

    Parameters
    ----------
    passes
        Whether it is passed over.

    Attributes
    ----------
    passed
        Cycles that were passed over.
    """

    def __init__(self, *, passes: bool) -> None:
        self._passes = passes
        self._moved: tuple[int, ...] = ()  # as of the last call
        self.passed = 0

    def pass_over(self, network: Passing, limit: int, *, goes_on: bool) -> None:
        """Let the engine run to the next event, or cycle `limit`, if nothing has moved since the last call.

        `goes_on`: the run does not end if nothing can move.
        Raises StuckError if time would exceed what the engine counts.
        """
        if not self._passes or network.divided:
            return
        before, self._moved = self._moved, network.moved()
        if before != self._moved:
            return
        engine, windows, faults = network.engine, network.windows, network.faults
        begin = engine.now
        patient = faults is not None and faults.patient(before, begin)
        end = min(limit, _end(network, patient=patient and not goes_on, stays=patient or goes_on))
        if end - begin <= WORTHWHILE * min(windows.window, network.watchdog.interval):
            return
        if end > (last := MOST_TIME // int(np.max(network.config.links.s_den))):
            windows.record(begin, network.totals())
            problem = f"the next event after cycle {begin} is beyond cycle {last}"
            raise StuckError(f"{problem}, the last one that the packet backend counts with these bandwidths", [])
        totals, inside = network.totals(), engine.flits_in_flight > 0
        # With no flit inside, the engine stops at the end of a window only if something was counted before.
        stop = engine.run(end, window=0 if inside else windows.window, patient=patient or goes_on)
        if stop.reason == "window":
            windows.record(stop.cycle, network.totals())
        elif stop.reason != "until" or stop.cycle != end:
            raise AssertionError(f"the network stopped in cycle {stop.cycle} ({stop.reason}) and not in {end}")
        elif inside:
            _record(network, begin, totals)
        network.watchdog.passed(stop.cycle)
        self.passed += stop.cycle - begin


def _end(network: Passing, *, patient: bool, stays: bool) -> int:
    """The cycle up to which nothing happens; if that is not known, the current one or an earlier one.

    `patient`: the run may end when its patience does. `stays`: flits that cannot move are no deadlock until then.
    """
    engine, watchdog, faults = network.engine, network.watchdog, network.faults
    end = engine.still_until(stays) - 1
    if not watchdog.settled:
        end = min(end, watchdog.due)
    if faults is None:
        return end
    end = min(end, faults.due)
    if patient and end > (last := faults.patient_until):
        # The run may end then. Until shortly before, it makes the stops that it would make without still time.
        end = last - (last - watchdog.due) % watchdog.interval
    return end


def _record(network: Passing, begin: int, before: Totals) -> None:
    """Record the windows that have ended in still time since cycle `begin`, with the totals `before`."""
    windows, end, after = network.windows, network.engine.now, network.totals()
    first, last = (np.array(list(totals.values()), np.int64) for totals in (before, after))
    rate, rest = np.divmod(last - first, end - begin)
    if rest.any():
        raise AssertionError(f"a counter of links has not grown steadily from cycle {begin} to {end}")
    ends = windows.cuts(begin, end)
    for chosen in np.array_split(ends, -(-len(ends) * first.size // MOST_TOTALS)) if len(ends) else ():
        windows.record_many(chosen, list(before), first + (chosen - begin)[:, np.newaxis, np.newaxis] * rate)
