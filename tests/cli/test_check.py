"""`pyxsim check`: what is proved and told before a run, against what the run then does."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pyxsim import check, run
from pyxsim.network.packet import congruent_groups
from tests.cli.inputs import SMALL, Command


def test_in_words(pyxsim: Command) -> None:
    ended = pyxsim("check", "small.toml")
    assert (ended.code, ended.out) == (0, "")
    text = " ".join(ended.err.split())
    for part in (
        "settings good",
        "torus 2 x 2: 4 NPUs, 16 links",
        "all reachable; proved free of deadlock",
        "proved: ring: reduce-scatter on 2 ranks",
        "proved: all-reduce = reduce-scatter along 0, all-reduce along 1, all-gather along 0 (on 2x2 with 7 bytes)",
        "cover the credit loop of",
        "ns for its bytes on these links",
        "router visits: about",
        "measured at its beginning",
    ):
        assert part in text, ended.err


def test_the_cost_is_what_the_run_takes(pyxsim: Command) -> None:
    for words in ((), ("--set", "system.chunks=3", "--set", "network.shape=[3, 4]"), ("--set", "collective.size=1 B")):
        checked = json.loads(pyxsim("check", "small.toml", "--json", *words).out)
        done = json.loads(pyxsim("run", "small.toml", "--json", *words).out)
        for key in ("router_visits", "lower_bound_ns", "npus", "warnings", "version"):
            assert checked[key] == done[key], key
        assert checked["ok"] is True
        assert checked["seconds"] > 0


def test_json_only_on_stdout(pyxsim: Command) -> None:
    ended = pyxsim("check", "small.toml", "--json")
    assert ended.err == ""
    data = json.loads(ended.out)
    assert data["schedules"] == [f"ring: {kind} on 2 ranks" for kind in ("reduce-scatter", "all-reduce", "all-gather")]
    # Both neighbours of everybody, 4 NPUs; chunk 0 is alone and goes round clockwise, on plane 0.
    assert data["pairs"] == 4 * 2
    assert data["deadlock_free"] is True


def test_buffers_against_the_credit_loop(pyxsim: Command) -> None:
    """One dimension of docs/router.md: a VC of B flits can be busy B * s / loop of the time; the loop is 3 + 2 D."""
    words = (
        "--set",
        "network.router.buffer=4",
        "--set",
        "network.bandwidth=256 GB/s",
        "--set",
        "network.latency=50 ns",
    )
    ended = pyxsim("check", "small.toml", *words)
    assert ended.code == 0
    assert "warning: network.router.buffer: 4 flits x 2 VCs" in ended.err
    (first, _) = json.loads(pyxsim("check", "small.toml", "--json", *words).out)["buffers"]
    # 256 B at 256 GB/s and 1 GHz: one cycle. Of the 4 VCs a ring with datelines gives 2 to each class.
    assert first["credit_loop"] == 3 + 2 * 50
    assert first["flits_per_vc"] == 4
    assert first["share"] == pytest.approx(4 * 2 / 103)


def test_host_links_count_as_in_a_run() -> None:
    """Four leaves and two spines: 2 * 4 * 2 links between them, and two host links for each of 16 NPUs."""
    network = {"topology": "leaf-spine", "options": {"npus": 4, "leaves": 4, "spines": 2}}
    experiment = {"network": network, "collective": {"kind": "all-reduce", "size": "1 KiB"}}
    report = check(experiment)
    assert report["links"] == 2 * 4 * 2 + 2 * 16 == len(run(experiment).links.name)
    assert [row["name"] for row in report["buffers"]] == ["host", "level1"]
    assert "buffers: host links: " in " ".join(f"{label}: {text}" for label, text in report.rows)


def test_routes_that_can_deadlock(pyxsim: Command) -> None:
    ended = pyxsim("check", "deadlock.toml", "--allow-deadlock")
    assert ended.code == 0
    assert "they CAN deadlock" in ended.err
    assert "warning: the routes can deadlock: 4 channels" in ended.err
    assert json.loads(pyxsim("check", "deadlock.toml", "--allow-deadlock", "--json").out)["deadlock_free"] is False


def test_what_is_known_of_a_run_that_faults_keep_from_ending(pyxsim: Command) -> None:
    """The routes that follow the faults are shown, too, although the run does not end."""
    words = ["faults=[{router = '(0,0)', down = true}]", "network.reroute={}", "network.topology=torus"]
    ended = pyxsim("check", "small.toml", *(word for text in words for word in ("--set", text)))
    assert ended.code == 3
    shown = ended.out + ended.err
    assert "rerouting" in shown
    assert "pairs of NPUs: NPU 0 is cut off from the others" in shown


@pytest.mark.parametrize("kind", ["all-reduce", "reduce-scatter", "all-gather", "all-to-all"])
@pytest.mark.parametrize("order", ["ascending", "round-robin", "themis"])
def test_every_composition_is_proved(pyxsim: Command, kind: str, order: str) -> None:
    words = ["network.shape=[2, 3, 2]", f"collective.kind={kind}", f"system.inter_dimension={order}", "system.chunks=5"]
    ended = pyxsim("check", "small.toml", "--json", *(word for text in words for word in ("--set", text)))
    assert ended.code == 0, ended.err
    plans = json.loads(ended.out)["plans"]
    assert plans
    assert all(plan["shape"] == [2, 3, 2] and plan["kind"] == kind for plan in plans)


def test_a_large_network_is_proved_on_a_small_one(pyxsim: Command) -> None:
    data = json.loads(pyxsim("check", "small.toml", "--json", "--set", "network.shape=[8, 1, 64]").out)
    assert [plan["shape"] for plan in data["plans"]] == [[3, 1, 3]]


def test_a_long_run_is_estimated_soon(pyxsim: Command) -> None:
    ended = pyxsim("check", "small.toml", "--json", "--set", "collective.size=100 GiB", "--set", "run.skip=false")
    data = json.loads(ended.out)
    assert data["seconds"] == pytest.approx(data["router_visits"] / data["visits_per_s"])
    assert data["seconds"] > 60


def test_memory_grows_with_routers_and_vcs(pyxsim: Command) -> None:
    sizes = {}
    for k in (4, 8):
        for vcs in (4, 16):
            words = ("--set", f"network.shape=[{k}, {k}]", "--set", f"network.router.vcs={vcs}")
            sizes[k, vcs] = json.loads(pyxsim("check", "small.toml", "--json", *words).out)["engine_bytes"]
    # A router of a 2D torus has 4 links in, 4 injection lanes, and as many out: 12 with a buffer. Of each VC the engine
    # has an input record of 64 bytes, an output record of 32, and little more.
    more = (sizes[8, 16] - sizes[8, 4]) / (64 * 12 * 12)
    assert 96 <= more < 160
    assert 3.4 < (sizes[8, 16] - sizes[8, 4]) / (sizes[4, 16] - sizes[4, 4]) < 4.6
    shown = pyxsim("check", "small.toml", "--set", "network.shape=[8, 8]", "--set", "network.router.vcs=16").err
    assert re.search(r"[0-9.]+ MB of it for the engine at the start, [0-9.]+ kB per router", shown)
    delays = json.loads(pyxsim("check", "small.toml", "--json", "--backend", "analytical").out)
    assert delays["engine_bytes"] is None


def test_one_npu(pyxsim: Command, folder: Path) -> None:
    (folder / "one.toml").write_text(SMALL.replace("[2, 2]", "[1, 1]"), encoding="utf-8")
    for command in ("check", "run"):
        ended = pyxsim(command, "one.toml")
        assert ended.code == 0, ended.err
        assert json.loads(pyxsim(command, "one.toml", "--json").out)["router_visits"] == 0


FULL = """
[network]
topology = "ring"
shape = [4]
bandwidth = "16 GB/s"
latency = "20 ns"
flit = "16 B"
packet = "64 B"
[system]
compat = "astra-sim-2"
chunks = 2
endpoint_delay = "10 ns"
all_reduce = "double-binary-tree"
[[collective]]
name = "first"
kind = "all-reduce"
size = "64 B"
[[collective]]
name = "second"
kind = "all-reduce"
size = "64 B"
at = "119 ns"
"""


def test_a_run_that_stands_still(pyxsim: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is found where the sample comes so far, in the words of the run; else it is said that nobody knows."""
    (folder / "full.toml").write_text(FULL, encoding="utf-8")
    checked, done = pyxsim("check", "full.toml"), pyxsim("run", "full.toml")
    assert checked.code == 3
    assert checked.lines[0].startswith("settings     good")  # what was found before is said, too
    assert checked.lines[-len(done.lines) :] == done.lines
    assert done.lines[0].startswith("pyxsim: nothing moves after cycle ")
    assert json.loads(pyxsim("check", "full.toml", "--json").out)["exit_code"] == 3
    roomy = ("--set", "system.active_chunks=4")
    assert json.loads(pyxsim("check", "full.toml", "--json", *roomy).out)["ends"] is True
    monkeypatch.setattr("pyxsim.study.check.check_cost.SAMPLE", -1.0)
    words = "end unknown: queues may fill with waiting chunks, as in ASTRA-sim 2 (docs/compat.md)"
    for more, said in (((), True), (roomy, False), (("--set", "system.compat=none"), False)):
        short = pyxsim("check", "full.toml", *more)
        assert short.code == 0
        assert (words in " ".join(short.err.split())) == said
    assert json.loads(pyxsim("check", "full.toml", "--json").out)["ends"] is None


@pytest.fixture
def fold_small_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for equal groups in a run of any size."""
    monkeypatch.setattr(congruent_groups, "LEAST_FLIT_HOPS", 0)


def _on_rings(**settings: object) -> dict[str, object]:
    network = {"topology": "torus", "shape": [8, 8], "bandwidth": "256 GB/s"}
    system = {"chunks": 4} | settings
    return {"network": network, "system": system, "collective": {"kind": "all-reduce", "size": "4 MiB"}}


@pytest.mark.usefixtures("fold_small_runs")
def test_folding() -> None:
    """Two groups of NPU 0, one in each dimension, of 8 rings each way in 2 dimensions."""
    report = check(_on_rings(all_reduce="ring"))
    assert report["folding"]["classes"] < report["folding"]["groups"]
    assert any(text.startswith("NPU 0 stands for all") for label, text in report.rows if label == "folding")


@pytest.mark.usefixtures("fold_small_runs")
def test_why_it_does_not_fold() -> None:
    report = check(_on_rings(all_reduce="ring", stragglers=[{"npus": [3], "start": "1 us"}]))
    assert report["folding"] == {"why": "some NPUs are slower or begin later than others"}


@pytest.mark.usefixtures("fold_small_runs")
@pytest.mark.parametrize(
    ("algorithm", "routing", "apart"),
    [("direct", "dimension-order", True), ("direct", "bubble", False), ("ring", "dimension-order", False)],
)
def test_what_makes_npus_lose_step(algorithm: str, routing: str, apart: bool) -> None:
    experiment = _on_rings(all_reduce=algorithm)
    experiment["network"]["router"] = {"routing": routing}  # type: ignore[index]
    assert any("datelines" in text for _, text in check(experiment).rows) is apart


@pytest.mark.usefixtures("fold_small_runs")
def test_cost_of_a_run_whose_npus_part() -> None:
    """With `direct`, the NPUs next to the dateline end earlier: the sample starts over, with all NPUs."""
    report = check(_on_rings(all_reduce="direct"))
    assert report["folding"]["groups"] > 0
    assert report["router_visits"] > 0
