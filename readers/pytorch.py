"""Traces of the PyTorch profiler, one per rank: `PREFIX.*.kineto.json` (docs/collect.md)."""

from __future__ import annotations

from pyxsim.registry import readers
from pyxsim.workload.graph import TaskGraph
from pyxsim.workload.readers import WorkloadContext


@readers.register(
    "pytorch",
    endings=(".kineto.json", ".kineto.json.gz", ".pt.trace.json", ".pt.trace.json.gz"),
    uses=("workload.comm_scale", "workload.compute_scale"),
)
def read(name: str, context: WorkloadContext) -> TaskGraph:
    """Traces of torch.profiler: operators and kernels with their times, collectives with their bytes."""
    from pyxsim.workload.pytorch import graph_of  # only runs that read such traces need it

    workload = context.workload
    return graph_of(name, context.npus, context.clock, workload.compute_scale, workload.comm_scale)
