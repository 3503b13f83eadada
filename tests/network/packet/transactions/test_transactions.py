"""Memory transactions through the whole program, against closed forms and counts that are derived here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pyxsim
from pyxsim.errors import InputError, StuckError
from pyxsim.network.packet.transactions.transaction_engine import TransactionEngine
from pyxsim.network.packet.transactions.transaction_network import TransactionNetwork
from pyxsim.network.packet.transactions.transaction_tables import bin_edges, percentile
from tests.examples import part_of

MEMORY, TURN, SWITCH, LATENCY = 300, 20, 50, 100  # cycles
NETWORK: dict[str, Any] = {
    "topology": "switch",
    "shape": [4],
    "clock": "1 GHz",
    "flit": "16 B",
    "bandwidth": "16 GB/s",  # a flit in a cycle
    "latency": f"{LATENCY} ns",
    "router": {"vcs": 4},
}
ASKED: dict[str, Any] = {
    "memory_latency": f"{MEMORY} ns",
    "turnaround": f"{TURN} ns",
    "switch": {"latency": f"{SWITCH} ns"},
}
HEAD, DATA = 1, 9  # flits of a header of 16 B, and with 128 B


def run(algorithm: str, nbytes: int, *, npus: int = 4, kind: str = "all-reduce", **asked: Any) -> Any:
    switch = {**ASKED["switch"], **asked.pop("switch", {})}
    tables = {
        "network": {**NETWORK, "shape": [npus], "transactions": {**ASKED, **asked, "switch": switch}},
        "system": {kind.replace("-", "_"): algorithm},
        "collective": {"kind": kind, "size": f"{nbytes} B"},
        "output": {"carry": True},
    }
    result = pyxsim.run(tables)
    assert result.complete
    assert result.carried is not None, "the data are right, byte by byte"
    return result


def message(size: int, *, npus: int = 2, **asked: Any) -> Any:
    """One message from NPU 0 to 1, a store."""
    return pyxsim.run(
        {
            "network": {**NETWORK, "shape": [npus], "transactions": {**ASKED, **asked}},
            "message": [{"src": 0, "dst": 1, "size": f"{size} B"}],
        }
    )


def plain(flits: int, topology: str = "switch") -> int:
    """Cycles of a packet between two NPUs without transactions."""
    network = {**NETWORK, "topology": topology, "shape": [2], "packet": "4 KiB"}
    found = pyxsim.run({"network": network, "message": [{"src": 0, "dst": 1, "size": f"{16 * flits} B"}]})
    return int(found.time_cycles)


def half(flits: int) -> int:
    """Cycles of a packet between an NPU and the switch: over one link, as between neighbors in a mesh."""
    return plain(flits, "mesh")


def table(result: Any, name: str = "transactions") -> dict[str, Any]:
    return dict(result.backend_tables[name].columns)


@pytest.fixture(scope="module")
def times() -> tuple[int, int]:
    return plain(HEAD), plain(DATA)


def test_a_store_takes_its_way_and_its_answer_the_way_back(times: tuple[int, int]) -> None:
    _, data = times
    found = message(128)
    assert found.time_cycles == data + TURN  # the data are there before the sender knows
    found = message(129)  # two transactions, the second of 1 B: two flits
    rows = table(found)
    assert rows["transactions"].tolist() == [2]
    assert rows["request_bytes"].tolist() == [128 + 16 + 1 + 16]
    assert rows["request_flits"].tolist() == [9 + 2]


def test_a_load_takes_request_memory_and_response(times: tuple[int, int]) -> None:
    """A reduce-scatter of two ranks by loads: each loads 128 B from the other, and they share no link."""
    head, data = times
    found = run("two-shot", 256, npus=2, kind="reduce-scatter")
    rows = table(found)
    assert rows["kind"].tolist() == ["load"]
    assert rows["latency_min"].tolist() == rows["latency_max"].tolist() == [head + MEMORY + data]
    assert found.time_cycles == head + MEMORY + data + TURN


@pytest.mark.parametrize("window", [1, 2, 5, 16])
def test_the_window_over_the_round_trip(times: tuple[int, int], window: int) -> None:
    """Little's law: while links are idle, each place of the window has a load after the other."""
    head, data = times
    count = 64 * window
    found = run("two-shot", 256 * count, npus=2, kind="reduce-scatter", outstanding=window)
    trip = head + MEMORY + data + TURN
    assert found.time_cycles == pytest.approx(count / window * trip, rel=0.02)
    assert found.backend_tables["transactions"].attrs["outstanding_max"] == window
    outstanding = table(found)["outstanding_mean"][0]
    assert outstanding == pytest.approx(window * (1 - TURN / trip), rel=0.02)


def test_strict_order_is_one_at_a_time(times: tuple[int, int]) -> None:
    head, data = times
    found = run("two-shot", 256 * 10, npus=2, kind="reduce-scatter", ordering="strict")
    assert found.time_cycles == 10 * (head + MEMORY + data + TURN)


def test_headers_and_acknowledgments_share_the_links() -> None:
    """Both directions carry 8 flits of data, a header and an acknowledgment for each transaction."""
    size = 2**18
    stores = run("two-shot:1", size, npus=2, kind="reduce-scatter")
    assert stores.time_cycles == pytest.approx(size / 2 / 128 * (DATA + HEAD), rel=0.05)
    silent = run("two-shot:1", size, npus=2, kind="reduce-scatter", store_acks=False)
    assert silent.time_cycles == pytest.approx(size / 2 / 128 * DATA, rel=0.05)
    assert silent.totals["flits"].tolist() == [size // 2 // 128 * DATA] * 4
    assert stores.totals["flits"].tolist() == [size // 2 // 128 * (DATA + HEAD)] * 4


@pytest.mark.parametrize("npus", [2, 3, 8])
@pytest.mark.parametrize("size", [64, 128])
def test_the_flits_of_multimem_on_each_link(npus: int, size: int) -> None:
    """Of each shard, an NPU sends all data once as responses and acknowledges all stores; of its own, it sends requests
    and stores, through the switch."""
    shard = 128 * 4
    found = run("multimem:2", npus * shard, npus=npus, switch={"size": f"{size} B"})
    count, data = shard // size, 1 + size // 16
    up = npus * count * (data + HEAD) + count * (HEAD + data)
    assert found.totals["flits"].tolist() == [up] * (2 * npus), "and as many come down"
    kinds = table(found)
    assert kinds["kind"].tolist() == ["load of a sum", "store to all"]
    assert kinds["transactions"].tolist() == [npus * count] * 2
    assert kinds["carried_bytes"].tolist() == [npus * shard * (npus + 1)] * 2


def test_one_shot_and_two_shot_on_each_link() -> None:
    npus, size = 4, 4096
    loads = size // 128 * (npus - 1)
    for name in ("one-shot", "one-shot:1"):  # data and a header one way, a header the other way, for N - 1 buffers
        assert run(name, size).totals["flits"].tolist() == [loads * (DATA + HEAD)] * 2 * npus
    for name in ("two-shot", "two-shot:1", "two-shot:2"):
        assert run(name, size).totals["flits"].tolist() == [2 * loads // npus * (DATA + HEAD)] * 2 * npus


def test_sums_that_are_sent_to_the_switch() -> None:
    """Each NPU sends the buffer once and gets it once; the result is the acknowledgment."""
    found = run("in-switch", 4096)
    assert found.totals["flits"].tolist() == [32 * DATA] * 8
    assert table(found)["kind"].tolist() == ["operand"]
    # 32 packets one behind the other, the last of which is added, and comes back.
    assert found.time_cycles == 31 * DATA + half(DATA) + SWITCH + half(DATA) + TURN


def test_a_sum_and_a_store_to_all_take_two_round_trips() -> None:
    """Request, copies to all, their responses, the sum; then data, copies of them. The last one ends the collective."""
    found = run("multimem:1", 4 * 128)
    kinds = table(found)
    of_sum = half(HEAD) + SWITCH + half(HEAD) + MEMORY + half(DATA) + SWITCH + half(DATA)
    to_all = half(DATA) + SWITCH + half(DATA) + MEMORY + half(HEAD) + SWITCH + half(HEAD)
    # The 4 requests, responses and copies of all NPUs share links: they are up to 3 packets late each.
    assert of_sum + 3 * HEAD + 3 * DATA >= kinds["latency_min"][0] >= of_sum
    assert to_all + 3 * HEAD + 3 * DATA >= kinds["latency_min"][1] >= to_all


@pytest.mark.parametrize("algorithm", ["multimem:1", "in-switch"])
def test_a_sum_alone(algorithm: str) -> None:
    """Of 1 B, which one NPU loads, or of which each sends its operand."""
    kind = "reduce-scatter" if algorithm == "multimem:1" else "all-reduce"
    found = run(algorithm, 1, kind=kind)
    latency = half(HEAD) + SWITCH + half(HEAD) + MEMORY + half(2) + SWITCH + half(2)
    wanted = latency if kind == "reduce-scatter" else half(2) + SWITCH + half(2)
    assert table(found)["latency_max"].tolist() == [wanted]
    assert found.time_cycles == wanted + TURN


@pytest.mark.parametrize("entries", [1, 2, 8])
@pytest.mark.parametrize("algorithm", ["multimem:1", "in-switch"])
def test_the_reduction_buffer_limits_sums(algorithm: str, entries: int) -> None:
    """Little's law at the switch: as many sums as entries, each for the time that an entry is held."""
    kind = "reduce-scatter" if algorithm == "multimem:1" else "all-reduce"
    free = run(algorithm, 128 * 256, kind=kind)
    found = run(algorithm, 128 * 256, kind=kind, switch={"buffers": entries})
    switch, count = table(found, "switch_reduction"), 256
    enough = algorithm == "in-switch" and entries * DATA > SWITCH + DATA  # operands of a sum arrive together
    assert switch["entries_max"][0] == entries or enough
    assert found.time_cycles >= free.time_cycles
    if algorithm == "multimem:1":  # from its requests to members to the result
        held = half(HEAD) + MEMORY + half(DATA) + SWITCH
        assert found.time_cycles == pytest.approx(count / entries * held, rel=0.02 + 0.02 * entries)
        mean = switch["entries_mean"][0] * found.time_cycles / count
        assert mean == pytest.approx(held, rel=0.02 + 0.02 * entries)
    assert switch["stalls"][0] > 0 or enough


def test_adders_limit_operands() -> None:
    """4 NPUs send 64 KiB of operands each, at 16 GB/s together: four times as long as on their links."""
    size = 2**16
    found = run("in-switch", size, switch={"rate": "16 GB/s"})
    assert found.time_cycles == pytest.approx(4 * size / 16, rel=0.02)
    assert table(found, "switch_reduction")["adder_busy"][0] == pytest.approx(1, abs=0.02)


def test_the_memory_limits_loads() -> None:
    size = 2**18
    found = run("two-shot", size, npus=2, kind="reduce-scatter", memory_bandwidth="4 GB/s")
    assert found.time_cycles == pytest.approx(size / 2 / 4, rel=0.03)


def test_atomics_add_at_the_receiver() -> None:
    """With the old value in the response, the way back carries as many bytes as the way there."""
    network = {**NETWORK, "shape": [2]}
    tables = {"system": {"all_reduce": "tests_atomics"}, "collective": {"kind": "all-reduce", "size": "256 B"}}
    from pyxsim.collective.schedule import Schedule
    from pyxsim.registry import collectives

    if "tests_atomics" not in collectives:

        @collectives.register("tests_atomics", kinds=("all-reduce",))
        def atomics(kind: str, n: int) -> Schedule:
            s = Schedule(kind, n, blocks=1)
            s.send(1, 0, 0, reduce=True, by="atomic")
            s.send(0, 1, 0, by="load")
            return s

    for returns, flits in ((False, HEAD), (True, DATA)):
        asked = {**ASKED, "atomics_return": returns}
        found = pyxsim.run({"network": {**network, "transactions": asked}, **tables})
        rows = table(found)
        assert rows["kind"].tolist() == ["load", "atomic"]
        assert rows["request_flits"].tolist() == [2 * HEAD, 2 * DATA]
        assert rows["response_flits"].tolist() == [2 * DATA, 2 * flits]


SETTINGS = st.fixed_dictionaries(
    {
        "size": st.sampled_from(["32 B", "96 B", "128 B", "256 B"]),
        "outstanding": st.integers(1, 40),
        "ordering": st.sampled_from(["relaxed", "in-order", "strict"]),
        "store_acks": st.booleans(),
        "memory_latency": st.sampled_from(["7 ns", "150 ns"]),
        "turnaround": st.sampled_from(["1 ns", "33 ns"]),
        "memory_bandwidth": st.sampled_from([None, "3 GB/s"]),
        "outstanding_per_destination": st.sampled_from([None, 1, 3]),
    }
)
SWITCHES = st.fixed_dictionaries(
    {
        "latency": st.sampled_from(["1 ns", "60 ns"]),
        "rate": st.sampled_from([None, "7 GB/s"]),
        "buffers": st.sampled_from([None, 1, 64]),
        "size": st.sampled_from([None, "64 B"]),
    }
)
ALGORITHMS = ["one-shot", "two-shot", "two-shot:2", "multimem:3", "in-switch", "ring", "direct"]


def given_only(settings_: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in settings_.items() if value is not None}


@settings(max_examples=part_of(300), deadline=None)
@given(
    algorithm=st.sampled_from(ALGORITHMS),
    npus=st.integers(2, 5),
    size=st.integers(1, 9000),
    asked=SETTINGS,
    switch=SWITCHES,
)
def test_every_transaction_ends(
    algorithm: str, npus: int, size: int, asked: dict[str, Any], switch: dict[str, Any]
) -> None:
    """Data are right; each packet arrives, each request has its end, and all bytes are in a transaction. Shorter calls
    of the engine change nothing: the lookahead is exact."""
    asked, switch = given_only(asked), given_only(switch)
    found = run(algorithm, size, npus=npus, **asked, switch=switch)
    packets, rows = table(found, "transaction_packets"), table(found)
    assert (packets["sent"] == packets["arrived"]).all()
    assert (rows["ended"] == rows["transactions"]).all()
    assert (rows["latency_min"] <= rows["latency_p50"]).all()
    assert (rows["latency_p50"] <= rows["latency_p99"]).all()
    assert (rows["latency_p99"] <= rows["latency_max"]).all()
    original = TransactionNetwork.__init__

    def hasty(self: TransactionNetwork, *args: Any, **options: Any) -> None:
        original(self, *args, **options)
        self.lookahead = 1

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionNetwork, "__init__", hasty)
        again = run(algorithm, size, npus=npus, **asked, switch=switch)
    assert again.time_cycles == found.time_cycles
    for name in ("transactions", "switch_reduction"):
        for column, values in table(found, name).items():
            assert np.array_equal(values, table(again, name)[column]), (name, column)
    assert np.array_equal(again.totals["flits"], found.totals["flits"])


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"network": {"flit": "256 B"}}, "network.transactions: a flit holds more than a transaction of 128 B"),
        ({"transactions": {"size": "16 B"}}, "network.transactions.size: 16 B is not a valid size of a transaction"),
        (
            {"transactions": {"switch": {"size": "1 KiB"}}},
            "network.transactions.switch.size: 1024 B is not a valid size",
        ),
        (
            {"transactions": {"request": "0 B"}},
            "network.transactions.request: 0 B is not a valid size of a header; allowed: 1 B",
        ),
        (
            {"transactions": {"response": "1 GiB"}},
            "network.transactions.response: 1073741824 B is not a valid size of a header",
        ),
        ({"transactions": {"turnaround": "1 s"}}, "network.transactions.turnaround: a delay of 1000000000 cycles"),
        ({"transactions": {"preset": "nvlnk"}}, "network.transactions.preset"),
        ({"output": {"attribution": "links"}}, "output.attribution"),
        ({"traffic": {"load": 0.1}}, r"network.transactions: \[traffic\] has packets of its own"),
        ({"traffic": {"load": 0.1}, "collective": None}, r"network.transactions: \[traffic\] has packets of its own"),
        ({"transactions": {"memory_bandwidth": "1 B/s"}}, "network.transactions.memory_bandwidth: 128 B take 1.28e.11"),
        ({"network": {"transactions": None}}, "with .network.transactions."),
        ({"network": {"topology": "ring"}}, "multimem requires a single switch"),
    ],
)
def test_what_does_not_fit(changes: dict[str, Any], problem: str) -> None:
    network = {**NETWORK, "transactions": {**ASKED, **changes.get("transactions", {})}, **changes.get("network", {})}
    network = {key: value for key, value in network.items() if value is not None}
    tables: dict[str, Any] = {"network": network, "system": {"all_reduce": "multimem"}}
    tables |= {"collective": {"kind": "all-reduce", "size": "1 KiB"}, "output": changes.get("output", {})}
    tables |= {key: changes[key] for key in ("traffic", "collective") if key in changes}
    tables = {key: value for key, value in tables.items() if value is not None}
    with pytest.raises(InputError, match=problem):
        pyxsim.run(tables)


@pytest.mark.parametrize("backend", ["analytical", "analytical-congestion", "flow", "ethernet"])
def test_other_backends_refuse_them(backend: str) -> None:
    tables = {"network": {**NETWORK, "transactions": {}}, "collective": {"kind": "all-reduce", "size": "1 KiB"}}
    with pytest.raises(InputError, match=rf"network\.transactions: backend '{backend}' has no memory"):
        pyxsim.run(tables, backend=backend)


@pytest.mark.parametrize("topology", [{"topology": "torus", "shape": [3, 3]}, {"topology": "ring", "shape": [5]}])
def test_responses_find_their_way_back(topology: dict[str, Any]) -> None:
    """Each NPU of a ring sends both ways; responses go against the requests."""
    network = {**NETWORK, **topology, "transactions": ASKED}
    found = pyxsim.run(
        {"network": network, "collective": {"kind": "all-reduce", "size": "9000 B"}, "output": {"carry": True}}
    )
    assert found.carried is not None
    rows = table(found)
    assert rows["data_bytes"].sum() == found.counts["bytes_delivered"]


def test_percentiles_of_the_histogram() -> None:
    """A bin is at most 1/64 of its values wide; edges of neighbors follow each other."""
    edges = bin_edges(64 * 20)
    assert edges[:130].tolist() == [*range(128), 129, 131]
    assert (np.diff(edges) > 0).all()
    assert (np.diff(edges)[64:] <= edges[65:] / 64).all()
    counts = np.zeros(64 * 20, np.int64)
    assert percentile(counts, 0.5) == -1
    counts[[3, 5]] = [50, 50]
    assert percentile(counts, 0.5) == 3
    assert percentile(counts, 0.51) == 5


def test_links_that_slow_down_or_retry() -> None:
    """Retry without errors changes nothing; with errors, and with a slow link, all transactions still end."""
    network = {**NETWORK, "topology": "k-ary-n-tree", "options": {"k": 2, "n": 2}, "transactions": ASKED}
    del network["shape"]
    tables: dict[str, Any] = {
        "network": network,
        "collective": {"kind": "all-reduce", "size": "9000 B"},
        "output": {"carry": True},
    }
    plain_run = pyxsim.run(tables)
    retry = pyxsim.run({**tables, "network": {**network, "retry": {}}})
    assert retry.time_cycles == plain_run.time_cycles
    erring = {"link": "*", "bit_error_rate": 1e-4}
    slow = {"npu": 1, "at": "500 ns", "for": "2 us", "bandwidth": "2 GB/s"}
    for faults in ([erring], [slow], [erring, slow]):
        found = pyxsim.run({**tables, "network": {**network, "retry": {}}, "faults": faults})
        assert found.time_cycles > plain_run.time_cycles
        rows = table(found)
        assert (rows["ended"] == rows["transactions"]).all()
        assert found.carried is not None
    with pytest.raises(InputError, match="a transaction whose packet is lost never ends"):
        pyxsim.run({**tables, "faults": [erring]})


@pytest.mark.parametrize("reroute", [None, {"reaction": "100 ns"}])
def test_a_link_that_stays_down_is_named_with_the_transactions_that_remain(reroute: dict[str, Any] | None) -> None:
    network = {**NETWORK, "transactions": ASKED} | ({"reroute": reroute} if reroute else {})
    tables = {"network": network, "collective": {"kind": "all-reduce", "size": "16 KiB"}}
    fault = {"npu": 1, "down": True, "at": "1 us"}
    with pytest.raises(StuckError) as caught:
        pyxsim.run({**tables, "system": {"all_reduce": "two-shot"}, "faults": [fault]})
    lines = [str(caught.value), *caught.value.waits]
    assert any("down: d0up:(1)->(*), d0down:(*)->(1)" in line for line in lines)
    assert any("transactions have not ended" in line for line in lines)
    assert any("no route for 6 pairs of NPUs: NPU 1 is cut off" in line for line in lines) == bool(reroute)
    after = int(lines[0].partition("nothing moves after cycle ")[2].partition(":")[0])
    assert after >= 1000, "the cycle of the fault"


def test_a_buffer_that_other_sums_have_filled_is_named() -> None:
    """NPU 0 has sent its operand of a sum, which holds the only entry; NPU 1 may have one request, that of another sum,
    which waits for the entry."""
    engine = TransactionEngine(
        3, 16, 128, 128, 16, 16, turnaround=1, memory_latency=1, switch_latency=1, outstanding=1, entries=1, units=True
    )
    engine.push_sum([1, 2], [0, 1], 128)
    engine.push_sum([2, 0], [2, 3], 128)
    engine.push_sum([0, 1], [4, 5], 128)
    engine.begin(0)
    _, src, dst, flits, klass, _ = engine.outgoing()
    assert (src.tolist(), dst.tolist()) == ([0, 1, 2], [3, 4, 5])
    assert (flits.tolist(), klass.tolist()) == ([DATA] * 3, [0] * 3)
    engine.sent(0)
    engine.arrive(np.array([0, 1, 2]), np.array([5, 5, 5]))  # of the sums 1, 0 and 0
    assert engine.waiting_at_switch == 1
    assert engine.open == 6
    assert not engine.outgoing().size
    assert engine.next_completion() == -1


def test_a_sum_that_would_take_too_many_counters_is_refused() -> None:
    """The switch counts the operands of 1 TiB in sums of 128 B."""
    tables = {
        "network": {**NETWORK, "transactions": {}},
        "system": {"all_reduce": "in-switch"},
        "collective": {"kind": "all-reduce", "size": "1 TiB"},
    }
    with pytest.raises(InputError, match=r"system\.chunks: 1099511627776 B in 8589934592 sums"):
        pyxsim.run(tables)


def test_requests_that_wait_for_an_entry_are_counted() -> None:
    """Of 4 requests that reach the switch in the same cycle, one takes the entry, and 3 wait for one, two and three
    times the cycles that an entry is held. Only the reads of the first one wait for `switch.latency`, and one read of
    each other one for the sum before it, at the same port."""
    found = run("multimem:1", 4 * 128, kind="reduce-scatter", switch={"buffers": 1})
    switch = table(found, "switch_reduction")
    first = SWITCH + half(HEAD) + MEMORY + half(DATA) + SWITCH
    others = half(HEAD) + DATA + MEMORY + half(DATA) + SWITCH
    assert (switch["entries_max"][0], switch["stalls"][0], switch["waiting_max"][0]) == (1, 3, 3)
    assert switch["stall_cycles"][0] == 3 * first + (1 + 2) * others
    assert found.time_cycles == half(HEAD) + first + 3 * others + half(DATA) + TURN


def test_stores_without_acknowledgments_free_their_place_with_their_data(times: tuple[int, int]) -> None:
    """One place: a store leaves the turnaround after the data of the one before have arrived, whatever memory takes."""
    _, data = times
    found = message(10 * 128, store_acks=False, outstanding=1)
    assert found.time_cycles == 10 * (data + TURN)
    assert table(found)["latency_max"].tolist() == [data]


def test_places_of_a_target_become_free_in_order_too() -> None:
    """In order, with one place for each target, a store to the near NPU frees its place after one to the far NPU."""
    network = {**NETWORK, "topology": "mesh", "shape": [4]}
    ends = {}
    for order in ("relaxed", "in-order"):
        rules = {**ASKED, "ordering": order, "outstanding_per_destination": 1}
        messages = [{"src": 0, "dst": dst, "size": "1 KiB"} for dst in (3, 1)]
        found = pyxsim.run({"network": {**network, "transactions": rules}, "message": messages})
        ends[order] = {row["dst"]: row["end"] for row in found.point_to_point}
    assert ends["relaxed"][3] == pytest.approx(ends["in-order"][3], rel=0.02)
    assert ends["relaxed"][1] < 0.7 * ends["in-order"][1]


def test_checkpoints_are_refused() -> None:
    tables = {"network": {**NETWORK, "transactions": {}}, "collective": {"kind": "all-reduce", "size": "1 KiB"}}
    with pytest.raises(InputError, match="a network with transactions cannot write checkpoints"):
        pyxsim.run(tables, overrides=["run.checkpoint='9 s'"])


def test_means_run_until_the_last_acknowledgment(times: tuple[int, int]) -> None:
    """The message is complete before its acknowledgment: outstanding is one request from cycle 0 on."""
    head, data = times
    found = message(128)
    assert found.time_cycles < data + MEMORY + head
    assert table(found)["outstanding_mean"].tolist() == [1 / 2]  # of two NPUs
