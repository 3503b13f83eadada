"""ASTRA-sim 1 over gem5's Garnet: its MICRO cases end in the same cycle here, or differ by what is known.

inputs/reference/garnet.json has the cases and where they come from; docs/validation.md tells what was learned.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pyxsim.compat.astra.files import astra_experiment
from pyxsim.errors import DeadlockError
from pyxsim.runner.lifecycle import run, simulate
from pyxsim.runner.prepare import prepare
from pyxsim.runner.prepared import Prepared
from pyxsim.settings import Experiment, load_experiment

REFERENCE = json.loads(
    (Path(__file__).resolve().parents[2] / "inputs" / "reference" / "garnet.json").read_text(encoding="utf-8")
)
CASES: dict[str, dict[str, Any]] = {case["case"]: case for case in REFERENCE["cases"]}
# Direct and halving-doubling on rings without datelines: our proof refuses them, the original runs them.
UNPROVED = {
    name for name, case in CASES.items() if case["network"].count("Torus3D") and case["system"].count("ring_ring") == 0
}
NEVER_ENDS = {"cal_direct_vc1_horiz4"}
# Cycles by which we differ. Four flits per VC: there the first packet on each of two VCs gets its credits 2 cycles
# later, in three round trips; see test_the_case_with_four_flits_per_vc.
DIFFERS = {"cal_horiz_64pkt_vc4_buf4": -12}


def experiment(folder: Path, case: dict[str, Any]) -> Experiment:
    for name in ("network", "system", "workload"):
        (folder / f"{name}.txt").write_text(case[name], encoding="utf-8")
    files = [folder / f"{name}.txt" for name in ("network", "system", "workload")]
    return astra_experiment(*files, passes=case["passes"])


def test_the_cases_are_there() -> None:
    assert len(CASES) == 27
    assert {name for name, case in CASES.items() if case["finished_cycle"] is None} == NEVER_ENDS
    assert len(UNPROVED) == 6
    assert set(DIFFERS) | NEVER_ENDS | UNPROVED <= set(CASES)


@pytest.mark.parametrize("name", sorted(set(CASES) - NEVER_ENDS))
def test_it_ends_in_the_same_cycle(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    result = run(experiment(tmp_path, case), allow_deadlock=name in UNPROVED)
    assert result.time_cycles - case["finished_cycle"] == DIFFERS.get(name, 0)
    assert abs(result.time_cycles / case["finished_cycle"] - 1) < 0.0002
    assert result.lower_bound_ns is not None
    assert result.lower_bound_ns <= result.time_ns


@pytest.mark.parametrize("name", sorted(UNPROVED))
def test_what_could_deadlock_is_refused_first(name: str, tmp_path: Path) -> None:
    with pytest.raises(DeadlockError, match=r"4 channels can form a cycle.*allow_deadlock=True"):
        run(experiment(tmp_path, CASES[name]))


@pytest.mark.parametrize("name", sorted(NEVER_ENDS))
def test_what_never_ended_is_a_deadlock(name: str, tmp_path: Path) -> None:
    """One VC, and messages of up to three hops on a ring: the original spins forever, we name the circle."""
    prepared = prepare(experiment(tmp_path, CASES[name]), allow_deadlock=True)
    assert isinstance(prepared, Prepared)
    with pytest.raises(DeadlockError) as caught:
        simulate(prepared)
    assert len(caught.value.cycle) == 4
    assert all(name.startswith("d1East0:") for name in caught.value.cycle)
    result = caught.value.result  # type: ignore[attr-defined]
    assert not result.complete
    assert 0 < result.counts["bytes_delivered"] < prepared.system.bytes_planned


# -- four flits per VC -------------------------------------------------------------------------------------------------

FLITS, PIECES, LATENCY, LANE = 16, 8, 200, 90
# From one grant to the next with the same slot: the flit's way (200, 8 pieces, 4 of the serialisers), the credit's.
LOOP = (LATENCY + PIECES + 4) + (1 + LATENCY + PIECES - 1 + 4)
LEAD = 2


def period(slots: int, loop: int) -> int:
    """Cycles from the tail of a packet to that of the next where they may not overtake each other.

    A packet goes in bursts of as many flits as the VC has slots, a credit loop apart; the next one follows the last.
    """
    bursts = -(-FLITS // slots)
    return (bursts - 1) * loop + (FLITS - (bursts - 1) * slots) * PIECES


def one_packet(slots: int) -> int:
    """One packet from interface to interface on an idle network: as with endless buffers, and bursts a loop apart."""
    endless = (1 + LANE) + (3 + FLITS * PIECES - 1 + LATENCY + 2) + (1 + LANE)
    return endless + period(slots, LOOP) - FLITS * PIECES


def test_the_case_with_four_flits_per_vc() -> None:
    """The original, told by arithmetic. Of the 4 VCs it uses 2, as packets keep their order (all its networks do).

    Its serialiser brings back the pieces of a credit in such an order that the one which frees the VC overtakes two;
    these are counted with the next credits on that VC, which are all 2 cycles early from then on.
    """
    assert LOOP == 424
    assert period(4, LOOP) == 1304
    packets = one_packet(4) + period(4, LOOP) + 62 * period(4, LOOP - LEAD)
    # Start 13, endpoint delay 1, the message, endpoint delay 1 and reduction 30, update time 5.
    assert 13 + 1 + packets + 1 + 30 + 5 == CASES["cal_horiz_64pkt_vc4_buf4"]["finished_cycle"]


@pytest.mark.parametrize("slots", [1, 2, 3, 4, 5, 7, 8, 10, 15])
def test_any_number_of_flits_per_vc(slots: int, tmp_path: Path) -> None:
    """The same arithmetic holds here for every depth, with the lead from the first packet on."""
    case = dict(CASES["cal_horiz_64pkt_vc4_buf4"])
    case["network"] = case["network"].replace("buffers-per-vc: 4\n", f"buffers-per-vc: {slots}\n")
    bursts = -(-FLITS // slots)
    early = (bursts - 1) * LEAD
    packets = one_packet(slots) - early + 63 * period(slots, LOOP - LEAD)
    assert run(experiment(tmp_path, case)).time_cycles == 13 + 1 + packets + 1 + 30 + 5


# -- the same on the other roads ---------------------------------------------------------------------------------------


def test_the_resolved_settings_are_the_experiment(tmp_path: Path) -> None:
    """The TOML of a result gives the same run again, without the files of ASTRA-sim but the workload."""
    case = CASES["ar1m_2x2x2_sample"]
    first = run(experiment(tmp_path, case))
    (tmp_path / "again.toml").write_text(first.experiment_toml, encoding="utf-8")
    again = run(load_experiment(tmp_path / "again.toml"))
    assert again.time_cycles == first.time_cycles
    assert again.counts == first.counts


def test_the_page_has_these_numbers() -> None:
    """Every row of the table in docs/validation.md."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "validation.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("| `")]
    told = {row[0].strip("`"): row[3:6] for row in rows if row[0].strip("`") in CASES}
    assert set(told) == set(CASES)
    for name, (theirs, ours, difference) in told.items():
        if name in NEVER_ENDS:
            assert (theirs, ours) == ("never ends", "deadlock, named")
        else:
            wanted, apart = CASES[name]["finished_cycle"], DIFFERS.get(name, 0)
            assert [int(theirs), int(ours), int(difference)] == [wanted, wanted + apart, apart]
