"""`pyxsim run`: what it prints, where; what it writes; how it fails."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import h5py
import pytest

from pyxsim import __version__
from pyxsim.results.result import HOW_IT_RAN
from tests.cli.inputs import SMALL, Command

# docs/output.md, word by word.
PROMISED = (
    "time_ns",
    "cycles",
    "npus",
    "messages",
    "packets",
    "flits",
    "flit_hops",
    "router_visits",
    "bytes_delivered",
    "sim_cpu_s",
    "total_cpu_s",
    "peak_rss_mb",
    "lower_bound_ns",
    "optimum_ns",
    "optimum_limit",
    "backend",
    "seed",
    "version",
    "skipped_cycles",
    "threads",
    "threads_why",
)


def test_json(pyxsim: Command) -> None:
    ended = pyxsim("run", "small.toml", "--json")
    assert (ended.code, ended.err) == (0, "")
    data = json.loads(ended.out)
    assert set(PROMISED) <= set(data)
    assert data["complete"] is True
    assert data["warnings"] == []
    assert (data["backend"], data["seed"], data["version"]) == ("packet", 1, __version__)
    # On 2x2: reduce-scatter, all-reduce, all-gather on pairs of NPUs. Along dimension 0 everybody sends half of 64 KiB,
    # twice; along dimension 1 half of that half, twice: 96 KiB an NPU, every message to a neighbour.
    assert data["npus"] == 4
    assert data["bytes_delivered"] == 4 * 96 * 1024
    assert data["messages"] == 4 * 4
    assert data["flits"] == data["flit_hops"] == 4 * 96 * 1024 // 256
    assert data["router_visits"] == 2 * data["flits"]
    assert data["cycles"] == data["time_ns"] > data["lower_bound_ns"] > 0


def test_a_summary_goes_to_stderr(pyxsim: Command) -> None:
    ended = pyxsim("run", "small.toml")
    assert (ended.code, ended.out) == (0, "")
    assert ended.lines[0].startswith("torus 2x2, all-reduce of 64 KiB")
    assert len(ended.lines) <= 30
    assert max(map(len, ended.lines)) <= 100


def test_quiet(pyxsim: Command, folder: Path) -> None:
    ended = pyxsim("run", "small.toml", "-q", "-o", "out.h5")
    assert (ended.code, ended.out, ended.err) == (0, "", "")
    assert (folder / "out.h5").exists()


def test_files(pyxsim: Command, folder: Path) -> None:
    pytest.importorskip("matplotlib")
    words = ("run", "small.toml", "-o", "new/out.h5", "--plot", "out.png")
    assert pyxsim(*words).lines == [
        "pyxsim: new/out.h5: cannot be written: there is no folder 'new'; allowed: an existing folder"
    ]
    assert not (folder / "new").exists()
    (folder / "new").mkdir()
    ended = pyxsim(*words)
    assert ended.code == 0
    assert ended.lines[-1] == "wrote new/out.h5 and out.png"
    assert (folder / "out.png").read_bytes().startswith(b"\x89PNG")
    with h5py.File(folder / "new" / "out.h5") as file:
        assert file.attrs["complete"] == 1
        assert 'size = "64 KiB"' in file.attrs["experiment"]


def test_settings_are_overridden(pyxsim: Command) -> None:
    words = ("--set", "network.shape=[4]", "--set", "network.topology=ring", "--set", "output.seed=7")
    data = json.loads(pyxsim("run", "small.toml", "--json", *words).out)
    assert (data["npus"], data["seed"]) == (4, 7)


def test_the_same_experiment_gives_the_same_numbers(pyxsim: Command) -> None:
    told = [json.loads(pyxsim("run", "small.toml", "--json").out) for _ in range(2)]
    first, second = ({k: v for k, v in each.items() if k not in HOW_IT_RAN} for each in told)
    assert first == second


def test_a_library_of_ones_own(pyxsim: Command, folder: Path) -> None:
    shelf = folder / "mine" / "topologies"
    shelf.mkdir(parents=True)
    (shelf / "cli_test_pair.py").write_text(
        "from pyxsim.registry import topologies\n"
        "from pyxsim.topology import Block, product\n"
        '@topologies.register("cli-test-pair")\n'
        "def pair(shape):\n"
        '    return product("pair", [Block.from_links("pair", 2, [(0, 1)])])\n',
        encoding="utf-8",
    )
    words = ("--library", "mine", "--set", "network.topology=cli-test-pair", "--set", "network.shape=[2]")
    ended = pyxsim("run", "small.toml", "--json", *words)
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["npus"] == 2


def test_a_topology_that_fails_is_told_by_its_line(pyxsim: Command, folder: Path) -> None:
    shelf = folder / "mine" / "topologies"
    shelf.mkdir(parents=True)
    (shelf / "cli_test_fails.py").write_text(
        "from pyxsim.registry import topologies\n"
        '@topologies.register("cli-test-fails")\n'
        "def fails(shape):\n"
        "    return shape[7]\n",
        encoding="utf-8",
    )
    ended = pyxsim("run", "small.toml", "--library", "mine", "--set", "network.topology=cli-test-fails")
    assert ended.code == 2
    (line,) = ended.lines
    assert f"{shelf / 'cli_test_fails.py'}:4: the topology 'cli-test-fails' failed: IndexError" in line


def test_a_wrong_schedule_is_refused(pyxsim: Command, folder: Path) -> None:
    shelf = folder / "mine" / "collectives"
    shelf.mkdir(parents=True)
    (shelf / "cli_test_lazy.py").write_text(
        "from pyxsim.collective.schedule import Schedule\n"
        "from pyxsim.registry import collectives\n"
        '@collectives.register("cli-test-lazy")\n'
        "def lazy(kind, n):\n"
        "    s = Schedule(kind, n)\n"
        "    s.send(0, 1, 0, reduce=True)\n"
        "    return s\n",
        encoding="utf-8",
    )
    for command in ("run", "check"):
        ended = pyxsim(command, "small.toml", "--library", "mine", "--set", "system.all_reduce=cli-test-lazy")
        assert ended.code == 2
        (line,) = ended.lines
        assert "ends without the contributions of rank" in line


def test_unproved_routes_are_refused(pyxsim: Command, folder: Path) -> None:
    for command in ("run", "check"):
        ended = pyxsim(command, "deadlock.toml")
        assert (ended.code, ended.out) == (3, "")
        (line,) = ended.lines
        assert line.startswith("pyxsim: the routes can deadlock: 4 channels can form a cycle: d0LocalEast0:(0,0,0)")
        assert "--allow-deadlock" in line
    pyxsim("run", "deadlock.toml", "-o", "out.h5")
    assert not (folder / "out.h5").exists()


def test_a_deadlock_is_named_and_kept(pyxsim: Command, folder: Path) -> None:
    ended = pyxsim("run", "deadlock.toml", "--allow-deadlock", "-o", "out.h5")
    assert (ended.code, ended.out) == (3, "")
    (line,) = ended.lines
    assert line.startswith("pyxsim: deadlock in cycle ")
    for npu in range(4):
        assert f"d0LocalEast0:({npu},0,0)->({(npu + 1) % 4},0,0) VC 0 (message " in line
    assert line.endswith("out.h5 contains the incomplete result")
    with h5py.File(folder / "out.h5") as file:
        assert file.attrs["complete"] == 0
        assert file["links_total/flits"][()].sum() > 0


def test_a_deadlock_in_json(pyxsim: Command) -> None:
    ended = pyxsim("run", "deadlock.toml", "--allow-deadlock", "--json")
    data = json.loads(ended.out)
    assert data["exit_code"] == ended.code == 3
    assert data["complete"] is False
    assert data["errors"][0].startswith("deadlock in cycle ")
    assert data["bytes_delivered"] < 4 * 2 * (1 << 20)
    refused = pyxsim("run", "deadlock.toml", "--json")
    assert json.loads(refused.out)["exit_code"] == refused.code == 3


def test_what_can_deadlock_and_does_not_has_a_result(pyxsim: Command) -> None:
    # Room for all that is ever sent: nobody waits.
    words = ("--allow-deadlock", "--set", "network.router.buffer=100000", "--set", "collective.size=4 KiB")
    ended = pyxsim("run", "deadlock.toml", *words)
    assert (ended.code, ended.out) == (0, "")
    assert "warning: the routes can deadlock" in ended.err


def test_a_disk_that_is_full_at_the_end(pyxsim: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers are shown all the same; then the fault, with its exit code."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    ended = pyxsim("run", "small.toml", "-o", "out.h5")
    assert ended.code == 2
    assert ended.lines[0].startswith("torus 2x2")
    assert ended.lines[-1] == "pyxsim: out.h5: cannot be written: No space left on device"
    assert [path.name for path in folder.iterdir() if path.suffix in (".h5", ".part")] == []
    ended = pyxsim("run", "deadlock.toml", "--allow-deadlock", "-o", "out.h5")
    assert ended.code == 3
    (line,) = ended.lines
    assert line.startswith("pyxsim: deadlock in cycle ")
    assert line.endswith("; out.h5: cannot be written: No space left on device")


def test_a_plot_without_matplotlib(pyxsim: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    ended = pyxsim("run", "small.toml", "--plot", "out.png")
    assert ended.code == 2
    (line,) = ended.lines
    assert "matplotlib" in line
    assert "pyxsim[report]" in line


def test_a_workload_counts_from_the_folder_of_its_experiment(pyxsim: Command, folder: Path) -> None:
    (folder / "deep").mkdir()
    (folder / "workload.txt").rename(folder / "deep" / "workload.txt")
    text = SMALL.partition("[collective]")[0] + '[workload]\nfile = "workload.txt"\n'
    (folder / "deep" / "e.toml").write_text(text, encoding="utf-8")
    ended = pyxsim("run", "deep/e.toml", "--json")
    assert ended.code == 0, ended.err


@pytest.mark.parametrize("command", ["run", "check", "compare"])
def test_a_result_is_no_experiment(pyxsim: Command, command: str) -> None:
    assert pyxsim("run", "small.toml", "-o", "out.h5").code == 0
    ended = pyxsim(command, "out.h5")
    assert ended.code == 2
    others = "; for results, `pyxsim diff A.h5 B.h5` (to the bit) or `pyxsim report A.h5 B.h5` (side by side)"
    more = others if command == "compare" else ""
    other = "an experiment" if command == "compare" else "a text file"
    assert ended.lines == [f"pyxsim: out.h5: is an HDF5 result, not {other}; allowed: a TOML file{more}"]


def test_a_name_that_says_something_else_than_hdf5(pyxsim: Command, folder: Path) -> None:
    """Before anything is simulated."""
    (line,) = pyxsim("run", "small.toml", "-o", "out.json").lines
    assert line == (
        "pyxsim: out.json: a result cannot be written as '.json'; allowed: .h5, .hdf5, .nc; "
        "--json prints JSON, --plot draws"
    )
    assert pyxsim("run", "small.toml", "-o", "out.result").code == 2
    assert not [*folder.glob("out.*")]


@pytest.mark.parametrize("lost", ["out.h5", "out.png"])
def test_a_file_that_cannot_be_written_costs_no_other(
    pyxsim: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    replace = os.replace

    def full(source: Path, target: Path) -> None:
        if Path(target).name == lost:
            raise OSError(28, "No space left on device")
        replace(source, target)

    monkeypatch.setattr("os.replace", full)
    ended = pyxsim("run", "small.toml", "-o", "out.h5", "--plot", "out.png", "-q")
    assert ended.code == 2
    assert ended.lines == [f"pyxsim: {lost}: cannot be written: No space left on device"]
    assert {path.name for path in folder.iterdir() if path.name.startswith(("out.", "."))} == {"out.h5", "out.png"} - {
        lost
    }


COMMANDS = [
    ["run", "small.toml", "-q", "-o", "{}/a.h5"],
    ["run", "small.toml", "-q", "--plot", "{}/a.png"],
    ["report", "out.h5", "-q", "-o", "{}/a.html"],
    ["timeline", "out.h5", "-q", "-o", "{}/a.json"],
    ["compare", "small.toml", "-q", "-o", "{}/a.h5"],
    ["sweep", "small.toml", "-q", "--workers", "1", "-o", "{}/s"],
    ["topology", "torus", "--shape", "2,2", "--export", "graphml", "-o", "{}/a.graphml"],
    ["workload", "convert", "workload.txt", "{}/t.*.et", "--npus", "4"],
    ["new", "{}/project"],
]


@pytest.fixture
def small_disk(folder: Path) -> Iterator[Callable[[str], Path]]:
    """Mount file systems of 64 KiB: full, or read-only."""
    mounted: list[Path] = []

    def mount(kind: str) -> Path:
        place = folder / kind
        place.mkdir()
        words = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
        if os.geteuid() or subprocess.run(words, capture_output=True).returncode:
            pytest.skip("needs the right to mount")
        mounted.append(place)
        if kind == "full":
            with contextlib.suppress(OSError), (place / "rest").open("wb", buffering=0) as rest:
                while True:
                    rest.write(bytes(4096))
        else:
            subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
        return place

    yield mount
    for place in mounted:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("kind", ["full", "read-only"])
def test_full_and_read_only_disks(pyxsim: Command, small_disk: Callable[[str], Path], kind: str) -> None:
    place = small_disk(kind)
    assert pyxsim("run", "small.toml", "-q", "-o", "out.h5").code == 0
    before = sorted(place.iterdir())
    why = "No space left on device" if kind == "full" else "Read-only file system"
    for words in COMMANDS:
        ended = pyxsim(*(word.format(kind) for word in words))
        assert ended.code == 2, words
        (line,) = ended.lines
        assert line.startswith(f"pyxsim: {kind}/"), words
        assert line.endswith(f": {why}"), words
        left = [path for path in place.rglob("*") if path.is_file() and path not in before and path.name != ".lock"]
        assert not left, words


def test_two_runs_that_write_one_file(pyxsim: Command, folder: Path) -> None:
    """Each writes a file of its own and renames it: the last one stays, whole."""
    process = subprocess.Popen([sys.executable, "-m", "pyxsim", "run", "small.toml", "-q", "-o", "out.h5"], cwd=folder)
    assert pyxsim("run", "small.toml", "-q", "-o", "out.h5").code == 0
    assert process.wait(60) == 0
    assert pyxsim("diff", "out.h5", "out.h5").code == 0
    assert not list(folder.glob(".pyxsim-*"))
