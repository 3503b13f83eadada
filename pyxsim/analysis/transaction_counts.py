"""What memory transactions take, in closed form: packets of each kind, their flits, and Little's law
(docs/memory_traffic.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.collective.accesses import ATOMIC, LOAD, MULTICAST, OPERAND, STORE, SUM
from pyxsim.network.link_paths import hops_of_routes
from pyxsim.routing.relation import Relation
from pyxsim.settings.transactions import Transactions

COUNTED = (
    "transactions",
    "data_bytes",
    "carried_bytes",
    "request_bytes",
    "response_bytes",
    "request_flits",
    "response_flits",
)


@dataclass(frozen=True)
class Packets:
    """The packets of one transaction: (number, data bytes in each), of requests and of responses."""

    requests: tuple[tuple[int, int], ...]
    responses: tuple[tuple[int, int], ...]

    def counts(self, nbytes: int, rules: Transactions, flit: int) -> dict[str, int]:
        """Return the counts of the transaction, by the names in COUNTED."""
        found = {"transactions": 1, "data_bytes": nbytes, "carried_bytes": 0}
        for name, packets in (("request", self.requests), ("response", self.responses)):
            header = rules.bytes_of(name)
            found[f"{name}_bytes"] = sum(count * (header + data) for count, data in packets)
            found[f"{name}_flits"] = sum(count * ceil(Fraction(header + data, flit)) for count, data in packets)
            found["carried_bytes"] += sum(count * data for count, data in packets)
        return found


def packets_of(kind: int, nbytes: int, members: int, rules: Transactions) -> Packets:
    """Return the packets of a transaction of `nbytes` bytes; `members`: NPUs that an access of the switch concerns."""
    if kind == LOAD:
        return Packets(((1, 0),), ((1, nbytes),))
    if kind == SUM:  # a request to the switch, a read of each member, their data, the sum
        return Packets(((1 + members, 0),), ((members + 1, nbytes),))
    if kind == MULTICAST:  # data to the switch, a copy to each member, their acknowledgments, one of the switch
        return Packets(((1 + members, nbytes),), ((members + 1, 0),) if rules.store_acks else ())
    if kind == OPERAND:
        return Packets(((1, nbytes),), ((1, nbytes),))
    returned = nbytes if kind == ATOMIC and rules.atomics_return else 0
    answered = rules.store_acks or returned
    return Packets(((1, nbytes),), ((1, returned),) if answered else ())


def expected_counts(accesses: IntArray, rules: Transactions, flit: int) -> dict[int, dict[str, int]]:
    """Return the counts of each kind that occurs, as the dataset `transactions` has them after a complete run.

    Parameters
    ----------
    accesses
        int64[K, 7], of `SystemLayer.accesses`.
    flit
        Bytes of a flit.
    """
    found: dict[int, dict[str, int]] = {}
    alike, which = np.unique(accesses[:, [0, 3, 4]], axis=0, return_inverse=True)
    counts = np.bincount(which.ravel(), accesses[:, 6], minlength=len(alike)).astype(np.int64)
    for (kind, size, members), count in zip(alike.tolist(), counts.tolist(), strict=True):
        total = found.setdefault(kind, dict.fromkeys(COUNTED, 0))
        for name, value in _counts(kind, size, members, rules, flit).items():
            total[name] += value * count
    return dict(sorted(found.items()))


def _counts(kind: int, size: int, members: int, rules: Transactions, flit: int) -> dict[str, int]:
    """The counts of one access."""
    part = rules.bytes_of("size") if kind < SUM else rules.size_at_switch
    whole, rest = divmod(size, part)
    total = dict.fromkeys(COUNTED, 0)
    for nbytes, times in ((part, whole), (rest, int(rest > 0))):
        for name, value in packets_of(kind, nbytes, members, rules).counts(nbytes, rules, flit).items():
            total[name] += value * times
    return total


def expected_visits(accesses: IntArray, rules: Transactions, flit: int, relation: Relation) -> int:
    """Return flits times routers passed of a complete run; an estimate for adaptive routes. Parameters as above.

    A packet to or from the switch passes two routers: that of the NPU, and the switch.
    """
    alike, which = np.unique(accesses[:, [0, 3, 4]], axis=0, return_inverse=True)
    found = [_counts(kind, size, members, rules, flit) for kind, size, members in alike.tolist()]
    flits = np.array([each["request_flits"] + each["response_flits"] for each in found], np.int64)[which.ravel()]
    kind, initiator, target, _, _, plane, count = accesses.T
    pairs, routers = kind < SUM, np.full(len(accesses), 2, np.int64)
    src, dst = np.where(kind == LOAD, (target, initiator), (initiator, target))
    routers[pairs] = hops_of_routes(relation, src[pairs], dst[pairs], plane[pairs]) + 1
    return int((count * flits * routers).sum())


def held_cycles(kind: int, rules: Transactions, times: Mapping[str, int]) -> tuple[int, int]:
    """Return the fewest cycles from a request until it frees its place, and how many of them the data do not need.

    `times`: cycles, "way" of a packet between two NPUs, half of it to or from the switch; "memory" and "switch" as in
    the settings.
    """
    way, memory, switch = times["way"], times["memory"], times["switch"]
    returns = kind == ATOMIC and rules.atomics_return
    if kind in (STORE, ATOMIC):
        return (2 * way + memory, way + memory) if rules.store_acks or returns else (way, 0)
    if kind == MULTICAST:
        there, back = way + switch, memory + way + switch
        return (there + back, back) if rules.store_acks else (there, 0)
    if kind == OPERAND:
        return way + switch, 0
    return 2 * way + memory + (2 * switch if kind == SUM else 0), 0


def least_cycles(accesses: IntArray, rules: Transactions, times: Mapping[str, int]) -> int:
    """Return the cycles below which no run ends, by Little's law: an NPU has `outstanding` places, and a queue of
    accesses its own, each for the round trip of a request. Parameters as above."""
    of_queue = 1 if rules.ordering == "strict" else rules.outstanding_per_destination
    held: dict[tuple[int, ...], tuple[int, int]] = {}  # cycles of all places, and those after the last data
    for kind, initiator, target, size, _, _, count in accesses.tolist():
        part = rules.bytes_of("size") if kind < SUM else rules.size_at_switch
        each, after = held_cycles(kind, rules, times)
        keys: tuple[tuple[int, ...], ...] = (initiator,), (initiator, STORE if kind == ATOMIC else kind, target)
        for key in keys:
            cycles, most = held.get(key, (0, 0))
            held[key] = cycles + count * -(-size // part) * each, max(most, after)
    least = 0
    for key, (cycles, after) in held.items():
        places = rules.outstanding if len(key) == 1 else of_queue
        if places is not None:
            least = max(least, -(-cycles // places) - after)
    return least
