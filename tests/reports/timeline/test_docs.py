"""Every query of docs/timeline.md finds something in the trace of its first example."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import pyxsim
from pyxsim.reports.timeline import build, write
from tests.reports.timeline.processor import Processor

PAGE = Path(__file__).parents[3] / "docs" / "timeline.md"
QUERIES = re.findall(r"```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture(scope="module")
def trace(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processor]:
    path = tmp_path_factory.mktemp("docs") / "trace.json"
    write(build(pyxsim.run(str(tree / "inputs" / "torus_all_reduce.toml"))), path)
    with Processor(path.read_bytes()) as opened:
        yield opened


def test_there_are_queries() -> None:
    assert len(QUERIES) >= 5


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.split("\n")[0][:40])
def test_a_query_finds_rows(query: str, trace: Processor) -> None:
    rows = trace.query(query)
    assert rows
    assert all(value is not None for row in rows for value in row.values())
