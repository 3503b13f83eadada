"""`pyxsim astra`: the words of ASTRA-sim's command line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import h5py
import pytest

from pyxsim import chakra
from pyxsim.chakra import Attribute, Node, NodeType
from pyxsim.compat.astra.command import in_order
from pyxsim.compat.astra.files import astra_experiment
from pyxsim.compat.astra.script import main as astra
from pyxsim.runner.lifecycle import run
from tests.cli.inputs import ASTRA, ASTRA_WORDS, Command


def test_the_line_that_scripts_look_for(pyxsim: Command, folder: Path) -> None:
    ended = pyxsim(*ASTRA_WORDS)
    expected = run(astra_experiment("network.txt", "system.txt", "workload.txt"))
    assert (ended.code, ended.out) == (0, f"all passes finished at time: {expected.time_ns}\n")
    assert [path for path in folder.iterdir() if path.suffix == ".h5"] == []


@pytest.mark.parametrize(
    ("words", "file", "table"),
    [
        (("--path", "out/", "--run-name", "first"), "out/first.h5", "out/EndToEnd.csv"),
        (("--path=out",), "out/run.h5", "out/EndToEnd.csv"),
        (("--run-name", "first"), "first.h5", "EndToEnd.csv"),
        (("--path", "out/", "--run-name", "first", "-o", "other.h5"), "other.h5", "out/EndToEnd.csv"),
    ],
)
def test_where_the_result_goes(pyxsim: Command, folder: Path, words: tuple[str, ...], file: str, table: str) -> None:
    ended = pyxsim(*ASTRA_WORDS, *words)
    assert ended.code == 0, ended.err
    name = words[words.index("--run-name") + 1] if "--run-name" in words else "run"
    detailed, utilization = (table.replace("EndToEnd", each) for each in ("detailed", f"{name}_dimension_utilization"))
    assert f"wrote {file}, {table}, {detailed} and {utilization}" in ended.lines
    written = {str(path.relative_to(folder)) for path in folder.rglob("*.csv")}
    assert written == {table, detailed, utilization}
    assert [str(path.relative_to(folder)) for path in folder.rglob("*.h5")] == [file]
    with h5py.File(folder / file) as result:
        assert result.attrs["complete"] == 1


def test_the_experiment_that_the_files_stand_for(pyxsim: Command, folder: Path) -> None:
    """Shown, it is run as an ordinary one, and takes as long."""
    shown = pyxsim(*ASTRA_WORDS, "--show")
    assert (shown.code, shown.err) == (0, "")
    (folder / "same.toml").write_text(shown.out, encoding="utf-8")
    times = [json.loads(pyxsim(*words, "--json").out)["time_ns"] for words in (ASTRA_WORDS, ("run", "same.toml"))]
    assert times[0] == times[1]
    assert json.loads(pyxsim(*ASTRA_WORDS, "--show", "--json").out)["experiment"] == shown.out


def test_passes_and_scales(pyxsim: Command) -> None:
    words = ("--json", "--total-stat-rows=1", "--stat-row=0", "--compute-scale=2")
    once, twice, more = (
        json.loads(pyxsim(*ASTRA_WORDS, *words, *others).out)
        for others in ((), ("--num-passes=2",), ("--comm-scale=0.5",))
    )
    assert twice["bytes_delivered"] == 2 * once["bytes_delivered"]
    assert twice["time_ns"] > once["time_ns"]
    assert more["bytes_delivered"] == once["bytes_delivered"] // 2


def test_settings_are_overridden(pyxsim: Command) -> None:
    slow = json.loads(pyxsim(*ASTRA_WORDS, "--json", "--set", "network.latency=2 us").out)
    assert slow["time_ns"] > json.loads(pyxsim(*ASTRA_WORDS, "--json").out)["time_ns"]


def test_quiet_and_json(pyxsim: Command) -> None:
    assert pyxsim(*ASTRA_WORDS, "--quiet").err == ""
    ended = pyxsim(*ASTRA_WORDS, "--json")
    assert ended.err == ""
    assert json.loads(ended.out)["npus"] == 8


def test_unproved_rings_run_with_a_warning(pyxsim: Command, folder: Path) -> None:
    """Direct on a ring of four without datelines: two hops, so the circle closes."""
    network = ASTRA["network.txt"].replace("num-npus: 8", "num-npus: 16")
    (folder / "network.txt").write_text(network, encoding="utf-8")
    system = ASTRA["system.txt"].replace("all-reduce-implementation: ring_", "all-reduce-implementation: direct_")
    (folder / "system.txt").write_text(system, encoding="utf-8")
    ended = pyxsim(*ASTRA_WORDS)
    assert ended.code == 0, ended.err
    assert "warning: the routes can deadlock" in ended.err
    strict = pyxsim(*ASTRA_WORDS, "--strict")
    assert (strict.code, strict.out) == (3, "")
    (line,) = strict.lines
    assert line.startswith("pyxsim: the routes can deadlock")
    assert line.endswith("; without --strict it is run")
    assert "--allow-deadlock" not in line


def test_proved_rings_are_not_warned_of(pyxsim: Command) -> None:
    assert "warning" not in pyxsim(*ASTRA_WORDS).err
    assert pyxsim(*ASTRA_WORDS, "--strict").code == 0


# -- JSON and YAML -----------------------------------------------------------------------------------------------------

RING = """topology: [ Ring ]
npus_count: [ 8 ]
bandwidth: [ 50.0 ]
latency: [ 500.0 ]
"""
SYSTEM = """{"endpoint-delay": 10, "preferred-dataset-splits": 4, "collective-optimization": "localBWAware",
 "all-reduce-implementation": ["ring"], "local-mem-bw": 1600}
"""
NEWER = (*(word for word in ASTRA_WORDS if "network" not in word and "system" not in word),)
NEWER += ("--network-configuration=ring.yml", "--system-configuration=ring.json")


@pytest.fixture
def newer(folder: Path) -> Path:
    (folder / "ring.yml").write_text(RING, encoding="utf-8")
    (folder / "ring.json").write_text(SYSTEM, encoding="utf-8")
    return folder


def test_the_network_file_chooses_the_backend(pyxsim: Command, newer: Path) -> None:
    ended = pyxsim(*NEWER, "--json")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["backend"] == "analytical"
    packets = pyxsim(*NEWER, "--json", "--backend=packet")
    assert packets.code == 0, packets.err
    assert json.loads(packets.out)["backend"] == "packet"


def test_options_of_later_versions(pyxsim: Command, newer: Path) -> None:
    once = json.loads(pyxsim(*NEWER, "--json").out)["time_ns"]
    slow = json.loads(pyxsim(*NEWER, "--json", "--injection-scale=10").out)["time_ns"]
    # 4 chunks after each other, each with 15 endpoint delays of 10 ns.
    assert slow - once == 4 * 15 * 90
    # All-reduce has the lower half of the queues.
    wide = json.loads(pyxsim(*NEWER, "--json", "--num-queues-per-dim=4", "--rendezvous-protocol=false").out)
    assert wide["time_ns"] < once


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--injection-scale=x",), "pyxsim: --injection-scale: 'x' is not a scale; allowed: a number from 0 to 1e9"),
        (("--num-queues-per-dim=x",), "pyxsim: --num-queues-per-dim: 'x' is not a number; allowed: a whole"),
        (
            ("--num-queues-per-dim=0",),
            "pyxsim: --num-queues-per-dim: 0 is out of range; allowed: a whole number",
        ),
        (("--rendezvous-protocol=yes",), "pyxsim: --rendezvous-protocol: 'yes' is not a Boolean"),
        (("--backend=garnet",), "pyxsim: --backend: unknown backend 'garnet'; allowed: analytical"),
        # What these commands tell at their end is in no checkpoint.
        (("--set=run.checkpoint=5 s",), "pyxsim: run.checkpoint: this command writes no checkpoints; allowed: with"),
    ],
)
def test_faults_of_these_options(pyxsim: Command, newer: Path, words: tuple[str, ...], told: str) -> None:
    ended = pyxsim(*NEWER, *words)
    assert (ended.code, ended.out) == (2, "")
    (line,) = ended.lines
    assert line.startswith(told)


def test_faults_of_these_files(pyxsim: Command, newer: Path) -> None:
    (newer / "ring.yml").write_text(RING.replace("[ 50.0 ]", "[ 0 ]"), encoding="utf-8")
    ended = pyxsim(*NEWER)
    assert ended.code == 2
    assert ended.lines == ["pyxsim: ring.yml:3: bandwidth: '0' is not allowed; allowed: a number above 0"]


def test_a_fault_of_the_system_has_the_key_of_its_file(pyxsim: Command, newer: Path) -> None:
    (newer / "ring.json").write_text(SYSTEM.replace('delay": 10', 'delay": 0'), encoding="utf-8")
    ended = pyxsim(*NEWER)
    assert ended.code == 2
    assert ended.lines[0].startswith("pyxsim: ring.json: endpoint-delay: ASTRA-sim 2 stops at an assertion")


def test_keys_that_nobody_reads_are_warned_of(pyxsim: Command, newer: Path) -> None:
    (newer / "ring.json").write_text(SYSTEM.replace("{", '{"boost-mode": 1, '), encoding="utf-8")
    ended = pyxsim(*NEWER)
    assert ended.code == 0, ended.err
    assert "warning: ring.json:1: boost-mode: version 2 does not read it; all NPUs are simulated" in ended.err


# -- scripts -----------------------------------------------------------------------------------------------------------


def test_words_as_scripts_write_them() -> None:
    """An unset variable, gem5's script, lists behind their option, a flag with and without its value."""
    words = ["", "../configs/example/garnet_synth_traffic.py", "--units-count", "2", "8", "4", "--num-passes", "2"]
    assert in_order(words) == ["--units-count=2,8,4", "--num-passes", "2"]
    assert in_order(["--link-latency=1", "2.5"]) == ["--link-latency=1,2.5"]
    assert in_order(["--units-count", "4", "4", "-q"]) == ["--units-count=4,4", "-q"]
    assert in_order(["--rendezvous-protocol", "-q"]) == ["--rendezvous-protocol=true", "-q"]
    assert in_order(["--rendezvous-protocol", "--strict"]) == ["--rendezvous-protocol=true", "--strict"]
    assert in_order(["--rendezvous-protocol", "false"]) == ["--rendezvous-protocol=false"]


def test_gem5(pyxsim: Command, folder: Path) -> None:
    """The line of gem5_astra's run script."""
    words = ("../configs/example/garnet_synth_traffic.py", "--net=network", "--sys=system", "--workload=workload")
    ended = pyxsim("astra", *words, "--synthetic=training", "--total-stat-rows=1", "--stat-row=0")
    assert (ended.code, ended.out) == (0, pyxsim(*ASTRA_WORDS).out)


def test_one_word(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["pyxsim-astra", *ASTRA_WORDS[1:]])
    assert astra() == 0
    assert capsys.readouterr().out.startswith("all passes finished at time: ")


TRACES = (*(word for word in NEWER if "workload" not in word), "--workload-configuration=chakra/w")


@pytest.fixture
def traces(newer: Path) -> Path:
    """NPU 0 computes 3 us, half of it beside an all-reduce in two groups."""
    (newer / "chakra").mkdir()
    for npu in range(8):
        group = Attribute("pg_name", "string_val", str(1 + npu % 2))
        sums = [Attribute("comm_type", "int64_val", 0), Attribute("comm_size", "int64_val", 2**20), group]
        nodes = [
            Node(0, "first", NodeType.COMP, duration_micros=2 if npu == 0 else 0),
            Node(1, "sum", NodeType.COMM_COLL, data_deps=[0], attr=sums),
            Node(2, "beside", NodeType.COMP, data_deps=[0], duration_micros=1 if npu == 0 else 0),
        ]
        chakra.write(newer / f"chakra/w.{npu}.et", nodes)
    (newer / "groups.json").write_text('{"1": [0, 2, 4, 6], "2": [1, 3, 5, 7]}')
    return newer


def plain(text: str) -> list[str]:
    """The lines of ASTRA-sim 2 without their heads: when, who, how important."""
    found = [
        re.fullmatch(r"\[[-0-9]{10} [:.0-9]{12}\] \[(?:[a-zR:]+Topology|[a-z]+)\] \[(?:info|warning)\] (.*)", line)
        for line in text.splitlines()
    ]
    return [match[1] for match in found if match]


def test_the_lines_of_version_2(pyxsim: Command, traces: Path) -> None:
    """As there, for each NPU in the order in which they end; a time of 0 is 1 ns."""
    ended = pyxsim(*TRACES, "--comm-group-configuration=groups.json", "--logging-folder=log")
    assert ended.code == 0, ended.err
    lines = plain(ended.out)
    assert len(lines) == len(ended.out.splitlines())
    ring = "ring of node 0, id: 0 dimension: local total nodes in ring: 8 index in ring: 0 offset: 1"
    assert (lines[0], lines[-1]) == (f"{ring} total nodes in ring: 8", "Exiting")
    first = sum(line.startswith("ring") for line in lines)
    last = int(lines[first].split()[2])
    begin = lines.index(f"sys[0] finished, {last + 1999} cycles, exposed communication {last - 1001} cycles.")
    assert lines[first : first + 6] == [
        f"sys[1] finished, {last} cycles, exposed communication {last - 2} cycles.",
        "sys[1]. Post statistics processing start.",
        "sys[1]. Post statistics processing end.",
        f"sys[1], Wall time: {last}",
        "sys[1], GPU time: 2",
        f"sys[1], Comm time: {last - 1}",
    ]
    assert lines[begin + 3 : begin + 7] == [
        f"sys[0], Wall time: {last + 1999}",
        "sys[0], GPU time: 3000",
        f"sys[0], Comm time: {last - 1}",
        "sys[0], Total compute-communication overlap: 1000",
    ]
    assert (traces / "log" / "log.log").read_text() == ended.out
    heads = [line.partition("] ")[2] for line in ended.out.splitlines()]
    assert heads[0].startswith("[system::topology::RingTopology] [info] ring of node 0")
    assert heads[first].startswith("[workload] [info] sys[1] finished")
    assert heads[first + 3].startswith("[statistics] [info] sys[1], Wall time")
    assert heads[-1] == "[system] [warning] Exiting"
    assert pyxsim(*TRACES, "--comm-group-configuration=groups.json", "--quiet").out == ""


def test_what_the_system_file_says_of_traces(pyxsim: Command, newer: Path) -> None:
    """A roofline of 2 operations and 4 bytes in a ns; or the recorded times, of communication, too."""
    work = [Attribute(name, "int64_val", value) for name, value in (("num_ops", 1000), ("tensor_size", 4000))]
    sums = [Attribute(name, "int64_val", value) for name, value in (("comm_type", 0), ("comm_size", 4096))]
    nodes = [
        Node(0, "work", NodeType.COMP, attr=work),
        Node(1, "sum", NodeType.COMM_COLL, data_deps=[0], duration_micros=7, attr=sums),
    ]
    for npu in range(8):
        chakra.write(newer / f"t.{npu}.et", nodes)
    words = [word.replace("chakra/w", "t") for word in TRACES]
    for more, gpu, wall in (
        ('"roofline-enabled": 1, "peak-perf": 0.002, "local-mem-bw": 4', 1000, None),
        ('"replay-only": 1, "local-mem-bw": 1600', 1, 7001),
    ):
        (newer / "ring.json").write_text(SYSTEM.replace('"local-mem-bw": 1600', more), encoding="utf-8")
        ended = pyxsim(*words)
        assert ended.code == 0, ended.err
        lines = plain(ended.out)
        assert f"sys[3], GPU time: {gpu}" in lines
        told = [line.partition(": ")[2] for line in lines if line.startswith("sys[3]") and "verage" in line]
        # 500 operations of 2000 that are possible; the time is longer by the 1 ns that the original adds.
        assert told == (["49.950%", "99.900%", "0.250"] if wall is None else [])
        if wall is not None:
            assert f"sys[3] finished, {wall} cycles, exposed communication 0 cycles." in lines


def test_replay_side_by_side(pyxsim: Command, newer: Path) -> None:
    """Communication that is replayed beside 7 us of computing: 3 us less than none is exposed, unsigned as there."""
    sums = [Attribute(name, "int64_val", value) for name, value in (("comm_type", 0), ("comm_size", 4096))]
    nodes = [
        Node(0, "work", NodeType.COMP, duration_micros=7),
        Node(1, "sum", NodeType.COMM_COLL, duration_micros=3, attr=sums),
    ]
    for npu in range(8):
        chakra.write(newer / f"t.{npu}.et", nodes)
    (newer / "ring.json").write_text(SYSTEM.replace("{", '{"replay-only": 1, '), encoding="utf-8")
    lines = plain(pyxsim(*(word.replace("chakra/w", "t") for word in TRACES)).out)
    assert f"sys[5] finished, 7000 cycles, exposed communication {2**64 - 3000} cycles." in lines
    assert {"sys[5], GPU time: 7000", "sys[5], Comm time: 3000"} < set(lines)
    assert "sys[5], Total compute-communication overlap: 3000" in lines


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "pyxsim: chakra/w.0.et: NPU 0, node 1 'sum': has the unknown pg_name '1'; allowed: no group"),
        (("--comm-group-configuration=none",), "pyxsim: none: no such file"),
        (("--logging-configuration=log.toml",), "pyxsim: --logging-configuration: levels and patterns of the log"),
        (("--synthetic=uniform_random",), "pyxsim: --synthetic: 'uniform_random' is not the traffic of a work"),
        (("--remote-memory-configuration=ring.yml",), "pyxsim: ring.yml"),
        (("--units-cont", "2"), "pyxsim: astra: unknown option '--units-cont'; allowed: --network-configuration"),
    ],
)
def test_faults_of_scripts(pyxsim: Command, traces: Path, words: tuple[str, ...], told: str) -> None:
    ended = pyxsim(*TRACES, *words)
    assert (ended.code, ended.out) == (2, "")
    (line,) = ended.lines
    assert line.startswith(told)


def test_the_passes_of_version_1(pyxsim: Command, newer: Path) -> None:
    """Measured on the original: when NPU 0 has begun the last collective of each pass, and the end of all."""
    network = {
        "topology-name": "Hierarchical",
        "topologies-per-dim": ["Ring"],
        "dimension-type": ["N"],
        "dimensions-count": 1,
        "units-count": [4],
        "links-count": [2],
        "link-latency": [1],
        "link-bandwidth": [1],
        "nic-latency": [0],
        "router-latency": [0],
        "hbm-latency": [500],
        "hbm-bandwidth": [370],
        "hbm-scale": [0],
    }
    kinds = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
    system = "\n".join(f"{kind}-implementation: ring" for kind in kinds)
    plain = "scheduling-policy: FIFO\nendpoint-delay: 10\nactive-chunks-per-dimension: 1\npreferred-dataset-splits: 1\n"
    (newer / "net1.json").write_text(json.dumps(network))
    (newer / "sys1.txt").write_text(f"{plain}boost-mode: 0\ncollective-optimization: baseline\n{system}\n")
    (newer / "loop.txt").write_text("DATA\n1\nlayer -1 10 NONE 0 10 NONE 0 10 ALLREDUCE 20000 5\n")
    words = [f"--{name}-configuration={file}" for name, file in (("network", "net1.json"), ("system", "sys1.txt"))]
    ended = pyxsim("astra", *words, "--workload-configuration=loop.txt", "--num-passes=3")
    ends = (21, 14091, 28161)
    told = [f"pass: {number} finished at time: {end}" for number, end in enumerate(ends)]
    assert ended.out.splitlines() == [*told, "all passes finished at time: 42210"], ended.err
