"""Traces of NVIDIA Nsight Systems, as `nsys export --type sqlite` writes them (docs/workloads_nsight.md)."""

from pyxsim.workload.nsight.database import is_nsight as is_nsight
from pyxsim.workload.nsight.replay import graph_of as graph_of
