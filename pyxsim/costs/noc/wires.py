"""Wires with repeaters and flip-flops: how many of which size cost least, and what they draw."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from pyxsim.costs.noc.technology import Technology

# A driver chain adds a share of the capacitance that it drives: four stages of a quarter, 1/4 + 1/16.
CHAIN = 5 / 16
_SIZES = np.cumsum([1.0, *[0.1] * 90])
_SEGMENTS = np.arange(1.0, 40.0)  # repeaters per stage, and stages of a wire
_REFERENCE_WIDTH, _REFERENCE_ACTIVITY = 64, 0.2
_USABLE = 0.8  # share of a cycle that a wire may take


@dataclass(frozen=True)
class Wire:
    """A wire of `length` mm: `stages` pipeline stages of `segments` repeaters of `size` (1: 1 um of NMOS)."""

    technology: Technology
    length: float
    size: float
    segments: int
    stages: int

    @property
    def energy(self) -> float:
        """Energy of a bit, J: half a charge of wire and repeaters, as every second bit differs from the last."""
        load = _capacitance(self.technology, self.length, self.size, self.segments, self.stages)
        return float(0.5 * load * self.technology.energy_per_farad)

    @property
    def leakage(self) -> float:
        """Leakage of the repeaters, W."""
        return self.size * self.technology.inverter_leakage * self.technology.supply * self.stages * self.segments

    def area(self, width: int) -> float:
        """Return the area of `width` wires with their flip-flops and repeaters, mm^2."""
        tech = self.technology
        wide, high = tech.inverter
        repeaters = self.stages * self.segments * (wide + 3 * self.size) * high * tech.metal_pitch**2
        return width * (self.stages * tech.tracks(tech.flop) + repeaters)


def flop_energy(technology: Technology) -> float:
    """Return the energy of a flip-flop that takes a bit, J: half a change of its data, and a clock pulse."""
    inverters = 2 * 0.8 * (technology.switched_in + technology.switched_out)
    data = inverters + 2 * (2 / 3) * 0.8 * technology.switched_out
    clock = inverters + 2 * (2 / 3) * 0.8 * technology.switched_gate_capacitance
    return (0.5 * data + clock) * technology.energy_per_farad


def clock_energy(technology: Technology, width: int) -> float:
    """Return the energy of a cycle of the clock of `width` flip-flops, J: its wires, its pins and its drivers."""
    wires_across = technology.flop[1] * technology.metal_pitch / technology.wire_pitch
    wires = width * technology.wire_pitch * technology.wire * wires_across
    drivers = 1 + CHAIN * (1 + technology.delay_out / technology.delay_in)
    return drivers * (wires + width * technology.delay_in) * technology.energy_per_farad


@cache
def best_wire(technology: Technology, length: float, cycle: float) -> Wire:
    """Return the wire with the least power times the fourth power of its stages that meets a clock cycle (s).

    All sizes of repeaters from 1 to 10 in steps of 0.1 and all numbers of repeaters and stages below 40 are compared,
    as in BookSim2. A segment of length l takes R (Co + Ci) + (R / K C + K r Ci) l + r C l^2 / 2, with r and C of the
    wire; a stage may take 80 % of the cycle. Without any that does, the fastest wire is returned.
    """
    tech = technology
    size, segments, stages = np.meshgrid(_SIZES, _SEGMENTS, _SEGMENTS, indexing="ij", sparse=True)
    part = length / (segments * stages)
    slope = tech.drive_resistance / size * tech.wire + size * tech.wire_resistance * tech.delay_in
    delay = tech.drive_resistance * (tech.delay_out + tech.delay_in) + slope * part
    delay = segments * (delay + 0.5 * tech.wire_resistance * tech.wire * part**2)
    bits = _REFERENCE_ACTIVITY * _REFERENCE_WIDTH
    wires = 0.5 * _capacitance(tech, length, size, segments, stages) * tech.energy_per_farad
    metric = stages**4 * bits * (wires + stages * flop_energy(tech))
    allowed = delay < _USABLE * cycle
    place = np.argmin(np.where(allowed, metric, np.inf)) if allowed.any() else np.argmin(delay)
    k, n, m = np.unravel_index(int(place), metric.shape)
    return Wire(tech, length, float(_SIZES[k]), int(_SEGMENTS[n]), int(_SEGMENTS[m]))


def _capacitance(tech: Technology, length: float, size: Any, segments: Any, stages: Any) -> Any:
    """Capacitance of a wire and of all its repeaters, F; of arrays, too."""
    return stages * segments * size * (tech.switched_in + tech.switched_out) + tech.wire * length
