"""A process: transistors and metal, from which wires and routers are made."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

_PMOS = 2  # width of a PMOS transistor over that of the NMOS transistor of an inverter
_FO4_PER_CYCLE = 20


@dataclass(frozen=True)
class Technology:
    """The parameters of a process. Widths of transistors are in um, lengths of wires in mm.

    Attributes
    ----------
    supply
        Supply voltage, V.
    drive_resistance
        Resistance of an inverter whose NMOS transistor is 1 um wide, ohm.
    gate_capacitance, overlap_capacitance, drain_capacitance
        Of a transistor, F/um, for delays.
    switched_gate_capacitance, switched_drain_capacitance
        The same for powers.
    leakage_n, leakage_p
        Current of a closed transistor, A/um.
    sram_leakage
        Current of the bit lines of a cell, A.
    half_pitch
        Half of the smallest pitch, um; transistors of an SRAM cell are four of it wide.
    metal_pitch
        Pitch of the tracks of which cells are counted, mm; wires of channels and crossbars take two.
    wire_resistance
        ohm/mm.
    wire_ground, wire_coupling
        Capacitance to one neighbouring layer, and to one neighbouring wire, F/mm.
    wire_length
        Length of a link per cycle of latency, mm.
    flop, inverter, sram_cell
        Width and height of these cells in tracks.
    """

    supply: float
    drive_resistance: float
    gate_capacitance: float
    overlap_capacitance: float
    drain_capacitance: float
    switched_gate_capacitance: float
    switched_drain_capacitance: float
    leakage_n: float
    leakage_p: float
    sram_leakage: float
    half_pitch: float
    metal_pitch: float
    wire_resistance: float
    wire_ground: float
    wire_coupling: float
    wire_length: float
    flop: tuple[int, int]
    inverter: tuple[int, int]
    sram_cell: tuple[int, int]

    @property
    def wire(self) -> float:
        """Capacitance of a wire with both neighbours, F/mm."""
        return 2 * (self.wire_ground + self.wire_coupling)

    @property
    def wire_pitch(self) -> float:
        """Pitch of the wires of channels and crossbars, mm."""
        return 2 * self.metal_pitch

    @property
    def switched_in(self) -> float:
        """Capacitance of the input of an inverter of size 1 for powers, F."""
        return (1 + _PMOS) * self.switched_gate_capacitance

    @property
    def switched_out(self) -> float:
        """Capacitance of the output of an inverter of size 1 for powers, F."""
        return (1 + _PMOS) * self.switched_drain_capacitance

    @property
    def delay_in(self) -> float:
        """Capacitance of the input of an inverter of size 1 for delays, F."""
        return (1 + _PMOS) * (self.gate_capacitance + self.overlap_capacitance)

    @property
    def delay_out(self) -> float:
        """Capacitance of the output of an inverter of size 1 for delays, F."""
        return (1 + _PMOS) * self.drain_capacitance

    @property
    def energy_per_farad(self) -> float:
        """Energy to charge and discharge 1 F, J: the square of the supply voltage."""
        return self.supply**2

    @property
    def inverter_leakage(self) -> float:
        """Mean current of an inverter of size 1 that does not switch, A."""
        return 0.5 * (self.leakage_n + _PMOS * self.leakage_p)

    @cached_property
    def cycle(self) -> float:
        """Shortest clock cycle, s: 20 delays of an inverter that drives four of its kind (FO4)."""
        load = (1 + _PMOS) * self.drain_capacitance + 4 * self.delay_in
        return _FO4_PER_CYCLE * self.drive_resistance * load

    def tracks(self, cell: tuple[int, int]) -> float:
        """Return the area of a cell, mm^2."""
        width, height = cell
        return width * height * self.metal_pitch**2
