"""Choose the number of threads: docs/threads.md, "When it pays"."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

from pyxsim.core.engine import Engine
from pyxsim.core.engine_options import LONGEST_EPOCH, MOST_PARTS, Links
from pyxsim.network.packet.router_partition import UNEVEN, RouterPartition, cut

QUOTA = Path("/sys/fs/cgroup/cpu.max")  # as a container sees its own (cgroup v2)
MEASURE = 2000  # cycles between two measurements of the activity
ENOUGH = 2000  # minimum router visits of a part per epoch: some 100 us, many times the cost of a barrier
ENOUGH_IN_A_CALL = 20_000  # minimum router visits of all parts per call of the engine
FOREVER = 1 << 60


def cores() -> int:
    """Return the processors that this process may use, within its CPU quota."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = QUOTA.read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return count
    return count if quota == "max" else max(1, min(count, int(quota) // int(period)))


def idle_cores(threads: int = 1) -> int:
    """Return the processors left by other processes, at least one.

    A thread on a shared core delays all others at every barrier. `threads`: those of this process.
    """
    other_load = max(0.0, os.getloadavg()[0] - threads)  # of the last minute
    return max(1, cores() - math.ceil(other_load - 0.5))


class ThreadChoice:
    """Decides before every call of the engine whether it runs in partitions. The result is the same either way.

    `wanted`: number of threads; None: as many as pay. `skips`: fast-forward is on, which needs one thread.
    `used`: the most threads so far; `why`: the reason.
    """

    def __init__(self, routers: int, links: Links, wanted: int | None, *, skips: bool) -> None:
        self.routers, self.links, self.wanted = routers, links, wanted
        self.most = min(cores() if wanted is None else wanted, routers, MOST_PARTS)
        self.used, self.apart = 1, False
        self.why = self.against = self._against(skips)
        self.horizon = FOREVER if self.against or wanted else MEASURE
        self._parts: dict[int, RouterPartition] = {}
        self._divided = 1
        self._calls = self._cycle = self._visits = 0

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without partitions: a restored engine has none."""
        return {**vars(self), "_divided": 1, "apart": False}

    def _against(self, skips: bool) -> str:
        """Return why only one thread is possible; "" if more are."""
        if self.wanted == 1:
            return "one thread requested"
        if self.routers < 2:
            return "the network has one router"
        if self.most < 2:
            return "only one core is available"
        if self.wanted is None and skips:
            return "fast-forward needs one thread"
        return ""

    def decide(self, engine: Engine) -> bool:
        """Return whether the next call of the engine runs in partitions.

        The call should end after at most `horizon` cycles, to decide again.
        """
        if self.against:
            return False
        if not engine.divisible:
            self.why = self.against = "attribution and --watch need one thread"
            self.apart, self.horizon = False, FOREVER
        elif self.wanted is not None:
            self._divide(engine, self.most)
        else:
            self._measure(engine)
        return self.apart

    def _measure(self, engine: Engine) -> None:
        """Measure the activity every MEASURE cycles."""
        cycles = engine.now - self._cycle
        self._calls += 1
        if cycles < MEASURE:
            return
        visits = engine.router_visits - self._visits
        self._consider(engine, visits / cycles, visits / self._calls)
        self._cycle, self._visits, self._calls = engine.now, engine.router_visits, 0
        self.horizon = min(2 * self.horizon, FOREVER)

    def _consider(self, engine: Engine, rate: float, in_a_call: float) -> None:
        """Decide by the router visits per cycle (`rate`) and per call of the engine (`in_a_call`)."""
        idle = min(self.most, idle_cores(self._divided if self.apart else 1))  # other processes come and go
        partition = self._cut(max(2, idle))
        required = ENOUGH / 2 if self.apart else ENOUGH  # hysteresis
        count = min(partition.count, int(rate * partition.lookahead / required))
        if self.apart and self._divided <= count:
            count = self._divided
        against = ""
        if count < 2 or in_a_call < ENOUGH_IN_A_CALL:
            visits = rate * partition.lookahead / max(2, partition.count)
            against = f"partitions are too small: {visits:.0f} router visits between barriers"
        elif idle < 2:
            against = "only one core is idle"
        if not against:
            self._divide(engine, count)
            return
        self.apart = False
        if self.used == 1:
            self.why = against

    def _cut(self, count: int) -> RouterPartition:
        if count not in self._parts:
            self._parts[count] = cut(self.routers, self.links, count, LONGEST_EPOCH)
        return self._parts[count]

    def _divide(self, engine: Engine, count: int) -> None:
        partition = self._cut(count)
        self.apart = partition.count > 1 and (self.wanted is not None or partition.uneven <= UNEVEN)
        if not self.apart:
            self.why = "its routers cannot be divided evenly"
            return
        if self._divided != partition.count:
            engine.divide(partition.part_of)
            self._divided = partition.count
        if partition.count > self.used:
            self.used = partition.count
            self.why = "requested" if self.wanted is not None else f"{partition.lookahead} cycles between barriers"
