"""The collectives and messages of an experiment as a job."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from pyxsim.collective.byte_matrix import ByteMatrix, byte_matrix
from pyxsim.collective.communicator import NO_GRID, Communicator
from pyxsim.collective.lookup import get_algorithm
from pyxsim.errors import InputError, raise_all
from pyxsim.settings import Collective, Experiment
from pyxsim.settings.algorithms import ALGORITHM_KEYS, ROOTED, algorithm_key
from pyxsim.settings.faults import join
from pyxsim.system import PointToPoint, SystemLayer
from pyxsim.topology import Topology
from pyxsim.traffic.matrix import read_matrix
from pyxsim.units import to_cycles
from pyxsim.workload.job import IssuedCollective, Job


class CommunicationJob(Job):
    """Issues each `[collective]` and `[[message]]` in its cycle, independently of the others.

    All groups of a collective share one name of traffic, and so do messages of the same name.

    Raises
    ------
    InputError
        If an NPU or a dimension does not exist.
    """

    def __init__(self, experiment: Experiment, topology: Topology, folder: Path = Path()) -> None:
        self.experiment = experiment
        self.collectives: list[IssuedCollective] = []
        self.traffic: list[str] = []
        self._groups = _communicators(experiment, topology)
        self._matrices = [
            collective_matrix(each, key, len(groups[0]), folder)
            for (key, each), groups in zip(experiment.collectives, self._groups, strict=True)
        ]
        self._messages: list[PointToPoint] = []

    def begin(self, system: SystemLayer) -> None:
        clock = self.experiment.network.clock
        rows = zip(self.experiment.collectives, self._groups, self._matrices, strict=True)
        for (key, each), groups, matrix in rows:
            root = each.root
            if root is None and each.kind in ROOTED and each.dims is None:
                root = groups[0].members[0]
            place, names = self._algorithms(key, each)
            collective = IssuedCollective(each.label, place, _group_name(each), root)
            self.collectives.append(collective)
            self.traffic.append(each.label)
            for group in groups:
                try:
                    issued = system.issue(
                        each.kind,
                        each.bytes,
                        at=to_cycles(each.at, clock)[0],
                        communicator=group,
                        algorithms=algorithms_of_group(names, group, each.kind, place),
                        root=0 if each.root is None else group.members.index(each.root),
                        priority=each.priority,
                        name=each.label,
                        tag=len(self.traffic) - 1,
                        matrix=matrix,
                    )
                except InputError as error:
                    raise _placed(error, key, place) from None
                collective.per_group.append(issued)
        tags: dict[str, int] = {}
        for message in self.experiment.message:
            at = to_cycles(message.at, clock)[0]
            name = message.name or "message"
            if name not in tags:
                tags[name] = len(self.traffic)
                self.traffic.append(name)
            self._messages.append(system.send(message.src, message.dst, message.size, at=at, name=name, tag=tags[name]))

    def _algorithms(self, key: str, collective: Collective) -> tuple[str, str | tuple[str, ...] | None]:
        """The key and the names of its algorithms: its own, those of its group, or None for those of [system]."""
        if collective.algorithm is not None:
            return join(key, "algorithm"), collective.algorithm
        of_kind = algorithm_key(collective.kind)
        for number, group in enumerate(self.experiment.system.groups):
            if group.name == collective.group and group.algorithms(collective.kind) is not None:
                return f"system.groups[{number}].{of_kind}", group.algorithms(collective.kind)
        return f"system.{of_kind}", None

    @property
    def end(self) -> int:
        """Cycle in which the last collective or message ends."""
        issued = [group_work for collective in self.collectives for group_work in collective.per_group]
        return max((item.end for item in (*issued, *self._messages)), default=0)


def collective_matrix(each: Collective, key: str, npus: int, folder: Path) -> ByteMatrix | None:
    """Return the bytes between pairs of an all-to-all on `npus` NPUs; None without any. Raises InputError.

    `key`: of the collective.
    """
    if each.matrix is None:
        return None
    place = join(key, "matrix")
    try:
        if isinstance(each.matrix, str):
            rows = read_matrix(folder / each.matrix, npus)
            if (rows != np.floor(rows)).any():
                row, column = np.argwhere(rows != np.floor(rows))[0].tolist()
                problem = f"entry {column} of row {row} is {rows[row, column]:g}"
                raise InputError(problem, file=str(folder / each.matrix), allowed="whole numbers of bytes")
            matrix = ByteMatrix(rows)
        else:
            matrix = byte_matrix(each.matrix)
    except InputError as error:
        raise error.named_by(place) from None
    if len(matrix) != npus:
        problem = f"the matrix is {len(matrix)}x{len(matrix)}, but the collective has {npus} NPUs"
        raise InputError(problem, key=place, allowed=f"{npus} rows and columns")
    return matrix


def algorithms_of_group(
    names: str | tuple[str, ...] | None, group: Communicator, kind: str, key: str
) -> tuple[str, ...] | None:
    """Return the algorithm for each dimension of a group, None for those of [system]. Raises InputError for an unknown
    or unsuitable one.

    `names`: one for all, or one for each dimension of the network. `key`: the setting that has them.
    """
    if names is None:
        return None
    for name in (names,) if isinstance(names, str) else names:
        get_algorithm(name, key=key).check(kind, key=key)
    if isinstance(names, str):
        return (names,) * len(group.shape)
    if group.is_grid:
        return tuple(names[dim] for dim in group.dims)
    if len(set(names)) > 1:
        problem = "these NPUs do not form a grid of the network's dimensions, so they are one group with one algorithm"
        raise InputError(problem, key=key, allowed="one name")
    return names[:1]


def _placed(error: InputError, key: str, place: str) -> InputError:
    """A fault of the system layer, with the key of the collective or of its algorithms."""
    if error.key in ("collective.size", "collective.matrix"):
        return InputError(error.problem, key=join(key, error.key.partition(".")[2]), allowed=error.allowed)
    if error.key in {f"system.{key}" for key in ALGORITHM_KEYS}:
        return InputError(error.problem, key=place, allowed=error.allowed, given=error.given)
    return error.named_by(place)  # of an algorithm, about the number of ranks


def _group_name(collective: Collective) -> str:
    """The NPUs that take part, in a word: a group's name, "dims 0", "npus 0,1,2", or "all"."""
    if collective.group is not None:
        return collective.group
    for key in ("dims", "npus"):
        values = getattr(collective, key)
        if values is not None:
            shown = ",".join(map(str, values[:8]))
            return f"{key} {shown}{',...' if len(values) > 8 else ''}"
    return "all"


def _communicators(experiment: Experiment, topology: Topology) -> list[list[Communicator]]:
    """The groups of each collective. Raises InputError for NPUs and dimensions that do not exist."""
    faults: list[InputError] = []
    npus, groups = topology.npus, experiment.system.groups
    for number, group in enumerate(groups):
        faults += _npu_faults(group.npus, f"system.groups[{number}].npus", npus)
    for number, straggler in enumerate(experiment.system.stragglers):
        faults += _npu_faults(straggler.npus, f"system.stragglers[{number}].npus", npus)
    communicators = []
    faults += _message_faults(experiment, npus)
    for key, settings in experiment.collectives:
        own = list(_collective_faults(settings, key, experiment, topology))
        faults += own
        communicators.append([] if faults else _groups_of(settings, experiment, topology))
    raise_all(faults)
    return communicators


def _groups_of(collective: Collective, experiment: Experiment, topology: Topology) -> list[Communicator]:
    if collective.dims is not None:
        return Communicator.along(collective.dims, topology.shape)
    members = _members(collective, experiment)
    if members is not None and experiment.system.compat is not None:
        # ASTRA-sim makes a single ring of every list of NPUs.
        return [Communicator(members, (len(members),), NO_GRID)]
    return [Communicator.whole(topology.shape) if members is None else Communicator.of(members, topology.shape)]


def _members(collective: Collective, experiment: Experiment) -> tuple[int, ...] | None:
    """The listed NPUs; None for all, or along dimensions."""
    group = experiment.system.group(collective.group) if collective.group is not None else None
    return group.npus if group is not None else collective.npus


def _collective_faults(
    collective: Collective, key: str, experiment: Experiment, topology: Topology
) -> Iterator[InputError]:
    yield from _npu_faults(collective.npus or (), join(key, "npus"), topology.npus)
    dims = len(topology.shape)
    for index, dim in enumerate(collective.dims or ()):
        if dim >= dims:
            place = join(key, f"dims[{index}]")
            yield InputError(f"there is no dimension {dim}", key=place, allowed=f"dimensions 0 to {dims - 1}")
    if collective.root is not None:
        members = _members(collective, experiment)
        npus = range(topology.npus) if members is None else members
        if collective.root not in npus:
            problem = f"the root, NPU {collective.root}, does not participate"
            allowed = f"NPUs 0 to {topology.npus - 1}" if members is None else f"one of NPUs {_listed(members)}"
            yield InputError(problem, key=join(key, "root"), allowed=allowed)


def _npu_faults(listed: tuple[int, ...], key: str, npus: int) -> Iterator[InputError]:
    for index, npu in enumerate(listed):
        if npu >= npus:
            yield InputError(f"there is no NPU {npu}", key=f"{key}[{index}]", allowed=f"NPUs 0 to {npus - 1}")


def _message_faults(experiment: Experiment, npus: int) -> Iterator[InputError]:
    for number, message in enumerate(experiment.message):
        for end in ("src", "dst"):
            npu = getattr(message, end)
            if npu >= npus:
                place = f"message[{number}].{end}"
                yield InputError(f"there is no NPU {npu}", key=place, allowed=f"NPUs 0 to {npus - 1}")


def _listed(npus: tuple[int, ...]) -> str:
    return ", ".join(map(str, npus[:8])) + (", ..." if len(npus) > 8 else "")
