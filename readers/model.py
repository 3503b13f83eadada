"""A model of the shelf, trained on all NPUs: `[workload] model` (docs/training.md)."""

from __future__ import annotations

from pyxsim.registry import readers
from pyxsim.workload.graph_job import GraphJob
from pyxsim.workload.job import Job
from pyxsim.workload.passes import repeated
from pyxsim.workload.readers import WorkloadContext

USES = ("workload.comm_scale", "workload.compute_scale", "system.npu", "system.remote_memory")


@readers.register("model", key="model", uses=USES)
def read(name: str, context: WorkloadContext) -> Job:
    """Training steps of a model, from its layers and a parallelism."""
    from pyxsim.workload.parallel import program, training_plan, training_step  # only runs that train a model need it

    experiment, workload = context.experiment, context.workload
    npu, memory = experiment.system.npu, experiment.system.remote_memory
    plan = training_plan(workload, npu, context.topology.shape, context.clock, context.folder, memory)
    assert npu is not None  # training_plan requires it
    step = training_step(plan, npu)
    step.check_memory(allowed=experiment.run.allow_oom)  # before the graph, which may be large
    job = GraphJob(repeated(program(plan), workload.passes), key="workload.model")
    job.training = step
    return job
