"""The proofs of schedules and plans."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace

from pyxsim.collective.communicator import Communicator
from pyxsim.collective.plan import Plan, whole_bytes
from pyxsim.collective.plan_checker import prove_plan
from pyxsim.runner.prepared import Prepared, PreparedTraffic
from pyxsim.study.check.registered import Finding, checks
from pyxsim.system import SystemLayer


@checks.register("schedules", order=60)
def schedules(prepared: Prepared | PreparedTraffic) -> Finding:
    """List the schedules that `prepare` has proved."""
    names = [] if prepared.mode == "open" else schedule_names(prepared.system)
    return Finding([("schedule", f"proved: {name}") for name in names], {"schedules": names})


@checks.register("plans", order=70)
def plans(prepared: Prepared | PreparedTraffic) -> Finding:
    """Prove that the phases of every plan make up its collective. Raises ScheduleError."""
    proved = [] if prepared.mode == "open" else prove_compositions(prepared.system)
    rows = []
    for plan in proved:
        shape = "x".join(map(str, plan.shape))
        rows.append(("plan", f"proved: {plan.kind} = {', '.join(plan.phases)} (on {shape} with {plan.size} bytes)"))
    return Finding(rows, {"plans": [asdict(plan) for plan in proved]})


MAX_NPUS = 256  # up to this size a plan is proved on the network's own shape
MAX_SIDE = 3


@dataclass(frozen=True)
class Composition:
    """A plan whose phases were proved together, with a buffer of `size` bytes on NPUs of `shape`."""

    kind: str
    phases: tuple[str, ...]
    shape: tuple[int, ...]
    size: int


def schedule_names(system: SystemLayer) -> list[str]:
    """Return the schedules of a run, which `prepare` has proved: "ring: all-reduce on 4 ranks"."""
    names = []
    for phase in system.schedules():
        proved = phase.schedule().unproved
        names.append(f"{phase.algorithm}: {phase.kind} on {phase.npus} ranks{' (to end)' if proved else ''}")
    return list(dict.fromkeys(names))


def prove_compositions(system: SystemLayer) -> list[Composition]:
    """Prove that the phases of every plan, in sequence, make up the collective. Raises ScheduleError.

    The proof uses a small buffer that does not divide evenly, as composition does not depend on the size, and for a
    large network a smaller one with as many dimensions.
    """
    proved: dict[object, Composition] = {}
    for collective in system.collectives:
        for chunk in collective.chunks:
            plan = chunk.plan
            phases = tuple((phase.kind, phase.algorithm, phase.dims) for phase in plan.phases)
            key = (plan.kind, phases, plan.shape, collective.communicator.dims)
            if phases and key not in proved and not any(phase.schedule().unproved for phase in plan.phases):
                small = _small(plan)
                prove_plan(small)
                names = tuple(f"{kind} {_along(dims, collective.communicator)}" for kind, _, dims in phases)
                proved[key] = Composition(plan.kind, names, small.shape, small.size)
    return list(proved.values())


def _along(dims: tuple[int, ...], group: Communicator) -> str:
    """The dimensions that a phase uses; "over the group" for a group that is no grid."""
    return f"along {'x'.join(str(group.dims[dim]) for dim in dims)}" if group.is_grid else "over the group"


def _small(plan: Plan) -> Plan:
    """The same phases on few NPUs and few bytes."""
    shape = plan.shape if plan.npus <= MAX_NPUS else tuple(min(n, MAX_SIDE) for n in plan.shape)
    npus, root = math.prod(shape), _moved(plan.root, plan.shape, shape)
    size = {"all-gather": 3, "gather": 3, "barrier": 1}.get(plan.kind, npus + npus // 2 + 1)
    matrix = None if plan.matrix is None else plan.matrix.small(npus)
    phases = []
    for phase in plan.phases:
        copies = math.prod(shape[d] for dims in phase.cuts for d in dims) if plan.kind == "all-to-all" else 1
        whole = whole_bytes(plan.kind, size, npus)
        phases.append(replace(phase, shape=shape, whole=whole, copies=copies, root=root, matrix=matrix))
    return replace(plan, size=size, shape=shape, phases=tuple(phases), root=root, matrix=matrix)


def _moved(npu: int, shape: tuple[int, ...], small: tuple[int, ...]) -> int:
    """The NPU of a smaller grid with the same coordinates, clipped to its shape."""
    moved, weight = 0, 1
    for n, m in zip(shape, small, strict=True):
        npu, at = divmod(npu, n)
        moved += min(at, m - 1) * weight
        weight *= m
    return moved
