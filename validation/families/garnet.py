"""ASTRA-sim 1 over gem5's Garnet: its MICRO cases end in the same cycle, or differ by a known number."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyxsim.compat.astra.files import astra_experiment
from pyxsim.errors import DeadlockError
from pyxsim.runner.lifecycle import run, simulate
from pyxsim.runner.prepare import prepare
from pyxsim.settings import Experiment
from validation.case import Case, Found, Picture, Series, not_too_fast
from validation.families import garnet_rings
from validation.reference import reference

SOURCE = "measurements in inputs/reference/garnet.json"
NEVER_ENDS = frozenset({"cal_direct_vc1_horiz4"})
# Cycles by which pyxsim differs; docs/validation.md explains them.
DIFFERS = {"cal_horiz_64pkt_vc4_buf4": -12}
TABLES = ("network", "system", "workload")
# Network and traffic, as a label.
TOLD: dict[str, tuple[str, str]] = {
    "a2a1m_2x2x2_sample": ("Torus3D 2x2x2", "all-to-all 1 MiB, ring, 4 chunks"),
    "ar1m_2x2x2_sample": ("Torus3D 2x2x2", "all-reduce 1 MiB, ring, 4 chunks"),
    "ar1m_4x4x4_1ring_vc4": ("Torus3D 4x4x4", "all-reduce 1 MiB, ring, 4 chunks, 4 VCs"),
    "cal_a2a_local4": ("Torus3D 4x1x1", "all-to-all 128 KiB, ring"),
    "cal_ar_4x4_splits8": ("Torus3D 1x4x4", "all-reduce 1 MiB, ring, 8 chunks"),
    "cal_ar_4x4_splits8_rr": ("Torus3D 1x4x4", "all-reduce 1 MiB, ring, 8 chunks, roundRobin"),
    "cal_ar_4x4_splits8_themis": ("Torus3D 1x4x4", "all-reduce 1 MiB, ring, 8 chunks, offlineGreedy"),
    "cal_ar_local4": ("Torus3D 4x1x1", "all-reduce 128 KiB, ring"),
    "cal_direct1_allreduce_horiz4": ("Torus3D 1x4x1", "all-reduce 128 KiB, ring direct1 ring"),
    "cal_direct_allreduce_horiz4": ("Torus3D 1x4x1", "all-reduce 128 KiB, ring direct ring"),
    "cal_direct_alltoall_horiz4": ("Torus3D 1x4x1", "all-to-all 128 KiB, ring direct ring"),
    "cal_direct_vc1_horiz4": ("Torus3D 1x4x1", "reduce-scatter 128 KiB, ring direct ring, 1 VC"),
    "cal_halvingDoubling_allreduce_horiz4": ("Torus3D 1x4x1", "all-reduce 128 KiB, ring halvingDoubling ring"),
    "cal_halvingDoubling_reducescatter_horiz4": ("Torus3D 1x4x1", "reduce-scatter 128 KiB, ring halvingDoubling ring"),
    "cal_horiz_1pkt": ("Torus3D 1x2x1", "reduce-scatter 8 KiB, ring"),
    "cal_horiz_1pkt_ed100": ("Torus3D 1x2x1", "reduce-scatter 8 KiB, ring, endpoint delay 100"),
    "cal_horiz_1pkt_router4": ("Torus3D 1x2x1", "reduce-scatter 8 KiB, ring, router latency 4"),
    "cal_horiz_2pkt": ("Torus3D 1x2x1", "reduce-scatter 16 KiB, ring"),
    "cal_horiz_64pkt": ("Torus3D 1x2x1", "reduce-scatter 512 KiB, ring"),
    "cal_horiz_64pkt_eqwidth": ("Torus3D 1x2x1", "reduce-scatter 512 KiB, ring, flit as wide as the link"),
    "cal_horiz_64pkt_vc1": ("Torus3D 1x2x1", "reduce-scatter 512 KiB, ring, 1 VC"),
    "cal_horiz_64pkt_vc4": ("Torus3D 1x2x1", "reduce-scatter 512 KiB, ring, 4 VCs"),
    "cal_horiz_64pkt_vc4_buf4": ("Torus3D 1x2x1", "reduce-scatter 512 KiB, ring, 4 VCs, 4 flits per VC"),
    "cal_local_1pkt": ("Torus3D 2x1x1", "reduce-scatter 8 KiB, ring"),
    "cal_rs_local4": ("Torus3D 4x1x1", "reduce-scatter 128 KiB, ring"),
    "sw_ar1m_direct": ("NV_Switch 2x4", "all-reduce 1 MiB, direct, 4 chunks, endpoint delay 10"),
    "sw_ar1m_hd": ("NV_Switch 2x4", "all-reduce 1 MiB, halvingDoubling, 4 chunks, endpoint delay 10"),
}


def experiment(case: dict[str, Any], folder: Path) -> Experiment:
    """Write the three files of a case into a folder and read them as an experiment."""
    for table in TABLES:
        (folder / f"{table}.txt").write_text(case[table], encoding="utf-8")
    return astra_experiment(*(folder / f"{table}.txt" for table in TABLES), passes=case["passes"])


def unproved(case: dict[str, Any]) -> bool:
    """Direct and halving-doubling on rings without datelines: the proof refuses them, the original runs them."""
    return "Torus3D" in case["network"] and "ring_ring" not in case["system"]


def the_same_cycle(name: str) -> Found:
    case = _case(name)
    with TemporaryDirectory() as folder:
        result = run(experiment(case, Path(folder)), allow_deadlock=unproved(case))
    theirs, ours = case["finished_cycle"], result.time_cycles
    not_too_fast(result)
    known = DIFFERS.get(name, 0)
    note = f"{known} cycles are known and explained" if known else ""
    cells = {**_told(name), "ASTRA-sim": str(theirs), "pyxsim": str(ours), "difference": str(ours - theirs)}
    picture = Picture(
        "",
        "cycles",
        [Series("ASTRA-sim", [0, 1], [theirs, theirs], "limit"), Series("pyxsim", [0.5], [ours], "points")],
    )
    return Found(abs(ours - theirs - known), picture, cells, note)


def never_ends(name: str) -> Found:
    """One VC and messages of up to three hops on a ring: the original never ends, pyxsim names the deadlock."""
    case = _case(name)
    with TemporaryDirectory() as folder:
        told = experiment(case, Path(folder))
        refused = 0
        try:
            prepare(told)
        except DeadlockError:
            refused = 1
        prepared = prepare(told, allow_deadlock=True)
        circle: list[str] = []
        try:
            simulate(prepared)
        except DeadlockError as error:
            circle = error.cycle
    wrong = (not refused) + (len(circle) != 4)
    cells = {**_told(name), "ASTRA-sim": "never ends", "pyxsim": "deadlock, named", "difference": ""}
    picture = Picture("", "VCs in the circle", [Series("pyxsim", [0], [len(circle)], "points")])
    return Found(wrong, picture, cells, " ".join(circle))


def _case(name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(case for case in reference("garnet")["cases"] if case["case"] == name)
    return found


def _told(name: str) -> dict[str, str]:
    network, what = TOLD.get(name, ("", ""))
    return {"network": network, "what": what}


def cases() -> Iterator[Case]:
    for case in reference("garnet")["cases"]:
        name = case["case"]
        if name in NEVER_ENDS:
            claim = (
                "pyxsim rejects a run that never ends over Garnet; if it is run anyway, the error names its deadlock"
            )
            yield Case(f"garnet/{name}", claim, SOURCE, 0, "faults", partial(never_ends, name), 1)
        else:
            claim = "Each run ends in the same cycle as in ASTRA-sim over Garnet, except for explained differences"
            yield Case(f"garnet/{name}", claim, SOURCE, 0, "cycles", partial(the_same_cycle, name), 3)
    yield from garnet_rings.cases()


FAMILY = ("garnet", "ASTRA-sim 1 over Garnet", ("network", "what", "ASTRA-sim", "pyxsim", "difference"), cases)
