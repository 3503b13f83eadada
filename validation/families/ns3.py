"""ASTRA-sim over ns-3: every flow of the measured runs starts and ends in the same nanosecond."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyxsim.cli.app import main
from validation.case import Case, Found, exact, must
from validation.ns3_inputs import flows_in, incast, words, write_run
from validation.reference import reference

Measured = dict[str, Any]
Flow = tuple[int, int, int, int, int]  # source, destination, port, start, duration
CONTROLS = {
    12: ("none", "no congestion control"),
    1: ("dcqcn", "DCQCN"),
    3: ("hpcc", "HPCC"),
    7: ("timely", "TIMELY"),
    8: ("dctcp", "DCTCP"),
    10: ("hpcc-pint", "HPCC over PINT"),
}


def messages(case: Measured) -> list[tuple[int, int]]:
    """The messages of a run without a collective."""
    npus = case["npus"]
    if case["pattern"] == "incast":
        return incast(npus)
    return [(0, 1)] if case["pattern"] == "p2p" else [(npu, (npu + 4) % npus) for npu in range(npus)]


def repeat(case: Measured, folder: Path) -> tuple[int, int, set[Flow]]:
    """Run the files of a case; return the last finish (ns), the lines of pfc.txt and the flows."""
    collective = case["pattern"] if case["pattern"] in ("all_reduce", "all_gather", "all_to_all") else None
    write_run(
        folder,
        reference("ns3")["topologies"][case["topology"]],
        case["npus"],
        collective=collective,
        nbytes=case["bytes"],
        algorithm=case["algorithm"],
        messages=() if collective else messages(case),
        changes=case["changes"],
    )
    command = ["astra", *words(folder), f"--path={folder}", "--set", f"output.seed={case.get('run', 1)}"]
    if not case.get("obeyed", True):
        command += ["--set", "network.ethernet.pfc.obeyed=false"]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        must(main(command) == 0, f"{case['name']} ends with an error")
    lines = [line for line in printed.getvalue().splitlines() if "finished, " in line]
    flows = {(*pair, start, duration) for pair, (_, start, duration, _) in flows_in(folder / "fct.txt").items()}
    frames = len((folder / "pfc.txt").read_text(encoding="utf-8").splitlines())
    return max(int(line.split("finished, ")[1].split()[0]) for line in lines), frames, flows


def same(measured: list[Measured]) -> Found:
    """Repeat the runs of a group; return how many recorded flows, finishes and counts of PFC frames differ."""
    pairs, faults, count = [], 0, 0
    for case in measured:
        with TemporaryDirectory() as folder:
            finish, frames, flows = repeat(case, Path(folder))
        recorded = {tuple(map(int, line.split())) for line in case["flows"].split(";")}
        faults += len(recorded - flows) + (finish != case["finish"]) + (frames != case["frames"])
        count += len(recorded)
        pairs.append((case["finish"], finish))
    return Found(faults, exact(pairs, "ns")[1], {"runs": str(len(measured)), "flows": str(count)})


def cases() -> Iterator[Case]:
    runs = [case for case in reference("ns3")["runs"] if "defect" not in case]
    for mode, (name, what) in CONTROLS.items():
        claim = f"Each flow starts and ends in the same nanosecond as in ASTRA-sim over ns-3: {what}"
        group = [case for case in runs if case["changes"].get("CC_MODE", 12) == mode]
        yield Case(f"ns3/{name}", claim, "inputs/reference/ns3.json", 0, "faults", partial(same, group), len(group) / 2)


FAMILY = ("ns3", "ASTRA-sim over ns-3", ("runs", "flows"), cases)
