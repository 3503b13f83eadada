"""In-switch: the switch adds the data up as they pass, and hands everybody the sum (SHARP, NVLink SHARP).

One message from every rank, and one to it: S bytes each way on the link of each rank to the switch, whatever N, and
one step. Only for all-reduce and barrier, where everybody sends and gets the same; docs/collectives.md says what is
modelled.
"""

from __future__ import annotations

from pyxsim.collective.schedule import Schedule
from pyxsim.registry import collectives


@collectives.register("in-switch", kinds=("all-reduce", "barrier"))
def in_switch(kind: str, n: int) -> Schedule:
    s = Schedule(kind, n, blocks=1)
    s.reduce_in_network(range(n), 0)
    return s
