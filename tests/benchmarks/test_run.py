"""benchmarks/run.py measures, compares and remembers; peers get the same packets; curves have their points."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from benchmarks.measure import spread
from benchmarks.traffic import Open
from pyxsim import library
from pyxsim.errors import InputError
from pyxsim.topology.build import build

FAST = "torus4x4x4-all-reduce"
WHERE = {
    "machine": "2 x Some Processor (its name)",
    "date": "2026-01-02T03:04",
    "python": "3.11.2",
    "build": "release",
    "commit": "abc",
}


@pytest.fixture(scope="module")
def folder() -> ModuleType:
    """`benchmarks.beside`; the other modules are in sys.modules after it."""
    for name in ("curves", "run", "page", "peers.torus"):
        import_module(f"benchmarks.{name}")
    return import_module("benchmarks.beside")


@pytest.mark.slow  # quicker: a case alone in test_history.py and tests/cli/test_bench.py, sessions below
def test_a_case_of_each_kind(tree: Path, tmp_path: Path) -> None:
    file, history = tmp_path / "bench.json", tmp_path / "history.jsonl"
    cases = [FAST, "torus16x16x16-analytical"]
    words = ["--repeat", "1", "--only", *cases, "--history", str(history), "-o", str(file)]
    command = [sys.executable, "-m", "benchmarks.run", *words]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    packets, messages = json.loads(file.read_text(encoding="utf-8"))["cases"]
    assert [packets["name"], messages["name"]] == cases
    assert packets["router_visits"] > 10**6
    # In each of 4 chunks each of 4096 NPUs sends 15 + 15 + 30 + 15 + 15 messages.
    assert messages["messages"] == 4 * 4096 * 90
    for row, rate in ((packets, "visits_per_cpu_s"), (messages, "messages_per_cpu_s")):
        assert 0 < row["cpu_s"]["median"] < row["whole_cpu_s"]["median"]
        assert row[rate] > 0
        assert row["peak_rss_mb"] > 10
    assert "ASTRA-sim 2" in done.stderr
    assert "7.8-9.1" in done.stderr
    assert json.loads(history.read_text(encoding="utf-8")) == json.loads(file.read_text(encoding="utf-8"))


def row(seconds: float) -> dict[str, Any]:
    """A case that took so long in all its runs."""
    times = spread([seconds])
    facts = {"cycles": 100, "router_visits": 10**6, "peak_rss_mb": 50.0}
    return {"name": FAST, "cpu_s": times, "whole_cpu_s": times, **facts}


def test_slower_than_before(
    folder: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By 40 %: told, and an exit code only if that is asked for and is too much. Every session is kept."""
    script = sys.modules["benchmarks.run"]
    history = tmp_path / "history.jsonl"

    def bench(seconds: float, *words: str) -> int | str | None:
        monkeypatch.setattr(script, "measure", lambda *_: row(seconds))
        monkeypatch.setattr(script, "measure_yardstick", lambda: {"mb_per_s": spread([30.0])})
        monkeypatch.setattr(sys, "argv", ["run.py", "--only", FAST, "--history", str(history), *words])
        try:
            script.main()
        except SystemExit as end:
            return end.code
        return None

    assert bench(1.0) is None
    assert "SLOWER" not in capsys.readouterr().err
    assert bench(1.4) is None
    assert "1.40 SLOWER" in capsys.readouterr().err
    assert bench(1.96, "--fail-if-slower", "50") is None
    assert bench(1.96 * 1.4, "--fail-if-slower", "30") == f"slower by more than 30 %: {FAST}"
    assert bench(1.0, "--fail-if-slower", "30") is None
    assert "0.36 faster" in capsys.readouterr().err
    assert len(history.read_text(encoding="utf-8").splitlines()) == 5
    history.write_text("nothing\n", encoding="utf-8")
    assert bench(1.0) == 2
    assert capsys.readouterr().err.startswith(f"{history}: line 1 is no session of the benchmarks")


def test_slower_than_another_tree(folder: ModuleType) -> None:
    """Where every pair says so."""
    script = sys.modules["benchmarks.run"]
    for pairs, slower in (((1.2, 1.3, 1.4), True), ((0.99, 1.3, 1.4), False), ((1.05, 1.06, 1.07), False)):
        assert script._is_slower({**row(1.0), "against": spread(pairs)}, None, 1.1) is slower


# -- peers --


def test_the_packets_of_peers_are_ours(folder: ModuleType) -> None:
    of = Open(8, 0.2, 300)
    given, drawn = folder.traffic(of), of.packets()
    ours = list(zip(drawn.cycle.tolist(), drawn.src.tolist(), drawn.dst.tolist(), strict=True))
    assert list(zip(given.cycle, given.src, given.dst, strict=True)) == [each for each in ours if each[1] != each[2]]
    # Four stages of a router, a cycle each, and two of the link.
    assert (given.hop, given.width, given.size) == (6, 64, 320)


@given(side=st.integers(2, 7), data=st.data())
def test_the_routes_of_peers_are_ours(folder: ModuleType, side: int, data: st.DataObject) -> None:
    torus = sys.modules["benchmarks.peers.torus"]
    library.load_all()
    topology = build("torus", [side, side])
    src, dst = (data.draw(st.integers(0, side * side - 1)) for _ in range(2))
    ours = [int(topology.link_dst[link]) for link, _ in topology.relation.route(src, dst, 0)]
    theirs, node = [], src
    while node != dst:
        node = torus.neighbours(side, node)[torus.next_hop(side, node, dst)]
        theirs.append(node)
    assert theirs == ours


def test_peers_that_are_here_carry_every_packet(folder: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are not are told how to come; ours is here always. Latency: no packet is faster than light."""
    of = Open(8, 0.1, 200)
    monkeypatch.setattr(folder, "TRAFFIC", of)
    monkeypatch.setattr(folder.traffic, "__defaults__", (of,))
    rows = {row["name"]: row for row in folder.beside(1)}
    assert rows.keys() == folder.PEERS.keys()
    assert rows["pyxsim"]["ratio"] == 1
    sent = folder.traffic()
    for row in rows.values():
        if "install" in row:
            assert "install" in row["install"]
        else:
            assert row["packets"] == len(sent.src)
            # Four links of 6 cycles are the mean; a packet takes 5 more to pass one.
            assert 4 * 6 < row["latency"] < 4 * (6 + 5) + 20
    Console(stderr=True).print(folder.table(list(rows.values())))


def test_a_peer_in_another_python(folder: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first Python that has it counts. One that breaks is told."""
    peers = folder.FOLDER
    (tmp_path / "with_it.py").write_text("print('{}')\n", encoding="utf-8")
    (tmp_path / "without.py").write_text("import sys\nsys.exit(sys.stderr.write('pip install it') and 3)\n")
    (tmp_path / "broken.py").write_text("raise RuntimeError('no more disk')\n", encoding="utf-8")
    monkeypatch.setattr(folder, "FOLDER", tmp_path)
    pythons = ["/no/python", sys.executable]
    assert folder._once("with_it.py", peers, pythons) == {}
    assert folder._once("without.py", peers, pythons) == "pip install it"
    with pytest.raises(folder.PyxsimError, match="RuntimeError: no more disk"):
        folder._once("broken.py", peers, pythons)


# -- curves --


def test_points_of_all_curves(folder: ModuleType) -> None:
    curves = sys.modules["benchmarks.curves"]
    for name, curve in curves.CURVES.items():
        for x in curve.points:
            of = curves.at(name, x)
            assert of.cycles >= 100
            visits = of.cycles * of.load * of.side**2 * (of.side / 2 + 1)
            assert visits == pytest.approx(curves.WORK, rel=0.5), (name, x)


def test_a_curve_is_drawn(folder: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    curves = sys.modules["benchmarks.curves"]
    monkeypatch.setattr(curves, "WORK", 20_000)
    short = curves.CURVES["vcs"]._replace(points=(1, 2))
    monkeypatch.setitem(curves.CURVES, "vcs", short)
    told = curves.measure_curves(["vcs"], 1, tmp_path, Console(stderr=True))
    first, second = told["curves"]["vcs"]
    # The same packets with one VC more: the same visits, and no more time.
    assert first["router_visits"] == second["router_visits"]
    assert first["packet_latency"] >= second["packet_latency"]
    assert (tmp_path / "curves.png").stat().st_size > 1000


# -- the page --


def test_the_page_has_a_place_for_everything(folder: ModuleType, tree: Path) -> None:
    """What was measured is replaced, and nothing else; twice is once."""
    page = sys.modules["benchmarks.page"]
    text = (tree / "docs" / "performance.md").read_text(encoding="utf-8")
    told: dict[str, Any] = {**WHERE, "cases": [row(0.125)], "peers": [], "curves": {}}
    found = page.render(text, told)
    assert f"| `{FAST}` | 1 M visits | 0.125 (0.125 to 0.125) | 0.12 | 8 M | 50 |" in found
    assert "its name" not in found
    assert page.render(found, told) == found
    assert page.MARKED.sub("", found) == page.MARKED.sub("", text)
    fast = page.render(text, {**told, "yardstick": {"mb_per_s": spread([41.6])}})
    assert "yardstick of the tables: 42 MB/s" in fast
    assert "; yardstick 41.6 MB/s." in fast
    told["cases"] = [{**row(0.125), "against": spread([0.5])}]
    assert "| 8 M | 50 | 0.50 |" in page.render(text, told)
    told["peers"] = [{"name": "x", "install": "somehow"}]
    assert "| x | not installed | | | |" in page.render(text, told)
    points = [{"x": x, "ns_per_visit": spread([50.0]), "packet_latency": 9.0, "network_mb": 1.0} for x in (1, 2)]
    told["curves"] = {"vcs": points}
    assert "| CPU ns per visit | 50 | 50 |" in page.render(text, told)


def test_a_page_without_places(folder: ModuleType, tmp_path: Path) -> None:
    page = sys.modules["benchmarks.page"]
    with pytest.raises(InputError, match="no place for peers"):
        page.render("nothing", {"peers": [{"name": "x", "install": ""}], **WHERE})
    with pytest.raises(InputError, match=r"none\.md: --write: cannot be read"):
        page.write(tmp_path / "none.md", {})
