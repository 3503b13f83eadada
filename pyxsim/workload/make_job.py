"""What the NPUs do in an experiment: its jobs, its workload, or its collectives and messages."""

from __future__ import annotations

from pyxsim.workload.communication_job import CommunicationJob
from pyxsim.workload.job import Job
from pyxsim.workload.readers import WorkloadContext, read_workload


def make_job(context: WorkloadContext) -> Job:
    """Return the job of an experiment. Raises InputError if its work cannot be read or does not fit the network."""
    if context.experiment.job:
        from pyxsim.workload.jobs.jobs_job import jobs_job  # most runs have no [[job]]

        return jobs_job(context)
    if context.experiment.workload is None:
        return CommunicationJob(context.experiment, context.topology, context.folder)
    return read_workload(context)
