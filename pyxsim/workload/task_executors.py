"""Where the tasks of a graph are carried out that do not say themselves how long they take.

Collectives and messages are the business of the system layer. Other tasks have stations: a table, a row for each kind
of them. A station says which tasks it takes, is told when one of them starts, and tells when it ends.
"""

from __future__ import annotations

from collections.abc import Callable

from pyxsim.workload.compute_executor import computing
from pyxsim.workload.graph import TaskGraph
from pyxsim.workload.remote_memory import remote_memory
from pyxsim.workload.system_services import EndCallback, SystemServices, TaskExecutor

ExecutorFactory = Callable[[TaskGraph, SystemServices, EndCallback], TaskExecutor | None]
"""Makes the station of a graph on a system, or None where there is nothing for it to do. Raises InputError."""


TASK_EXECUTORS: tuple[ExecutorFactory, ...] = (remote_memory, computing)
