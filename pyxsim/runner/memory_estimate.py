"""The memory that a run will need, from its settings: known before its network is built, refused if it will not fit.

What a workload adds is known when it has been read, before anything is sent.

The estimate is a sum of terms. Each is a number of things (links, messages, ..), which follows from the settings, times
the bytes that one of them takes. The bytes come from the records where these have a fixed size; the others are measured
and marked so. `python -m benchmarks.memory` prints measured memory beside the estimate and its terms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from pyxsim.available_memory import available
from pyxsim.collective.lookup import get_schedule
from pyxsim.collective.plan import Phase, make_plan
from pyxsim.collective.sizes import chunk_sizes
from pyxsim.errors import InputError, PyxsimError
from pyxsim.network.backends import backend_class
from pyxsim.network.delay.delay_network import MOST_CELLS, MOST_WINDOWS
from pyxsim.network.packet.congruent_groups import long_enough
from pyxsim.network.protocol import Backend
from pyxsim.network.windows import MAX_CELLS, MAX_ROWS
from pyxsim.settings import Experiment, per_dimension
from pyxsim.settings.collective import Collective
from pyxsim.system.options import natural
from pyxsim.system.table import LEAST_ROWS
from pyxsim.topology.build import network_of
from pyxsim.topology.size import NetworkSize, announced_to
from pyxsim.units import to_cycles

# Measured: Python with all modules of a run. `python -m benchmarks.memory --base` prints it.
BASE = 84e6
# Coordinates and names, and columns of the topology and of the result; measured. With packets also the description of
# the engine.
ROUTER, LINK, PACKET_LINK = 200, 250, 1100
# States of the proof by dimension: NPUs of a dimension, cubed; measured.
STATE, WIDE = 126, 128
# Of the largest group, while its schedule is compiled: per message, and per block that a message carries; measured.
SCHEDULED, CARRIED = 170, 172
# Attribution, per message: by link, and by packet too; measured.
ATTRIBUTED = {0: 0, 1: 480, 2: 1290}
# Links allowed toward each router of a graph: bool, and the int64 columns of those that are.
FLAG = 6
ROUTED_ENTRY = 48
# Of the engine (core/state/records.pxd): input VC, output VC and its state of allocation; link; masks and queues.
VC, ENGINE_LINK, ENGINE_ROUTER = 64 + 24 + 32, 192, 1400
# Of a message: its record in the engine, in a pool that doubles, and its columns outside (endpoints, size, ends).
MESSAGE_RECORD, MESSAGE = 88, 48
# Of a chunk, phase and NPU: five lists of numbers, twelve int64 columns of the table of the result; measured. Those of
# a large table in lockstep are made when they are read.
ROW, ROW_IN_STEP = 500, 105
# Of a workload: a task of its graph; a message with its share of the tasks, chunks and rows of its collective.
TASK, WORK_MESSAGE = 250, 110
# Counters of links that windows list, by whether the backend has packets.
COUNTERS = {True: 7, False: 2}
CELL_IN_STEP = 4
CELL = 12  # uint32 while they are recorded, uint64 in the table
SMALL = 64  # ranks up to which a schedule is made to count its messages
REMEDY = 'a smaller network, longer windows, fewer chunks, or another --backend; run.memory = "ignore" runs it'


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes of the whole process at its peak.

    Parameters
    ----------
    terms
        Bytes by what they hold.
    counts
        How many things were counted for the terms.
    """

    terms: dict[str, float]
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """The sum of all terms."""
        return int(sum(self.terms.values()))


class WorkCounts(NamedTuple):
    """Tasks of the graph of a workload, if it has one, and messages of its collectives."""

    tasks: int
    messages: int


def estimate(experiment: Experiment, size: NetworkSize, backend: str, *, folded: bool) -> MemoryEstimate:
    """Return the memory of a run on a network of this size; `folded`: if NPU 0 stands for all NPUs."""
    packets = backend_class(backend).capabilities.packets
    rows, messages, scheduled = _work(experiment, size)
    folded = folded and backend_class(backend).wants_lines is not Backend.wants_lines
    folded = folded and not (packets and (_short(experiment, size) or _datelines(experiment, size)))
    terms = {
        "Python": BASE,
        "network": ROUTER * size.routers + (LINK + PACKET_LINK * packets) * size.links,
        "routes": 0 if size.separable else ROUTED_ENTRY * size.entries + FLAG * size.flags,
        "proof": STATE * sum(n**3 for n in size.shape if n <= WIDE) * (packets and size.separable),
        "schedules": scheduled,
        "chunks": ROW_IN_STEP * min(rows, LEAST_ROWS) if folded else ROW * rows,
    }
    counts = {"npus": size.npus, "routers": size.routers, "links": size.links, "rows": rows, "messages": messages}
    if packets and not folded:
        # Work that is known before the run has a lane for each link of its NPU, open traffic one.
        lanes = 2 * (size.links if experiment.traffic is None and size.separable else size.npus)
        vcs = experiment.network.router.vcs
        terms["engine"] = ENGINE_ROUTER * size.routers + (ENGINE_LINK + VC * vcs) * (size.links + lanes)
        terms["messages"] = MESSAGE_RECORD * _pool(messages) + MESSAGE * messages
        terms["attribution"] = ATTRIBUTED[experiment.output.level] * messages
    windows = _windows(experiment, size, packets=packets)
    terms["windows"] = (CELL_IN_STEP if folded else CELL) * windows * COUNTERS[packets] * size.links
    counts["windows"] = windows
    return MemoryEstimate(terms, counts)


def with_workload(needed: MemoryEstimate, experiment: Experiment, backend: str, work: WorkCounts) -> MemoryEstimate:
    """Return the memory of a run with its workload.

    Raises
    ------
    InputError
        If less memory is available.
    """
    packets = backend_class(backend).capabilities.packets
    level = experiment.output.level
    messages = WORK_MESSAGE * work.messages + ATTRIBUTED[level] * work.messages
    if packets and (level or not experiment.run.skip):  # an engine of the whole network has a record of each
        messages += MESSAGE_RECORD * _pool(work.messages)
    terms = {**needed.terms, "tasks": TASK * work.tasks, "messages": messages}
    counts = {**needed.counts, "tasks": work.tasks, "messages": work.messages}
    whole = MemoryEstimate(terms, counts)
    check_fits(whole.bytes, experiment)
    return whole


def _pool(count: int) -> int:
    """Entries of a pool that doubles."""
    return 1 << max(0, count - 1).bit_length() if count else 0


def _work(experiment: Experiment, size: NetworkSize) -> tuple[int, int, int]:
    """Rows of the table of chunks, messages of all collectives, bytes of the largest schedule; of a workload 0."""
    rows = messages = scheduled = 0
    for _, collective in experiment.collectives:
        try:
            of_rows, of_messages, of_group = _of_collective(experiment, collective, size)
        except PyxsimError:  # the preparation names the fault
            continue
        rows, messages, scheduled = rows + of_rows, messages + of_messages, max(scheduled, of_group)
    return rows, messages + len(experiment.message), scheduled


def _of_collective(experiment: Experiment, collective: Collective, size: NetworkSize) -> tuple[int, int, int]:
    system, kind, copies = experiment.system, collective.kind, 1
    dims = collective.dims or tuple(range(len(size.shape)))
    names = _algorithms(experiment, collective, size)
    if max(dims) >= len(size.shape) or len(names) != len(size.shape):
        return 0, 0, 0  # the preparation names the fault
    shape, names = tuple(size.shape[dim] for dim in dims), tuple(names[dim] for dim in dims)
    if collective.dims is not None:
        copies = size.npus // math.prod(shape)
    members = collective.npus
    if collective.group is not None and (group := system.group(collective.group)) is not None:
        members = group.npus
    if members is not None:
        shape, names = (len(members),), names[:1]
    optimization = "themis" if system.inter_dimension.startswith("themis") else system.optimization
    plan = make_plan(kind, collective.bytes, shape, names, optimization=optimization)
    chunks = len(chunk_sizes(collective.bytes, system.chunks))
    npus = math.prod(shape)
    of_groups = [_of_group(phase) for phase in plan.phases]
    sent = sum(count * npus // phase.npus for (count, _), phase in zip(of_groups, plan.phases, strict=True))
    largest = max((SCHEDULED * count + CARRIED * carried for count, carried in of_groups), default=0)
    return copies * chunks * len(plan.phases) * npus, copies * chunks * sent, largest


def _algorithms(experiment: Experiment, collective: Collective, size: NetworkSize) -> tuple[str, ...]:
    """Return the algorithm of each dimension; as many as the settings have."""
    wanted = collective.algorithm or experiment.system.algorithms(collective.kind)
    if wanted is not None:
        return per_dimension(wanted, len(size.shape))
    return tuple(natural(name, collective.kind) for name in size.algorithms)


def _short(experiment: Experiment, size: NetworkSize) -> bool:
    """Whether a run with packets takes less time than the search for what can be folded."""
    nbytes = size.npus * sum(collective.bytes for _, collective in experiment.collectives)
    return not long_enough(2 * nbytes // experiment.network.flit)


def _datelines(experiment: Experiment, size: NetworkSize) -> bool:
    """Whether messages cross more than one link of a ring with a dateline, so that its NPUs end at different times."""
    if experiment.network.router.routing == "bubble":
        return False
    return any(
        of_block == "ring" and name != "ring" and npus > 2
        for _, collective in experiment.collectives
        for npus, of_block, name in zip(
            size.shape, size.algorithms, _algorithms(experiment, collective, size), strict=False
        )
    )


def _of_group(phase: Phase) -> tuple[int, int]:
    """Messages of one group, and the blocks that they carry."""

    def counts(n: int) -> tuple[int, int]:
        schedule = get_schedule(phase.kind, phase.algorithm, n)
        return len(schedule), len(schedule.block_ids)

    n = phase.npus
    if n <= SMALL:
        return counts(n)
    (messages, carried), (of_half, carried_of_half) = counts(SMALL), counts(SMALL // 2)
    return _grown(of_half, messages, n), _grown(carried_of_half, carried, n)


def _grown(of_half: int, of_whole: int, n: int) -> int:
    """A count of `n` ranks, from those of SMALL / 2 and SMALL: per rank it grows with the ranks, or their logarithm."""
    half, whole = 2 * of_half / SMALL, of_whole / SMALL
    if whole > 1.5 * half:
        return int(n * whole * n / SMALL)
    return int(n * (whole + (whole - half) * math.log2(n / SMALL)))


def _windows(experiment: Experiment, size: NetworkSize, *, packets: bool) -> int:
    """Windows of a run that takes as long as the links of one NPU need for its bytes."""
    fits = max(1, min(MAX_ROWS, MAX_CELLS // max(1, COUNTERS[packets] * size.links)))
    if not packets:  # as pyxsim/network/delay limits them
        fits = max(1, min(MOST_WINDOWS, MOST_CELLS // size.npus))
    settings, nbytes = experiment.network, sum(collective.bytes for _, collective in experiment.collectives)
    if experiment.workload is not None or experiment.job:
        # Of unknown length: windows that double leave half of what fits, or more.
        return -(-3 * fits // 4)
    if not nbytes or experiment.traffic is not None:
        return fits
    given = settings.bandwidth if isinstance(settings.bandwidth, tuple) else (settings.bandwidth,)
    rate = float(sum(given)) / len(given)
    of_npu = max(1.0, size.links / size.npus) * rate
    window = max(1, to_cycles(experiment.output.window, settings.clock)[0]) / float(settings.clock)
    count = math.ceil(2 * nbytes / of_npu / window)
    while count > fits:
        count = -(-count // 2)
    return max(1, count)


def may_fold(experiment: Experiment, size: NetworkSize) -> bool:
    """Whether NPU 0 may stand for all NPUs, as far as the settings tell (pyxsim/system/lockstep.py)."""
    system, run, output = experiment.system, experiment.run, experiment.output
    alone = experiment.workload is None and not experiment.job and experiment.traffic is None and not experiment.message
    alike = not (system.boost or system.compat or system.shared_bus or system.endpoint or system.stragglers)
    all_npus = all(
        one.npus is None and one.group is None and one.dims is None and one.root is None
        for _, one in experiment.collectives
    )
    return alone and alike and all_npus and run.skip and not output.carry and not output.level and size.separable


@dataclass
class Watch:
    """What was estimated while a network was being built."""

    largest: MemoryEstimate | None = None


@contextmanager
def refusing(experiment: Experiment, backend: str, *, folded: bool = True) -> Iterator[Watch]:
    """Estimate the memory of a run as soon as the size of its network is known.

    Raises
    ------
    InputError
        Before the network is built, if less memory is available.
    """
    watch = Watch()
    with announced_to(_listener(watch, experiment, backend, folded)):
        yield watch


class _Enough(PyxsimError):
    """The size of the network is known."""


def foreseen(experiment: Experiment, backend: str, folder: str | Path = ".", *, folded: bool = True) -> MemoryEstimate:
    """Return the memory of a run without building its network. Raises InputError if the network cannot be built.

    The shelves must have been loaded (`library.load_all`).
    """
    found: list[NetworkSize] = []

    def hear(size: NetworkSize) -> None:
        found.append(size)
        raise _Enough

    try:
        with announced_to(hear):
            network_of(experiment.network, folder)
    except _Enough:
        pass
    return estimate(experiment, found[0], backend, folded=folded and may_fold(experiment, found[0]))


def _listener(watch: Watch, experiment: Experiment, backend: str, folded: bool) -> Callable[[NetworkSize], None]:
    def hear(size: NetworkSize) -> None:
        needed = estimate(experiment, size, backend, folded=folded and may_fold(experiment, size))
        if watch.largest is None or needed.bytes > watch.largest.bytes:
            watch.largest = needed
            check_fits(needed.bytes, experiment)

    return hear


def check_fits(nbytes: int, experiment: Experiment) -> None:
    """Raise InputError if a run that needs so many bytes in all will not fit."""
    limit = available()
    if experiment.run.memory == "ignore" or limit is None or nbytes <= limit.bytes:
        return
    needed, there = size_text(nbytes), size_text(limit.bytes)
    problem = f"this run needs about {needed} of memory; {there} are available ({limit.why})"
    raise InputError(problem, key="run.memory", allowed=REMEDY)


def size_text(nbytes: float) -> str:
    """Return a size in MB or GB of powers of 10."""
    return f"{nbytes / 1e9:.3g} GB" if nbytes >= 1e9 else f"{nbytes / 1e6:.0f} MB"
