"""Retry at the link ([network.retry]): replay buffers, answers and timeouts of all links (docs/faults.md)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyxsim.errors import InputError
from pyxsim.network.link_params import LinkParams
from pyxsim.settings import Network
from pyxsim.units import plural, to_cycles

MOST_SLOTS = 1 << 26  # of all replay buffers: 2.5 GiB


class RetryArrays(NamedTuple):
    """int32 and int64[links]: slots of the replay buffer (0: no retry), cycles of an answer, timeout."""

    replay: NDArray[np.int32]
    ack: NDArray[np.int32]
    timeout: NDArray[np.int64]


def share_of_bandwidth(network: Network) -> Fraction:
    """Return the share of the bandwidth of a link that is left to flits."""
    return network.retry.share if network.retry is not None else Fraction(1)


def bits_on_the_wire(network: Network) -> int:
    """Return the bits that a flit has on a link, its share of the overhead included."""
    return ceil(8 * network.flit / share_of_bandwidth(network))


def _messages_per_flit(network: Network) -> Fraction:
    """The most messages with credits beside each flit: they have slots of the replay buffer, too."""
    credits = network.credits
    alone = credits is not None and not credits.rides and credits.bytes_of_message(network.flit) > 0
    return Fraction(1, credits.batch) if credits is not None and alone else Fraction(0)


def retry_arrays(network: Network, wires: Sequence[LinkParams | None]) -> RetryArrays | None:
    """Return the settings of the links of the engine; None without retry.

    Parameters
    ----------
    wires
        Parameters of each link; None for a lane inside an NPU, which has no retry.

    Raises
    ------
    InputError
        If another setting excludes retry, or all replay buffers together are too large.
    """
    retry, router = network.retry, network.router
    if retry is None:
        return None
    excluded = {"output_queue": router.output_queue, "queue_limit": router.queue_limit}
    for name, given in excluded.items():
        if given:
            raise InputError("retry replaces output queues", key=f"network.router.{name}", allowed="without it")
    if router.queue_after_st:
        problem = "retry requires routers without internal or output speed-up"
        raise InputError(problem, key="network.retry", allowed="one switch traversal per cycle and output")
    ack = to_cycles(retry.ack_delay, network.clock)[0]
    held = 1 + _messages_per_flit(network)
    rows = np.zeros((3, len(wires)), np.int64)
    memo: dict[LinkParams, tuple[int, int, int]] = {}
    for link, wire in enumerate(wires):
        if wire is None:
            continue
        if wire not in memo:
            trip = ceil(wire.s) + wire.delay + wire.credit_delay + ack
            slots = ceil(trip / wire.s * held) + 1 if retry.buffer == "auto" else retry.buffer
            timeout = 2 * trip if retry.timeout is None else to_cycles(retry.timeout, network.clock)[0]
            if timeout < trip:
                problem = (
                    f"{plural(timeout, 'cycle')} is shorter than the round trip of a link, {plural(trip, 'cycle')}"
                )
                raise InputError(problem, key="network.retry.timeout", allowed="at least the round trip")
            memo[wire] = slots, ack, timeout
        rows[:, link] = memo[wire]
    total = int(rows[0].sum())
    if total > MOST_SLOTS:
        problem = f"the replay buffers have {total} slots together"
        raise InputError(problem, key="network.retry.buffer", allowed=f"at most {MOST_SLOTS}")
    return RetryArrays(rows[0].astype(np.int32), rows[1].astype(np.int32), rows[2])
