"""Where the tasks of a graph are carried out that do not say themselves how long they take.

Collectives and messages are the business of the system layer. Other tasks have stations: a table, a row for each kind
of them. A station says which tasks it takes, is told when one of them starts, and tells when it ends.
"""

from __future__ import annotations

from collections.abc import Callable

from pyxsim.workload.computing import computing
from pyxsim.workload.graph import TaskGraph
from pyxsim.workload.hands import Hands, Station, Tell
from pyxsim.workload.remote import remote_memory

Maker = Callable[[TaskGraph, Hands, Tell], Station | None]
"""Makes the station of a graph on a system, or None where there is nothing for it to do. Raises InputError."""


STATIONS: tuple[Maker, ...] = (remote_memory, computing)
