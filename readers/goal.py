"""GOAL schedules of LogGOPSim and ATLAHS, text or binary (docs/workloads_goal.md)."""

from __future__ import annotations

from pyxsim.registry import readers
from pyxsim.workload.goal import ENDINGS, is_goal, read_goal
from pyxsim.workload.goal.tasks import Scales, graph_of
from pyxsim.workload.graph import TaskGraph
from pyxsim.workload.readers import WorkloadContext


@readers.register(
    "goal", endings=ENDINGS[:1], recognizes=is_goal, uses=("workload.comm_scale", "workload.compute_scale")
)
def read(name: str, context: WorkloadContext) -> TaskGraph:
    """GOAL schedules, a task per operation; text (.goal) or binary."""
    workload = context.workload
    scales = Scales(context.clock, workload.compute_scale, workload.comm_scale)
    with read_goal(name) as schedule:
        return graph_of(schedule, name, context.npus, scales)
