"""`pyxsim search`: JSON, text and the page of a search of collectives."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.inputs import Command

FILE = """
network = { topology = "torus", shape = [4, 4], bandwidth = "16 GB/s" }
collective = { kind = "all-reduce", size = "4 KiB" }
[search]
objective = "time_ns"
decide = "analytical-congestion"
budget = { decide = 1 }
[search.shapes]
"network.shape" = 16
"""


def test_search(pyxsim: Command, folder: Path) -> None:
    (folder / "shapes.toml").write_text(FILE, encoding="utf-8")
    ended = pyxsim("search", "shapes.toml", "-o", "out", "--workers", "1", "--json")
    assert ended.code == 0
    told = json.loads(ended.out)
    # 2 x 8, 4 x 4, 8 x 2: all are screened, and one of them is decided.
    assert told["counts"] | {"failed": 0} == told["counts"]
    assert (told["counts"]["can run"], told["counts"]["screened"], told["counts"]["decided"]) == (3, 3, 1)
    assert told["best"]["state"] == "decided"
    again = pyxsim("search", "shapes.toml", "-o", "out", "--workers", "1")
    assert "3 combinations, 3 can run" in again.err + again.out
    assert pyxsim("report", "out").code == 0
    assert "Best points" in (folder / "out" / "report.html").read_text(encoding="utf-8")
    wrong = pyxsim("search", "shapes.toml", "-o", "out", "--set", "search.metod=tpe")
    assert wrong.code == 2
    assert "did you mean 'method'" in wrong.lines[-1]
