"""Hints: what an experiment with packets wastes, and which setting to change."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from pyxsim.arrays import IntArray, unique_rows
from pyxsim.network.link_paths import link_rates_of, routes
from pyxsim.network.protocol import Backend
from pyxsim.settings import Experiment
from pyxsim.units import format_bandwidth, percent, rounded
from pyxsim.workload import Job

PADDING = 0.1  # share of the flits' bytes from which padding is worth a hint
MOST_PAIRS = 100_000  # pairs of NPUs whose routes are followed


def hints(experiment: Experiment, network: Backend, job: Job, traffic: IntArray) -> Iterator[str]:
    """Yield a line for each kind of waste.

    Parameters
    ----------
    traffic
        int64[rows, 5]: source, destination, plane, bytes and count of the network messages.
    """
    if not network.capabilities.transactions:  # their headers are no waste
        yield from _padding(experiment.network, network, traffic)
    yield from _narrow_lanes(experiment.network, network, traffic)
    everybody = {
        npu for collective in job.collectives for group in collective.per_group for npu in group.communicator.members
    }
    # Messages of collectives that name a plane have one route.
    fixed = network.topology.relation.deterministic or (traffic[:, 2] >= 0).all()
    if len(everybody) == network.npus and fixed:
        yield from _idle(experiment, network, traffic)


def _padding(settings: Any, network: Backend, traffic: IntArray) -> Iterator[str]:
    """Flits that are partly empty, because of headers, full-size packets or short messages."""
    sizes, which = np.unique(traffic[:, 3], return_inverse=True)
    counts = np.bincount(which, traffic[:, 4], minlength=len(sizes))
    packets, full, last = np.array([network.cut(size) for size in sizes.tolist()], np.int64).reshape(-1, 3).T
    carried = float(counts @ ((packets - 1) * full + last)) * int(settings.flit)
    if not carried:
        return
    share = 1 - float(counts @ sizes) / carried
    if share <= PADDING:
        return
    headers = float(counts @ packets) * int(settings.header) / carried
    if settings.pad_packets:
        change = "network.pad_packets = false or a smaller network.packet wastes less"
    elif headers > share / 4:
        change = "a larger network.packet or a smaller network.header wastes less"
    else:
        common = rounded(int(sizes[int(np.argmax(counts))]), "B", 1024)
        change = f"the most common message has {common}; a smaller network.flit or fewer system.chunks waste less"
    flit = rounded(int(settings.flit), "B")
    yield f"network.flit: {percent(share)} of the bytes in flits of {flit} are overhead; {change}"


def _narrow_lanes(settings: Any, network: Backend, traffic: IntArray) -> Iterator[str]:
    """Lanes that are narrower than a link of their router: a message uses one lane."""
    if settings.lane_bandwidth is None:
        return
    topology = network.topology
    senders = traffic[traffic[:, 0] != traffic[:, 1], 0]
    fed = np.flatnonzero(np.isin(topology.link_src, topology.relation.starts[senders])).tolist()
    rates = link_rates_of(topology, settings)[0]
    link = max((rates[number] for number in fed), default=Fraction(0)) * settings.clock
    if settings.lane_bandwidth < link:
        yield (
            f"network.lane_bandwidth: a message enters by a lane of {format_bandwidth(settings.lane_bandwidth)} and "
            f"keeps a link of {format_bandwidth(link)} at most {percent(float(settings.lane_bandwidth / link))} busy; "
            "without lane_bandwidth a lane is as wide as its links"
        )


def _idle(experiment: Experiment, network: Backend, traffic: IntArray) -> Iterator[str]:
    """Dimensions, or one direction of a dimension, whose links carry nothing."""
    topology = network.topology
    pairs = unique_rows(traffic[traffic[:, 0] != traffic[:, 1], :3])[0]
    if not len(pairs) or len(pairs) > MOST_PAIRS:
        return
    used = np.zeros(topology.links, bool)
    paths = routes(topology.relation, *pairs.T)
    used[paths[paths >= 0]] = True
    direction = np.array([name.split(":")[0] for name in topology.link_name])
    idle: list[str] = []
    for dim in np.unique(topology.link_dim).tolist():
        of_dim = topology.link_dim == dim
        label = topology.link_kinds[dim]
        name = f"dimension {dim}" if label == f"d{dim}" else f"the {label} links"
        if not used[of_dim].any():
            yield f"collective: no message uses the {int(of_dim.sum())} links of {name}; all dimensions would"
            continue
        ways = np.unique(direction[of_dim]).tolist()
        if ways != [f"d{dim}+", f"d{dim}-"]:
            continue
        idle += [way for way in ways if not used[of_dim & (direction == way)].any()]
    if idle:
        change = "system.chunks = 2 or more" if experiment.system.chunks == 1 else "another algorithm"
        yield f"links {', '.join(idle)} are idle: {change} may use both directions"
