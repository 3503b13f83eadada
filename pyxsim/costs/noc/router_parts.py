"""A router on a chip: input buffers, crossbar, output registers. Energies per event (J), leakage (W), areas (mm^2)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pyxsim.arrays import FloatArray
from pyxsim.costs.noc.technology import Technology
from pyxsim.costs.noc.wires import CHAIN, clock_energy, flop_energy

_CELL_HEIGHT, _CELL_WIDTH = 8, 6  # tracks of an SRAM cell along a bit line and along a word line
_SWITCH_LOAD = 1 / 16  # capacitance of a crosspoint's or driver's transistors over that of its wire


@dataclass(frozen=True)
class Buffer:
    """An input buffer: SRAM of `words` flits of `width` bits."""

    technology: Technology
    width: int
    words: int

    @cached_property
    def _word_line(self) -> float:
        """Energy to select a word and to prepare the bit lines, J."""
        tech, width = self.technology, self.width
        cell = 2 * 4 * tech.half_pitch * tech.switched_gate_capacitance + _CELL_WIDTH * tech.metal_pitch * tech.wire
        ratio = tech.switched_out / tech.switched_in
        decode = (1 + CHAIN * (1 + ratio)) * width * cell
        across = tech.wire * _CELL_WIDTH * width * tech.metal_pitch
        drivers = 1.25 * (1 + ratio) * (2 * across + (3 + 2) * width * tech.switched_in)  # precharge, write enable
        return (decode + drivers) * tech.energy_per_farad

    @cached_property
    def _bit_line(self) -> float:
        """Energy to charge a bit line, J."""
        tech = self.technology
        cell = 4 * tech.half_pitch * tech.switched_drain_capacitance + _CELL_HEIGHT * tech.metal_pitch * tech.wire
        return self.words * cell * tech.energy_per_farad

    @property
    def access(self) -> float:
        """Energy to read or to write a flit, J: bit lines swing over the whole supply voltage in both."""
        return self._word_line + self.width * self._bit_line

    @property
    def leakage(self) -> float:
        """Leakage, W."""
        return self.width * self.words * self.technology.sram_leakage * self.technology.supply

    @property
    def area(self) -> float:
        """Area, mm^2."""
        return self.width * self.words * self.technology.tracks(self.technology.sram_cell)


@dataclass(frozen=True)
class Crossbar:
    """A matrix crossbar of `inputs` x `outputs` ports of `width` bits."""

    technology: Technology
    width: int
    inputs: int
    outputs: int

    @cached_property
    def _across(self) -> float:
        """Capacitance of an input wire, which crosses all outputs, F."""
        return self.width * self.outputs * self.technology.wire_pitch * self.technology.wire

    @cached_property
    def _down(self) -> float:
        """Capacitance of an output wire, which crosses all inputs, F."""
        return self.width * self.inputs * self.technology.wire_pitch * self.technology.wire

    @cached_property
    def traversals(self) -> FloatArray:
        """Energy of a flit from each input to each output, J, float64[inputs, outputs].

        Wires are cut in the middle: a flit to an output of the first half, or from an input of the first half, charges
        half of the wire.
        """
        tech = self.technology
        ratio = tech.delay_out / tech.delay_in
        crosspoint_in = _SWITCH_LOAD * self._down
        crosspoint_out = 4 * crosspoint_in * ratio
        driver_in = _SWITCH_LOAD * self._across
        driver_out = 4 * driver_in * ratio
        driver = CHAIN * (1 + ratio) * (0.5 * self._across + driver_in)
        whole_in = driver + self._across + driver_in + self.outputs * crosspoint_in
        half_in = 0.5 * self._across + self.outputs / 2 * crosspoint_in
        whole_out = self._down + driver_out + self.inputs * crosspoint_out
        half_out = 0.5 * self._down + self.inputs / 2 * crosspoint_out
        near = np.arange(self.outputs) < self.outputs / 2
        close = np.arange(self.inputs) < self.inputs / 2
        load = (whole_out - half_out * close)[:, np.newaxis] + (whole_in - half_in * near)[np.newaxis, :]
        return np.asarray(0.5 * self.width * load * tech.energy_per_farad, np.float64)

    @property
    def control(self) -> float:
        """Energy to set the crosspoints for a flit, J."""
        tech = self.technology
        load = self.width * CHAIN * self._across + self._across + self._down
        return (1 + CHAIN * (1 + tech.delay_out / tech.delay_in)) * load * tech.energy_per_farad

    @property
    def leakage(self) -> float:
        """Leakage, W. BookSim2 multiplies the current by 1 V instead of the supply voltage."""
        tech = self.technology
        crosspoints = self.inputs * self.outputs * _SWITCH_LOAD * self._down
        drivers = (self.inputs + self.outputs) * _SWITCH_LOAD * self._across
        return tech.inverter_leakage * self.width * (crosspoints + drivers) / tech.switched_in

    @property
    def area(self) -> float:
        """Area, mm^2."""
        pitch = self.width * self.technology.wire_pitch
        return self.inputs * pitch * self.outputs * pitch


@dataclass(frozen=True)
class OutputRegister:
    """The register of an output port of `width` bits."""

    technology: Technology
    width: int

    @property
    def flit(self) -> float:
        """Energy to take a flit, J."""
        return self.width * flop_energy(self.technology)

    @property
    def control(self) -> float:
        """Energy to enable the register, J."""
        tech = self.technology
        load = self.width * tech.wire_pitch * tech.wire + self.width * tech.switched_in
        return (1 + CHAIN) * (1 + tech.switched_out / tech.switched_in) * load * tech.energy_per_farad

    @property
    def clock(self) -> float:
        """Energy of a cycle of its clock, J."""
        return clock_energy(self.technology, self.width)

    @property
    def area(self) -> float:
        """Area, mm^2."""
        return self.width * self.technology.tracks(self.technology.flop)
