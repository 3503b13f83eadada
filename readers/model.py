"""A model of the shelf, trained on all NPUs: `[workload] model` (docs/training.md)."""

from __future__ import annotations

from pyxsim.registry import readers
from pyxsim.workload.graph_job import GraphJob
from pyxsim.workload.job import Job
from pyxsim.workload.parallel import training_graph
from pyxsim.workload.readers import WorkloadContext

USES = ("workload.comm_scale", "workload.compute_scale", "system.npu", "system.remote_memory")


@readers.register("model", key="model", uses=USES)
def read(name: str, context: WorkloadContext) -> Job:
    """Training steps of a model, from its layers and a parallelism."""
    system = context.experiment.system
    graph = training_graph(
        context.workload, system.npu, context.topology.shape, context.clock, context.folder, system.remote_memory
    )
    return GraphJob(graph, key="workload.model")
