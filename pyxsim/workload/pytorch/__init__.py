"""Traces of the PyTorch profiler (Kineto), one file per rank (docs/collect.md)."""

from pyxsim.workload.pytorch.step import graph_of as graph_of
from pyxsim.workload.pytorch.step import rank_graph_of as rank_graph_of
