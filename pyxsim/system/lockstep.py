"""Lockstep: the groups of NPU 0 stand for all others, as all NPUs do the same in the same cycles.

Assume that all NPUs take part in all collectives, and that in each phase all groups send the same messages between the
same ranks, in networks that are congruent and share no link (`Backend.expect_lines`). If all NPUs have their data for a
phase in the same cycle, then all groups have the same timeline. If all ranks of the simulated group end in the same
cycle, then all NPUs do, and have their data for the next phase in the same cycle. So, by induction, the groups of NPU 0
are the only ones to simulate. Both conditions are checked: the first before the run, the second whenever a group ends.
If one does not hold, LockstepLost is raised, and the run starts over with all NPUs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyxsim.errors import LockstepLost
from pyxsim.system.options import Options

if TYPE_CHECKING:
    from pyxsim.collective.plan import Phase
    from pyxsim.system.work import ChunkTask, Collective


def check_options(options: Options, npus: int) -> None:
    """Raise LockstepLost if NPUs differ, or share something between their groups."""
    shared = options.boost or options.carry or options.shared_bus is not None or options.endpoint is not None
    if shared or options.compat is not None or len(set(options.slow(npus))) > 1:
        raise LockstepLost
    if len({options.skew(npu) for npu in range(npus)}) > 1:
        raise LockstepLost


def check_collective(collective: Collective, npus: int) -> None:
    """Raise LockstepLost unless all NPUs begin it together, as a grid."""
    group = collective.communicator
    if collective.is_open or collective.joined is not None or not group.is_grid or len(group) != npus:
        raise LockstepLost
    if group.members != tuple(range(npus)):
        raise LockstepLost


def check_phase(phase: Phase) -> None:
    """Raise LockstepLost unless every NPU is in a group of the phase, and all groups have pieces of one size."""
    if phase.groups.size != len(phase.pieces) or (phase.pieces != phase.pieces[0]).any():
        raise LockstepLost


def check_together(task: ChunkTask) -> None:
    """Raise LockstepLost unless all ranks of a group have ended in the same cycle."""
    ends = task.stage.end
    if len({ends[position] for position in task.positions}) > 1:
        raise LockstepLost
