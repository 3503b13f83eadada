"""Fast-forward knows every field of the engine's records: a new one has to be met in its walk, or to be named here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pyxsim.core.engine import Engine
from pyxsim.core.state.record_dtypes import SAME, UNMET
from tests.core.test_repeat import engine_of_ring

CORE = Path(__file__).parents[2] / "pyxsim" / "core"
RECORDS = ("Vc", "Out", "Range", "Link", "Router", "Packet", "Message", "Node", "Queued")
BOOKS = (
    *("VcBook", "VcMargin", "LinkBook", "LaneBook", "Owner", "MessageBook", "PacketBook"),
    *("Stay", "Rider", "Waited"),
)

# Flat arrays that decide and are not the same byte by byte.
MET_ONE_BY_ONE = {"front", "calendar", "fifo"}
IMPLIED = {
    "source_tail",  # by the head, as long as no message joins
    "pending",  # bounds the jump
    *("bid", "bid_link"),  # of this tick only
}


def fields(record: str) -> list[str]:
    """The fields of a struct, as the C compiler is told them."""
    files = ("state/network_state.pxd", "latency/latency_records.pxd")
    text = "".join((CORE / name).read_text(encoding="utf-8") for name in files)
    found = re.search(rf"cdef struct {record}:\n((?:    .*\n|\n)+)", text)
    assert found is not None
    lines = [line.split("#")[0].strip() for line in found[1].split("\n")]
    names = [name for line in lines if " " in line for name in line.split(" ", 1)[1].split(",")]
    return [re.sub(r"\[.*?\]|[*\s]", "", name) for name in names]


@pytest.mark.parametrize("record", [*RECORDS, *BOOKS])
def test_every_field_is_met_or_is_known_not_to_matter(record: str) -> None:
    files = ("fast_forward/visit_state.pyx", "fast_forward/visit_latency.pyx")
    walk = "".join((CORE / name).read_text(encoding="utf-8") for name in files)
    unmet = {name for names in UNMET.get(record, {}).values() for name in names}
    missing = {name for name in fields(record) if not re.search(rf"\.{name}\b", walk)}
    assert missing == unmet


def fixed(engine: Engine) -> set[str]:
    """Flat arrays that a run does not change."""
    before = engine.state(True)
    while engine.run(1 << 40).reason != "idle":
        pass
    after = engine.state(True)
    return {name for name in before if "." not in name and (before[name].tobytes() == after[name].tobytes())}


def test_every_array_that_decides_is_compared() -> None:
    engine = engine_of_ring()
    for n in range(4):
        engine.send(n, (n + 2) % 4, (n + 2) % 4, 0, 3, 5, 3, 0)
    names = {name for name in engine.state(True) if "." not in name}
    assert names - fixed(engine) - set(SAME) <= MET_ONE_BY_ONE | IMPLIED
    assert set(SAME) <= set(engine.state())
