"""Power and area of a whole network on a chip, from the activity of its channels and routers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np

from pyxsim.arrays import FloatArray, IntArray
from pyxsim.costs.noc.router_parts import Buffer, Crossbar, OutputRegister
from pyxsim.costs.noc.technology import Technology
from pyxsim.costs.noc.wires import Wire, best_wire, clock_energy, flop_energy


@dataclass(frozen=True)
class NocDesign:
    """Channels and routers of `width` bits with `words` flits of buffer per input, for a clock of `cycle` s."""

    technology: Technology
    width: int
    words: int
    cycle: float

    def wire(self, length: float) -> Wire:
        """Return the wire of a channel of `length` mm."""
        return best_wire(self.technology, length, self.cycle)

    def flit_on(self, length: float) -> tuple[float, float]:
        """Return the energy of a flit on a channel in its wires and in its flip-flops, J."""
        wire = self.wire(length)
        return self.width * wire.energy, self.width * wire.stages * flop_energy(self.technology)

    def channel_static(self, length: float) -> tuple[float, float]:
        """Return the power of the clock and the leakage of a channel, W."""
        wire = self.wire(length)
        return wire.stages * clock_energy(self.technology, self.width) / self.cycle, self.width * wire.leakage

    @property
    def buffer(self) -> Buffer:
        """The buffer of an input."""
        return Buffer(self.technology, self.width, self.words)

    @property
    def register(self) -> OutputRegister:
        """The register of an output."""
        return OutputRegister(self.technology, self.width)

    def crossbar(self, inputs: int, outputs: int) -> Crossbar:
        """Return the crossbar of a router."""
        return _crossbar(self.technology, self.width, inputs, outputs)

    def traversal(self, inputs: int, outputs: int) -> float:
        """Return the energy of a flit that is written, read, switched and registered, J.

        The mean over all pairs of input and output.
        """
        crossbar = self.crossbar(inputs, outputs)
        passed = float(crossbar.traversals.mean()) + crossbar.control
        return 2 * self.buffer.access + passed + self.register.flit + self.register.control

    def router_static(self, inputs: int, outputs: int) -> float:
        """Return the power of a router without traffic: leakage and the clock of its outputs, W."""
        leakage = inputs * self.buffer.leakage + self.crossbar(inputs, outputs).leakage
        return leakage + outputs * self.register.clock / self.cycle

    def router_area(self, inputs: int, outputs: int) -> float:
        """Return the area of a router, mm^2."""
        switch = self.crossbar(inputs, outputs).area
        return inputs * self.buffer.area + switch + outputs * self.register.area

    def channel_area(self, length: float) -> float:
        """Return the area of a channel, mm^2."""
        return self.wire(length).area(self.width)


@lru_cache(maxsize=64)
def _crossbar(technology: Technology, width: int, inputs: int, outputs: int) -> Crossbar:
    return Crossbar(technology, width, inputs, outputs)


@dataclass(frozen=True, eq=False)
class Activity:
    """What a network on a chip did in `cycles` cycles.

    Attributes
    ----------
    lengths, flits
        Of each channel, from and to NPUs included: length in mm, and flits sent, int64[channels].
    routers
        Of each router: flits read from and written to its buffers, and int64[inputs, outputs], the flits that passed.
    """

    cycles: int
    lengths: Sequence[float]
    flits: IntArray
    routers: Sequence[tuple[int, int, IntArray]]


@dataclass(frozen=True)
class NocPower:
    """Powers in W and areas in mm^2, with the lines of BookSim2's report."""

    channel_wire: float
    channel_clock: float
    channel_retiming: float
    channel_leakage: float
    input_read: float
    input_write: float
    input_leakage: float
    switch: float
    switch_control: float
    switch_leakage: float
    output_dff: float
    output_clock: float
    output_control: float
    channel_area: float
    switch_area: float
    input_area: float
    output_area: float

    @property
    def total(self) -> float:
        """Total power, W."""
        return float(sum(getattr(self, field.name) for field in fields(self) if not field.name.endswith("area")))

    @property
    def area(self) -> float:
        """Total area, mm^2."""
        return self.channel_area + self.switch_area + self.input_area + self.output_area


def noc_power(design: NocDesign, activity: Activity) -> NocPower:
    """Return power and area of a network.

    A power is the energy of an event times its events per cycle times the clock, plus the power without traffic.
    """
    rate = 1 / (activity.cycles * design.cycle)
    sums: dict[str, float] = dict.fromkeys((field.name for field in fields(NocPower)), 0.0)
    flits_of: Counter[float] = Counter()
    channels: Counter[float] = Counter(activity.lengths)
    for length, flits in zip(activity.lengths, activity.flits.tolist(), strict=True):
        flits_of[length] += flits
    for length, count in channels.items():
        wires, flops = design.flit_on(length)
        clock, leakage = design.channel_static(length)
        sums["channel_wire"] += wires * flits_of[length] * rate
        sums["channel_retiming"] += flops * flits_of[length] * rate
        sums["channel_clock"] += clock * count
        sums["channel_leakage"] += leakage * count
        sums["channel_area"] += design.channel_area(length) * count
    buffer, register = design.buffer, design.register
    for reads, writes, passed in activity.routers:
        inputs, outputs = passed.shape
        crossbar, flits = design.crossbar(inputs, outputs), int(passed.sum())
        sums["input_read"] += buffer.access * reads * rate
        sums["input_write"] += buffer.access * writes * rate
        sums["input_leakage"] += buffer.leakage * inputs
        sums["switch"] += float((crossbar.traversals * passed).sum()) * rate
        sums["switch_control"] += crossbar.control * flits * rate
        sums["switch_leakage"] += crossbar.leakage
        sums["output_dff"] += register.flit * flits * rate
        sums["output_control"] += register.control * flits * rate
        sums["output_clock"] += register.clock * outputs / design.cycle
        sums["switch_area"] += crossbar.area
        sums["input_area"] += buffer.area * inputs
        sums["output_area"] += register.area * outputs
    return NocPower(**sums)


def ports(src: IntArray, dst: IntArray, routers: int, lanes: FloatArray | IntArray) -> tuple[IntArray, IntArray]:
    """Return int64[routers]: inputs and outputs of each router: its links and the `lanes` of its NPUs."""
    inputs = np.bincount(dst[dst >= 0], minlength=routers) + lanes
    outputs = np.bincount(src[src >= 0], minlength=routers) + lanes
    return inputs.astype(np.int64), outputs.astype(np.int64)
