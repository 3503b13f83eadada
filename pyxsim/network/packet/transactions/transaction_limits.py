"""The settings of transactions as the engine takes them: sizes in bytes, times in cycles, rates in bytes per cycle."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from pyxsim.core.engine import LONGEST_DELAY
from pyxsim.errors import InputError
from pyxsim.settings import Network
from pyxsim.settings.transactions import Transactions
from pyxsim.units import to_cycles

FINEST = 2**30  # largest denominator of a rate, and largest rate


def sizes(npus: int, network: Network, asked: Transactions) -> tuple[int, int, int, int, int, int]:
    """Return the number of NPUs, and bytes: flit, data of a transaction, of one at the switch, and both headers."""
    headers = asked.bytes_of("request"), asked.bytes_of("response")
    return npus, network.flit, asked.bytes_of("size"), asked.size_at_switch, *headers


def limits(network: Network, asked: Transactions, *, reduces: bool) -> dict[str, Any]:
    """Return the times, rates and limits, and the rules. Raises InputError for times that are too long."""
    strict, largest = asked.ordering == "strict", max(asked.bytes_of("size"), asked.size_at_switch)

    def cycles(duration: Any, key: str) -> int:
        count = max(1, to_cycles(duration, network.clock)[0])
        if count > LONGEST_DELAY:
            key, allowed = f"network.transactions.{key}", f"at most {LONGEST_DELAY} cycles of the clock"
            raise InputError(f"a delay of {count} cycles", key=key, allowed=allowed)
        return count

    def rate(bandwidth: Fraction | None, key: str) -> Fraction | None:
        if bandwidth is None:
            return None
        exact = Fraction(bandwidth / network.clock)
        if exact * LONGEST_DELAY < largest:
            problem = f"{largest} B take {float(largest / exact):.3g} cycles"
            allowed = f"a rate that takes at most {LONGEST_DELAY} cycles of the clock"
            raise InputError(problem, key=f"network.transactions.{key}", allowed=allowed)
        return min(exact.limit_denominator(FINEST), Fraction(FINEST))

    return {
        "turnaround": cycles(asked.turnaround, "turnaround"),
        "memory_latency": cycles(asked.memory_latency, "memory_latency"),
        "switch_latency": cycles(asked.switch.latency, "switch.latency"),
        "memory_rate": rate(asked.memory_bandwidth, "memory_bandwidth"),
        "adder_rate": rate(asked.switch.rate, "switch.rate"),
        "outstanding": asked.outstanding,
        "per_destination": 1 if strict else asked.outstanding_per_destination or 0,
        "entries": asked.switch.buffers or 0,
        "in_order": asked.ordering == "in-order",
        "acks": asked.store_acks,
        "fetches": asked.atomics_return,
        "units": reduces,
    }
