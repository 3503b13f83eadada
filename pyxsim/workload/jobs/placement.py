"""The placement of several jobs on NPUs (docs/jobs.md)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.errors import InputError, raise_all
from pyxsim.settings.job import JobTable
from pyxsim.topology import Topology

Choice = Callable[[IntArray, int], IntArray]
"""Selects a number of NPUs from the free ones, which ascend; returns them in the order of the ranks."""


def placed(jobs: Sequence[JobTable], topology: Topology, seed: int) -> list[IntArray]:
    """Return the NPU of each rank of each job. Raises InputError for NPUs that do not exist or are not free.

    `seed`: for jobs that are placed at random without their own seed.
    """
    owner = np.full(topology.npus, -1, np.int64)
    homes: dict[int, IntArray] = {}
    faults: list[InputError] = []
    for number, job in enumerate(jobs):
        if not isinstance(job.placement, str):
            homes[number] = np.array(job.placement, np.int64)
            faults += _claim(owner, jobs, number, job.placement, "placement")
    raise_all(faults)
    for number, job in enumerate(jobs):
        if number in homes:
            continue
        free = np.flatnonzero(owner < 0)
        if job.size > len(free):
            problem = f"job '{job.name}' needs {job.size} NPUs, but {_free(len(free), topology.npus)}"
            allowed = [f"at most {len(free)}"] if len(free) else []
            allowed += [] if len(free) == topology.npus else ["smaller jobs before"]
            raise InputError(problem, key=f"job[{number}].npus", allowed=", or ".join(allowed))
        homes[number] = _choice(job, topology, seed)(free, job.size)
        owner[homes[number]] = number
    return [homes[number] for number in range(len(jobs))]


def spare_npus(jobs: Sequence[JobTable], homes: Sequence[IntArray], topology: Topology) -> list[list[int]]:
    """Return the spare NPUs of each job, ascending: first those of lists, then free ones in the order of the jobs.

    Raises InputError for NPUs that do not exist or are not free. `homes`: the NPUs of the jobs.
    """
    owner = np.full(topology.npus, -1, np.int64)
    for number, npus in enumerate(homes):
        owner[npus] = number
    spares: dict[int, list[int]] = {}
    faults: list[InputError] = []
    for number, job in enumerate(jobs):
        if job.restart is not None and not isinstance(job.restart.spares, int):
            spares[number] = sorted(job.restart.spares)
            faults += _claim(owner, jobs, number, job.restart.spares, "restart.spares")
    raise_all(faults)
    for number, job in enumerate(jobs):
        if number in spares:
            continue
        count = 0 if job.restart is None else job.restart.spares
        free = np.flatnonzero(owner < 0)
        if count > len(free):
            some = f"{count} spare NPU{'s' if count > 1 else ''}"
            problem = f"job '{job.name}' needs {some}, but {_free(len(free), topology.npus)}"
            key = f"job[{number}].restart.spares"
            raise InputError(problem, key=key, allowed=f"at most {len(free)}, or fewer NPUs in jobs")
        spares[number] = free[:count].tolist()
        owner[spares[number]] = number
    return [spares[number] for number in range(len(jobs))]


def _free(count: int, npus: int) -> str:
    """How many of the NPUs of a network no job has."""
    if count == npus:
        return f"the network has {npus}"
    return f"only {count} of {npus} {'is' if count == 1 else 'are'} free" if count else f"none of {npus} is free"


def _claim(owner: IntArray, jobs: Sequence[JobTable], number: int, npus: Sequence[int], name: str) -> list[InputError]:
    """Assign the NPUs of a list to a job; return an error for each that is not free. `name`: key of the list."""
    faults = []
    for index, npu in enumerate(npus):
        key = f"job[{number}].{name}[{index}]"
        if npu >= len(owner):
            faults.append(InputError(f"there is no NPU {npu}", key=key, allowed=f"NPUs 0 to {len(owner) - 1}"))
        elif owner[npu] >= 0:
            problem = f"NPU {npu} already belongs to job '{jobs[owner[npu]].name}'"
            faults.append(InputError(problem, key=key, allowed="each NPU in one job"))
        else:
            owner[npu] = number
    return faults


def _choice(job: JobTable, topology: Topology, seed: int) -> Choice:
    if job.placement == "scattered":
        return _scattered
    if job.placement == "random":
        drawn = np.random.default_rng(seed if job.seed is None else job.seed)
        return lambda free, count: np.sort(drawn.permutation(free)[:count])
    if job.placement == "by-rack":
        return lambda free, count: _by_rack(free, count, racks(topology))
    return lambda free, count: free[:count]


def _scattered(free: IntArray, count: int) -> IntArray:
    chosen: IntArray = free[np.arange(count) * len(free) // count]
    return chosen


def _by_rack(free: IntArray, count: int, rack: IntArray) -> IntArray:
    """Take the NPUs of free racks, then those of the racks with most free NPUs, each in ascending order."""
    sizes = np.bincount(rack)
    available = np.bincount(rack[free], minlength=len(sizes))
    rank = np.where(available == sizes, -1, sizes.max() - available)
    order = np.lexsort((free, rack[free], rank[rack[free]]))
    chosen: IntArray = free[order[:count]]
    return chosen


def racks(topology: Topology) -> IntArray:
    """Return the rack of each NPU, int64[npus].

    A rack is the NPUs with the same coordinate in the last dimension. In a network of one dimension, it is the NPUs
    whose router, or the first switch that it has a link to, is the same; all NPUs, if there is no switch.
    """
    last = next((dim for dim in reversed(range(1, len(topology.shape))) if topology.shape[dim] > 1), 0)
    if last:
        return topology.coords[:, last].astype(np.int64)
    home = topology.home.astype(np.int64)
    is_switch = np.ones(topology.routers, bool)
    is_switch[home] = False
    first = np.arange(topology.routers)
    if not topology.indirect and is_switch.any():
        leads = is_switch[topology.link_dst] & ~is_switch[topology.link_src]
        first[topology.link_src[leads][::-1]] = topology.link_dst[leads][::-1]  # the first of several links counts
    keys = first[home]
    if len(np.unique(keys)) == topology.npus:  # no two NPUs share a router
        return np.zeros(topology.npus, np.int64)
    return np.unique(keys, return_inverse=True)[1].astype(np.int64)
