"""The executors of tasks that neither last a given number of cycles nor are messages or collectives.

A new kind of task needs a row in `TASK_EXECUTORS`.
"""

from __future__ import annotations

from collections.abc import Callable

from pyxsim.workload.compute_executor import compute_executor
from pyxsim.workload.graph import TaskGraph
from pyxsim.workload.remote_memory import remote_memory
from pyxsim.workload.system_services import EndCallback, SystemServices, TaskExecutor

ExecutorFactory = Callable[[TaskGraph, SystemServices, EndCallback], TaskExecutor | None]
"""Makes the executor of a graph on a system layer; None where it has no tasks. Raises InputError."""


TASK_EXECUTORS: tuple[ExecutorFactory, ...] = (remote_memory, compute_executor)
