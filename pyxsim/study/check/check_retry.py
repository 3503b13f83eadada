"""Replay buffers against the round trip of their links (docs/faults.md)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fractions import Fraction
from math import ceil

import numpy as np

from pyxsim.runner.prepared import Prepared, PreparedTraffic
from pyxsim.study.check.registered import Finding, checks
from pyxsim.units import percent, plural


@dataclass(frozen=True)
class ReplayBuffer:
    """The replay buffer of a kind of links, of the link where it limits most.

    Parameters
    ----------
    slots
        Flits that it holds.
    round_trip
        Cycles from the launch of a flit until its answer arrives.
    pace
        Cycles per flit.
    share
        The largest share of the time for which flits that are not sent again can keep the link busy.
    """

    name: str
    slots: int
    round_trip: int
    pace: float
    share: float


@checks.register("retry", order=83)
def retry(prepared: Prepared | PreparedTraffic) -> Finding | None:
    """Compare the replay buffers of every kind of links with the round trip."""
    if prepared.experiment.network.retry is None or not prepared.network.capabilities.packets:
        return None
    found = replay_buffers(prepared)
    rows = []
    for each in found:
        limits = f"{percent(each.share)} busy at most" if each.share < 1 else "no limit"
        text = f"a replay buffer of {plural(each.slots, 'flit')} for a round trip of {plural(each.round_trip, 'cycle')}"
        rows.append(("retry", f"{each.name} links: {text}: {limits}"))
    return Finding(rows, {"retry": [asdict(each) for each in found]})


def replay_buffers(prepared: Prepared | PreparedTraffic) -> list[ReplayBuffer]:
    """Return the replay buffers of each kind of links between routers that has one."""
    links, topology = prepared.network.config.links, prepared.topology
    assert links.replay is not None
    found = []
    for kind, name in enumerate(topology.link_kinds):
        rows = np.flatnonzero(topology.link_dim == kind)
        columns = (links.replay, links.ack, links.s_num, links.s_den, links.delay, links.credit_delay)
        alike = {tuple(values) for values in np.stack([column[rows] for column in columns], axis=1).tolist()}
        of_kind = [_buffer(name, *values) for values in alike if values[0]]
        if of_kind:
            found.append(min(of_kind, key=lambda each: each.share))
    return found


def _buffer(name: str, slots: int, ack: int, num: int, den: int, delay: int, credit_delay: int) -> ReplayBuffer:
    pace = Fraction(num, den)
    trip = ceil(pace) + delay + credit_delay + ack
    return ReplayBuffer(name, slots, trip, float(pace), float(min(Fraction(1), slots * pace / trip)))
