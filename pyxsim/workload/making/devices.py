"""Times of computations on another device, from those on the device on which they were recorded.

A computation reaches the same share of the roofline of both devices (Williams et al. 2009), so that one that is bound
by operations scales with the peaks and one that is bound by memory with the memory bandwidths.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

import numpy as np

from pyxsim.chakra import Attribute, Node, NodeType
from pyxsim.errors import InputError
from pyxsim.models import Roofline
from pyxsim.models.devices import device
from pyxsim.workload.graph import Kind, TaskGraph

_PS_PER_US = 10**6
_HOST = "cpu"


@dataclass(frozen=True)
class TimeScale:
    """How times of computations change.

    Attributes
    ----------
    old, new
        The rooflines of both devices; None for a factor only.
    factor
        Of computations of which the trace has neither operations nor bytes; without devices, of all. None to refuse
        them.
    """

    old: Roofline | None = None
    new: Roofline | None = None
    factor: Fraction | None = None

    def of_compute(self, operations: int, size: int) -> Fraction | None:
        """Return the factor of a computation, None if there is none. Operations and bytes are 0 if unknown."""
        if self.old is None or self.new is None or not (operations or size):
            return self.factor
        return self.new.seconds(operations, size) / self.old.seconds(operations, size)

    @property
    def of_memory(self) -> Fraction:
        """The factor of copies in the memory of the device."""
        if self.old is None or self.new is None:
            return Fraction(1)
        return self.old.bandwidth / self.new.bandwidth


def time_scale(
    old: str | None, new: str | None, precision: str | None = None, factor: Fraction | None = None
) -> TimeScale | None:
    """Return the scale between two devices of the catalogue; None for no change. Raises InputError.

    Parameters
    ----------
    old, new
        Names such as "a100-80gb"; both or none.
    precision
        Of the computations, by default the usual one of each device.
    """
    if old is None and new is None:
        if precision is not None:
            raise InputError("needs two devices", key="--precision", allowed="with --from-device and --to-device")
        return None if factor is None else TimeScale(factor=factor)
    for key, name in (("--from-device", old), ("--to-device", new)):
        if name is None:
            raise InputError(
                "is required to scale times to another device", key=key, allowed="with --from-device and --to-device"
            )
    rooflines = []
    for key, name in (("--from-device", old), ("--to-device", new)):
        try:
            known = device(str(name))
            rooflines.append(Roofline(known.peak(precision), known.bandwidth))
        except InputError as error:
            key = "--precision" if error.key == "precision" else key
            raise InputError(error.problem, key=key, allowed=error.allowed, given=error.given) from None
    return TimeScale(rooflines[0], rooflines[1], factor)


def scaled_graph(graph: TaskGraph, scale: TimeScale, file: str) -> TaskGraph:
    """Return a graph with other times of computations and copies; those of the host stay. Raises InputError."""
    host = [number for number, (name, _) in enumerate(graph.resources) if name == _HOST]
    moves = ~np.isin(graph.resource, host) & (graph.ticks > 0)
    ticks = graph.ticks.copy()
    computes = np.flatnonzero(moves & (graph.kind == Kind.COMPUTE))
    for task in computes.tolist():
        factor = scale.of_compute(int(graph.match[task]), int(graph.size[task]))
        if factor is None:
            raise _unknown(graph.label(task), file)
        ticks[task] = ceil(int(ticks[task]) * factor)
    for task in np.flatnonzero(moves & (graph.kind == Kind.MEMORY)).tolist():
        ticks[task] = ceil(int(ticks[task]) * scale.of_memory)
    return replace(graph, ticks=ticks)


def scaled_node(node: Node, scale: TimeScale, file: str) -> Node:
    """Return a node of a trace with another time, if it computes or copies on the device. Raises InputError."""
    attributes = {attribute.name: attribute.value for attribute in node.attr}
    if attributes.get("is_cpu_op") or node.type not in (NodeType.COMP, NodeType.MEM_LOAD, NodeType.MEM_STORE):
        return node
    exact = attributes.get("duration_ps")
    known = isinstance(exact, int) and not isinstance(exact, bool) and exact >= 0
    recorded = exact if known else node.duration_micros * _PS_PER_US
    size, operations = (_count(attributes.get(name)) for name in ("tensor_size", "num_ops"))
    if not recorded or (node.type != NodeType.COMP and size):
        return node
    factor = scale.of_compute(operations, size) if node.type == NodeType.COMP else scale.of_memory
    if factor is None:
        raise _unknown(f"node {node.id} ({node.name})", file)
    time = ceil(recorded * factor)
    kept = [attribute for attribute in node.attr if attribute.name != "duration_ps"]
    node.duration_micros = (2 * time + _PS_PER_US) // (2 * _PS_PER_US)
    if time != node.duration_micros * _PS_PER_US:
        kept.append(Attribute("duration_ps", "int64_val", time))
    node.attr = kept
    return node


def _count(value: object) -> int:
    """A number of operations or bytes; 0 for none."""
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**63 else 0


def _unknown(label: str, file: str) -> InputError:
    problem = f"{label} has neither num_ops nor tensor_size, so its time on another device is unknown"
    return InputError(problem, file=file, allowed="--compute-scale X, the factor of such computations")
