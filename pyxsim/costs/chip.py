"""Coefficients of a network on a chip: the energies of [cost.noc] for the routers and links of an inventory."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from pyxsim.arrays import FloatArray, IntArray
from pyxsim.costs.catalogue import technology
from pyxsim.costs.inventory import Inventory
from pyxsim.costs.noc import NocDesign
from pyxsim.errors import InputError
from pyxsim.settings import Experiment


@dataclass(frozen=True, eq=False)
class Chip:
    """Energies and powers of links and routers on a chip.

    Attributes
    ----------
    design
        The design of channels and routers.
    link_energy, link_power, link_area
        float64[links]: of a flit (J), without traffic (W), mm^2.
    router_energy, router_power, router_area
        float64[routers]: of a flit (J), without traffic (W), mm^2.
    lane_energy, lane_power, lane_area
        Of one lane; `lanes`: how many there are, both ways.
    """

    design: NocDesign
    link_energy: FloatArray
    link_power: FloatArray
    link_area: FloatArray
    router_energy: FloatArray
    router_power: FloatArray
    router_area: FloatArray
    lanes: int
    lane_energy: float
    lane_power: float
    lane_area: float


def chip_of(experiment: Experiment, inventory: Inventory, latency: IntArray) -> Chip | None:
    """Return the coefficients of [cost.noc]; None without the table.

    Parameters
    ----------
    experiment
        With the network clock of the run.
    inventory
        The network.
    latency
        int64[links], cycles.

    Raises
    ------
    InputError
        If the technology is not known or the buffers have no given size.
    """
    cost, network = experiment.cost, experiment.network
    if cost is None or cost.noc is None:
        return None
    router = network.router
    if router.buffer == "auto":
        raise InputError(
            "with [cost.noc] the buffers need a size", key="network.router.buffer", allowed="a number of flits"
        )
    process = technology(cost.noc.technology, cost.noc.parameters)
    per_cycle = process.wire_length if cost.noc.wire is None else float(cost.noc.wire)
    words = router.vcs * router.buffer + router.shared_buffer
    clock: Fraction = cost.noc.clock or network.clock
    design = NocDesign(process, 8 * network.flit, words, float(1 / clock))
    cycles, which = np.unique(latency, return_inverse=True)
    lengths = [float(count) * per_cycle for count in cycles]
    energy = np.array([sum(design.flit_on(length)) for length in lengths])
    power = np.array([sum(design.channel_static(length)) for length in lengths])
    area = np.array([design.channel_area(length) for length in lengths])
    lanes = _lanes(experiment)
    inputs, outputs = inventory.with_lanes(lanes)
    sizes, size = np.unique(np.stack([inputs, outputs], axis=1), axis=0, return_inverse=True)
    size = size.reshape(-1)
    shapes = [(int(i), int(o)) for i, o in sizes]
    lane = network.lane_cycles * per_cycle
    attached = inputs - np.bincount(inventory.dst[inventory.dst >= 0], minlength=inventory.routers)
    detached = outputs - np.bincount(inventory.src[inventory.src >= 0], minlength=inventory.routers)
    return Chip(
        design,
        energy[which.reshape(-1)] if len(energy) else np.zeros(0),
        power[which.reshape(-1)] if len(power) else np.zeros(0),
        area[which.reshape(-1)] if len(area) else np.zeros(0),
        np.array([design.traversal(i, o) if i and o else 0.0 for i, o in shapes])[size],
        np.array([design.router_static(i, o) if i and o else 0.0 for i, o in shapes])[size],
        np.array([design.router_area(i, o) if i and o else 0.0 for i, o in shapes])[size],
        int(attached.sum() + detached.sum()),
        sum(design.flit_on(lane)),
        sum(design.channel_static(lane)),
        design.channel_area(lane),
    )


def _lanes(experiment: Experiment) -> int | None:
    """The lanes of an NPU each way; None: one per link of its router, as `network.lanes` says."""
    lanes = experiment.network.lanes
    if isinstance(lanes, int):
        return lanes
    if lanes == "per-dimension":
        return experiment.network.dimensions or 1
    open_traffic = experiment.traffic is not None and experiment.background is None
    return 1 if lanes == "auto" and open_traffic else None
