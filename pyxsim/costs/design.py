"""The price and the power of a system: `design_cost`. docs/cost.md has the formulas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import ceil
from typing import Any

import numpy as np

from pyxsim import library
from pyxsim.arrays import FloatArray, IntArray
from pyxsim.costs.chip import Chip, chip_of
from pyxsim.costs.figures import Figures, PartFigures, part_figures
from pyxsim.costs.inventory import Inventory, inventory_of_topology
from pyxsim.errors import InputError
from pyxsim.network.clock import with_clock
from pyxsim.settings import Experiment
from pyxsim.settings.estimate import Estimate
from pyxsim.topology.build import network_of
from pyxsim.topology.topology import Topology
from pyxsim.units import to_cycles

BITS = 8


@dataclass(frozen=True)
class Part:
    """Parts of one kind.

    Attributes
    ----------
    kind, name
        "npu", "host", "link", "switch", "memory", "channel" or "router"; the entry of the catalogue and which parts.
    count
        Number of parts; of links, of both directions together.
    price
        Dollars of all of them; None if it is not known, `missing` then says why.
    idle, peak
        Watts of all of them without and with full traffic or work; None likewise.
    source
        Where the figures are from.
    area
        mm^2 of all of them, on a chip.
    """

    kind: str
    name: str
    count: float
    price: Estimate | None
    idle: Estimate | None
    peak: Estimate | None
    source: str
    area: float = 0.0
    missing: tuple[InputError, ...] = ()

    def json(self) -> dict[str, Any]:
        """Return the part for JSON; an unknown figure is null."""
        figures = {"price": self.price, "idle": self.idle, "peak": self.peak}
        known = {key: None if value is None else value.json() for key, value in figures.items()}
        area = {"area_mm2": self.area} if self.area else {}
        return {"kind": self.kind, "name": self.name, "count": self.count, **known, **area, "source": self.source}


@dataclass(frozen=True, eq=False)
class DesignCost:
    """Price and power of a system.

    Attributes
    ----------
    inventory, figures
        The network and the figures of its parts.
    parts
        One row per kind of part.
    chips, stages
        float64[routers], int64[routers]: chips of each switch, and those that a packet passes at most; zero for routers
        in NPUs.
    chip
        Coefficients of a network on a chip, or None.
    notes
        What is not counted, and which defaults were taken.
    """

    inventory: Inventory
    figures: PartFigures
    parts: tuple[Part, ...]
    chips: FloatArray
    stages: IntArray
    chip: Chip | None
    notes: tuple[str, ...] = field(default=())

    @property
    def npus(self) -> int:
        """Number of NPUs."""
        return self.inventory.npus

    @property
    def capex(self) -> Estimate:
        """Price of all parts, dollars. Raises InputError for a part without a price."""
        return self._sum("price")

    @property
    def power_idle(self) -> Estimate:
        """Power without traffic and work, W, with that of the data centre. Raises InputError for a part without it."""
        return self._sum("idle") * self.figures.pue

    @property
    def power_peak(self) -> Estimate:
        """Power with full traffic and work, W, with that of the data centre. Raises InputError likewise."""
        return self._sum("peak") * self.figures.pue

    @property
    def dollars_per_second(self) -> Estimate:
        """Price per second of use, dollars: that of all parts over the time in which they are used."""
        cost = self.figures.cost
        return self.capex / float(cost.years * cost.used * SECONDS_PER_YEAR)

    def _sum(self, name: str) -> Estimate:
        total = Estimate.of(0)
        for part in self.parts:
            value = getattr(part, name)
            if value is None:
                raise part.missing[0]
            total += value
        return total

    def known(self, name: str) -> tuple[Estimate | None, InputError | None]:
        """Return one of the sums `capex`, `power_idle`, `power_peak`, or why it is not known."""
        try:
            value: Estimate = getattr(self, name)
        except InputError as error:
            return None, error
        return value, None

    def json(self) -> dict[str, Any]:
        """Return the sums and parts for JSON; an unknown sum is null."""
        sums = {name: self.known(name) for name in ("capex", "power_idle", "power_peak")}
        return {
            "npus": self.npus,
            **{name: None if value is None else value.json() for name, (value, _) in sums.items()},
            "missing": list(dict.fromkeys(str(why) for _, why in sums.values() if why is not None)),
            "pue": self.figures.pue.json(),
            "electricity_per_kwh": (self.figures.electricity * JOULES_PER_KWH).json(),
            "parts": [part.json() for part in self.parts],
            "notes": list(self.notes),
        }


SECONDS_PER_YEAR = 365 * 86_400
JOULES_PER_KWH = 3_600_000


def design_cost(experiment: Experiment, topology: Topology | None = None) -> DesignCost:
    """Return what the system of an experiment costs, without a run.

    Parameters
    ----------
    experiment
        An experiment; its table [cost] may be missing, then defaults count.
    topology
        Its network, if that is built already.

    Raises
    ------
    InputError
        For unknown entries of the catalogue and networks that cannot be built. An unknown price or power raises only
        where it is used (`capex`, `power_idle`, `power_peak`).
    """
    if topology is None:
        library.load_all()
        topology = network_of(experiment.network, experiment.folder)
    network, _ = with_clock(experiment.network, topology)
    experiment = experiment.model_copy(update={"network": network})
    inventory = inventory_of_topology(topology, network)
    latencies = network.latencies(len(topology.link_kinds))
    cycles = np.array([to_cycles(latency, network.clock)[0] for latency in latencies], np.int64)
    lengths = np.concatenate([topology.link_length, np.ones(len(inventory.src) - topology.links, np.int32)])
    return design_of(experiment, inventory, cycles[inventory.kind] * lengths)


def check_powers(experiment: Experiment, topology: Topology) -> None:
    """Raise InputError if [cost] is faulty, or a power for the energy of a run is not known."""
    design = design_cost(experiment, topology)
    for name in ("power_peak", "power_idle"):
        error = design.known(name)[1]
        if error is not None:
            raise error


def design_of(experiment: Experiment, inventory: Inventory, latency: IntArray) -> DesignCost:
    """Return the cost of a network of which the parts are known; `latency`: int64[links], cycles. Raises InputError."""
    npu = experiment.system.npu
    known = part_figures(experiment.cost, len(inventory.kinds), None if npu is None else npu.device)
    chip = chip_of(experiment, inventory, latency)
    if chip is None:
        chips, stages, notes = _chips(inventory, known)
        parts = [*_links(inventory, known), *_switches(inventory, known, chips)]
    else:
        chips, stages = np.zeros(inventory.routers), np.zeros(inventory.routers, np.int64)
        notes, parts = [], list(_on_chip(inventory, chip, known))
    whole = [*_npus(inventory, known), *parts, *_memory(inventory, known)]
    return DesignCost(inventory, known, tuple(whole), chips, stages, chip, (*known.notes, *notes))


def _product(part: Figures, factor: float, *names: str) -> tuple[Estimate | None, tuple[InputError, ...]]:
    """The product of some figures and a factor, or the figure that is missing."""
    total = Estimate.of(factor)
    for name in names:
        value = part.get(name)
        if value is None:
            return None, (part.missing(name),)
        total *= value
    return total, ()


def _part(
    kind: str,
    name: str,
    count: float,
    figures: Figures,
    price: tuple[Estimate | None, tuple[InputError, ...]],
    idle: tuple[Estimate | None, tuple[InputError, ...]],
    peak: tuple[Estimate | None, tuple[InputError, ...]],
) -> Part:
    missing = (*price[1], *peak[1], *idle[1])
    return Part(kind, name, count, price[0], idle[0], peak[0], figures.source, missing=missing)


def _npus(inventory: Inventory, known: PartFigures) -> Iterator[Part]:
    for kind, part in (("npu", known.npu), ("host", known.host)):
        if part is None:
            continue
        count = inventory.npus
        idle = "power" if part.get("idle") is None else "idle"
        yield _part(
            kind,
            part.name,
            count,
            part,
            _product(part, count, "price"),
            _product(part, count, idle),
            _product(part, count, "power"),
        )


def _links(inventory: Inventory, known: PartFigures) -> Iterator[Part]:
    for kind, part in enumerate(known.links):
        here = inventory.kind == kind
        speed = float(inventory.bandwidth[here].sum())
        if not speed:
            continue
        price, missing = _product(part, speed / 2, "price")
        if price is not None and part.get("nic") is not None:
            from_npus = here & (inventory.src < 0) if (inventory.src < 0).any() else here & _of_npus(inventory)
            price += part.get("nic") * float(inventory.bandwidth[from_npus].sum())
        yield _part(
            "link",
            f"{part.name} ({inventory.kinds[kind]})".strip(),
            int(here.sum()) / 2,
            part,
            (price, missing),
            _product(part, BITS * speed, "energy", "idle"),
            _product(part, BITS * speed, "energy"),
        )


def _of_npus(inventory: Inventory) -> Any:
    """bool[links]: links that an NPU's router sends on."""
    return ~inventory.is_switch[inventory.src]


def _chips(inventory: Inventory, known: PartFigures) -> tuple[FloatArray, IntArray, list[str]]:
    """Chips of each switch, and stages that a packet passes; notes on switches of several stages."""
    counted, passed = np.zeros(inventory.routers), np.zeros(inventory.routers, np.int64)
    notes: list[str] = []
    for router in np.flatnonzero(inventory.is_switch & (inventory.into > 0)).tolist():
        part = known.switches[int(inventory.router_kind[router])]
        ports, speed = int(inventory.ports[router]), float(inventory.into[router])
        need, passed[router] = chips_of(ports, speed, float(part.need("capacity")), part.get("radix"))
        # A float above a whole number by rounding is that number.
        counted[router] = ceil(need * (1 - 1e-12)) if part.get("whole_chips") else need
        if passed[router] > 1:
            notes.append(
                f"a switch of {ports} ports is {need:.4g} chips of {part.name or 'cost.switch'}, of which a packet "
                f"passes up to {passed[router]}; the links between them are not counted"
            )
    return counted, passed, list(dict.fromkeys(notes))


def chips_of(ports: int, bandwidth: float, capacity: float, radix: int | None) -> tuple[float, int]:
    """Return the chips that a switch takes, and how many of them a packet passes at most.

    A chip has `radix` ports k and a `capacity`; its share is that of its ports or of its capacity, whichever is larger.
    A switch of more ports p is a folded Clos network of s levels, which connects 2 (k / 2)^s ports and needs
    (2 s - 1) p / k chips (DT 6.3).
    """
    levels, reach = 1, radix or 0
    while radix is not None and reach < ports:
        levels, reach = levels + 1, reach * radix // 2
    passed = 2 * levels - 1
    share = bandwidth / capacity if radix is None else max(bandwidth / capacity, ports / radix)
    return passed * share, passed


def _switches(inventory: Inventory, known: PartFigures, chips: FloatArray) -> Iterator[Part]:
    kinds = inventory.router_kind
    for kind, part in enumerate(known.switches):
        count = float(chips[kinds == kind].sum())
        if count:
            yield _part(
                "switch",
                f"{part.name} ({inventory.kinds[kind]})".strip(),
                count,
                part,
                _product(part, count, "price"),
                _product(part, count, "power", "idle"),
                _product(part, count, "power"),
            )


def _memory(inventory: Inventory, known: PartFigures) -> Iterator[Part]:
    part = known.memory
    if part is not None:
        size = int(part.get("capacity") or 0) * inventory.npus
        free = (Estimate.of(0), ())
        price = _product(part, size, "price") if size else free
        yield _part("memory", part.name, inventory.npus, part, price, free, free)


def _on_chip(inventory: Inventory, chip: Chip, known: PartFigures) -> Iterator[Part]:
    """Channels and routers: peak is a flit per cycle on each channel, or on each input of a router."""
    rate, zero = 1 / chip.design.cycle, Estimate.of(0)
    source = known.cost.noc.technology if known.cost.noc is not None else ""

    def part(kind: str, count: int, idle: float, busy: float, area: float) -> Part:
        return Part(kind, source, count, zero, Estimate.of(idle), Estimate.of(idle + busy), source, area)

    lanes = chip.lanes * chip.lane_power, chip.lanes * chip.lane_energy * rate, chip.lanes * chip.lane_area
    yield part(
        "channel",
        len(inventory.src) + chip.lanes,
        float(chip.link_power.sum()) + lanes[0],
        float(chip.link_energy.sum()) * rate + lanes[1],
        float(chip.link_area.sum()) + lanes[2],
    )
    inputs = np.minimum(*inventory.with_lanes(_lanes_each(inventory, chip)))
    yield part(
        "router",
        inventory.routers,
        float(chip.router_power.sum()),
        float((chip.router_energy * inputs).sum()) * rate,
        float(chip.router_area.sum()),
    )


def _lanes_each(inventory: Inventory, chip: Chip) -> int | None:
    each = chip.lanes / max(1, 2 * int((~inventory.is_switch).sum()))
    return int(each) if each == int(each) else None


def three(estimates: Iterable[Estimate]) -> FloatArray:
    """Return float64[3, n]: the low, typical and high values."""
    rows = [(float(one.low), float(one.typical), float(one.high)) for one in estimates]
    return np.array(rows, np.float64).reshape(-1, 3).T
