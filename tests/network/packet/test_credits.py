"""Credits as messages in whole runs: closed forms, losses and restoration, exclusions (docs/credits.md)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import pyxsim
from pyxsim.errors import InputError, StuckError
from pyxsim.network.credit_returns import carriers_of
from pyxsim.network.engine_config import build_engine_config
from pyxsim.settings import Network
from pyxsim.settings.credits import Credits
from pyxsim.topology import build

CABLE = {"topology": "mesh", "shape": [2], "bandwidth": "64 GB/s", "lane_bandwidth": "256 GB/s", "latency": "100 ns"}
ONE = {"vcs": 1, "buffer": 64}
FIRST = "d0+:(0)->(1)"


def test_a_run_that_is_stuck_from_the_beginning_has_its_counts() -> None:
    network = {"topology": "mesh", "shape": [2], "host_links": True, "credits": {"initial": "advertise"}}
    message = [{"src": 0, "dst": 1, "size": "1 KiB"}]
    with pytest.raises(StuckError, match="is down"):
        pyxsim.run({"network": network, "message": message, "faults": [{"npu": 0, "down": True}]})


def cable(router: dict[str, Any], **credits: Any) -> dict[str, Any]:
    return {**CABLE, "packet": "64 MiB", "router": router, "credits": credits}


def rate(network: dict[str, Any], *, both: bool = False) -> float:
    """Flits per cycle of one long packet, without its beginning and end; `both`: with one in each direction."""
    times = []
    for flits in (4000, 12_000):
        messages = [{"src": 0, "dst": 1, "size": f"{256 * flits} B"}]
        messages += [{"src": 1, "dst": 0, "size": f"{256 * flits} B"}] if both else []
        times.append(pyxsim.run({"network": network, "message": messages}).time_cycles)
    return 8000 / (times[1] - times[0])


def loop_of(network: dict[str, Any]) -> int:
    settings = Network.model_validate(network)
    wire = build_engine_config(build("mesh", [2]), settings).link_params[0]
    assert wire.s == 4
    return wire.loop


def expected(buffer: int, batch: int, loop: int, s: int = 4) -> float:
    """`whole` batches and `rest` slots: the flits of all batches in flight per loop, and the wait for a full batch."""
    whole, rest = divmod(buffer, batch)
    return min(1 / s, whole * batch / (loop + s * (batch - 1 - rest)))


@pytest.mark.parametrize(
    ("buffer", "batch"),
    [(8, 1), (32, 1), (32, 8), (32, 7), (32, 32), (40, 16), (64, 1), (64, 13), (64, 40), (90, 30)],
)
def test_throughput_of_a_buffer_and_a_batch(buffer: int, batch: int) -> None:
    network = cable({"vcs": 1, "buffer": buffer}, batch=batch, size="8 B", timeout="100 us")
    assert rate(network) == pytest.approx(expected(buffer, batch, loop_of(network)), rel=2e-3)


def test_a_timeout_returns_an_incomplete_batch() -> None:
    """With credits of 10 flits a batch of 8 waits for 6 flits that cannot start, but not beyond the timeout."""
    slow = rate(cable({"vcs": 1, "buffer": 10}, batch=8, size="8 B", timeout="100 us"))
    fast = rate(cable({"vcs": 1, "buffer": 10}, batch=8, size="8 B", timeout="12 ns"))
    assert slow < fast <= expected(10, 1, loop_of(cable(ONE))) * 1.001


@pytest.mark.parametrize(("size", "batch"), [("256 B", 1), ("128 B", 1), ("64 B", 2), ("256 B", 8), ("8 B", 1)])
def test_messages_take_bandwidth_where_both_directions_are_loaded(size: str, batch: int) -> None:
    """Each flit costs the other direction 1 / batch messages: x flits take s * x * (1 + share / batch) = 1."""
    share = Fraction(int(size.split()[0]), 256)
    network = cable({"vcs": 1, "buffer": 200}, size=size, batch=batch, timeout="100 us")
    assert rate(network, both=True) == pytest.approx(float(1 / (4 * (1 + share / batch))), rel=2e-3)


def test_riding_credits_take_no_bandwidth() -> None:
    network = cable({"vcs": 1, "buffer": 200}, preset="nvlink", **{"return": "piggyback"})
    assert rate(network, both=True) == pytest.approx(1 / 4, rel=2e-3)


def test_share_is_that_of_the_messages() -> None:
    message = [{"src": 0, "dst": 1, "size": "1 MiB"}]
    result = pyxsim.run({"network": cable({"vcs": 1, "buffer": 200}, size="64 B"), "message": message})
    table = result.backend_tables["link_credits"].columns
    forth, back = (list(result.links.name).index(name) for name in (FIRST, "d0-:(1)->(0)"))
    assert table["messages"][forth] == table["returned"][forth] == 4096
    assert table["share"][back] == pytest.approx(4096 * 1 / result.time_cycles)
    assert not table["share"][forth]
    assert not table["messages"][back]
    windows = result.backend_tables["link_credit_windows"]
    assert windows.columns["messages"].sum(axis=0).tolist() == table["messages"].tolist()
    of_vcs = result.backend_tables["vc_credits"].columns
    assert of_vcs["returned"].sum(axis=1).tolist() == table["returned"].tolist()
    assert of_vcs["without_credits"][back].tolist() == [0]


TORUS: dict[str, Any] = {
    "network": {"topology": "torus", "shape": [4, 4], "bandwidth": "100 GB/s", "latency": "100 ns"},
    "collective": [{"kind": "all-to-all", "size": "256 KiB"}],
    "output": {"window": "500 ns"},
}


def with_credits(experiment: dict[str, Any], **credits: Any) -> dict[str, Any]:
    return {**experiment, "network": {**experiment["network"], "credits": credits}}


def same(result: Any, other: Any) -> None:
    assert result.time_cycles == other.time_cycles
    for name, values in other.totals.items():
        assert values.tolist() == result.totals[name].tolist(), name
    for name, values in other.windows.counts.items():
        assert values.tolist() == result.windows.counts[name].tolist(), name


@pytest.mark.parametrize("router", [{}, {"pipeline": "garnet", "flow_control": "virtual-cut-through", "vcs": 3}])
def test_no_size_gives_the_results_without_messages(router: dict[str, Any]) -> None:
    plain = {**TORUS, "network": {**TORUS["network"], "router": router}}
    same(pyxsim.run(with_credits(plain, size="0 B")), pyxsim.run(plain))


def test_threads_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = {"preset": "ualink", "batch": 4, "initial": "advertise"}
    one = pyxsim.run(with_credits(TORUS, **rules))
    two = pyxsim.run({**with_credits(TORUS, **rules), "run": {"threads": 2}})
    assert two.counts["threads"] == 2
    same(two, one)
    for name in ("link_credits", "vc_credits"):
        for column, values in one.backend_tables[name].columns.items():
            assert values.tolist() == two.backend_tables[name].columns[column].tolist(), column


def test_the_reference_backend_gives_the_same() -> None:
    small = {**TORUS, "network": {**TORUS["network"], "shape": [2, 2]}}
    small["collective"] = [{"kind": "all-reduce", "size": "16 KiB"}]
    rules = {"preset": "uec", "batch": 3, "vcs": "all", "initial": "advertise"}
    one = pyxsim.run(with_credits(small, **rules))
    two = pyxsim.run(with_credits(small, **rules), backend="reference")
    same(two, one)
    for column, values in one.backend_tables["link_credits"].columns.items():
        assert values.tolist() == two.backend_tables["link_credits"].columns[column].tolist(), column


def test_the_first_exchange_costs_the_way_of_a_message() -> None:
    message = [{"src": 0, "dst": 1, "size": "64 KiB"}]
    ideal = pyxsim.run({"network": cable(ONE, size="8 B"), "message": message})
    exchanged = pyxsim.run({"network": cable(ONE, size="8 B", initial="advertise"), "message": message})
    assert 95 <= exchanged.time_cycles - ideal.time_cycles <= 101  # 101 less what the first flit takes to the link


# --- losses -----------------------------------------------------------------------------------------------------------

# Only the way back errs, so credits are destroyed, and no flit is.
ERRS = {"link": "d0-:(1)->(0)", "both_directions": False, "bit_error_rate": 1e-3}
LONG = [{"src": 0, "dst": 1, "size": "1 MiB"}]


def lossy(fault: dict[str, Any] = ERRS, retry: bool = False, **credits: Any) -> dict[str, Any]:
    network = cable({"vcs": 2, "buffer": 64}, size="8 B", **credits)
    return {"network": {**network, **({"retry": {}} if retry else {})}, "message": LONG, "faults": [fault]}


def test_incremental_counters_leak_and_the_run_ends_with_names() -> None:
    with pytest.raises(StuckError, match="faults keep work from ending") as stuck:
        pyxsim.run(lossy(counters="incremental"))
    assert stuck.value.exit_code == 3
    lines = [str(stuck.value), *stuck.value.waits]
    assert any(FIRST in line and "lost credits" in line and "VC" in line for line in lines)


def test_lost_credits_are_sent_again_in_time() -> None:
    result = pyxsim.run(lossy(counters="incremental", resync="2 us"))
    table = result.backend_tables["link_credits"].columns
    link = list(result.links.name).index(FIRST)
    assert table["lost"][link] > 100
    assert table["restored"][link] > 0.9 * table["lost"][link]


def test_cumulative_counters_restore_with_the_next_message() -> None:
    clean = pyxsim.run({**lossy(), "faults": []})
    result = pyxsim.run(lossy(resync="20 us"))
    table = result.backend_tables["link_credits"].columns
    link = list(result.links.name).index(FIRST)
    assert table["lost"][link] > 100
    assert result.time_cycles < 1.05 * clean.time_cycles
    # every message is destroyed with the probability of an error in 64 bits; so the next one restores
    errors = 1 - (1 - 1e-3) ** 64
    assert table["lost"][link] == pytest.approx(table["returned"][link] * errors, rel=0.25)


def test_with_retry_no_credit_is_lost() -> None:
    result = pyxsim.run(lossy(retry=True, counters="incremental"))
    table = result.backend_tables["link_credits"].columns
    assert not table["lost"].any()
    assert table["resent"].any()
    faults, sent = result.backend_tables["link_faults"].columns, result.totals["flits"]
    assert (sent - faults["resent"]).sum() == result.counts["flits"]  # messages are no flits


def test_a_link_that_goes_down_destroys_messages() -> None:
    fault = {"link": ERRS["link"], "both_directions": False, "down": True, "in_flight": "lose", "for": "200 ns"}
    flaps = {**fault, "at": "2 us", "every": "900 ns", "until": "500 us"}
    leaks = lossy(flaps, counters="incremental")
    leaks["network"] |= {"router": {"vcs": 1, "buffer": 30}}
    leaks["message"] = [{"src": 0, "dst": 1, "size": "8 MiB"}]
    with pytest.raises(StuckError, match="lost credits: 30 of VC 0, of 30 each"):
        pyxsim.run(leaks)
    once = {**fault, "at": "2 us"}
    healed = pyxsim.run(lossy(once)).backend_tables["link_credits"].columns
    assert healed["restored"].sum() == healed["lost"].sum() > 0
    again = pyxsim.run(lossy(once, counters="incremental", initial="advertise")).backend_tables["link_credits"].columns
    assert again["restored"].sum() == again["lost"].sum() > 0


# --- settings and exclusions ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("credits", "key"),
    [
        ({"size": "512 B"}, "network.credits.size"),
        ({"batch": 65}, "network.credits.batch"),
        ({"return": "piggyback", "size": "0 B"}, "network.credits.size"),
        ({"return": "flits", "wait": "5 ns"}, "network.credits.wait"),
        ({"preset": "pci"}, "network.credits.preset"),
        ({"return": "flit"}, "network.credits.return"),
    ],
)
def test_faults_of_settings_name_their_key(credits: dict[str, Any], key: str) -> None:
    with pytest.raises(InputError) as error:
        pyxsim.run({"network": cable({"vcs": 1, "buffer": 64}, **credits), "message": LONG})
    assert key in str(error.value)


def test_links_of_one_way_have_no_opposite() -> None:
    ring = {"dims": [{"block": "ring", "npus": 4, "bidirectional": False}], "credits": {}}
    with pytest.raises(InputError, match="opposite direction"):
        pyxsim.run({"network": ring, "message": LONG})


@pytest.mark.parametrize("backend", ["analytical", "flow", "ethernet"])
def test_other_backends_refuse_messages(backend: str) -> None:
    with pytest.raises(InputError, match="credits as messages"):
        pyxsim.run({"network": cable(ONE), "message": LONG}, backend=backend)


def test_opposite_links_are_pairs() -> None:
    topology = build("fat-tree", options={"children": [4, 4], "parents": [2]}).with_hosts()
    opposite = carriers_of(topology)
    assert (opposite >= 0).all()
    assert (opposite[opposite] == np.arange(len(opposite))).all()
    links = topology.links
    inside = opposite[:links]
    assert (topology.link_src[inside] == topology.link_dst).all()
    assert opposite[links : links + 16].tolist() == list(range(links + 16, links + 32))


def test_nothing_is_skipped_and_the_reason_is_given() -> None:
    message = [{"src": 0, "dst": 1, "size": "16 MiB"}]
    result = pyxsim.run({"network": {**CABLE, "credits": {}}, "message": message})
    assert result.counts["not_skipped"] == "credits as messages need every cycle simulated"


@pytest.mark.parametrize("preset", Credits.PRESETS)
def test_presets_run_and_keys_override_them(preset: str) -> None:
    message = [{"src": 0, "dst": 1, "size": "8 KiB"}]
    result = pyxsim.run({"network": cable(ONE, preset=preset, size="32 B"), "message": message})
    table = result.backend_tables["link_credits"].columns
    back = list(result.links.name).index("d0-:(1)->(0)")
    assert table["returned"].sum() == 32
    assert table["share"][back] == pytest.approx(table["messages"].sum() * 4 * 32 / 256 / result.time_cycles)


@pytest.mark.parametrize("batch", [1, 4])
def test_a_replay_buffer_by_default_has_room_for_messages(batch: int) -> None:
    """With two loaded directions, flits and messages share the slots: neither stalls, and credits cost what they do."""
    messages = [{"src": a, "dst": 1 - a, "size": "1 MiB"} for a in (0, 1)]
    network = {**cable({"vcs": 1, "buffer": 1024}, batch=batch, size="8 B", timeout="100 us"), "latency": "1 us"}
    without = pyxsim.run({"network": network, "message": messages})
    result = pyxsim.run({"network": {**network, "retry": {}}, "message": messages})
    assert result.backend_tables["link_faults"].columns["stall_replay"].max() == 0
    assert result.time_cycles == without.time_cycles
