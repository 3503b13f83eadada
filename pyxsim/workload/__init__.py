"""L6: workloads, that is, what the NPUs compute and when they communicate."""

from __future__ import annotations

from pyxsim.workload.astra1 import Layer, TextWorkload, read_text_workload
from pyxsim.workload.communication import Asked, Communication, Job
from pyxsim.workload.micro import START, Micro

__all__ = ["START", "Asked", "Communication", "Job", "Layer", "Micro", "TextWorkload", "read_text_workload"]
