"""`pyxsim htsim` against recorded runs of htsim_uec, and what it refuses.

The expected times are those of htsim_uec (uet-htsim, commit 40ccb05) with these files and options, printed to the
picosecond. Its random numbers are reproduced, so that runs with trims, marks and random routes equal it as well.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import h5py
import pytest

import pyxsim
from pyxsim.cli.app import main
from pyxsim.compat.htsim.command import divided
from pyxsim.compat.htsim.command_run import prepared
from pyxsim.compat.htsim.fat_tree import generated, read_topology
from pyxsim.compat.htsim.htsim_options import HtsimOptions, read_options
from pyxsim.compat.htsim.rules import derive, oversubscribed
from pyxsim.errors import InputError, SimulationError
from tests.compat.htsim.htsim_files import BUNDLES, FILES, LEAF_SPINE, matrix
from tests.in_turn import in_turn

# Options after -tm; the last finish and the sum of all finishes (ps); New, Rtx, RTS, ACKs, NACKs, Pulls, sleek_pkts.
RECORDED = [
    ("one.cm", 176_199_520, 176_199_520, (490, 0, 0, 124, 0, 0, 0)),
    ("one.cm -receiver_cc_only", 177_367_660, 177_367_660, (490, 0, 0, 126, 0, 206, 0)),
    ("small.cm", 14_022_720, 14_022_720, (1, 0, 0, 1, 0, 0, 0)),
    ("small.cm -receiver_cc_only", 14_022_720, 14_022_720, (1, 0, 0, 1, 0, 0, 0)),
    ("both.cm -sender_cc_only", 176_803_680, 353_607_360, (980, 0, 0, 248, 0, 0, 0)),
    ("tor.cm", 4_752_480, 4_752_480, (2, 0, 0, 2, 0, 0, 0)),
    ("two.cm -sender_cc_only", 338_933_600, 675_382_400, (980, 44, 0, 962, 44, 0, 0)),
    ("two.cm -receiver_cc_only", 338_733_920, 675_647_040, (980, 5, 0, 278, 5, 322, 0)),
    ("two.cm -sender_cc_only -seed 2", 338_933_600, 677_042_400, (980, 44, 0, 955, 44, 0, 0)),
    ("ten.cm", 17_010_720, 17_010_720, (10, 0, 0, 4, 0, 0, 0)),
    ("hundred.cm", 46_890_720, 46_890_720, (100, 0, 0, 26, 0, 0, 0)),
    ("reuse.cm -conn_reuse", 17_010_720, 17_010_720, (10, 0, 0, 4, 0, 0, 0)),
    ("perm.cm -paths 128", 29_559_360, 339_991_040, (448, 0, 0, 130, 0, 0, 0)),
    ("perm.cm -receiver_cc_only -failed 2 -end 3000", 35_352_640, 363_659_840, (448, 0, 0, 141, 0, 312, 0)),
    ("perm.cm -sender_cc -receiver_cc -paths 1 -seed 5", 37_933_920, 394_761_920, (448, 0, 0, 160, 0, 311, 0)),
    ("perm.cm -load_balancing_algo reps -sack_threshold 4000", 29_329_760, 340_630_720, (448, 0, 0, 448, 0, 0, 0)),
    ("perm.cm -load_balancing_algo reps_legacy -linkspeed 400000", 17_794_600, 203_399_400, (448, 0, 0, 134, 0, 0, 0)),
    (
        "perm.cm -load_balancing_algo bitmap -mtu 1564 -q 30 -ecn 5 20",
        28_947_520,
        330_571_520,
        (1205, 0, 0, 204, 0, 0, 0),
    ),
    (
        "perm.cm -load_balancing_algo oblivious -sleek -disable_trim -q 20 -ecn 4 16 -paths 1 -end 5000",
        83_421_600,
        549_233_120,
        (448, 50, 0, 244, 0, 0, 23),
    ),
    (
        "perm.cm -enable_accurate_base_rtt -target_q_delay 6 -qa_gate 1 -hop_latency 0.5 -switch_latency 0.3",
        26_607_200,
        306_146_560,
        (448, 0, 0, 139, 0, 0, 0),
    ),
    ("incast.cm -sender_cc_only -seed 1", 118_178_720, 872_620_960, (296, 252, 0, 281, 252, 0, 0)),
    ("incast.cm -receiver_cc_only -cwnd 30", 112_183_840, 868_241_440, (296, 190, 0, 268, 190, 484, 0)),
    ("incast.cm -sender_cc -receiver_cc -trimsize 256", 122_637_360, 882_647_680, (296, 195, 0, 268, 195, 497, 0)),
    ("incast.cm -sender_cc_algo dctcp", 112_516_640, 876_229_120, (296, 255, 0, 282, 255, 0, 0)),
    (
        "incast.cm -sender_cc_algo constant -disable_base_rtt_update_on_nack",
        112_516_640,
        876_229_120,
        (296, 255, 0, 282, 255, 0, 0),
    ),
    ("spine.cm -topo spine.topo -sender_cc_only", 43_030_240, 993_740_000, (600, 469, 0, 591, 469, 0, 0)),
    ("spine.cm -topo spine.topo -receiver_cc_only", 43_187_680, 996_969_934, (600, 484, 0, 589, 484, 829, 0)),
    ("spine.cm -topo spine.topo", 43_669_920, 995_952_800, (600, 474, 0, 588, 474, 0, 0)),
    ("spine.cm -tiers 2 -failed 1", 32_772_800, 655_181_920, (600, 77, 0, 258, 77, 0, 0)),
    ("eight.cm -topo bundle.topo -linkspeed 200000", 20_616_360, 144_360_080, (208, 0, 0, 63, 0, 0, 0)),
    ("triggers.cm", 99_171_200, 438_771_520, (159, 0, 0, 49, 0, 0, 0)),
    ("messages.cm -conn_reuse", 80_349_600, 202_763_600, (202, 48, 0, 182, 48, 0, 0)),
    ("messages.cm -conn_reuse -receiver_cc_only", 80_236_960, 205_439_280, (202, 26, 0, 86, 26, 139, 0)),
    (
        "spine.cm -topo spine.topo -receiver_cc_only -oversubscribed_cc -Ai 0.02 -Md 0.4 -alpha 0.3 -seed 3",
        45_582_080,
        1_015_830_422,
        (600, 479, 0, 587, 479, 851, 0),
    ),
    (
        "incast.cm -receiver_cc -queue_size_bdp_factor 2 -enable_accurate_base_rtt",
        111_665_760,
        882_672_960,
        (296, 88, 0, 254, 88, 379, 0),
    ),
    (
        "spine.cm -topo spine.topo -linkspeed 400000 -receiver_cc -load_balancing_algo reps",
        46_019_520,
        1_022_321_120,
        (600, 0, 0, 324, 0, 840, 0),
    ),
    ("eight.cm -topo bundle.topo -linkspeed 800000 -mtu 2048", 19_506_680, 139_040_320, (423, 0, 0, 66, 0, 0, 0)),
    (
        "spine.cm -tiers 2 -sender_cc -receiver_cc -linkspeed 25000 -paths 2 -failed 2 -hop_latency 0.25",
        534_729_600,
        4_649_726_092,
        (600, 186, 8, 462, 179, 1034, 0),
    ),
]
RECORDED_LARGE = [
    ("perm128.cm -sender_cc_only", 67_825_760, 7_830_336_160, (15744, 0, 0, 4542, 0, 0, 0)),
    (
        "perm128.cm -receiver_cc_only -failed 8 -end 3000",
        82_578_560,
        8_058_526_240,
        (15744, 356, 0, 5307, 356, 8321, 0),
    ),
    (
        "perm128.cm -sender_cc -receiver_cc -paths 1 -end 3000",
        200_404_320,
        14_102_889_208,
        (15744, 2736, 0, 13244, 2736, 13968, 0),
    ),
    (
        "perm128.cm -load_balancing_algo reps -failed 8 -end 3000",
        91_839_680,
        8_259_486_560,
        (15744, 368, 0, 5186, 368, 0, 0),
    ),
    (
        "perm128.cm -load_balancing_algo reps_legacy -sack_threshold 4000 -seed 4",
        66_894_240,
        7_655_539_520,
        (15744, 0, 0, 15744, 0, 0, 0),
    ),
    (
        "perm128.cm -load_balancing_algo bitmap -linkspeed 800000 -seed 5",
        18_851_980,
        2_236_955_360,
        (15744, 0, 0, 4135, 0, 0, 0),
    ),
    (
        "perm128.cm -load_balancing_algo oblivious -disable_trim -sleek -end 5000",
        70_290_880,
        7_873_588_800,
        (15744, 0, 0, 4580, 0, 0, 0),
    ),
    ("incast128.cm -sender_cc_only -end 20000", 503_715_680, 39_977_749_920, (1440, 3397, 0, 1435, 3397, 0, 0)),
    ("incast128.cm -receiver_cc_only -end 20000", 505_699_184, 42_987_377_164, (1440, 1470, 0, 1404, 1470, 2238, 0)),
    (
        "incast128.cm -sender_cc -receiver_cc -cwnd 50 -end 20000 -seed 2",
        502_055_710,
        42_849_610_294,
        (1440, 1455, 2, 1402, 1455, 2250, 0),
    ),
    ("perm128.cm -tiers 2 -failed 2", 71_701_280, 8_075_871_840, (15744, 1192, 0, 6320, 1192, 0, 0)),
    ("perm1024.cm -sender_cc_only -paths 128", 41_645_280, 35_346_364_320, (50176, 0, 0, 14212, 0, 0, 0)),
    (
        "perm1024.cm -receiver_cc_only -paths 128 -failed 8 -end 3000",
        49_365_600,
        35_893_529_534,
        (50176, 160, 0, 14445, 160, 20397, 0),
    ),
]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of these tests, in the current folder."""
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


Case = tuple[str, int, int, tuple[int, ...]]


def check(words: str, last: int, total: int, counts: tuple[int, ...]) -> None:
    run = prepared(read_options(["-tm", *words.split()]))
    finished = [line.split(" finished at ")[0] for line in run.lines() if " finished at " in line]
    times = [flow.finish for flow in run.finished if flow.finish is not None]
    assert len(times) == len(finished)
    assert (times[-1], sum(times)) == (last, total)
    totals = run.totals()
    assert totals.pop("Bounced") == 0
    assert tuple(totals.values()) == counts
    packets = run.engine.counts
    assert packets["made"] == packets["delivered"] + packets["dropped"] + packets["in_network"]


@in_turn("words, last, total, counts", RECORDED)
def test_recorded_runs(files: Path, words: str, last: int, total: int, counts: tuple[int, ...]) -> None:
    check(words, last, total, counts)


@pytest.mark.slow
@pytest.mark.parametrize(("words", "last", "total", "counts"), RECORDED_LARGE)
def test_recorded_large_runs(files: Path, words: str, last: int, total: int, counts: tuple[int, ...]) -> None:
    check(words, last, total, counts)


TRIGGER_LINES = """Flow Uec_0_13 flowId 1 uecSrc 0 starting at 0
Flow Uec_1_12 flowId 2 uecSrc 1 starting at 2
Flow Uec_0_13 flowId 1 uecSrc 0 finished at 22.3307 total messages 1 total packets 25
Trigger 1 activated, activations remaining: 1
Flow Uec_1_12 flowId 2 uecSrc 1 finished at 32.6056 total messages 1 total packets 49
Trigger 1 fired, 2 targets
Uec_2_10 activate
Flow Uec_2_10 flowId 4 uecSrc 3 starting at 32.6056
Uec_2_11 activate
Flow Uec_2_11 flowId 3 uecSrc 2 starting at 32.6056"""
FINISHED = (
    "Flow Uec_0_13 flowId 1000000001 uecSrc 0 finished at 14.0227 total messages 1 total packets 1 RTS 0 total bytes "
    "4086 in_flight now 0 fair_inc 0 prop_inc 0 fast_inc 0 eta_inc 0 multi_dec -0 quick_dec -0 nack_dec -0"
)


def test_lines(files: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["htsim", "-tm", "small.cm"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert "Setting ECN to parameters low 37350 high 145250 enable on tor downlink 1" in lines
    assert "Setting min RTO to 100.656" in lines
    assert lines[-4] == "Flow Uec_0_13 flowId 1000000001 uecSrc 0 starting at 0"
    assert lines[-2:] == ["Done", "New: 1 Rtx: 0 RTS: 0 Bounced: 0 ACKs: 1 NACKs: 0 Pulls: 0 sleek_pkts: 0"]
    assert lines[-3] == FINISHED
    assert main(["htsim", "-tm", "triggers.cm"]) == 0
    out = [line.split(" RTS ")[0] for line in capfd.readouterr().out.splitlines()]
    first = out.index("Flow Uec_0_13 flowId 1 uecSrc 0 starting at 0")
    assert "\n".join(out[first : first + 10]) == TRIGGER_LINES
    assert "Multishot Trigger 2 fired, 2 targets" in out


def test_json_and_file(files: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(FILES["one.cm"]))
    assert main(["htsim", "--json", "-o", "out.h5", "-log", "sink"]) == 0
    data = json.loads(capfd.readouterr().out)
    flow = data["flows"][0]
    assert (flow["src"], flow["dst"], flow["finish_us"], flow["packets"]) == (0, 13, 176.19952, 490)
    assert [data[name] for name in ("new", "rtx", "rts", "acks", "nacks", "pulls")] == [490, 0, 0, 124, 0, 0]
    with h5py.File("out.h5") as file:
        assert file["flows/end"][0] == 176_199_520
        assert file["ports/bytes"][0] == 2_000_000 + 490 * 64
    assert main(["htsim", "-tm", "one.cm", "-o", "out.dat", "-debug"]) == 0
    notes = capfd.readouterr().err
    assert "-o out.dat: htsim's log is not written" in notes
    assert "-debug" in notes
    assert pyxsim.htsim(["-tm", "one.cm"])["tail_us"] == 176.19952


def test_a_run_that_ends_early(files: Path) -> None:
    data = pyxsim.htsim(["-tm", "two.cm", "-end", "200"])
    assert [flow["finish_us"] for flow in data["flows"]] == [None, None]
    assert (data["new"], data["rtx"], data["acks"], data["nacks"], data["tail_us"]) == (628, 44, 543, 44, None)
    late = pyxsim.htsim(["-tm", "perm.cm", "-end", "1"])
    assert [flow["start_us"] for flow in late["flows"]][:3] == [0, None, None]


# --- what follows from options and network ---


def rules(words: str = "", hosts: int = 16) -> tuple[int, ...]:
    options = read_options(words.split())
    found = derive(options, generated(options, hosts))
    return found.rtt, found.bdp_packets, found.queue, found.ecn_low, found.ecn_high, found.min_rto, found.target


def test_derived_rules() -> None:
    assert rules() == (14_022_720, 43, 178_450, 37_350, 145_250, 100_656_000, 10_517_040)
    assert rules("-tiers 2", 32)[0] == 9_348_480
    assert rules("-disable_trim")[2] == 5 * 178_450
    assert rules("-disable_trim")[-1] == 14_022_720
    assert rules("-q 100 -ecn 20 80")[2:5] == (415_000, 83_000, 332_000)
    assert rules("-queue_size_bdp_factor 3")[2] == 3 * 178_450


def test_trees() -> None:
    three = generated(HtsimOptions(), 16)
    assert (three.tors, three.aggs, three.cores, three.hosts_per_pod, three.core_links) == (8, 8, 4, 4, 2)
    two = generated(HtsimOptions(tiers=2), 32)
    assert (two.tors, two.aggs, two.cores, two.diameter_latency) == (8, 4, 0, 4_000_000)
    leaf = read_topology(LEAF_SPINE, "leaf.topo")
    assert (leaf.tors, leaf.aggs, leaf.oversubscription, leaf.diameter_latency) == (4, 2, 4, 3_500_000)
    assert (leaf.latency(0, 1), leaf.latency(0, 31)) == (1_450_000, 3_500_000)
    bundles = read_topology(BUNDLES, "bundles.topo")
    assert (bundles.tors, bundles.aggs, bundles.cores, bundles.core_links) == (4, 4, 4, 2)
    assert [three.latency(0, peer) for peer in (1, 2, 4)] == [2_000_000, 4_000_000, 6_000_000]


def test_flags_act_from_left_to_right() -> None:
    leaf = read_topology(LEAF_SPINE, "leaf.topo")

    def adapts(words: str) -> tuple[bool, float]:
        return oversubscribed(read_options(words.split()), leaf)

    assert adapts("") == adapts("-receiver_cc_only") == (True, 0.225)
    assert adapts("-sender_cc_only") == (False, 0.01)
    assert adapts("-oversubscribed_cc -sender_cc") == (False, 0.01)
    assert adapts("-sender_cc -oversubscribed_cc") == (True, 0.01)
    assert adapts("-force_disable_oversubscribed_cc") == (False, 0.01)


def test_own_options_are_apart() -> None:
    assert divided(["-tm", "a", "--json", "-q", "5"]) == ["--json", "--", "-tm", "a", "-q", "5"]


# --- faults ---


@in_turn(
    "words, message",
    [
        ("-sedn 3", "htsim: unknown option '-sedn'; allowed: ...; did you mean '-seed'?"),
        ("-seed x", "-seed: 'x' is not a whole number; allowed: a whole number from"),
        ("-seed", "-seed: the value is missing"),
        ("-ecn 5", "-ecn: the value is missing; allowed: -ecn LOW HIGH"),
        ("-ecn 90 5", "-ecn: the thresholds are 90 and 5 packets; allowed: LOW <= HIGH <= 43 packets"),
        ("-load_balancing_algo ecmp", "-load_balancing_algo: unknown value 'ecmp'; allowed: mixed, bitmap, oblivious"),
        ("-paths 100", "-paths: 100 is not a power of two; allowed: a power of two with -load_balancing_algo mixed"),
        ("-strat ecmp_ar", "-strat: 'ecmp_ar' is not supported; allowed: ecmp_host"),
        ("-queue_type aeolus", "-queue_type: 'aeolus' is not supported; allowed: composite"),
        ("-planes 2", "-planes: '2' is not supported; allowed: 1"),
        ("-pcie 1.1", "-pcie: is not supported: the model of PCIe"),
        ("-ar_method pause", "-ar_method: is not supported: adaptive routing is absent"),
        ("-trimsize 9000", "-trimsize: 9000 is out of range; allowed: 64 to 4150"),
        ("-nodes 17", "-nodes: 17 hosts; allowed: 16, as in one.cm"),
        ("-topo spine.topo", "spine.topo: has 32 hosts, but the connection matrix 16"),
        ("-log walnut", "-log: unknown log 'walnut'; allowed: flow_events, sink"),
        ("-tm no.cm", "no.cm: no such file"),
        ("-tm triggers.cm -conn_reuse", "triggers.cm:4: triggers are not supported with -conn_reuse"),
        ("-tm messages.cm", "messages.cm:4: 'msg' needs the option -conn_reuse"),
    ],
)
def test_faulty_options(files: Path, capfd: pytest.CaptureFixture[str], words: str, message: str) -> None:
    assert main(["htsim", "-tm", "one.cm", *words.split()]) == 2
    faulty(capfd.readouterr().err, f"pyxsim: {message}")


def faulty(text: str, message: str) -> None:
    assert text.count("\n") <= 1, text
    for part in message.split("..."):
        assert part in text


@in_turn(
    "lines, message",
    [
        (["0->16 start 0 size 5"], "a.cm:4: 0->16: 16 is out of range; allowed: a whole number from 0 to 15"),
        (["0->0 start 0 size 5"], "a.cm:4: host 0 sends to itself"),
        (["0>1 start 0 size 5"], "a.cm:4: unknown word '0>1'; allowed: Nodes"),
        (["0->1 strat 0 size 5"], "a.cm:4: unknown word 'strat'; allowed: start, ...; did you mean 'start'?"),
        (["0->1 start 0 size"], "a.cm:4: the value of 'size' is missing"),
        (["0->1 start 0"], "a.cm:4: the flow has no size"),
        (["0->1 size 5"], "a.cm:4: the flow has no start"),
        (["0->1 start 0 size 3000000000"], "a.cm:4: size: 3000000000 is out of range"),
        (["0->1 start 0 size 5 trigger 1 id 1"], "a.cm:4: the flow has both a start and a trigger"),
        (["0->1 size 5 trigger 1"], "a.cm:4: the flow has a trigger but no id"),
        (["0->1 size 5 trigger 1 id 1"], "a.cm:4: trigger 1 has no line"),
        (["0->1 id 1 start 0 size 5", "0->1 id 1 start 0 size 5"], "a.cm:5: id 1 is there already (a.cm:4)"),
        (["failure switch_type AGG"], "a.cm:4: failures of links are not supported"),
    ],
)
def test_faulty_matrices(files: Path, capfd: pytest.CaptureFixture[str], lines: list[str], message: str) -> None:
    Path("a.cm").write_text(matrix(16, lines))
    assert main(["htsim", "-tm", "a.cm"]) == 2
    faulty(capfd.readouterr().err, message)


@in_turn(
    "text, message",
    [
        ("Nodes 16\nConnections 2\n0->1 start 0 size 5\n", "a.cm: Connections: the file has 1, and not 2"),
        ("Connections 1\n0->1 start 0 size 5\n", "a.cm:2: 'Nodes N' is missing before this line"),
        ("", "a.cm: the number of hosts is missing"),
        (matrix(16, ["0->1 start 0 size 5"], ("trigger id 1",)), "a.cm:5: the trigger is not complete"),
        (matrix(16, ["0->1 start 0 size 5"], ("trigger id 1 barrier",)), "a.cm:5: the barrier has no count"),
        (matrix(17, ["0->1 start 0 size 5"]), "there is no fat tree of 3 tiers with 17 hosts; allowed: ...16 or 31"),
        (matrix(6, ["0->1 start 0 size 5"]), "6 hosts do not fill the switches (k = 3)"),
    ],
)
def test_faulty_headers(files: Path, capfd: pytest.CaptureFixture[str], text: str, message: str) -> None:
    Path("a.cm").write_text(text)
    assert main(["htsim", "-tm", "a.cm"]) == 2
    faulty(capfd.readouterr().err, message)


def replaced(old: str, new: str) -> Callable[[], str]:
    return lambda: LEAF_SPINE.replace(old, new)


@in_turn(
    "make, message",
    [
        (replaced("Radix_Up", "Radix_Upp"), "a.topo:8: unknown key 'radix_upp' of tier 0; allowed: ...'radix_up'?"),
        (replaced("Nodes 32\n", ""), "a.topo: 'Nodes N' is missing"),
        (replaced("Tiers 2", "Tiers 4"), "a.topo: Tiers: 4 is out of range; allowed: 2 or 3"),
        (replaced("Radix_Down 8", "Radix_Down eight"), "a.topo:7: Radix_Down: 'eight' is not a whole number"),
        (replaced("Oversubscribed 4", "Oversubscribed 2"), "a.topo: Oversubscribed: tier 0 has 8 links down and 2 up"),
        (replaced("Radix_Down 4", "Radix_Down 5"), "a.topo: Radix_Up, Radix_Down, Bundle: 8 uplinks of ToRs"),
        (replaced("Podsize 32", "Podsize 12"), "a.topo: Podsize: 32 hosts do not fill pods of 12 hosts"),
        (lambda: BUNDLES.replace("Bundle 2", "Bundle 3"), "a.topo: Radix_Down: 4 of tier 2 is not a multiple"),
    ],
)
def test_faulty_topologies(make: Callable[[], str], message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_topology(make(), "a.topo")
    for part in message.split("..."):
        assert part in str(caught.value)


def test_a_trigger_that_fires_twice(files: Path) -> None:
    lines = [f"{i}->{i + 1} start 0 size 5000 send_done_trigger 1" for i in (0, 2)]
    Path("a.cm").write_text(matrix(16, [*lines, "4->5 id 1 trigger 1 size 5000"], ("trigger id 1 oneshot",)))
    with pytest.raises(SimulationError, match=r"trigger 1 \(oneshot\) is activated again after it has fired"):
        pyxsim.htsim(["-tm", "a.cm"])
