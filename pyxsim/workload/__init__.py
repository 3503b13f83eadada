"""L6: workloads, that is, what the NPUs compute and when they communicate."""

from __future__ import annotations

from pyxsim.workload.astra1 import Layer, TextWorkload, read_text_workload
from pyxsim.workload.communication import Communication
from pyxsim.workload.job import IssuedCollective, Job
from pyxsim.workload.micro import START, Micro

__all__ = ["START", "Communication", "IssuedCollective", "Job", "Layer", "Micro", "TextWorkload", "read_text_workload"]
