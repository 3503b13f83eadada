"""Fast-forward knows every field of the engine's records: a new one must be visited, or named here."""

from __future__ import annotations

import re
from pathlib import Path

from pyxsim.core.engine import Engine
from pyxsim.core.state.record_dtypes import COMPARED_ARRAYS, NOT_VISITED
from tests.core.test_repeat import engine_of_ring
from tests.in_turn import in_turn

CORE = Path(__file__).parents[2] / "pyxsim" / "core"
RECORDS = ("InputVc", "OutputVc", "VcRange", "Link", "Router", "Packet", "Message", "FifoNode", "QueuedFlit")
LATENCY_RECORDS = (
    *("VcWait", "VcWaitDetail", "LinkWait", "LaneWait", "VcOwner", "MessageWait", "PacketWait"),
    *("Stay", "QueuedMessage", "WaitEntry"),
)

# Deciding arrays that are not compared byte by byte.
VISITED_SINGLY = {"front_time", "calendar", "fifo"}
IMPLIED = {
    "source_tail",  # by the head, as long as no message joins
    "pending",  # limits the jump
    *("bid", "bid_link"),  # of this tick only
}


def fields(record: str) -> list[str]:
    """The fields of a struct in the .pxd files."""
    files = ("state/records.pxd", "latency/latency_records.pxd")
    text = "".join((CORE / name).read_text(encoding="utf-8") for name in files)
    found = re.search(rf"cdef struct {record}:\n((?:    .*\n|\n)+)", text)
    assert found is not None
    lines = [line.split("#")[0].strip() for line in found[1].split("\n")]
    names = [name for line in lines if " " in line for name in line.split(" ", 1)[1].split(",")]
    return [re.sub(r"\[.*?\]|[*\s]", "", name) for name in names]


@in_turn("record", [*RECORDS, *LATENCY_RECORDS])
def test_every_field_is_visited_or_known_not_to_matter(record: str) -> None:
    files = ("fast_forward/visit_state.pyx", "fast_forward/visit_latency.pyx")
    visitors = "".join((CORE / name).read_text(encoding="utf-8") for name in files)
    not_visited = {name for names in NOT_VISITED.get(record, {}).values() for name in names}
    missing = {name for name in fields(record) if not re.search(rf"\.{name}\b", visitors)}
    assert missing == not_visited


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
    assert names - fixed(engine) - set(COMPARED_ARRAYS) <= VISITED_SINGLY | IMPLIED
    assert set(COMPARED_ARRAYS) <= set(engine.state())
