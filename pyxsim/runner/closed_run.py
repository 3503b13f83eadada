"""A run of collectives, messages or a workload, which ends when all work is done."""

from __future__ import annotations

from dataclasses import dataclass

from pyxsim.errors import InputError, LockstepLost, PyxsimError, SimulationError, StuckError
from pyxsim.garbage import with_frozen_objects
from pyxsim.library import file_of
from pyxsim.results.result import Result
from pyxsim.runner.prepared import Prepared
from pyxsim.runner.run_result import RunEnd, closed_result


@dataclass(frozen=True, eq=False)
class ClosedRun:
    """Simulate what `prepare` made of collectives, messages or a workload."""

    prepared: Prepared

    @with_frozen_objects
    def run(self) -> None:
        """Simulate until all work is done. Raises SimulationError, and LockstepLost if not all NPUs are simulated."""
        announce_traffic(self.prepared)
        try:
            run_out(self.prepared)
        except SimulationError:
            if self.prepared.every_npu is not None:
                raise LockstepLost("the run fails") from None  # the run of all NPUs says how
            raise

    def end(self, complete: bool, failure: SimulationError | None) -> int:
        """Return the cycle in which the run ended, and finish its network."""
        prepared = self.prepared
        end = prepared.job.end if complete else prepared.network.now
        if isinstance(failure, StuckError):
            end = _last_event(prepared)  # later the network only returns credits
        prepared.network.finish(end)
        return end

    def result(self, end: RunEnd, failure: SimulationError | None) -> Result:
        """Return the Result."""
        prepared = self.prepared
        if end.complete:
            check_bytes(prepared)
        result = closed_result(prepared, end)
        if end.complete and prepared.carrier is not None:
            prepared.carrier.finish()
            groups = [collective.communicator.members for collective in prepared.system.collectives]
            result.carried = len({npu for members in groups for npu in members})
        if failure is not None:
            waits = failure.waits if isinstance(failure, StuckError) else ()
            result.failure = "\n".join([str(failure), *waits])
            if why := result.counts.get("not_skipped"):
                result.counts["not_skipped"] = why.replace(" within the run", " before it failed")
        return result


def run_out(prepared: Prepared) -> None:
    """Simulate until all work is done. Raises StuckError with what waits for what, and other SimulationErrors."""
    job = prepared.job
    try:
        prepared.system.run()
    except StuckError as error:
        lines = job.stuck_report()
        if failed := prepared.network.fault_report():
            what = "nothing moves" if prepared.experiment.traffic is None else "no message arrives"
            after = f"{what} after cycle {max(_last_event(prepared), prepared.network.now)}"
            problem = f"faults keep work from ending, and {after}: {failed[0]}"
            more = [line for line in (*lines, *error.waits) if line not in failed]
            raise StuckError(problem, [*failed[1:], *more]) from None
        raise StuckError(str(error), [*lines, *(line for line in error.waits if line not in lines)]) from None
    if lines := job.stuck_report():
        problem = f"nothing moves after cycle {_last_event(prepared)}, but some work has not ended"
        raise StuckError(f"{problem}: {lines[0]}", lines[1:])


def _last_event(prepared: Prepared) -> int:
    """The last cycle in which anything happened but in the network: NPUs compute ahead to their next message."""
    return max(prepared.system.cycle, prepared.job.end)


def check_bytes(prepared: Prepared) -> None:
    """Raise PyxsimError unless the network delivered the planned bytes exactly."""
    sent = sum(times * int((rows[:, 3] * rows[:, 4]).sum()) for rows, times in prepared.system.traffic_by_copies())
    delivered, planned = prepared.network.bytes_delivered, prepared.system.bytes_planned
    arriving = planned - prepared.system.bytes_abandoned - prepared.network.bytes_lost
    if not (delivered == arriving and planned == sent):
        problem = f"{delivered} bytes were delivered, but {planned} were planned and {sent} sent in messages"
        if file := file_of(type(prepared.network)):
            raise InputError(f"the backend is wrong: {problem}", file=file)
        raise PyxsimError(f"this is a bug of pyxsim: {problem}")


def announce_traffic(prepared: Prepared) -> None:
    """Give the backend all messages of the run, if they are known and use several dimensions at a time."""
    network, system = prepared.network, prepared.system
    if prepared.every_npu is not None:
        return  # announced by lines
    if not (network.wants_traffic and prepared.planned and system.independent_messages):
        return
    if sum(len(collective.chunks) for collective in system.collectives) >= 2:
        network.expect(system.traffic())
