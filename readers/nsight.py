"""Traces of NVIDIA Nsight Systems: exports of `nsys export --type sqlite` (docs/workloads_nsight.md)."""

from __future__ import annotations

from pyxsim.registry import readers
from pyxsim.workload.graph import TaskGraph
from pyxsim.workload.nsight import graph_of, is_nsight
from pyxsim.workload.readers import WorkloadContext


@readers.register(
    "nsight", endings=(".sqlite",), recognizes=is_nsight, uses=("workload.comm_scale", "workload.compute_scale")
)
def read(name: str, context: WorkloadContext) -> TaskGraph:
    """SQLite exports of Nsight Systems: kernels with their times, collectives of NCCL with their bytes."""
    workload = context.workload
    return graph_of(name, context.npus, context.clock, workload.compute_scale, workload.comm_scale)
