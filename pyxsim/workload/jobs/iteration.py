"""One iteration of a job, which a failure may end early (docs/jobs.md)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyxsim.workload.graph import TaskGraph
from pyxsim.workload.graph_job import GraphJob
from pyxsim.workload.job import TaskTimes
from pyxsim.workload.system_services import SystemServices


class Revocable(SystemServices):
    """The services of a system layer; what was scheduled and issued over this object can be revoked.

    `lost`: called when a message of it is lost.
    """

    def __init__(self, system: Any, lost: Callable[[], None]) -> None:
        self._system, self._lost = system, lost
        self.shape, self.options, self.endpoint = system.shape, system.options, system.endpoint
        self._actions: list[int] = []
        self._work: list[Any] = []

    @property
    def communicator(self) -> Callable[..., Any]:
        return self._system.communicator  # type: ignore[no-any-return]

    @property
    def cycle(self) -> int:
        return self._system.cycle  # type: ignore[no-any-return]

    def issue(self, *args: Any, **keywords: Any) -> Any:
        return self._keep(self._system.issue(*args, **keywords))

    def enter(self, collective: Any, npu: int) -> None:
        self._system.enter(collective, npu)

    def send(self, *args: Any, **keywords: Any) -> Any:
        return self._keep(self._system.send(*args, **keywords))

    def _keep(self, work: Any) -> Any:
        work.lost = self._lost
        self._work.append(work)
        return work

    def hand_over(self, message: Any) -> None:
        self._system.hand_over(message)

    def at(self, cycle: int, action: Callable[[], None]) -> int:
        self._actions.append(self._system.at(cycle, action))
        return self._actions[-1]

    def revoke(self) -> None:
        """Cancel the pending actions, and abandon the work that has not ended."""
        self._system.cancel(self._actions)
        self._system.abandon(self._work)
        self.forget()

    def forget(self) -> None:
        """Make all actions and work permanent."""
        self._actions, self._work = [], []


class Iteration(GraphJob):
    """Carries out the tasks of a job once.

    Parameters
    ----------
    call_keys
        The key of the algorithms of each collective that sets them.
    tag
        Number of the traffic of the job.
    begin
        Cycle in which each NPU may start.
    ended, lost
        Called in the cycle in which the last task has ended, and in one in which a message is lost.
    """

    def __init__(
        self,
        graph: TaskGraph,
        key: str,
        call_keys: Sequence[str],
        tag: int,
        begin: Sequence[int],
        ended: Callable[[], None],
        lost: Callable[[], None],
    ) -> None:
        super().__init__(graph, key=key)
        self._call_keys, self._number, self._cycles = call_keys, tag, list(begin)
        self._on_end, self._on_loss = ended, lost
        self._finished = False

    def begin_in(self, system: SystemServices) -> None:
        """Begin, on a system layer from which the iteration can be removed."""
        self._services = Revocable(system, self._on_loss)
        self.begin(self._services)

    def stop(self, cycle: int) -> TaskTimes:
        """End the iteration, and all tasks in progress, in a cycle; return the times."""
        self._services.revoke()
        times = self.times()
        for column in (times.ready, times.start, times.end):
            column[column > cycle] = -1  # NPUs are simulated ahead to their next communication
        times.end[(times.start >= 0) & (times.end < 0)] = cycle
        return times

    def finish(self) -> TaskTimes:
        """Return the times of all tasks of an iteration that has ended."""
        self._services.forget()
        return self.times()

    def begin_cycles(self, system: SystemServices) -> list[int]:
        """Return the cycle in which each NPU may start tasks."""
        return self._cycles

    def _algorithm_setting(self, number: int) -> str:
        sets_them = self.graph.calls[number].algorithms is not None
        return self._call_keys[number] if sets_them else super()._algorithm_setting(number)

    def _tag(self, name: str, npu: int) -> int:
        return self._number

    def _start(self) -> None:
        super()._start()
        if not self.left and not self._finished:
            self._finished = True
            self._services.at(int(np.max(self._tasks.end, initial=self._services.cycle)), self._on_end)
