"""The energy of runs against closed forms, and sums over the tables of the HDF5 file."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import pyxsim
from pyxsim.costs import design_cost, energy, step_cost
from pyxsim.errors import InputError
from pyxsim.settings import load_experiment
from pyxsim.settings.estimate import Estimate

FREE = {"energy": "0 pJ/bit", "idle": 0, "price": "0 $/GBps"}
MIB = 2**20


def ring(npus: int = 4, backend: str = "packet", size: str = "1 MiB", **cost: Any) -> Any:
    tables = {
        "network": {"topology": "ring", "shape": [npus], "bandwidth": "100 GB/s", "latency": "100 ns"},
        "system": {"all_reduce": "ring"},
        "collective": {"kind": "all-reduce", "size": size},
        "cost": cost,
    }
    return pyxsim.run(tables, backend=backend)


@pytest.mark.parametrize("backend", ["packet", "analytical", "analytical-congestion", "flow"])
def test_traffic_of_a_ring_all_reduce(backend: str) -> None:
    # Each of N NPUs sends 2 (N - 1) / N of the buffer, each bit over one link: 2 (N - 1) x 8 x size bits in all.
    result = ring(4, backend, links={"energy": ["1 pJ/bit", "2 pJ/bit", "4 pJ/bit"], "idle": 0})
    bits = 2 * 3 * 8 * MIB
    found = energy(result)
    assert found.of("links").json() == pytest.approx(
        {"low": bits * 1e-12, "typical": bits * 2e-12, "high": bits * 4e-12}
    )
    assert found.links["bits"].sum() == bits
    assert found.bits == bits
    assert float(found.per_bit) == pytest.approx(2e-12)
    assert any("has no routers" in note for note in found.notes) == (backend != "packet")


def test_links_without_traffic_take_their_share() -> None:
    result = ring(4, links={"energy": "2 pJ/bit", "idle": "0.25"})
    seconds = result.time_cycles / float(result.clock_hz)
    bits, capacity = 2 * 3 * 8 * MIB, 8 * 8 * 100e9  # 8 directions of 800 Gb/s
    expected = 2e-12 * (0.75 * bits + 0.25 * capacity * seconds)
    assert float(energy(result).total) == pytest.approx(expected)


def test_a_switch_is_passed_by_every_bit() -> None:
    # One message of 1 MiB between two NPUs at a switch of 10 W and 400 GB/s: its capacity is that of its four ports.
    tables = {
        "network": {"topology": "switch", "shape": [4], "bandwidth": "100 GB/s"},
        "message": [{"src": 0, "dst": 1, "size": "1 MiB"}],
        "cost": {"links": FREE, "switch": {"capacity": "400 GB/s", "power": "10 W", "idle": "0.2", "price": "1 $"}},
    }
    result = pyxsim.run(tables)
    found = energy(result)
    seconds = found.seconds
    dynamic = 10 * 0.8 / (8 * 400e9) * 8 * MIB
    assert float(found.of("routers")) == pytest.approx(dynamic + 10 * 0.2 * seconds)
    assert found.routers["flits"].tolist()[-2:] == [MIB // 256, MIB // 256]  # the switch, then the lane of NPU 0


def test_npus_at_work_and_idle(tmp_path: Path) -> None:
    tables = {
        "network": {"topology": "ring", "shape": [2]},
        "system": {"npu": {"device": "h100"}},
        "workload": {"model": "resnet50", "batch": 2, "parallelism": {"data": 2}},
        "cost": {"npu": {"power": "700 W", "idle": "100 W"}, "links": FREE, "host": {"power": "50 W"}},
    }
    result = pyxsim.run(tables, backend="analytical")
    clock = float(result.clock_hz)
    busy = result.npus["compute"].sum() / clock
    assert busy > 0
    seconds = result.time_cycles / clock
    found = energy(result)
    assert float(found.of("npus")) == pytest.approx(700 * busy + 100 * (2 * seconds - busy))
    assert float(found.of("hosts")) == pytest.approx(2 * 50 * seconds)


def test_the_file_alone_has_the_sums(tmp_path: Path) -> None:
    result = ring(4, npu={"type": "h100"}, links={"type": "optical"}, router="1 pJ/bit")
    path = tmp_path / "out.h5"
    result.save(path)
    with h5py.File(path) as file:
        sums = {name: file[name]["energy"][:].sum() for name in ("energy_links", "energy_routers", "energy_npus")}
        parts = dict(zip(file["energy"]["part"].asstr()[:], file["energy"]["energy"][:], strict=True))
        # Counters times coefficients, by hand from other tables of the file.
        flits, speed = file["links_total"]["flits"][:], file["links_total"]["bandwidth"][:]
        seconds = file["links_total"].attrs["cycles"] / file.attrs["clock_hz"]
        assert parts["links"] == pytest.approx(21.25e-12 * 8 * speed.sum() * seconds)  # idle = 1: whatever the traffic
        # A flit passes the routers at both ends of its link; one of 2 (N - 1) / N of 1 MiB enters by a lane.
        assert parts["routers"] == pytest.approx(1e-12 * 8 * 256 * 2 * flits.sum())
        for key, part in (("energy_links", "links"), ("energy_routers", "routers"), ("energy_npus", "npus")):
            assert sums[key] == pytest.approx(parts[part])
    again = energy(path)
    assert float(again.total) == pytest.approx(sum(parts.values()))
    assert energy(path).json() == energy(result).json()
    loaded = pyxsim.load(path)
    assert loaded.energy == list(result.energy)
    assert loaded.to_xarray("energy_links")["energy"].attrs["units"] == "joules"


def test_other_figures_for_a_file(tmp_path: Path) -> None:
    result = ring(4)  # without [cost], a result has no tables of energy
    path = tmp_path / "out.h5"
    result.save(path)
    bits = 2 * 3 * 8 * MIB
    found = energy(path, {"links": {"energy": "3 pJ/bit", "idle": 0}})
    assert float(found.total) == pytest.approx(3e-12 * bits)


def test_folded_and_skipped_runs_have_the_same_energy() -> None:
    tables = {
        "network": {"topology": "torus", "shape": [8, 8], "bandwidth": "100 GB/s", "latency": "100 ns"},
        "system": {"all_reduce": "ring"},
        "collective": {"kind": "all-reduce", "size": "4 MiB"},
        "cost": {"npu": {"type": "h100"}, "links": [{"type": "board"}, {"type": "optical"}], "router": "1 pJ/bit"},
    }
    folded, whole = (pyxsim.run(tables, overrides=[f"run.skip={skip}"]) for skip in ("true", "false"))
    assert folded.counts["skipped_visits"] > 0
    assert whole.counts["skipped_visits"] == 0
    assert list(folded.energy) == list(whole.energy)
    for name in ("energy_links", "energy_routers", "energy_npus"):
        for column, values in getattr(whole, name).items():
            assert np.array_equal(getattr(folded, name)[column], values), (name, column)


def test_energy_on_a_chip() -> None:
    tables = {
        "network": {
            "topology": "mesh",
            "shape": [3, 1],
            "clock": "1 GHz",
            "flit": "16 B",
            "packet": "64 B",
            "bandwidth": "16 GB/s",
            "latency": "1 cycle",
            "lanes": 1,
            "router": {"vcs": 2, "buffer": 4},
        },
        "message": [{"src": 0, "dst": 2, "size": "640 B"}],
        "cost": {"noc": {"technology": "dsent-22nm", "wire": "1 mm"}},
    }
    result = pyxsim.run(tables)
    found = energy(result)
    noc = design_cost(load_experiment(tables)).chip.design
    flits = 40
    wire = sum(noc.flit_on(1.0))
    assert float(found.links["dynamic"].sum()) == pytest.approx(2 * flits * wire)
    # Routers 0 and 2 have two inputs, router 1 has three; what NPU 0 injects counts with the mean of the routers.
    mean = (2 * noc.traversal(2, 2) + noc.traversal(3, 3)) / 3
    expected = flits * (noc.traversal(3, 3) + noc.traversal(2, 2) + mean)
    assert float(found.routers["dynamic"].sum()) == pytest.approx(expected)
    lanes = next(part for part in found.parts if part["part"] == "lanes")
    assert lanes["count"] == 6
    assert lanes["dynamic"] == pytest.approx(2 * flits * wire)
    idle = 10 * sum(noc.channel_static(1.0)) + 2 * noc.router_static(2, 2) + noc.router_static(3, 3)
    assert sum(part["idle"] for part in found.parts) == pytest.approx(idle * found.seconds)


def test_cost_per_token() -> None:
    tables = {
        "network": {"topology": "ring", "shape": [2]},
        "system": {"npu": {"device": "h100"}},
        "workload": {"model": "gpt3-13b", "batch": 2, "parallelism": {"tensor": 2}},
        "run": {"allow_oom": True},
        "cost": {
            "npu": {"power": "500 W", "idle": "500 W", "price": "10 k$"},
            "links": FREE,
            "pue": 1.5,
            "electricity": "0.1 $/kWh",
            "years": 5,
            "used": "0.5",
        },
    }
    experiment = load_experiment(tables)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = pyxsim.run(experiment, backend="analytical")
    step = step_cost(design_cost(experiment), result)
    seconds = result.time_cycles / float(result.clock_hz)
    joules = 2 * 500 * 1.5 * seconds
    assert step.tokens == 2 * 2048
    assert float(step.energy_per_token) == pytest.approx(joules / step.tokens)
    dollars = joules / 3.6e6 * 0.1 + 20_000 * seconds / (5 * 365 * 86_400 * 0.5)
    assert float(step.dollars_per_token) == pytest.approx(dollars / step.tokens)
    assert step.json()["dollars_per_token"]["typical"] == float(step.dollars_per_token)


def test_bounds_of_a_run_are_in_order() -> None:
    result = ring(4, npu={"type": "h100"}, links={"type": "board"}, host={"type": "dgx-h100"})
    for part in energy(result).parts:
        assert part["low"] <= part["energy"] <= part["high"]
        assert part["dynamic"] + part["idle"] == pytest.approx(part["energy"])
    assert isinstance(energy(result).at_the_wall, Estimate)


def test_a_power_that_is_not_known_is_refused_before_the_run() -> None:
    network = {"topology": "switch", "shape": [4]}
    tables = {"network": network, "collective": {"kind": "all-reduce", "size": "1 MiB"}}
    with pytest.raises(InputError, match=r"cost.switch.power: the catalogue has no power of 'nvswitch-3'"):
        pyxsim.run({**tables, "cost": {"switch": {"type": "nvswitch-3"}}})
    with pytest.raises(InputError, match=r"cost.npu.type: 'h10' is not in the catalogue"):
        pyxsim.run({**tables, "cost": {"npu": {"type": "h10"}}})


def test_a_design_of_another_network_is_refused() -> None:
    result = ring(4)
    tables = {"network": {"topology": "ring", "shape": [8]}, "collective": {"kind": "all-reduce", "size": "1 MiB"}}
    with pytest.raises(InputError, match=r"the design has 16 links, the result 8"):
        energy(result, design=design_cost(load_experiment(tables)))


def test_a_result_and_its_topology_give_the_same_parts(tmp_path: Path) -> None:
    for network in (
        {"topology": "dgx-h100"},
        {"topology": "torus", "shape": [2, 3]},
        {"topology": "k-ary-n-tree", "options": {"k": 2, "n": 2}},
    ):
        tables = {"network": network, "collective": {"kind": "all-reduce", "size": "64 KiB"}}
        experiment = load_experiment(tables)
        path = tmp_path / "out.h5"
        result = pyxsim.run(experiment, backend="flow")
        result.save(path)
        built, loaded = design_cost(experiment), pyxsim.cost(path).design
        assert [part.json() for part in loaded.parts if part.kind != "link"] == [
            part.json() for part in built.parts if part.kind != "link"
        ]
        assert float(loaded.power_peak) == pytest.approx(float(built.power_peak))
        assert float(loaded.capex) == pytest.approx(float(built.capex))
