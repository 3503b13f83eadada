"""The links and NPUs that [[faults]] select by name, by pattern or at random."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.errors import InputError, closest
from pyxsim.network.fault_times import LINKS, FaultTimes, times_of
from pyxsim.network.name_patterns import matches
from pyxsim.routing.opposite import opposite_links
from pyxsim.settings import Experiment
from pyxsim.settings.failure import Fault
from pyxsim.topology.topology import Topology

MOST_COMPARED = 4096  # names that an unknown one is compared with


def timed_links(
    experiment: Experiment, topology: Topology, fault: Fault, key: str
) -> Iterator[tuple[FaultTimes, IntArray]]:
    """Yield the times of a fault, and the links that it affects at these times.

    With random times, each cable, router or NPU fails by itself.

    Parameters
    ----------
    key
        Key path of the fault, for errors.

    Yields
    ------
    times
        In cycles of the network.
    links
        int64[K]: counted links, ascending.

    Raises
    ------
    InputError
        If no link, router, NPU or group has the name, fewer than `count` do, or an NPU shares all its links.
    """
    devices, links = _devices_and_links(experiment, topology, fault, key)
    if not len(links):
        what = next(name for name in ("link", "router", "npu", "group") if getattr(fault, name) is not None)
        raise InputError("it has no link", key=f"{key}.{what}", allowed="a network with links")
    if fault.mttf is None:
        yield times_of(experiment, fault, key), np.unique(links)
        return
    order = np.argsort(devices, kind="stable")
    numbers, first = np.unique(devices[order], return_index=True)
    for number, some in zip(numbers.tolist(), np.split(links[order], first[1:]), strict=True):
        yield times_of(experiment, fault, key, number, LINKS), np.unique(some)


def _devices_and_links(experiment: Experiment, topology: Topology, fault: Fault, key: str) -> tuple[IntArray, IntArray]:
    """int64[K] twice: a cable (as one of its links), router or NPU, and each of its links."""
    src, dst = _ends(topology)
    back = opposite_links(src, dst)
    if fault.link is not None:
        cables = _named(topology.counted_link_name, fault.link, "link", key)
        if fault.both_directions:
            # A cable is drawn once.
            cables = np.unique(np.where(back[cables] < 0, cables, np.minimum(cables, back[cables])))
        cables = _drawn(cables, fault, key)
        return _with(back, cables, cables, fault)
    if fault.router is not None:
        routers = _drawn(_named(topology.router_name, fault.router, "router", key), fault, key)
        return _touching(src, dst, routers)
    npus = npus_of(experiment, topology, fault, key)
    if topology.hosts:
        return _with(back, npus, topology.links + npus, fault)
    homes = topology.home[npus].astype(np.int64)
    shared = np.bincount(topology.home, minlength=topology.routers)[homes] > np.bincount(homes)[homes]
    if shared.any():
        npu = int(npus[shared.argmax()])
        problem = f"NPU {npu} shares its router with others and has no host link"
        raise InputError(problem, key=f"{key}.{_key_of(fault)}", allowed="a link or router, or network.host_links")
    return _touching(src, dst if fault.both_directions else src, homes)


def npus_of(experiment: Experiment, topology: Topology, fault: Fault, key: str) -> IntArray:
    """Return int64[K]: the NPUs that a fault with `npu` or `group` affects, ascending. Raises InputError."""
    if fault.npu is not None:
        names = [str(npu) for npu in range(topology.npus)]
        return _drawn(_named(names, fault.npu, "npu", key), fault, key)
    groups = experiment.system.groups
    if not groups:
        raise InputError("there are no groups", key=f"{key}.group", allowed="with [[system.groups]]")
    named = _named([group.name for group in groups], fault.group or "", "group", key)
    members = [npu for group in _drawn(named, fault, key).tolist() for npu in groups[group].npus]
    return np.unique(np.array(members, np.int64))


def _key_of(fault: Fault) -> str:
    return "npu" if fault.npu is not None else "group"


def _named(names: Sequence[str], pattern: str, what: str, key: str) -> IntArray:
    numbers = np.flatnonzero(np.fromiter((matches(name, pattern) for name in names), np.bool_, len(names)))
    if not len(numbers):
        called = "NPU" if what == "npu" else what
        known = list(itertools.islice(names, MOST_COMPARED))
        allowed = f"one of {len(names)}, such as {known[0]}" if known else f"a network with a {called}"
        problem = f"no {called} has the name '{pattern}'"
        raise InputError(problem, key=f"{key}.{what}", allowed=allowed + closest(pattern, known))
    return numbers


def _drawn(numbers: IntArray, fault: Fault, key: str) -> IntArray:
    """Draw `count` of them at random; all without `count`."""
    if fault.count is None:
        return numbers
    if fault.count > len(numbers):
        problem = f"only {len(numbers)} match the name"
        raise InputError(problem, key=f"{key}.count", allowed=f"1 to {len(numbers)}")
    chosen = np.random.default_rng(fault.seed).choice(len(numbers), fault.count, replace=False)
    return np.sort(numbers[chosen])


def _with(back: IntArray, devices: IntArray, links: IntArray, fault: Fault) -> tuple[IntArray, IntArray]:
    """A link of each device, and with `both_directions` the one in the opposite direction."""
    if not fault.both_directions:
        return devices, links
    others = back[links]
    there = others >= 0
    return np.concatenate([devices, devices[there]]), np.concatenate([links, others[there]])


def _touching(src: IntArray, dst: IntArray, routers: IntArray) -> tuple[IntArray, IntArray]:
    """Routers, and the links that have them at one of these ends."""
    ends = np.concatenate([src, dst])
    chosen = np.flatnonzero(np.isin(ends, routers))
    return ends[chosen], chosen % len(src)


def _ends(topology: Topology) -> tuple[IntArray, IntArray]:
    """Both ends of all counted links: routers, then NPUs behind them."""
    src, dst = topology.link_src.astype(np.int64), topology.link_dst.astype(np.int64)
    if not topology.hosts:
        return src, dst
    npus, home = topology.routers + np.arange(topology.npus), topology.home.astype(np.int64)
    return np.concatenate([src, npus, home]), np.concatenate([dst, home, npus])
