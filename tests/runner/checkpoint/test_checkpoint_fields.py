"""A checkpoint knows every field: a new one of the engine or of a compiled class is written, or is named here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.in_turn import in_turn

PACKAGE = Path(__file__).parents[3] / "pyxsim"
CORE = PACKAGE / "core"
# Sections of State's groups that a run does not change, that are made anew, or that last no longer than a cycle.
LEFT_OUT = ("fixed", "derived", "scratch")
# Of the rest, what is neither an array nor written by state_io.pyx.
MADE_ANEW = {
    "State.detector",  # what fast-forward remembers
    "State.patient",  # an argument of each call
    "Calendar.words",  # a size
    "Calendar.used",  # by the calendar
    "LinkArrays.credit_rules",  # of the settings
}
LATENCY_MADE_ANEW = {"pipeline", "vc", "margin", "link", "lane", "owner", "rivals", "winners", "lost_to"}
# Fields of classes that their states do not name: views of arrays that are named, room to work in, what `run` sets.
DERIVED = {
    "Executor": {"program_count", "program_capacity", "task_capacity", "freed", "freed_count", "freed_capacity"},
    "Pipes": {"finished", "finished_count", "finished_capacity", "dirty_capacity"},
    "Store": {"through", "phase_capacity", "stream_capacity", "member_capacity", "step_capacity"},
    "Carrier": {"table", "rows"},
    # Of one filling, at whose end the heap is empty.
    "Filling": {"affected", "affected_count", "reached", "reached_count", "heap_count", "key", "rising", "water"},
    "Pool": {"size", "records", "room"},
    "Pairs": {"npus"},
    "Engine": {"keep", "nic_of"},  # of the Ethernet backend: arrays of its configuration
    "UecEngine": {"keep"},
}
# Transports of the Ethernet backend are made anew from their options, which they never change: the state of a flow is
# in the engine. A network with a transport of a user, whose methods get a FlowView, writes no checkpoint.
FROM_OPTIONS = {"Transport", "Dcqcn", "Dctcp", "Hpcc", "HpccPint", "Swift", "Timely", "NewReno", "Cubic", "Ndp"}
# A network that another simulator drives writes none, either: the functions that it calls are not its own. Readers of
# files have ended before a run begins.
NO_CHECKPOINT = {"FlowView", "UserTransport", "Exchange", "Scanner", "ByteKeys", "Words", "Events", "Pieces", "Waits"}
NO_CHECKPOINT |= {"TransactionEngine"}  # [network.transactions] excludes checkpoints


def declared(line: str) -> list[str]:
    """The names that a line of C declares."""
    text = re.sub(r"\[[^\]]*\]", "", line.split("#")[0]).replace("*", " ").strip()
    _kind, _, names = (
        text.removeprefix("cdef ")
        .removeprefix("readonly ")
        .removeprefix("public ")
        .removeprefix("const ")
        .partition(" ")
    )
    return [name.strip().removeprefix("readonly ") for name in names.split(",")] if names and "(" not in text else []


def struct(file: str, name: str) -> Iterator[tuple[str, str, str]]:
    """(section of the struct, type of a field, its name)."""
    body = re.search(rf"cdef struct {name}:\n((?:    .*\n|\n)+)", (CORE / file).read_text(encoding="utf-8"))
    assert body is not None
    section = ""
    for line in body[1].split("\n"):
        if match := re.match(r"\s*# (?:--- )?(.*?)( ---)?$", line):
            section = match[1]
        for field in declared(line):
            yield section, line.split()[0].rstrip("*"), field


def names_in(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))


def test_every_field_of_the_engine_is_written() -> None:
    saved = (CORE / "state" / "state_io.pyx").read_text(encoding="utf-8")
    files = ("engine_arrays.pyx", "link_layer_arrays.pyx")
    arrays = "".join((CORE / "state" / file).read_text(encoding="utf-8") for file in files)
    owned = set(re.findall(r"s\.(\w+\.\w+) = (?:<\w+\*> )?self\._(?:ints|longs|mask|bytes|address)\(", arrays))
    written = set(re.findall(r"\bs\.((?:\w+\.)?\w+)", saved))
    assert {"now", "pools.nodes", "stats.messages_sent"} <= written
    assert {"arbiters.input_turn", "lanes.open_count", "vcs.input"} <= owned
    missing = set()
    for section, group, field in struct("state/network_state.pxd", "State"):
        if section.startswith(LEFT_OUT) or group in ("RouterConfig", "PathChoice", "PartInfo", "LatencyState"):
            continue
        if not group[0].isupper() or group == "PeriodDetector":
            missing |= set() if field in written else {f"State.{field}"}
            continue
        for part, _type, name in struct("state/network_state.pxd", group):
            if not part.startswith(LEFT_OUT) or "records" in part:
                missing |= set() if f"{field}.{name}" in written | owned else {f"{group}.{name}"}
    assert missing == MADE_ANEW
    latency = {name for _, _type, name in struct("latency/latency_records.pxd", "LatencyState")}
    assert latency - names_in(saved) - LATENCY_MADE_ANEW == set()


def classes() -> Iterator[tuple[str, Path]]:
    for path in sorted(PACKAGE.rglob("*.pyx")):
        if path.relative_to(PACKAGE).parts[0] not in ("core", "chakra"):
            for name in re.findall(r"^cdef class (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE):
                yield name, path


def fields_of(name: str, path: Path) -> list[str]:
    """What a compiled class has, as its files declare it."""
    found: list[str] = []
    for file in (path.with_suffix(".pxd"), path):
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        for body in re.findall(rf"^cdef class {name}\b.*:\n((?:    .*\n|\n)+)", text, re.MULTILINE):
            for line in body.split("\n"):
                if re.match(r"    cdef (?!.*\().+", line):
                    found += declared(line.strip())
    return found


@in_turn(("name", "path"), list(classes()))
def test_every_field_of_a_compiled_class_is_written(name: str, path: Path) -> None:
    fields = set(fields_of(name, path))
    text = path.read_text(encoding="utf-8")
    own = re.split(r"^cdef class ", text, flags=re.MULTILINE)
    body = next((each for each in own if re.match(rf"{name}\b", each)), "")
    if name in NO_CHECKPOINT:
        return
    if name in FROM_OPTIONS:
        later = "".join(part for part in re.split(r"\n    (?=def |cdef )", body) if not part.startswith("def __init__"))
        assert set(re.findall(r"self\.(\w+)(?:, self\.\w+)* = ", later)) <= {"fabric"}  # of the engine
        return
    states = re.findall(r"    def __[gs]etstate__.*?(?=\n    (?:def|cdef|@|#)|\Z)", body, re.DOTALL)
    if name != "Streams":  # has nothing of its own
        assert len(states) == 2 or not fields, f"{name} has no state"
    assert fields - names_in("".join(states)) - DERIVED.get(name, set()) == set()
