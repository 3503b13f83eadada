"""Remote memory against the slow one, which knows docs/memory.md only; closed forms; measured ends of ASTRA-sim 2."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.errors import InputError
from pyxsim.runner.prepare import prepare
from pyxsim.settings import load_experiment
from pyxsim.settings.memory import BANDWIDTHS, KINDS, RemoteMemory
from pyxsim.system.memory import MOST_BYTES, Access, MemoryOptions, Used, make_memory, resolve_memory
from pyxsim.system.memory.flows import Flows
from tests.examples import part_of
from tests.system.slow_memory import SlowMemory

CLOCK = Fraction(10**9)
Asked = tuple[int, int, int, int]  # at, NPU, bytes, access


def memory(table: dict[str, Any], npus: int, compat: str | None = None, clock: Fraction = CLOCK) -> MemoryOptions:
    """From rates in bytes per cycle of 1 ns, and a latency in cycles."""
    written = {key: value / Fraction(1, 10**9) if key in BANDWIDTHS else value for key, value in table.items()}
    written["latency"] = f"{table['latency']} ns"
    if "chunk" in table:
        written["chunk"] = f"{table['chunk']} B"
    options = resolve_memory(RemoteMemory(**written), npus, clock, compat)
    assert options is not None
    return options


def served(options: MemoryOptions, accesses: list[Asked]) -> tuple[list[int], list[Used]]:
    """The end of each access, and what carried them."""
    own = make_memory(options)
    ends = [-1] * len(accesses)
    to_come = sorted(range(len(accesses)), key=lambda number: accesses[number][0])
    while True:
        cycle = own.next()
        if to_come and not 0 <= cycle < accesses[to_come[0]][0]:
            number = to_come.pop(0)
            at, npu, size, access = accesses[number]
            own.begin(at, number, npu, size, Access(access))
            continue
        if cycle < 0:
            return ends, own.used()
        for number in own.run(cycle):
            assert ends[number] < 0
            ends[number] = cycle


@st.composite
def tables(draw: st.DrawFn, kinds: Sequence[str] = tuple(KINDS)) -> tuple[dict[str, Any], int]:
    """Settings of some kind, and a number of NPUs."""
    rates = st.fractions(Fraction(1, 3), 9, max_denominator=4)
    each, nodes = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    table = {"kind": draw(st.sampled_from(kinds)), "latency": draw(st.integers(0, 3)), "bandwidth": draw(rates)}
    wanted, allowed = KINDS[table["kind"]]
    limited = draw(st.booleans())
    values: dict[str, Any] = {
        "npus_per_node": each,
        "sharing": draw(st.sampled_from(["fifo", "fair"])),
        "groups": draw(st.integers(1, 3)),
        "switches": draw(st.integers(1, 3)),
        "chunk": draw(st.integers(1, 12)),
        "in_switch": True,
        **{key: draw(rates) for key in BANDWIDTHS[1:]},
    }
    keys = [*wanted, *(allowed if limited or table["kind"] != "zero-infinity" else ())]
    return {**table, **{key: values[key] for key in keys}}, each * nodes


@settings(max_examples=part_of(150))
@given(drawn=tables(), data=st.data())
def test_as_the_slow_one(drawn: tuple[dict[str, Any], int], data: st.DataObject) -> None:
    """To the cycle; and every byte and busy cycle of every link."""
    table, npus = drawn
    kinds = st.integers(0, 3 if table["kind"] == "hierarchical" else 1)
    one = st.tuples(st.integers(0, 20), st.integers(0, npus - 1), st.integers(1, 40), kinds)
    accesses = sorted(data.draw(st.lists(one, min_size=1, max_size=8)), key=lambda access: access[0])
    slow = SlowMemory(table, npus, accesses)
    ends, used = served(memory(table, npus), accesses)
    assert ends == [each.end for each in slow.asked]
    if table["kind"] == "per-npu":
        return
    for link in used:
        assert (link.bytes, link.busy) == (slow.bytes[link.name], slow.busy[link.name]), link.name
        assert link.bytes <= link.rate * link.busy


@settings(max_examples=part_of(100))
@given(drawn=tables(), size=st.integers(1, 5000), access=st.sampled_from([Access.LOAD, Access.STORE]))
def test_all_npus_do_the_same(drawn: tuple[dict[str, Any], int], size: int, access: Access) -> None:
    """The closed forms of docs/memory.md."""
    table, npus = drawn
    ends, _ = served(memory(table, npus), [(0, npu, size, access) for npu in range(npus)])
    latency, rate = table["latency"], table["bandwidth"]
    each = table.get("npus_per_node", npus)
    sharers = each if table["kind"] == "per-node" else npus
    if table["kind"] == "per-npu":
        assert set(ends) == {latency + ceil(size / rate)}
    elif table["kind"] == "zero-infinity":
        slowest = max(1 / rate, Fraction(each) / table["node_bandwidth"] if "node_bandwidth" in table else 0)
        assert set(ends) == {latency + ceil(size * slowest)}
    elif table["kind"] == "hierarchical":
        assert set(ends) == {latency + stages(table, npus, size, access.loads)}
    elif table["sharing"] == "fair":
        assert set(ends) == {latency + ceil(sharers * size / rate)}
    else:
        assert ends == [(npu % sharers + 1) * (latency + ceil(size / rate)) for npu in range(npus)]


def stages(table: dict[str, Any], npus: int, size: int, loads: bool, *, together: bool = False) -> int:
    """The first chunk through all stages, then the others at the pace of the slowest."""
    groups, switches, each = table["groups"], table["switches"], table["npus_per_node"]
    everybody, node = (1, 1) if together else (npus, each)
    times = [
        everybody / (groups * table["bandwidth"]),
        everybody / (groups * switches * table["memory_link"]),
        node / (switches * table["node_link"]),
        1 / table["npu_link"],
    ]
    chunk = min(size, table["chunk"])
    return sum(ceil(chunk * time) for time in times) + ceil((size - chunk) * max(times))


@settings(max_examples=part_of(100))
@given(drawn=tables(["hierarchical"]), size=st.integers(1, 5000))
def test_collectives_in_the_switches(drawn: tuple[dict[str, Any], int], size: int) -> None:
    """Every link carries the bytes once, however many NPUs there are."""
    table, npus = drawn
    for access in (Access.GATHER, Access.REDUCE):
        ends, used = served(memory(table, npus), [(0, npus - 1, size, access)])
        assert ends == [table["latency"] + stages(table, npus, size, access.loads, together=True)]
        assert {link.bytes for link in used} == {0, size}


def test_a_store_comes_to_the_memory_last() -> None:
    """One byte per cycle everywhere, and 4 bytes each: NPU 0 stores while NPU 1 loads, and they never meet; two that
    load share the memory and its side."""
    rates = dict.fromkeys(("bandwidth", "memory_link", "node_link", "npu_link"), Fraction(1))
    table = {"kind": "hierarchical", "latency": 0, "npus_per_node": 1, "groups": 1, "switches": 1, "chunk": 4, **rates}
    options = memory(table, 2)
    assert served(options, [(0, 0, 4, Access.STORE), (0, 1, 4, Access.LOAD)])[0] == [16, 16]
    assert served(options, [(0, 0, 4, Access.LOAD), (0, 1, 4, Access.LOAD)])[0] == [24, 24]


@settings(max_examples=part_of(100))
@given(drawn=tables(), data=st.data())
def test_nobody_is_faster_with_others(drawn: tuple[dict[str, Any], int], data: st.DataObject) -> None:
    table, npus = drawn
    one = st.tuples(st.integers(0, 20), st.integers(0, npus - 1), st.integers(1, 400), st.integers(0, 1))
    accesses = sorted(data.draw(st.lists(one, min_size=1, max_size=6)), key=lambda access: access[0])
    ends, _ = served(memory(table, npus), accesses)
    for end, access in zip(ends, accesses, strict=True):
        (alone,), _ = served(memory(table, npus), [access])
        assert end >= alone
    assert max(ends) <= accesses[-1][0] + memory(table, npus).most([size for _, _, size, _ in accesses])


MEASURED = {"latency": 100, "bandwidth": Fraction(10)}  # 1 MB each, at the same time


@pytest.mark.parametrize(
    ("table", "ends"),
    [
        ({"kind": "per-npu"}, [100_100] * 4),
        ({"kind": "pool"}, [100_100, 200_200, 300_300, 400_400]),
    ],
)
def test_as_measured_of_astra_sim_2(table: dict[str, Any], ends: list[int]) -> None:
    accesses = [(0, npu, 10**6, Access.LOAD) for npu in range(4)]
    assert served(memory({**MEASURED, **table}, 4, "astra-sim-2"), accesses)[0] == ends


@given(size=st.integers(1, 10**12), rate=st.integers(1, 5000))
def test_astra_sim_2_cuts_to_nanoseconds(size: int, rate: int) -> None:
    """Whatever the clock; else times are rounded up to whole cycles."""
    table = {"kind": "per-npu", "latency": 7, "bandwidth": Fraction(rate)}
    assert memory(table, 1, "astra-sim-2").transfer(size) == size // rate
    assert memory(table, 1).transfer(size) == -(-size // rate)
    slow = memory(table, 1, "astra-sim-2", CLOCK / 4)
    assert slow.transfer(size) == -(-(size // rate) // 4)


def test_many_that_differ() -> None:
    """Rates that nobody can write down, and sizes that are no multiples of anything: all bytes come through."""
    table = {"kind": "pool", "latency": 1, "bandwidth": Fraction(1000, 7), "sharing": "fair"}
    accesses = [(npu * npu, npu, 10**6 + 997 * npu, npu % 2) for npu in range(97)]
    ends, (pool,) = served(memory(table, 97), accesses)
    total = sum(size for _, _, size, _ in accesses)
    assert pool.bytes == total
    # It is never idle from the first byte on, so it ends when all is through; a few cycles are lost to whole ones.
    assert 0 <= max(ends) - 1 - ceil(total / table["bandwidth"]) <= 97


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ({"kind": "per-node"}, "npus_per_node"),
        ({"kind": "pool", "in_switch": False}, "in_switch"),
        ({"kind": "per-npu", "sharing": "fair"}, "sharing"),
        ({"kind": "zero-infinity", "node_bandwidth": "1 GB/s"}, "npus_per_node"),
        ({"kind": "zero-infinity", "npus_per_node": 2}, "node_bandwidth"),
        ({"kind": "hierarchical", "npus_per_node": 2, "groups": 1, "switches": 1, "chunk": "1 B"}, "memory_link"),
        ({"kind": "hierarchical", "bandwidth": "0 GB/s"}, "bandwidth"),
    ],
)
def test_keys_belong_to_kinds(table: dict[str, Any], key: str) -> None:
    network = {"topology": "ring", "shape": [4], "bandwidth": "1 GB/s", "latency": "1 ns"}
    system = {"remote_memory": {"bandwidth": "1 GB/s", **table}}
    with pytest.raises(InputError) as caught:
        load_experiment({"network": network, "system": system, "workload": {"file": "some.*.et"}})
    assert f"system.remote_memory.{key}: " in str(caught.value)


@pytest.mark.parametrize(
    ("work", "line"),
    [
        (
            {"collective": {"kind": "all-reduce", "size": "1 KiB"}},
            "system.remote_memory: has no effect; allowed: ",
        ),
        ({"workload": {"model": "gpt3-175b"}}, "system.remote_memory: has no effect; allowed: "),
        (
            {"workload": {"file": "inputs/astra/micro_all_reduce.txt"}},
            "txt does not use this setting; allowed: ",
        ),
    ],
)
def test_somebody_must_access_it(work: dict[str, Any], line: str) -> None:
    network = {"topology": "ring", "shape": [4], "bandwidth": "1 GB/s", "latency": "1 ns"}
    data = {"network": network, "system": {"remote_memory": {"kind": "pool", "bandwidth": "1 GB/s"}}}
    with pytest.raises(InputError) as caught:
        prepare(load_experiment({**data, **work}), folder=Path(__file__).resolve().parents[2])
    assert line in str(caught.value)


def test_a_node_without_its_bandwidth_is_told_what_is_missing() -> None:
    with pytest.raises(InputError, match="node_bandwidth: is missing, but npus_per_node is set; allowed: both"):
        RemoteMemory(kind="zero-infinity", bandwidth="1 GB/s", npus_per_node=2)


def test_nodes_are_whole() -> None:
    with pytest.raises(
        InputError, match=r"remote_memory\.npus_per_node: 4 NPUs do not fill nodes of 3 NPUs; allowed: a div"
    ):
        memory({"kind": "per-node", "latency": 0, "bandwidth": Fraction(1), "npus_per_node": 3}, 4)


def test_nothing_is_looked_at_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part is carried on when something begins or ends there, however often its next cycle has changed before."""
    looked, original = 0, Flows.run

    def counted(self: Flows, now: int) -> list[int]:
        nonlocal looked
        looked += 1
        return original(self, now)

    monkeypatch.setattr(Flows, "run", counted)
    table = {"kind": "pool", "latency": 1, "bandwidth": Fraction(1, 3), "sharing": "fair"}
    accesses = [(7 * number, number % 5, 100 + number, Access.LOAD) for number in range(200)]
    served(memory(table, 5), accesses)
    assert looked <= 2 * len(accesses)


@pytest.mark.parametrize("kind", ["pool", "hierarchical"])
def test_many_of_different_sizes(kind: str) -> None:
    """1024 NPUs behind a link of a byte a cycle: when the k-th smallest ends, all larger ones have moved as much."""
    rate, npus = Fraction(1), 1024
    table: dict[str, Any] = {"kind": "pool", "latency": 3, "bandwidth": rate, "sharing": "fair"}
    if kind == "hierarchical":
        wide = dict.fromkeys(("memory_link", "node_link", "npu_link"), Fraction(10**6))
        table = {**table, "kind": kind, "npus_per_node": 8, "groups": 1, "switches": 2, "chunk": 1, **wide}
        del table["sharing"]
    sizes = [1 + 1000003 * npu % 99991 for npu in range(npus)]
    assert len(set(sizes)) == npus
    ends, used = served(memory(table, npus), [(0, npu, size, Access.LOAD) for npu, size in enumerate(sizes)])
    ordered = sorted(range(npus), key=lambda npu: sizes[npu])
    moved = 0
    # The first byte of each goes through the three other stages alone, a cycle each.
    head, first = (3 + npus + 3, 1) if kind == "hierarchical" else (3, 0)
    for place, npu in enumerate(ordered):
        moved += sizes[npu] - first
        assert ends[npu] == head + moved + (npus - 1 - place) * (sizes[npu] - first)
    assert used[0].bytes == sum(sizes)


def test_the_largest_numbers() -> None:
    """A link carries at most 2^60 bytes a cycle, and never gets tired: two accesses share it, 65 cycles long."""
    table = {"kind": "pool", "latency": 0, "bandwidth": Fraction(2**62, 10**9), "sharing": "fair"}
    largest = [(at, 1, MOST_BYTES, Access.LOAD) for at in range(64)]
    ends, used = served(memory(table, 2, clock=Fraction(1)), [(0, 0, MOST_BYTES // 2, Access.LOAD), *largest])
    assert ends == [1, *range(2, 66)]
    assert (used[0].bytes, used[0].busy) == (64 * MOST_BYTES + MOST_BYTES // 2, 65)
