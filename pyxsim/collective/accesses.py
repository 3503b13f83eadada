"""The accesses to memory by which messages move: numbers of kinds, as in the arrays of schedules.

A *store* is issued by the sender, a *load* by the receiver; an *atomic* is a store that the receiver's memory adds. A
*sum* is a load of the sum of all members from the switch, a *multicast* a store to all members; an *operand* is sent
to the switch, which adds up the operands of all members and sends each of them the sum. Only backends with
`Capabilities.transactions` tell them apart (docs/memory_traffic.md).
"""

from __future__ import annotations

STORE, LOAD, ATOMIC, SUM, MULTICAST, OPERAND = range(6)
BY = {"store": STORE, "load": LOAD, "atomic": ATOMIC}
