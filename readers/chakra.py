"""Chakra execution traces, one file per NPU: `PREFIX.*.et`, or `PREFIX` alone (docs/workloads_chakra.md)."""

from __future__ import annotations

from pyxsim.errors import InputError
from pyxsim.rank_files import ENDS, are_traces
from pyxsim.registry import readers
from pyxsim.settings import System
from pyxsim.settings.algorithms import ASTRA_KINDS
from pyxsim.system.options import ASTRA_SIM_1
from pyxsim.workload.job import Job
from pyxsim.workload.passes import repeated
from pyxsim.workload.readers import OPTIONAL, WorkloadContext


@readers.register(
    "chakra", endings=(*ENDS, *(f"{end}.gz" for end in ENDS)), recognizes=are_traces, uses=tuple(OPTIONAL)
)
def read(name: str, context: WorkloadContext) -> Job:
    """Chakra execution traces, a task per node."""
    # Only runs that read traces need what parses them.
    from pyxsim.chakra.groups import read_groups
    from pyxsim.models import roofline
    from pyxsim.workload.node_algorithms import node_algorithms
    from pyxsim.workload.trace_head import seen_dims
    from pyxsim.workload.traces import ASSUMED_DIMS, Rules, read_traces

    workload, system = context.workload, context.experiment.system
    if system.compat == ASTRA_SIM_1:
        problem = "ASTRA-sim 1 reads workload texts; only ASTRA-sim 2 reads Chakra traces"
        raise InputError(problem, key="system.compat", allowed="astra-sim-2, or no compat")
    groups = None
    if workload.groups is not None:
        try:
            groups = read_groups(context.folder / workload.groups, context.npus)
        except InputError as error:
            raise error.named_by("workload.groups") from None
    algorithms = {}
    if workload.algorithms is not None:
        try:
            algorithms = node_algorithms(context.folder / workload.algorithms, context.folder)
        except InputError as error:
            raise error.named_by("workload.algorithms") from None
    dims = seen_dims(name, context.shape)
    rules = Rules(
        context.clock,
        roofline=roofline(system.npu) if system.npu is not None and system.npu.roofline else None,
        groups=groups,
        exact=system.compat is None,
        comm_scale=workload.comm_scale,
        compute_scale=workload.compute_scale,
        replay=workload.replay,
        algorithms=algorithms,
        need_dims=_need_dims(system) if system.compat is not None and len(dims.shape) > ASSUMED_DIMS else frozenset(),
    )
    job = context.graph_job(repeated(read_traces(name, dims.shape, rules), workload.passes))
    job.dims = dims
    return job


def _need_dims(system: System) -> frozenset[str]:
    """The kinds of collectives with an algorithm per dimension, of which ASTRA-sim 2 must know the dimensions."""
    per_dimension = set()
    for kind in ASTRA_KINDS:
        names = system.algorithms(kind) or ()
        names = (names,) if isinstance(names, str) else names
        if not any(name.startswith("one-") or name.endswith(".et") for name in names):
            per_dimension.add(kind)
    return frozenset(per_dimension)
