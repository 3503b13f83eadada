"""The powers and areas that BookSim2 prints for three of its example configurations.

booksim_power.json has what BookSim2 (commit 28f43299) printed with sim_power = 1 and power/techfile.txt, and the
activity that its monitors counted, printed by a patched copy: the flits of all channels by latency, and of all routers
of one size the reads, writes and flits from each input to each output. The model is linear in all of them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyxsim.costs.catalogue import technology
from pyxsim.costs.noc import Activity, NocDesign, noc_power
from pyxsim.costs.noc.wires import best_wire

CASES: dict[str, Any] = json.loads((Path(__file__).parent / "booksim_power.json").read_text())
LINES = {
    "channel_wire": "Channel Wire Power",
    "channel_clock": "Channel Clock Power",
    "channel_retiming": "Channel Retiming Power",
    "channel_leakage": "Channel Leakage Power",
    "input_read": "Input Read Power",
    "input_write": "Input Write Power",
    "input_leakage": "Input Leakage Power",
    "switch": "Switch Power",
    "switch_control": "Switch Control Power",
    "switch_leakage": "Switch Leakage Power",
    "output_dff": "Output DFF Power",
    "output_clock": "Output Clk Power",
    "output_control": "Output Control Power",
    "total": "Total Power",
    "channel_area": "Channel Area",
    "switch_area": "Switch Area",
    "input_area": "Input Area",
    "output_area": "Output Area",
    "area": "Total Area",
}


def activity(case: dict[str, Any], wire_length: float) -> Activity:
    lengths: list[float] = []
    flits: list[int] = []
    for latency, (count, sent) in case["channels"].items():
        lengths += [int(latency) * wire_length] * count
        flits += [sent, *[0] * (count - 1)]
    routers: list[Any] = []
    for group in case["routers"].values():
        passed = np.array(group["passed"])
        routers += [(group["reads"], group["writes"], passed)]
        routers += [(0, 0, np.zeros_like(passed))] * (group["count"] - 1)
    return Activity(int(case["printed"]["Completion Time"]), lengths, np.array(flits), routers)


@pytest.mark.parametrize("name", CASES)
def test_equals_what_booksim_prints(name: str) -> None:
    case, process = CASES[name], technology("booksim-32nm")
    design = NocDesign(process, case["width"], case["words"], process.cycle)
    power = noc_power(design, activity(case, process.wire_length))
    # BookSim2 prints six digits.
    assert {line: getattr(power, line) for line in LINES} == {
        line: pytest.approx(case["printed"][printed], rel=5e-6) for line, printed in LINES.items()
    }


def test_wires_are_those_of_booksim() -> None:
    # Printed as "L = 2 K = 8.1 M = 2 N = 1", ...: length, size of repeaters, stages, repeaters per stage.
    process = technology("booksim-32nm")
    wires = [best_wire(process, length, process.cycle) for length in (2.0, 4.0, 8.0)]
    found = [(round(wire.size, 1), wire.stages, wire.segments) for wire in wires]
    assert found == [(8.1, 2, 1), (8.1, 4, 1), (9.3, 7, 1)]


def test_mean_traversal_is_that_of_an_even_use_of_all_pairs() -> None:
    process = technology("dsent-32nm")
    design = NocDesign(process, 128, 64, process.cycle)
    even = np.ones((5, 5), int)
    power = noc_power(design, Activity(25, [], np.zeros(0, int), [(25, 25, even)]))
    dynamic = power.input_read + power.input_write + power.switch + power.switch_control
    dynamic += power.output_dff + power.output_control
    # 25 flits in 25 cycles: a flit per cycle.
    assert design.traversal(5, 5) == pytest.approx(dynamic * process.cycle)
    idle = power.total - dynamic
    assert design.router_static(5, 5) == pytest.approx(idle)
    assert design.router_area(5, 5) == pytest.approx(power.area)


@pytest.mark.parametrize("node", ["dsent-45nm", "dsent-32nm", "dsent-22nm", "dsent-11nm", "booksim-32nm"])
def test_energy_of_a_wire_is_linear_in_its_length(node: str) -> None:
    # A slow clock needs one stage; repeaters are chosen again, so the energy per mm stays within their share.
    process = technology(node)
    short, long = (best_wire(process, length, 1e-9) for length in (1.0, 4.0))
    least = 0.5 * process.wire * process.supply**2  # the wire alone
    assert least <= short.energy <= 4 * least
    assert 4 * least <= long.energy <= 16 * least
    assert short.stages == 1
