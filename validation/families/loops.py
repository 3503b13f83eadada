"""Training loops of ASTRA-sim 1 over both of its networks: all cells of its EndToEnd.csv, and the end of each pass."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyxsim.compat.astra.end_to_end_csv import NAME, write_end_to_end
from pyxsim.compat.astra.files import read_astra
from pyxsim.runner.lifecycle import simulate
from pyxsim.runner.prepare import prepare
from pyxsim.runner.prepared import Prepared
from validation.case import Case, Found, exact, must
from validation.reference import reference

_CELLS = 14  # columns of the file that are not empty
_NS_PER_US = 1000


def every_cell(case: dict[str, Any]) -> Found:
    """Run the three files and return the largest differences of cells and passes, ns."""
    with TemporaryDirectory() as folder:
        for name, text in case["files"].items():
            Path(folder, name).write_text(text, encoding="utf-8")
        files = (Path(folder, name) for name in case["files"])
        told = read_astra(*files, passes=case["passes"], **case["options"])
        prepared = prepare(told.experiment, backend=told.backend)
        assert isinstance(prepared, Prepared)
        result = simulate(prepared, backend=told.backend)
        write_end_to_end(result, Path(folder, NAME), case["run_name"])
        with Path(folder, NAME).open(encoding="utf-8", newline="") as file:
            rows = [row[:_CELLS] for row in csv.reader(file) if any(row)]
    must(len(rows) == len(case["table"]), "the table has as many rows as the original's")
    cells = [pair for theirs, ours in zip(case["table"], rows, strict=True) for pair in zip(theirs, ours, strict=True)]
    must(all(theirs == ours for theirs, ours in cells if not _is_time(theirs)), "names and headings are the same")
    times = [(_ns(theirs), _ns(ours)) for theirs, ours in cells if _is_time(theirs)]
    passes = list(zip(case["pass_finish"] or (), prepared.job.pass_ends(), strict=False))
    worst, picture = exact([*times, *passes], "ns")
    words = case["files"]["workload.txt"].split()
    shape = "x".join(map(str, prepared.topology.shape))
    return Found(worst, picture, {"workload": words[0], "network": shape, "cells": f"{len(times)}"})


def _is_time(cell: str) -> bool:
    return cell.replace(".", "", 1).removeprefix("-").isdecimal()


def _ns(cell: str) -> float:
    return round(float(cell) * _NS_PER_US)


def cases() -> Iterator[Case]:
    claim = "Every cell of EndToEnd.csv, and the end of each pass, equal those of ASTRA-sim 1"
    source = "measurements in inputs/reference/astra1_loops.json"
    for case in reference("astra1_loops")["cases"]:
        yield Case(f"loops/{case['case'].replace('_', '-')}", claim, source, 0, "ns", partial(every_cell, case))


FAMILY = ("loops", "Training loops of ASTRA-sim 1", ("workload", "network", "cells"), cases)
