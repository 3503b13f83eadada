"""Prices and powers of designs against closed forms and LIBRA's cost model."""

from __future__ import annotations

from typing import Any

import pytest

from pyxsim.costs import design_cost
from pyxsim.costs.design import chips_of
from pyxsim.errors import InputError
from pyxsim.settings import load_experiment

WORK = {"collective": {"kind": "all-reduce", "size": "1 MiB"}}


def design(network: dict[str, Any], **cost: Any) -> Any:
    return design_cost(load_experiment({"network": network, **WORK, "cost": cost}))


def parts(found: Any, kind: str) -> list[Any]:
    return [part for part in found.parts if part.kind == kind]


def test_links_of_a_ring() -> None:
    # 8 links both ways of 100 GB/s: 8 x 100 x 4 dollars; 16 directions of 800 Gb/s x 2 pJ/bit = 25.6 W.
    link = {"energy": "2 pJ/bit", "idle": 0.25, "price": "4 $/GBps"}
    found = design({"topology": "ring", "shape": [8], "bandwidth": "100 GB/s"}, links=link, pue=1)
    assert float(found.capex) == pytest.approx(3200)
    assert float(found.power_peak) == pytest.approx(25.6)
    assert float(found.power_idle) == pytest.approx(6.4)
    (part,) = parts(found, "link")
    assert part.count == 8


def libra(npus: list[int], bandwidths: list[float]) -> float:
    """The cost of switches of LIBRA (arXiv 2109.11762): (link + switch + nic) x bandwidth x NPUs, in each dimension."""
    rates = [(4.0, 13.0, 0.0), (7.8, 18.0, 31.6)]
    total = npus[0] * npus[1]
    return sum(sum(rate) * bandwidth * total for rate, bandwidth in zip(rates, bandwidths, strict=True))


def test_two_levels_of_switches_cost_what_libra_says() -> None:
    dims = [
        {"block": "switch", "npus": 8, "bandwidth": "300 GB/s"},
        {"block": "switch", "npus": 4, "bandwidth": "50 GB/s"},
    ]
    found = design(
        {"dims": dims},
        links=[{"price": "4 $/GBps"}, {"price": "7.8 $/GBps", "nic": "31.6 $/GBps"}],
        switch=[{"type": "libra-inter-node"}, {"type": "libra-inter-pod"}],
    )
    assert float(found.capex) == pytest.approx(libra([8, 4], [300, 50]))


@pytest.mark.parametrize(
    ("ports", "radix", "chips", "passed"),
    [
        (64, 64, 1, 1),
        (32, 64, 0.5, 1),  # half of a chip
        (65, 64, 3 * 65 / 64, 3),
        (2048, 64, 96, 3),  # 64 leaves and 32 spines
        (65536, 64, 5 * 65536 / 64, 5),  # the fat tree of 64-port switches: 5 k^2 / 4 chips for k^3 / 4 hosts
    ],
)
def test_chips_of_folded_clos_networks(ports: int, radix: int, chips: float, passed: int) -> None:
    assert chips_of(ports, ports * 1.0, radix * 1.0, radix) == (pytest.approx(chips), passed)


def test_a_switch_can_take_whole_chips() -> None:
    network = {"topology": "switch", "shape": [8], "bandwidth": "100 GB/s"}
    shared = design(network, switch={"capacity": "1600 GB/s", "power": "100 W", "idle": 0, "price": "1 k$"})
    whole = design(
        network, switch={"capacity": "1600 GB/s", "power": "100 W", "idle": 0, "price": "1 k$", "whole_chips": True}
    )
    assert parts(shared, "switch")[0].count == pytest.approx(0.5)
    assert parts(whole, "switch")[0].count == 1


def test_npus_and_hosts() -> None:
    found = design(
        {"topology": "ring", "shape": [4]},
        npu={"power": "700 W", "idle": "70 W", "price": ["20 k$", "30 k$", "40 k$"]},
        host={"power": "300 W", "price": "5 k$"},
        links={"energy": "0 pJ/bit", "idle": 0, "price": "0 $/GBps"},
        pue=[1.1, 1.2, 1.5],
    )
    assert found.capex.json() == {"low": 100_000, "typical": 140_000, "high": 180_000}
    assert found.power_peak.json() == pytest.approx({"low": 4400, "typical": 4800, "high": 6000})
    # Without a power of its own, a host without work takes its whole power.
    assert float(found.power_idle) == pytest.approx(4 * (70 + 300) * 1.2)


def test_a_figure_of_the_table_replaces_that_of_the_catalogue() -> None:
    network = {"topology": "ring", "shape": [4]}
    base = design(network, npu={"type": "h100"}, links={"type": "optical"})
    changed = design(network, npu={"type": "h100", "price": "1 k$"}, links={"type": "optical", "energy": "1 pJ/bit"})
    assert float(parts(base, "npu")[0].price) == 120_000
    assert float(parts(changed, "npu")[0].price) == 4_000
    assert parts(changed, "npu")[0].peak == parts(base, "npu")[0].peak
    ratio = float(parts(base, "link")[0].peak) / float(parts(changed, "link")[0].peak)
    assert ratio == pytest.approx(21.25)  # the catalogue's pJ/bit
    assert "[cost]: energy" in parts(changed, "link")[0].source


def test_the_device_is_the_default_of_the_npu() -> None:
    tables = {
        "network": {"topology": "ring", "shape": [4]},
        "system": {"npu": {"device": "h100"}},
        "workload": {"model": "gpt3-13b", "batch": 4},
    }
    (npu,) = parts(design_cost(load_experiment(tables)), "npu")
    assert npu.name == "h100"


def test_what_is_not_known_is_told_where_it_is_used() -> None:
    found = design({"topology": "ring", "shape": [4]}, npu={"type": "tpu-v4"})
    assert float(found.power_peak) > 0
    with pytest.raises(InputError, match=r"cost.npu.price: the catalogue has no price of 'tpu-v4'; allowed: a price"):
        _ = found.capex
    assert found.json()["capex"] is None
    assert "tpu-v4" in found.json()["missing"][0]
    assert design({"topology": "ring", "shape": [4]}).notes[0].startswith("NPUs are not counted: no cost.npu")


def test_lists_of_another_length_are_refused() -> None:
    network = {"topology": "torus", "shape": [2, 2, 2]}
    with pytest.raises(InputError, match=r"cost.links: the list has 2 tables, but the network has 3 kinds of links"):
        design(network, links=[{"type": "board"}, {"type": "optical"}])


def test_power_of_a_chip_is_that_of_its_parts() -> None:
    # 2x2 mesh, one lane each way per NPU: 4 routers of 3 inputs, 8 links, 8 lanes.
    found = design(
        {
            "topology": "mesh",
            "shape": [2, 2],
            "clock": "1 GHz",
            "flit": "16 B",
            "bandwidth": "16 GB/s",
            "latency": "1 cycle",
            "lanes": 1,
            "router": {"vcs": 2, "buffer": 4},
        },
        noc={"technology": "dsent-32nm"},
        pue=1,
    )
    noc = found.chip.design
    (clock, leak), flit = noc.channel_static(2.0), sum(noc.flit_on(2.0))
    idle = 16 * (clock + leak) + 4 * noc.router_static(3, 3)
    assert float(found.power_idle) == pytest.approx(idle)
    assert float(found.power_peak) == pytest.approx(idle + 1e9 * (16 * flit + 12 * noc.traversal(3, 3)))
    assert sum(part.area for part in found.parts) == pytest.approx(
        16 * noc.channel_area(2.0) + 4 * noc.router_area(3, 3)
    )
    assert float(found.capex) == 0


def test_a_chip_needs_buffers_of_a_size() -> None:
    network = {"topology": "mesh", "shape": [2, 2], "router": {"buffer": "auto"}}
    with pytest.raises(InputError, match=r"network.router.buffer: with .cost.noc. the buffers need a size"):
        design(network, noc={})
