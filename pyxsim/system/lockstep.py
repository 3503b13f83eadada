"""Lockstep: the groups of NPU 0 stand for all others, as all NPUs do the same in the same cycles.

Assume that all NPUs take part in all collectives, and that in each phase all groups send the same messages between the
same ranks, in networks that are congruent and share no link (`Backend.expect_lines`). If all NPUs have their data for a
phase in the same cycle, then all groups have the same timeline. If all ranks of the simulated group end in the same
cycle, then all NPUs do, and have their data for the next phase in the same cycle. So, by induction, the groups of NPU 0
are the only ones to simulate. Both conditions are checked: the first before the run, the second whenever a group ends.
If one does not hold, LockstepLost is raised, and the run starts over with all NPUs.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyxsim.collective.communicator import Communicator
from pyxsim.collective.plan import Phase
from pyxsim.errors import LockstepLost
from pyxsim.system.options import Options


def check_options(options: Options, npus: int) -> None:
    """Raise LockstepLost if NPUs differ, or share something between their groups."""
    if options.boost or options.carry or options.compat is not None:
        raise LockstepLost("system.boost, system.compat or output.carry is set")
    if options.shared_bus is not None or options.endpoint is not None:
        raise LockstepLost("the messages of an NPU share its endpoint (system.shared_bus, system.endpoint)")
    if len(set(options.slow(npus))) > 1 or len({options.skew(npu) for npu in range(npus)}) > 1:
        raise LockstepLost("some NPUs are slower or begin later than others")


def check_members(group: Communicator, npus: int) -> None:
    """Raise LockstepLost unless all NPUs are members, as a grid."""
    if not group.is_grid or group.members != tuple(range(npus)):
        raise LockstepLost("a collective does not include all NPUs")


def check_phase(phase: Phase) -> None:
    """Raise LockstepLost unless every NPU is in a group of the phase, and all groups have pieces of one size."""
    if phase.groups.size != len(phase.pieces):
        raise LockstepLost("some NPUs take no part in a phase")
    if phase.matrix is not None:
        raise LockstepLost("NPUs send different amounts")
    if (phase.pieces != phase.pieces[0]).any():
        raise LockstepLost("the groups of a phase have pieces of different sizes")


def check_together(ends: Iterable[int]) -> None:
    """Raise LockstepLost unless all ranks of a group have ended in the same cycle."""
    if len(set(ends)) > 1:
        raise LockstepLost("the NPUs of a group do not end a phase together")
