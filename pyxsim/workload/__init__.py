"""L6: workloads, that is, what the NPUs compute and when they communicate."""

from __future__ import annotations

from pyxsim.workload.communication_job import CommunicationJob
from pyxsim.workload.job import IssuedCollective, Job
from pyxsim.workload.micro_job import START, MicroJob
from pyxsim.workload.text_workload import Layer, TextWorkload, read_text_workload

__all__ = [
    "START",
    "CommunicationJob",
    "IssuedCollective",
    "Job",
    "Layer",
    "MicroJob",
    "TextWorkload",
    "read_text_workload",
]
