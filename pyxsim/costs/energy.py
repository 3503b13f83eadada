"""The energy of a run: counters of links, routers and NPUs times coefficients. docs/cost.md has the formulas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import FloatArray, IntArray
from pyxsim.costs.design import BITS, DesignCost, design_of, three
from pyxsim.costs.inventory import inventory_of_result
from pyxsim.errors import InputError
from pyxsim.results.result import Result
from pyxsim.settings import Experiment
from pyxsim.settings.cost import Cost
from pyxsim.settings.estimate import Estimate

Columns = dict[str, NDArray[Any]]
_BOUNDS = ("low", "energy", "high")
_NO_WORK = "no computation of NPUs is recorded: they count with their power without work"


@dataclass(frozen=True, eq=False)
class RunEnergy:
    """The energy of a run, in joules; `energy` is the typical value between `low` and `high`.

    Attributes
    ----------
    seconds
        Simulated time.
    links, routers, npus
        Columns, one row per link, router and NPU; docs/output.md describes them.
    parts
        One row per kind of part, with the sums of these and what has no rows: hosts, remote memory, lanes.
    pue
        Factor of the data centre.
    bits
        Bits that messages delivered.
    notes
        What is missing.
    """

    seconds: float
    links: Columns
    routers: Columns
    npus: Columns
    parts: list[dict[str, Any]]
    pue: Estimate
    bits: int
    notes: tuple[str, ...]

    def of(self, *kinds: str) -> Estimate:
        """Return the energy of some kinds of parts, without the data centre's share; of all without any."""
        rows = [part for part in self.parts if not kinds or part["part"] in kinds]
        return Estimate.total(Estimate(*(row[name] for name in _BOUNDS)) for row in rows)

    @property
    def total(self) -> Estimate:
        """Energy of all parts, J."""
        return self.of()

    @property
    def at_the_wall(self) -> Estimate:
        """Energy with the data centre's share, J."""
        return self.total * self.pue

    @property
    def network(self) -> Estimate:
        """Energy of links, lanes and routers, J."""
        return self.of("links", "lanes", "routers")

    @property
    def per_bit(self) -> Estimate | None:
        """Energy of the network per delivered bit, J; None if nothing was delivered."""
        return self.network / self.bits if self.bits else None

    def json(self) -> dict[str, Any]:
        """Return the sums for JSON."""
        return {
            "seconds": self.seconds,
            "energy": self.total.json(),
            "at_the_wall": self.at_the_wall.json(),
            "network_per_bit": None if self.per_bit is None else self.per_bit.json(),
            "parts": self.parts,
            "notes": list(self.notes),
        }


def energy(
    result: Result | str | PathLike[str],
    cost: Cost | Mapping[str, Any] | None = None,
    *,
    design: DesignCost | None = None,
) -> RunEnergy:
    """Return the energy of a run: of each link, router and NPU, and of all.

    Parameters
    ----------
    result
        A Result, or the HDF5 file of one; the file alone is enough.
    cost
        Prices and powers, as in the table [cost]; default: those of the experiment, else of the catalogue.
    design
        The result of `design_cost` for the same network, which then replaces `cost`.

    Raises
    ------
    InputError
        For a file that is no result, and for a power that neither [cost] nor the catalogue has.
    """
    run = result if isinstance(result, Result) else Result.load(result)
    if design is None:
        design = design_of_result(run, cost)
    return _energy(run, design)


def design_of_result(result: Result, cost: Cost | Mapping[str, Any] | None = None) -> DesignCost:
    """Return the cost of the system of a result; `cost`: see `energy`. Raises InputError."""
    experiment = Experiment.from_toml(result.experiment_toml)
    if cost is not None:
        given = cost if isinstance(cost, Cost) else Cost(**cost)
        experiment = experiment.model_copy(update={"cost": given})
    network = experiment.network.model_copy(update={"clock": result.clock_hz})
    experiment = experiment.model_copy(update={"network": network})
    return design_of(experiment, inventory_of_result(result), result.links.latency)


def _energy(result: Result, design: DesignCost) -> RunEnergy:
    inventory, notes = design.inventory, list(design.notes)
    if len(inventory.src) != len(result.links):
        problem = f"the design has {len(inventory.src)} links, the result {len(result.links)}"
        raise InputError(problem, key="design", allowed="the design of the same network")
    seconds = float(result.time_cycles / result.clock_hz)
    flits = result.totals["flits"]
    if not result.has_link_counters and int(result.counts.get("messages", 0)):
        notes.append(f"the backend {result.backend} has no routes: the energy of traffic is missing")
    elif not int(result.counts.get("router_visits", 0)):
        notes.append(f"the backend {result.backend} has no routers: their traffic is that of the links into them")
    flit_bits = BITS * design_flit(result)
    links = _links(result, design, flits, flit_bits, seconds)
    routers = _routers(result, design, flits, flit_bits, seconds)
    npus = _npus(result, design, seconds)
    parts = [_sum("links", links), *_lanes(result, design, seconds), _sum("routers", routers)]
    parts += [_sum("npus", npus)] if npus else []
    parts += [*_hosts(design, seconds), *_memory(result, design)]
    if not npus or not npus["compute"].any():
        notes += [_NO_WORK] if npus else []
    bits = BITS * int(result.counts.get("bytes_delivered", 0))
    return RunEnergy(seconds, links, routers, npus, parts, design.figures.pue, bits, tuple(notes))


def record_energy(result: Result) -> None:
    """Put the energy of a run into its tables. A figure that is missing becomes a warning: the run is done."""
    try:
        run = energy(result)
    except InputError as error:
        result.warnings.append(f"the energy of the run is missing: {error}")
        return
    rows = {"energy": run.parts, "energy_links": run.links, "energy_routers": run.routers, "energy_npus": run.npus}
    for name, values in rows.items():
        setattr(result, name, values)
    result.wrap()
    # A collective alone, or traffic, gives NPUs no work: only `pyxsim cost` tells that.
    idle = result.work is None and Experiment.from_toml(result.experiment_toml).workload is None
    result.warnings += [f"energy: {note}" for note in run.notes if not (idle and note == _NO_WORK)]


def design_flit(result: Result) -> int:
    """Return the bytes of a flit in a result."""
    return int(Experiment.from_toml(result.experiment_toml).network.flit)


def _rows(dynamic: FloatArray, idle: FloatArray) -> Columns:
    """Columns from float64[3, n]: the parts of the typical energy, and all three bounds of the sum."""
    total = dynamic + idle
    return {"dynamic": dynamic[1], "idle": idle[1], "low": total[0], "energy": total[1], "high": total[2]}


def _links(result: Result, design: DesignCost, flits: IntArray, flit_bits: int, seconds: float) -> Columns:
    inventory, known = design.inventory, design.figures
    bits = flits * flit_bits
    if design.chip is not None:
        dynamic = np.broadcast_to(design.chip.link_energy * flits, (3, len(flits)))
        idle = np.broadcast_to(design.chip.link_power * seconds, (3, len(flits)))
    else:
        used = np.unique(inventory.kind)
        full, share = np.zeros((2, 3, len(inventory.kinds)))
        for kind in used.tolist():
            full[:, kind] = three([known.links[kind].need("energy")])[:, 0]
            share[:, kind] = three([known.links[kind].need("idle")])[:, 0]
        kinds = inventory.kind
        dynamic = full[:, kinds] * (1 - share[:, kinds]) * bits
        idle = full[:, kinds] * share[:, kinds] * inventory.bandwidth * BITS * seconds
    # The sum grows with the energy and with the share, as a link carries no more bits than its bandwidth allows.
    return {"link": np.arange(len(bits)), "bits": bits, **_rows(dynamic, idle)}


def _routers(result: Result, design: DesignCost, flits: IntArray, flit_bits: int, seconds: float) -> Columns:
    """Rows of all routers, and one with the number -1 for the flits that NPUs inject by lanes."""
    inventory, known = design.inventory, design.figures
    count = inventory.routers
    linked = inventory.dst >= 0
    passed = np.bincount(inventory.dst[linked], flits[linked], count).astype(np.int64)
    by_lanes = 0 if (inventory.src < 0).any() else int(result.counts.get("flits", 0))
    dynamic, idle = np.zeros((2, 3, count + 1))
    number, flits_in = np.append(np.arange(count), -1), np.append(passed, by_lanes)
    if design.chip is not None:
        homes = ~inventory.is_switch
        injecting = design.chip.router_energy[homes].mean() if homes.any() else 0.0
        dynamic[:] = np.append(design.chip.router_energy, injecting) * flits_in
        idle[:, :count] = design.chip.router_power * seconds
    else:
        inside = np.append(~inventory.is_switch, True)
        dynamic[:, inside] = three([known.cost.router]) * (flits_in * flit_bits)[inside]
        for kind in np.unique(inventory.router_kind[design.chips > 0]).tolist():
            part = known.switches[kind]
            here = np.flatnonzero((design.chips > 0) & (inventory.router_kind == kind))
            power, share = three([part.need("power")]), three([part.need("idle")])
            per_bit = power * (1 - share) / (BITS * float(part.need("capacity")))
            dynamic[:, here] = per_bit * design.stages[here] * passed[here] * flit_bits
            idle[:, here] = power * share * design.chips[here] * seconds
    rows = _rows(dynamic, idle)
    last = -1 if not by_lanes else None  # without lanes there is no row for them
    return {name: values[:last] for name, values in {"router": number, "flits": flits_in, **rows}.items()}


def _lanes(result: Result, design: DesignCost, seconds: float) -> list[dict[str, Any]]:
    """The row of the lanes between NPUs and routers on a chip: each flit takes one at either end."""
    chip = design.chip
    if chip is None or not chip.lanes:
        return []
    dynamic = 2 * int(result.counts.get("flits", 0)) * chip.lane_energy
    return [_part("lanes", chip.lanes, dynamic, np.repeat(chip.lanes * chip.lane_power * seconds + dynamic, 3))]


def _npus(result: Result, design: DesignCost, seconds: float) -> Columns:
    part, count = design.figures.npu, design.inventory.npus
    if part is None:
        return {}
    power = three([part.need("power")])
    idle = power if part.get("idle") is None else three([part.get("idle")])
    working = np.zeros(count, np.int64) if result.work is None else result.work.npus["compute"]
    busy = working / float(result.clock_hz)
    rows = _rows(power * busy, idle * np.maximum(seconds - busy, 0))
    return {"npu": np.arange(count), "compute": np.asarray(working, np.int64), **rows}


def _hosts(design: DesignCost, seconds: float) -> list[dict[str, Any]]:
    part, count = design.figures.host, design.inventory.npus
    if part is None:
        return []
    total = three([part.need("power")])[:, 0] * seconds * count
    return [_part("hosts", count, 0.0, total)]


def _memory(result: Result, design: DesignCost) -> list[dict[str, Any]]:
    part, memory = design.figures.memory, result.memory
    if part is None or memory is None or "loaded" not in memory.npus:
        return []
    moved = BITS * int(memory.npus["loaded"].sum() + memory.npus["stored"].sum())
    total = three([part.need("energy")])[:, 0] * moved
    return [_part("memory", len(memory.npus["loaded"]), float(total[1]), total)]


def _sum(name: str, columns: Columns) -> dict[str, Any]:
    numbers = next(iter(columns.values()), np.zeros(0))  # -1 is not a part: injection by lanes
    return _part(
        name, int((numbers >= 0).sum()), float(columns["dynamic"].sum()), [columns[bound].sum() for bound in _BOUNDS]
    )


def _part(name: str, count: int, dynamic: float, bounds: Any) -> dict[str, Any]:
    low, typical, high = (float(bound) for bound in bounds)
    return {
        "part": name,
        "count": count,
        "dynamic": dynamic,
        "idle": typical - dynamic,
        "low": low,
        "energy": typical,
        "high": high,
    }
