"""Whatever is wrong with an input: exit code 2, one line for each fault, no traceback, nothing on stdout."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.inputs import ASTRA, ASTRA_WORDS, SMALL, Command, Ended


def told(ended: Ended, *faults: str) -> None:
    """Each fault has its line, in order; a fault is the parts of its line, joined by "..."."""
    assert ended.code == 2, ended.err
    assert "Traceback" not in ended.err
    assert ended.out == ""
    assert len(ended.lines) == len(faults), ended.err
    for line, fault in zip(ended.lines, faults, strict=True):
        assert line.startswith("pyxsim: "), line
        for part in fault.split("..."):
            assert part in line, line


def changed(old: str, new: str) -> str:
    assert old in SMALL
    return SMALL.replace(old, new)


def system(text: str) -> str:
    return f"{SMALL}\n[system]\n{text}\n"


def router(text: str) -> str:
    return f"{SMALL}\n[network.router]\n{text}\n"


def network(text: str) -> str:
    return changed("[network]", f"[network]\n{text}")


STEPS = """from pyxsim.collective.custom import Send

def nothing(kind, n, rank):
    return []

def fails(kind, n, rank):
    raise ValueError("not so few")
"""
EXPERIMENTS: dict[str, tuple[str | bytes, str]] = {
    "unknown key": (network("bandwith = 1"), "e.toml: network.bandwith: unknown key...did you mean 'bandwidth'?"),
    "unknown table": (SMALL + "[sytem]\n", "sytem: unknown key...did you mean 'system'?"),
    "wrong unit": (network('latency = "5 GB"'), "network.latency: 'GB' in '5 GB' is not a unit of time"),
    "no unit": (network("latency = 5"), "network.latency: 5 has no unit"),
    "unit without base": (changed("64 KiB", "64 KB"), "collective.size: the unit 'KB'...is ambiguous"),
    "negative": (network('latency = "-1 ns"'), "network.latency: '-1 ns' is negative"),
    "empty": ("", "e.toml: empty file"),
    "comment only": ("# nothing\n", "e.toml: empty file"),
    "binary": (b"\x00\xff\xfe" * 100, "e.toml:1: is not a text"),
    "no TOML": ("[network\n", "e.toml:1: not valid TOML"),
    "nested": ("a = " + "[" * 5000, "e.toml: nested too deeply"),
    "zero size": (changed("64 KiB", "0 B"), "collective.size: '0 B' is zero"),
    "too large": (changed("64 KiB", "4 PiB"), "e.toml: network.packet: a message of...too many packets"),
    "zero bandwidth": (network('bandwidth = "0 B/s"'), "network.bandwidth: '0 B/s' is zero"),
    "list of another length": (
        network('bandwidth = ["1 GB/s", "1 GB/s", "1 GB/s"]'),
        "network.bandwidth: the list has 3 entries, but the network has 2 dimensions",
    ),
    "algorithms of another length": (
        system('all_reduce = ["ring"]'),
        "system.all_reduce: the list has 1 entries, but the network has 2 dimensions",
    ),
    "queues of another length": (system("queues = [1]"), "system.queues: the list has 1 entries"),
    "unknown topology": (changed("torus", "tors"), "network.topology: unknown topology 'tors'...did you mean 'torus'?"),
    "unknown algorithm": (system('all_reduce = "rng"'), "system.all_reduce: unknown...'rng'...did you mean 'ring'?"),
    "unknown option": (
        network("options = { bidirectinal = true }"),
        "network.options.bidirectinal: unknown option...did you mean 'bidirectional'?",
    ),
    "option of another type": (
        network("options = { bidirectional = 3 }"),
        "bidirectional: 3 is neither true nor false...true or false",
    ),
    "unknown block": (
        '[[network.dims]]\nblock = "rin"\nnpus = 4\n[collective]\nkind = "all-reduce"\nsize = "1 B"',
        "network.dims[0].block: unknown block 'rin'...did you mean 'ring'?",
    ),
    "group size that does not divide": (
        system('all_reduce = "hierarchical:3"'),
        "e.toml: system.all_reduce: 2 ranks cannot be divided into groups of 3; allowed: 1, 2",
    ),
    "group size of one collective": (
        SMALL + 'algorithm = "hierarchical:3"\n',
        "e.toml: collective.algorithm: 2 ranks cannot be divided into groups of 3",
    ),
    "missing system file": (
        system('file = "systm.json"'),
        "e.toml: system.file: systm.json: no such file; did you mean 'system.json'?",
    ),
    "missing algorithm": (
        system('all_reduce = "step.py"'),
        "e.toml: system.all_reduce: ...step.py: no such file; did you mean 'steps.py'?",
    ),
    "missing traces": (
        system('all_reduce = "step.*.et"'),
        "e.toml: system.all_reduce: ...step.*.et: no such files exist; did you mean 'steps.*.et'?",
    ),
    "schedule that is wrong": (
        system('all_reduce = "steps.py:nothing"'),
        "e.toml: system.all_reduce: ...rank 0 ends without the contributions of rank 1",
    ),
    "schedule that fails": (
        system('all_reduce = "steps.py:fails"'),
        "e.toml: system.all_reduce: ...steps.py:7: the collective algorithm...ValueError: not so few",
    ),
    "missing trace": (
        SMALL.partition("[collective]")[0] + '[traffic]\ntrace = "none.csv"',
        "e.toml: traffic.trace: none.csv: no such file",
    ),
    "missing matrix": (
        SMALL.partition("[collective]")[0]
        + '[traffic]\nload = 0.1\npattern = "matrix"\npattern_options = { file = "none.csv" }',
        "e.toml: traffic.pattern_options.file: none.csv: no such file",
    ),
    "missing graph": (
        changed('"torus"\nshape = [2, 2]', '"graph"\noptions = { file = "none.txt" }'),
        "e.toml: network.options.file: none.txt: no such file",
    ),
    "missing GraphML": (
        changed('"torus"\nshape = [2, 2]', '"graph"\noptions = { file = "none.graphml" }'),
        "e.toml: network.options.file: none.graphml: no such file",
    ),
    "misspelt table": (changed("[collective]", "[[messages]]"), "e.toml: messages: unknown key...mean 'message'?"),
    "key of other tables": (
        system('[[system.groups]]\nname = "a"\nnpus = [1, 2]\nsize = 3'),
        "groups[0].size: unknown key here; it belongs to [network.credits] or [network.transactions] or "
        "[network.transactions.switch] or [collective] or [[message]] or [traffic.batch]; allowed: name",
    ),
    "late twice": (
        system('[[system.stragglers]]\nnpus = [1, 1]\nstart = "1 ns"'),
        "e.toml: system.stragglers[0].npus: NPU 1 is listed 2 times; allowed: each NPU once",
    ),
    "semantics": (
        system('compat = "astra-sim"'),
        "e.toml: system.compat: unknown value 'astra-sim'...allowed: astra-sim-1, astra-sim-2, none",
    ),
    "missing shape": (changed("shape = [2, 2]", ""), "network.shape: the shape is missing"),
    "shape of another length": (changed('"torus"', '"ring"'), "network.shape: [2, 2] has 2 dimensions"),
    "no NPUs": (changed("[2, 2]", "[2, 0]"), "network.shape[1]: 0 is too small"),
    "too many NPUs": (changed("[2, 2]", "[4096, 4096]"), "network.shape: 16777216 NPUs are too many"),
    "halving-doubling all-to-all": (
        changed("all-reduce", "all-to-all") + '[system]\nall_to_all = "halving-doubling"',
        "system.all_to_all: halving-doubling does not support all-to-all",
    ),
    "window of a ring": (system('all_reduce = "ring:4"'), "system.all_reduce: ring takes no number"),
    "too few VCs": (router("vcs = 1"), "network.router.vcs: 1 VCs...requires 2 VC classes...at least 2"),
    "no buffer": (router("buffer = 0"), "network.router.buffer: 0 is too small"),
    "unknown routing": (router('routing = "valiantly"'), "network.router.routing: torus has no routing 'valiantly'"),
    "nothing to do": (
        '[network]\ntopology = "ring"\nshape = [4]',
        "e.toml: collective: the table [collective] is missing",
    ),
    "sweep": (
        SMALL + '[sweep]\n"collective.size" = ["1 MiB"]',
        "e.toml: sweep: the file defines several experiments; allowed: `pyxsim sweep`",
    ),
    "missing workload": (
        'network = { topology = "ring", shape = [4] }\nworkload = { file = "w.txt" }',
        "w.txt: no such file",
    ),
    "workload is a folder": (
        'network = { topology = "ring", shape = [4] }\nworkload = { file = "." }',
        "e.toml: workload.file: .: is a folder",
    ),
}


@pytest.mark.parametrize("command", ["run", "check"])
@pytest.mark.parametrize("case", EXPERIMENTS)
def test_a_faulty_experiment(pyxsim: Command, folder: Path, command: str, case: str) -> None:
    text, fault = EXPERIMENTS[case]
    (folder / "steps.py").write_text(STEPS, encoding="utf-8")
    for name in ("system.json", "steps.0.et"):
        (folder / name).touch()
    (folder / "e.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    told(pyxsim(command, "e.toml"), fault)


def test_all_faults_at_once(pyxsim: Command, folder: Path) -> None:
    text = SMALL.replace("[network]", '[network]\nlatency = "5 GB"\nclok = 1').replace("64 KiB", "0 B")
    (folder / "e.toml").write_text(text, encoding="utf-8")
    told(
        pyxsim("run", "e.toml", "--set", "system.chunks=0", "-o", "."),
        "e.toml: network.latency: 'GB'",
        "e.toml: network.clok: unknown key...did you mean 'clock'?",
        "--set: system.chunks: 0 is too small",
        "e.toml: collective.size: '0 B' is zero",
        ".: cannot be written: it is a folder",
    )


COMMANDS: dict[str, tuple[list[str], str]] = {
    "missing file": (["run", "smal.toml"], "smal.toml: no such file; did you mean 'small.toml'?"),
    "folder": (["run", "."], ".: is a folder"),
    "empty name": (["run", ""], "run EXPERIMENT.toml: the name is empty"),
    "--set without =": (["run", "small.toml", "--set", "network.router.vcs"], "--set: 'network.router.vcs' has no '='"),
    "--set unknown": (
        ["run", "small.toml", "--set", "network.router.vsc=3"],
        "--set: network.router.vsc: unknown key...did you mean 'vcs'?",
    ),
    "--set wrong": (["run", "small.toml", "--set", "network.router.vcs=x"], "--set: network.router.vcs: "),
    "--set found later": (
        ["check", "small.toml", "--set", "network.topology=trus"],
        "--set: network.topology: unknown topology 'trus'...did you mean 'torus'?",
    ),
    "-o is a folder": (["run", "small.toml", "-o", "."], ".: cannot be written: it is a folder"),
    "-o in no folder": (["run", "small.toml", "-o", "/proc/none/x.h5"], "/proc/none/x.h5: cannot be written"),
    "-o over the input": (
        ["run", "small.toml", "-o", "./small.toml"],
        "./small.toml: cannot be written, because it is an input",
    ),
    "both outputs one": (
        ["run", "small.toml", "-o", "a.png", "--plot", "a.png"],
        "a.png: cannot be written, because it is also another output of this run",
    ),
    "--plot without format": (["run", "small.toml", "--plot", "x"], "x: the file name has no extension"),
    "--plot unknown format": (
        ["run", "small.toml", "--plot", "x.pgn"],
        "x.pgn: '.pgn' is not a format...did you mean '.png'?",
    ),
    "--plot in no folder": (["run", "small.toml", "--plot", "/proc/none/x.png"], "/proc/none/x.png: cannot be written"),
    "backend": (["run", "small.toml", "--backend", "pakcet"], "--backend: unknown backend...did you mean 'packet'?"),
    "library missing": (["run", "small.toml", "--library", "none"], "none: --library: no such folder"),
    "library empty": (["list", "--library", "."], ".: --library: this folder contains no shelf"),
    "a file without a command": (["small.toml"], "unknown command 'small.toml'...pyxsim run small.toml"),
    "unknown command": (["chekc", "small.toml"], "unknown command 'chekc'...did you mean 'check'?"),
    "unknown option": (
        ["run", "small.toml", "--bakend", "x"],
        "run: unknown option '--bakend'...did you mean '--backend'?",
    ),
    "unknown option of pyxsim": (["--versoin"], "unknown option '--versoin'...did you mean '--version'?"),
    "missing argument": (
        ["run"],
        "run: EXPERIMENT.toml is missing; allowed: `pyxsim run EXPERIMENT.toml [OPTIONS]`; `pyxsim run --help`...",
    ),
    "missing option": (
        ["astra"],
        "astra: --network-configuration FILE is missing; allowed: `pyxsim astra --network",
    ),
    "missing option beside an argument": (
        ["sweep", "small.toml"],
        "sweep: -o DIR is missing; allowed: `pyxsim sweep EXPERIMENT.toml -o DIR [OPTIONS]`; ",
    ),
    "missing of two": (["diff", "a.h5"], "diff: B.h5 is missing; allowed: `pyxsim diff A.h5 B.h5 [OPTIONS]`; "),
    "missing in a group": (["workload", "show"], "workload show: WORKLOAD is missing; allowed: `pyxsim workload show"),
    "missing value": (["run", "small.toml", "--plot"], "run --plot: the value is missing; allowed: --plot OUT.png"),
    "missing values": (["sweep", "a.toml", "-o", "d", "--plot", "x"], "sweep --plot: values are missing...X Y HUE"),
    "value of a flag": (
        ["run", "small.toml", "--no-skip=3"],
        "run --no-skip: the option takes no value; allowed: --no-skip",
    ),
    "no number behind an option": (
        ["saturation", "small.toml", "--resolution", "x"],
        "saturation --resolution: is not a number; allowed: a number",
    ),
    "one argument too many": (
        ["run", "small.toml", "b.toml"],
        "run: unexpected argument 'b.toml'; allowed: `pyxsim run EXPERIMENT.toml [OPTIONS]`; ",
    ),
    "an option without dashes": (
        ["run", "small.toml", "thread"],
        "run: unexpected argument...did you mean '--threads'?",
    ),
    "a setting without --set": (
        ["run", "small.toml", "system.chunks=4"],
        "run: unexpected argument 'system.chunks=4'...did you mean '--set system.chunks=4'?",
    ),
    "results for compare": (
        ["compare", "a.h5", "b.h5"],
        "compare: unexpected argument 'b.h5'...`pyxsim diff A.h5 B.h5`",
    ),
    "an experiment as a workload": (
        ["workload", "show", "small.toml"],
        "small.toml: is an experiment, not a workload; allowed: a text of ASTRA-sim 1, or traces: PREFIX.*.et",
    ),
    "a missing experiment as a workload": (
        ["workload", "check", "smal.toml"],
        "smal.toml: no such file; did you mean 'small.toml'?",
    ),
    "a missing text": (["workload", "show", "worklod.txt"], "worklod.txt: no such file; did you mean 'workload.txt'?"),
    "no number": ([*ASTRA_WORDS, "--num-passes", "x"], "--num-passes: 'x' is not a number"),
    "topology and a shape": (
        ["topology", "torus", "4x4"],
        "topology: '4x4' is not an option of a topology; allowed: ... or --shape 4,4",
    ),
    "library is a file": (["list", "--library", "small.toml"], "small.toml: --library: not a folder"),
    "topology unknown": (["topology", "trus"], "unknown topology 'trus'...did you mean 'torus'?"),
    "topology without shape": (["topology", "torus"], "--shape: the shape is missing; allowed: NPUs per dimension"),
    "topology shape": (["topology", "torus", "--shape", "4,"], "--shape: '4,' is not a shape"),
    "topology shape of two kinds": (
        ["topology", "torus", "--shape", "32x32,32"],
        "--shape: '32x32,32' mixes commas and x; allowed: NPUs per dimension, such as 4,4,4 or 4x4x4",
    ),
    "topology shape in blanks": (["topology", "torus", "--shape", "4 4"], "--shape: '4 4' is not a shape"),
    "topology shape too small": (
        ["topology", "torus", "--shape", "4,0"],
        "--shape: dimension 1: 0 is too small; allowed: a whole number from 1",
    ),
    "topology shape of a file": (
        ["topology", "small.toml", "--shape", "4,0"],
        "--shape: dimension 1: 0 is too small",
    ),
    "topology shape that was set": (
        ["topology", "torus", "--set", "network.shape=[0]"],
        "--set: network.shape[0]: 0 is too small",
    ),
    "topology file missing": (["topology", "none.toml"], "none.toml: no such file"),
    "topology format": (["topology", "small.toml", "--export", "grafml"], "--export: unknown format...'graphml'?"),
    "topology over the input": (["topology", "small.toml", "-o", "small.toml"], "small.toml: cannot be written"),
    "topology picture": (["topology", "small.toml", "-o", "x.foo"], "'.foo' is not a format of a file"),
}


@pytest.mark.parametrize("case", COMMANDS)
def test_a_faulty_command(pyxsim: Command, case: str) -> None:
    words, fault = COMMANDS[case]
    told(pyxsim(*words), fault)


def test_nothing_is_written_for_a_faulty_input(pyxsim: Command, folder: Path) -> None:
    before = {path: path.read_bytes() for path in folder.iterdir()}
    pyxsim("run", "small.toml", "-o", "out.h5", "--plot", "out.png", "--set", "network.topology=none")
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_json_tells_the_faults_too(pyxsim: Command) -> None:
    ended = pyxsim("run", "small.toml", "--json", "--set", "network.router.vcs=0", "--set", "system.chunks=0")
    data = json.loads(ended.out)
    assert data["exit_code"] == ended.code == 2
    assert [f"pyxsim: {line}" for line in data["errors"]] == ended.lines
    assert len(ended.lines) == 2


def without(file: str, line: str) -> str:
    return instead(file, line, "")


def instead(file: str, line: str, new: str) -> str:
    assert f"\n{line}" in ASTRA[file]
    return ASTRA[file].replace(line, new)


# What is changed in one of the three files, and the line that tells it.
FILES: dict[str, tuple[str, str | bytes, str]] = {
    "network: missing key": (
        "network.txt",
        without("network.txt", "num-npus: 8\n"),
        "network.txt: num-npus: is missing",
    ),
    "network: unknown key": (
        "network.txt",
        ASTRA["network.txt"] + "packge-rows: 2",
        "network.txt:22: packge-rows: unknown key...did you mean 'package-rows'?",
    ),
    "network: twice": ("network.txt", ASTRA["network.txt"] + "num-npus: 8", "network.txt:22: num-npus: is given twice"),
    "network: no pair": ("network.txt", "num-npus 8\n", "network.txt:1: 'num-npus 8' is no pair"),
    "network: no number": (
        "network.txt",
        instead("network.txt", "num-npus: 8", "num-npus: many"),
        "network.txt:2: num-npus: 'many'",
    ),
    "network: uneven": (
        "network.txt",
        instead("network.txt", "num-npus: 8", "num-npus: 9"),
        "network.txt:3: num-packages: 9 NPUs cannot be divided evenly among 4 packages",
    ),
    "network: topology": (
        "network.txt",
        instead("network.txt", "topology: Torus3D", "topology: Torus4D"),
        "network.txt:5: topology: 'Torus4D' is not in this version...did you mean 'Torus3D'?",
    ),
    "network: empty": ("network.txt", "\n\n", "network.txt: is empty"),
    "network: binary": ("network.txt", b"num-npus: \xff\xfe", "network.txt:1: is not a text"),
    "system: missing key": (
        "system.txt",
        without("system.txt", "scheduling-policy: LIFO\n"),
        "system.txt: scheduling-policy: is missing; allowed: LIFO, FIFO",
    ),
    "system: unknown key": (
        "system.txt",
        ASTRA["system.txt"] + "endpoint-dely: 1",
        "system.txt:12: endpoint-dely: unknown key",
    ),
    "system: two algorithms": (
        "system.txt",
        instead("system.txt", "all-reduce-implementation: ring_ring_ring", "all-reduce-implementation: ring_ring"),
        "system.txt:7: all-reduce-implementation: 2 algorithms for 3 dimensions",
    ),
    "system: unknown algorithm": (
        "system.txt",
        instead("system.txt", "all-reduce-implementation: ring_ring_ring", "all-reduce-implementation: ring_ring_rng"),
        "system.txt:7: all-reduce-implementation: ...rng...did you mean 'ring'?",
    ),
    "system: boost mode": (
        "system.txt",
        instead("system.txt", "boost-mode: 0", "boost-mode: 2"),
        "system.txt:6: boost-mode: ...2...",
    ),
    "system: empty": ("system.txt", "", "system.txt: is empty"),
    "system: binary": ("system.txt", b"\xff", "system.txt:1: is not a text"),
    "workload: empty": ("workload.txt", "", "workload.txt: is empty"),
    "workload: binary": ("workload.txt", b"MICRO\n\x80", "workload.txt:2: is not a text"),
    "workload: unknown keyword": (
        "workload.txt",
        "MICR\n1\n",
        "workload.txt:1: unknown parallelism...did you mean 'MICRO'?",
    ),
    "workload: keyword of another version": (
        "workload.txt",
        ASTRA["workload.txt"].replace("MICRO", "HYBRID_PIPELINE"),
        "workload.txt:1: unknown parallelism 'HYBRID_PIPELINE'",
    ),
    "workload: layers missing": (
        "workload.txt",
        "MICRO\n2\nconv1 -1\n",
        "workload.txt:2: 2 layers are declared, but 1 follow",
    ),
    "workload: short layer": ("workload.txt", "MICRO\n1\nconv1 -1 5\n", "workload.txt:3: the layer has 3 fields"),
    "workload: unknown communication": (
        "workload.txt",
        ASTRA["workload.txt"].replace("ALLREDUCE", "ALLREDUC"),
        "workload.txt:3: unknown communication...did you mean 'ALLREDUCE'?",
    ),
}


@pytest.mark.parametrize("case", FILES)
def test_a_faulty_file_of_astra_sim(pyxsim: Command, folder: Path, case: str) -> None:
    file, text, fault = FILES[case]
    (folder / file).write_bytes(text if isinstance(text, bytes) else text.encode())
    told(pyxsim(*ASTRA_WORDS), fault)


@pytest.mark.parametrize("file", ASTRA)
def test_a_missing_file_of_astra_sim(pyxsim: Command, folder: Path, file: str) -> None:
    (folder / file).unlink()
    told(pyxsim(*ASTRA_WORDS), f"{file}: no such file")


ASTRA_OPTIONS = {
    "no passes": (["--num-passes", "0"], "--num-passes: 0 is out of range; allowed: a whole number from 1"),
    "scale": (["--comm-scale", "much"], "--comm-scale: 'much' is not a number"),
    "zero scale": (["--compute-scale", "0"], "--compute-scale: '0' is not a scale"),
    "--set": (["--set", "network.router.vcs=0"], "--set: network.router.vcs: 0 is too small"),
    "queues": (["--set", "system.queues=[1,2,2]"], "--set: system.queues: dimension 0 has 2 rings"),
    "path": (["--path", "/proc/none", "-o", "out.h5"], "/proc/none: cannot be made"),
    "-o over an input": (["-o", "system.txt"], "system.txt: cannot be written, because it is an input"),
}


@pytest.mark.parametrize("case", ASTRA_OPTIONS)
def test_faulty_options_of_astra(pyxsim: Command, case: str) -> None:
    words, fault = ASTRA_OPTIONS[case]
    told(pyxsim(*ASTRA_WORDS, *words), fault)


def test_hints_for_likely_mistakes(pyxsim: Command) -> None:
    ended = pyxsim("run", "small.toml", "--set", "network.shape=4x4")
    assert ended.lines[0].startswith(
        "pyxsim: --set: network.shape: '4x4' is not a list; did you mean [4, 4]?; allowed: "
    )
    ended = pyxsim("topology", "torus", "--shape", "4,4", "-o", "a.xyz")
    assert "; allowed: .graphml, .edges, " in ended.lines[0]
    ended = pyxsim("curve", "small.toml", "--loads", "0.1")
    assert "the table [traffic] is missing; allowed: [traffic] with a pattern and a load" in ended.lines[0]
