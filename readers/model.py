"""A model of the shelf: `[workload] model`, trained (docs/training.md) or serving requests (docs/serving.md)."""

from __future__ import annotations

from pyxsim.errors import InputError, raise_all
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
    if workload.serving is not None:
        return _serving(context)
    npu, memory = experiment.system.npu, experiment.system.remote_memory
    plan = training_plan(workload, npu, context.shape, context.clock, context.folder, memory)
    assert npu is not None  # training_plan requires it
    step = training_step(plan, npu)
    step.check_memory(allowed=experiment.run.allow_oom)  # before the graph, which may be large
    job = GraphJob(repeated(program(plan), workload.passes), key="workload.model")
    job.training = step
    return job


def _serving(context: WorkloadContext) -> Job:
    """Requests that the model answers."""
    from pyxsim.workload.serving import serving_job

    system = context.experiment.system
    faults = []
    for key, value in (("compat", system.compat), ("boost", system.boost or None), ("endpoint", system.endpoint)):
        if value is not None:
            faults.append(
                InputError("is not supported by serving", key=f"system.{key}", allowed="without this setting")
            )
    raise_all(faults)
    return serving_job(context.workload, system.npu, context.shape, context.clock, context.folder)
