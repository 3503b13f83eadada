"""In-switch: the switch adds up the data as they pass and sends every rank the sum (SHARP, NVLink SHARP).

One message from every rank, and one to it: S bytes in each direction on the link of each rank to the switch, for any N,
in one step. Only for all-reduce and barrier, where all ranks send and receive the same; docs/collectives.md describes
the model.
"""

from __future__ import annotations

from pyxsim.collective.schedule import Schedule
from pyxsim.registry import collectives


@collectives.register("in-switch", kinds=("all-reduce", "barrier"))
def in_switch(kind: str, n: int) -> Schedule:
    s = Schedule(kind, n, blocks=1)
    s.reduce_in_network(range(n), 0)
    return s
