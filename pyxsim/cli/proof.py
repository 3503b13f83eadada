"""What is proved of the collectives of an experiment, beyond each schedule on its own."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from pyxsim.collective.plan import Plan
from pyxsim.collective.plan_checker import prove_plan
from pyxsim.system import AstraSystem, System

MAX_NPUS = 256  # up to here the composition of a plan is proved on the network's own shape
MAX_SIDE = 3


@dataclass(frozen=True)
class Composition:
    """A plan whose phases were proved to fit together, with a buffer of `size` bytes on `shape`."""

    kind: str
    phases: tuple[str, ...]
    shape: tuple[int, ...]
    size: int


def schedules(system: System | AstraSystem) -> list[str]:
    """The schedules that a system uses, all of which `prepare` has proved: "ring: all-reduce on 4 ranks"."""
    names = []
    for phase in system.schedules():
        proved = phase.schedule().unproved
        names.append(f"{phase.algorithm}: {phase.kind} on {phase.npus} ranks{' (to end)' if proved else ''}")
    return list(dict.fromkeys(names))


def prove_compositions(system: System | AstraSystem) -> list[Composition]:
    """Prove of every plan that its phases, one after the other, make up the whole collective. Raises ScheduleError.

    With a small buffer that does not divide evenly: how a plan composes does not depend on the size. On a large network
    the same phases are proved on a smaller one of the same number of dimensions.
    """
    found: dict[object, Composition] = {}
    for collective in system.collectives:
        for chunk in collective.chunks:
            plan = chunk.plan
            phases = tuple((phase.kind, phase.algorithm, phase.dims) for phase in plan.phases)
            if phases and (plan.kind, phases) not in found:
                small = _small(plan)
                prove_plan(small)
                names = tuple(f"{kind} along {'x'.join(map(str, dims))}" for kind, _, dims in phases)
                found[plan.kind, phases] = Composition(plan.kind, names, small.shape, small.size)
    return list(found.values())


def _small(plan: Plan) -> Plan:
    """The same phases on few NPUs and few bytes."""
    shape = plan.shape if plan.npus <= MAX_NPUS else tuple(min(n, MAX_SIDE) for n in plan.shape)
    npus = math.prod(shape)
    size = 3 if plan.kind == "all-gather" else npus + npus // 2 + 1
    whole = size * npus if plan.kind == "all-gather" else size
    phases = []
    for phase in plan.phases:
        copies = math.prod(shape[d] for dims in phase.cuts for d in dims) if plan.kind == "all-to-all" else 1
        phases.append(replace(phase, shape=shape, whole=whole, copies=copies))
    return Plan(plan.kind, size, shape, tuple(phases))
