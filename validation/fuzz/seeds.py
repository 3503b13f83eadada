"""Valid inputs, the commands that read them, and the cases drawn from both."""

from __future__ import annotations

import gzip
import io
import os
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import networkx as nx
import numpy as np

import pyxsim
from validation.fuzz import mutate
from validation.fuzz.formats import mutated

INPUTS = mutate.ROOT / "inputs"
SIMULATES = ("run", "resume", "compare", "sweep", "curve", "saturation", "astra", "booksim", "bench", "validate")

NETWORK = '[network]\ntopology = "ring"\nshape = [4]\nbandwidth = "64 GB/s"\nlatency = "10 ns"\nflit = "64 B"\n'
COLLECTIVE = '[collective]\nkind = "all-reduce"\nsize = "4 KiB"\n'
TORUS = """[[network.dims]]
block = "ring"
npus = 2
bandwidth = "64 GB/s"
latency = "5 ns"
[[network.dims]]
block = "switch"
npus = 4
bandwidth = "32 GB/s"
latency = "10 ns"
[network.router]
pipeline = "booksim"
vcs = 4
buffer = "auto"
[system]
chunks = 2
active_chunks = 1
optimization = "localBWAware"
endpoint_delay = "10 ns"
all_reduce = ["ring", "halving-doubling"]
stragglers = [{ npu = 1, factor = 2.0 }]
groups = [{ name = "half", npus = [0, 1, 2, 3] }]
[[collective]]
name = "A"
kind = "all-reduce"
size = "8 KiB"
[[message]]
src = 0
dst = 5
size = "1 KiB"
[output]
window = "100 ns"
seed = 1
"""
TRAFFIC = """[network]
topology = "mesh"
shape = [3, 3]
flit = "16 B"
packet = "64 B"
bandwidth = "16 GB/s"
latency = "1 cycle"
[network.router]
vcs = 2
buffer = 4
va_allocator = "islip:1"
routing = "dimension-order"
[traffic]
pattern = "uniform"
load = 0.1
packet_flits = 2
warmup = 50
measure = 100
"""
MATRIX = TRAFFIC.replace('"uniform"', '"matrix"').replace("load =", 'pattern_options = {{ file = "{}" }}\nload =')
REPLAY = TRAFFIC.partition("[traffic]")[0] + '[traffic]\ntrace = "{}"\n'
TRAINING = """[[network.dims]]
block = "switch"
npus = 2
bandwidth = "450 GB/s"
latency = "250 ns"
[[network.dims]]
block = "switch"
npus = 2
bandwidth = "50 GB/s"
latency = "1 us"
[system]
all_reduce = "ring"
[system.npu]
device = "h100"
efficiency = 0.5
[workload]
model = "model.toml"
batch = 8
micro_batch = 1
[workload.parallelism]
tensor = 2
pipeline = 2
schedule = "1f1b"
[output]
window = "10 ms"
"""
MODEL = """kind = "transformer"
help = "small"
layers = 4
hidden = 256
heads = 4
source = "none"
ffn = 1024
vocabulary = 1000
sequence = 64
"""
LAYERS = "# a model\nLayer,m,n,k,Block\na,64,128,256,0\nb,64,256,128,0\nc,32,32,32,1\n"
EDGES = '0 1 {"bandwidth": "50 GB/s", "latency": "10 ns"}\n1 2\n2 3 {"length": 2}\n3 0\n'
OF_GRAPH = NETWORK.replace("ring", "graph").replace("shape = [4]", 'options = {{ file = "{}" }}') + COLLECTIVE
SYSTEM = """help = "a graph of one's own"
npus = 4
[network]
topology = "graph"
options = { file = "own.graphml" }
bandwidth = "20 GB/s"
latency = "100 ns"
[system]
all_reduce = "ring"
[[source]]
title = "none"
url = "https://example.org"
year = 2024
says = "20 GB/s"
"""
SWEEP = '[sweep]\n"collective.size" = ["1 KiB", "2 KiB"]\n"system.chunks" = { from = 1, to = 2, step = 1 }\n'
VARIANTS = '[[variant]]\nname = "a"\nset = { "system.chunks" = 2 }\n[[variant]]\nname = "b"\n'


@dataclass(frozen=True)
class Case:
    """Files, and a command that is run in their folder.

    `simulates`: it may run on, but must obey Ctrl-C. `valid`: exit code 0 is right, too.
    """

    name: str
    files: dict[str, bytes]
    argv: tuple[str, ...]
    simulates: bool = False
    valid: bool = False

    @property
    def codes(self) -> tuple[int, ...]:
        """The exit codes of a case that is no fault, for one of the findings."""
        return (0, 2, 3) if self.valid else (2, 3)


@dataclass(frozen=True)
class Recipe:
    """Valid files, those of them that are mutated, and commands; the weight is relative to other recipes'."""

    name: str
    files: dict[str, bytes]
    targets: tuple[str, ...]
    commands: tuple[str, ...]
    weight: int = 10
    options: tuple[str, ...] = field(default=())


def _text(**files: str) -> dict[str, bytes]:
    return {name.replace("__", "."): value.encode() for name, value in files.items()}


def _folder(name: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((INPUTS / name).iterdir()) if path.is_file()}


def _light(path: Path) -> bytes:
    """A training input with a few micro-batches: others cost the most of all cases."""
    text = path.read_text(encoding="utf-8")
    for batch, few in LIGHT.get(path.stem, {}).items():
        assert batch in text, path
        text = text.replace(batch, few)
    return text.encode()


def _saved(array: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


LIGHT = {
    "transformer_1t": {"batch = 64\n": "batch = 2\n"},
    "gpt3_1024": {"batch = 128 ": "batch = 16 "},
    "llama3": {"batch = 32\n": "batch = 16\n"},
}
RUN = ("run x.toml --backend {backend} -o out.h5 --quiet",)
CHECK = ("check x.toml --backend {backend}", "check x.toml --json")
BOTH = (*CHECK, *CHECK, *RUN)
ASTRA = "astra --net {} --sys {} --workload {}"


@cache
def recipes(folder: Path) -> tuple[Recipe, ...]:
    """Return all recipes. Results and checkpoints for them are made once, in `folder`."""
    made_here = made(folder)
    torus = {**_text(x__toml=TORUS)}
    astra = {path.name: path.read_bytes() for path in sorted((INPUTS / "astra").iterdir()) if path.is_file()}
    traces = _folder("astra/iteration_8npus")
    memory = _folder("memory")
    graph = nx.cycle_graph(4)
    nx.set_node_attributes(graph, 1, "npus")
    nx.set_edge_attributes(graph, "10 ns", "latency")
    graphml, gml = "\n".join(nx.generate_graphml(graph)), "\n".join(nx.generate_gml(graph))
    matrix, messages = np.ones((9, 9)), np.array([[i, i % 9, (i + 1) % 9, 64] for i in range(8)])
    rows = "\n".join(",".join(map(str, row)) for row in messages.tolist())
    exchange = _folder("collectives")
    inventories, goal, simai, torch = (_folder(name) for name in ("inventories", "goal", "simai", "pytorch"))
    report = ("report {} --quiet -o page.html", "diff {} run.h5", "timeline {} --quiet -o t.json", "diff run.h5 {}")
    return (
        Recipe("experiment", torus, ("x.toml",), BOTH, 40),
        Recipe("simple", _text(x__toml=NETWORK + COLLECTIVE), ("x.toml",), BOTH, 25),
        Recipe("traffic", _text(x__toml=TRAFFIC), ("x.toml",), (*BOTH, "saturation x.toml --workers 1 -q"), 15),
        Recipe(
            "sweep",
            _text(x__toml=NETWORK + COLLECTIVE + SWEEP + VARIANTS),
            ("x.toml",),
            ("check x.toml", "sweep x.toml -o s --workers 1 --backend analytical -q", "compare x.toml -q"),
            4,
        ),
        Recipe("training", _text(x__toml=TRAINING, model__toml=MODEL), ("x.toml", "model.toml"), BOTH, 15),
        Recipe(
            "layers",
            _text(x__toml=TRAINING.replace("model.toml", "model.csv"), model__csv=LAYERS),
            ("model.csv",),
            (*CHECK, "list model.csv", "list model.csv --device a100-80gb", "workload generate x.toml -o w.*.et"),
        ),
        *(
            Recipe(path.stem, {"x.toml": _light(path)}, ("x.toml",), ("check x.toml",), 1)
            for path in sorted((INPUTS / "training").glob("*.toml"))
        ),
        *(
            Recipe(path.stem, {"x.toml": path.read_bytes()}, ("x.toml",), ("check x.toml",), 1)
            for folder_name in ("", "studies", "systems", "sweeps")
            for path in sorted((INPUTS / folder_name).glob("*.toml"))
            if b".py" not in path.read_bytes() and b".txt" not in path.read_bytes()
        ),
        *(
            Recipe(
                kind,
                {**_text(x__toml=OF_GRAPH.format(f"net.{kind}")), f"net.{kind}": text.encode()},
                (f"net.{kind}",),
                BOTH,
            )
            for kind, text in (("edges", EDGES), ("graphml", graphml), ("gml", gml))
        ),
        *(
            Recipe(
                f"matrix.{end}", {**_text(x__toml=MATRIX.format(f"m.{end}")), f"m.{end}": value}, (f"m.{end}",), BOTH, 6
            )
            for end, value in (("npy", _saved(matrix)), ("csv", ("1,1,1,1,1,1,1,1,1\n" * 9).encode()))
        ),
        *(
            Recipe(
                f"trace.{end}", {**_text(x__toml=REPLAY.format(f"m.{end}")), f"m.{end}": value}, (f"m.{end}",), BOTH, 6
            )
            for end, value in (("npy", _saved(messages)), ("csv", rows.encode()))
        ),
        Recipe(
            "msccl",
            {**exchange, "x.toml": exchange["direct.toml"]},
            ("direct.xml",),
            (*BOTH, "collective direct.xml --npus 4"),
        ),
        *(
            Recipe(
                name,
                {
                    **exchange,
                    "x.toml": exchange["trees.toml"]
                    .replace(b"all_gather =", f"{kind} =".encode())
                    .replace(b"trees.xml:8", name.encode())
                    .replace(b"all-gather", kind.replace("_", "-").encode()),
                },
                (name,),
                (*BOTH, f"collective {name} --npus 4"),
                6,
            )
            for name, kind in (
                ("plan.json", "all_reduce"),
                ("flows.json", "all_gather"),
                ("links.csv", "all_gather"),
                ("trees.xml", "all_gather"),
            )
        ),
        *(
            Recipe(name, {**inventories, "x.toml": OF_GRAPH.format(name).encode()}, (name,), BOTH, 6)
            for name in ("two_servers.yaml", "nvlink_pairs.xml", "nvidia_smi.txt", "hwloc.xml")
        ),
        Recipe(
            "goal",
            {**goal, "x.toml": goal["ring.toml"]},
            ("ring.goal",),
            (*BOTH, "workload show ring.goal", "workload check ring.goal", "workload convert ring.goal r.bin"),
        ),
        Recipe("simai", {**simai, "x.toml": simai["moe.toml"]}, ("moe.txt",), (*BOTH, "workload show moe.txt")),
        Recipe(
            "pytorch",
            {
                "x.toml": torch["step.toml"].replace(b".json.gz", b".json"),
                **{name.removesuffix(".gz"): gzip.decompress(torch[name]) for name in torch if name.endswith(".gz")},
            },
            ("step.0.kineto.json",),
            (*BOTH, "workload expand step.0.kineto.json -o e.*.et --npus 4"),
        ),
        Recipe(
            "model of traces",
            {"model.json": made_here["model.json"]},
            ("model.json",),
            ("workload synthesize model.json -o s.*.et", "workload synthesize model.json -o s.*.et --npus 8 --seed 2"),
        ),
        Recipe(
            "algorithm traces",
            {**exchange, "x.toml": exchange["direct.toml"].replace(b"direct.xml", b"ring.*.et")},
            ("ring.0.et", "ring.1.et"),
            (*BOTH, "collective ring.*.et --npus 4"),
        ),
        Recipe(
            "chakra",
            {**traces, **astra},
            ("iteration.0.et", "iteration.1.et", "iteration.4.et"),
            (
                "workload check iteration",
                "workload show iteration",
                "workload convert iteration t.*.json",
                f"{ASTRA.format('ring_network.yml', 'ring_system.json', 'iteration')} -q",
            ),
            30,
        ),
        Recipe(
            "chakra.gz",
            {**astra, "t.0.et.gz": gzip.compress(traces["iteration.0.et"], mtime=0)},
            ("t.0.et.gz",),
            ("workload check t.0.et.gz", "workload convert t.0.et.gz t.json"),
            5,
        ),
        *(
            Recipe(
                f"memory {name}",
                {**memory, "x.toml": memory[f"{name}.toml"]},
                ("x.toml", *(f"{stem}.{i}.jsonl" for i in range(3))),
                (*CHECK, "check x.toml", "run x.toml --backend analytical -q", f"workload check {stem}"),
                8,
            )
            for name, stem in (("in_switch", "in_switch"), ("hierarchical", "in_switch"), ("zero_infinity", "sharded"))
        ),
        Recipe(
            "astra 1",
            astra,
            ("torus_network.txt", "torus_system.txt", "micro_all_reduce.txt"),
            (
                f"{ASTRA.format('torus_network.txt', 'torus_system.txt', 'micro_all_reduce.txt')} --show",
                "workload show micro_all_reduce.txt",
                "workload check micro_all_reduce.txt --shape 2,4",
                "workload convert micro_all_reduce.txt t.*.json --npus 4",
            ),
            15,
        ),
        Recipe(
            "astra json",
            astra,
            ("torus_network.json", "switch_system.txt", "micro_all_to_all.txt"),
            (
                f"{ASTRA.format('torus_network.json', 'torus_system.txt', 'micro_all_reduce.txt')} -q",
                f"{ASTRA.format('torus_network.json', 'switch_system.txt', 'micro_all_to_all.txt')} -q",
            ),
        ),
        Recipe(
            "astra 2",
            {**astra, **_folder("astra/all_reduce_8npus"), "groups.json": b'{"1": [0, 1], "2": [2, 3]}'},
            ("ring_network.yml", "ring_system.json", "remote_memory.json", "groups.json"),
            (
                f"{ASTRA.format('ring_network.yml', 'ring_system.json', 'all_reduce')} -q "
                "--remote-memory-configuration remote_memory.json --comm-group-configuration groups.json",
                "workload check all_reduce --groups groups.json",
            ),
            25,
        ),
        Recipe(
            "booksim",
            {"torus.cfg": (INPUTS / "booksim" / "torus.cfg").read_bytes()},
            ("torus.cfg",),
            ("booksim torus.cfg --show", "booksim torus.cfg --show", "booksim torus.cfg -q k=3"),
            15,
        ),
        Recipe(
            "anynet",
            {
                "a.cfg": b"topology = anynet; network_file = net.txt; routing_function = min; sample_period = 50;\n",
                "net.txt": b"router 0 node 0 router 1 10\nrouter 1 node 1 router 2\nrouter 2 node 2 router 0 3\n",
            },
            ("a.cfg", "net.txt"),
            ("booksim a.cfg --show", "booksim a.cfg -q"),
        ),
        *(
            Recipe(
                name,
                {**made_here, "x.h5": made_here[f"{name}.h5"]},
                ("x.h5",),
                tuple(each.format("x.h5") for each in report),
                weight,
            )
            for name, weight in (("run", 18), ("training_run", 10), ("traffic_run", 8), ("curve", 6), ("compare", 6))
        ),
        Recipe(
            "several",
            {**made_here, "x.h5": made_here["run.h5"]},
            ("x.h5", "curve.h5"),
            ("report x.h5 curve.h5 compare.h5 traffic_run.h5 -q -o page.html", "diff x.h5 traffic_run.h5 --json"),
            4,
        ),
        Recipe(
            "sweep folder",
            {**_sweep_folder(folder), "x.toml": (folder / "sweep.toml").read_bytes()},
            ("s/sweep.json", "s/journal.jsonl", "s/table.csv", "s/table.h5", "s/timing.csv"),
            ("report s -q -o page.html", "sweep x.toml -o s --workers 1 -q", "sweep x.toml -o s --workers 1 --json"),
            8,
        ),
        Recipe(
            "library",
            {
                **_text(x__toml=NETWORK.partition("shape")[0].replace("ring", "mine") + COLLECTIVE, mine__toml=SYSTEM),
                **{
                    f"lib/topologies/{name}": data
                    for name, data in _text(mine__toml=SYSTEM, own__graphml=graphml).items()
                },
            },
            ("lib/topologies/mine.toml", "lib/topologies/own.graphml"),
            (
                "check x.toml --library lib",
                "list mine --library lib",
                "list systems --library lib --json",
                "run x.toml --library lib --backend analytical -q",
            ),
            8,
        ),
        Recipe(
            "system file",
            {"x.toml": (INPUTS / "system_file.toml").read_bytes().replace(b"astra/", b""), **astra},
            ("x.toml", "torus_system.txt"),
            CHECK,
            6,
        ),
        Recipe(
            "checkpoint", {"x.checkpoint": made_here["x.checkpoint"]}, ("x.checkpoint",), ("resume x.checkpoint -q",), 8
        ),
        Recipe(
            "options",
            {**torus, **_text(t__toml=TRAFFIC, model__csv=LAYERS), "run.h5": made_here["run.h5"], **astra, **traces},
            (),
            COMMANDS,
            45,
        ),
    )


COMMANDS = (
    "check x.toml --set system.chunks=2 --backend packet",
    "check x.toml --set system.groups[0].npus=[0,1,2] --set network.dims[0].npus=3",
    "run x.toml -q --backend analytical --set collective[0].size=1KiB --threads 1 --watch 0 -o out.h5",
    "topology torus --shape 3,3",
    "topology ring npus=5 --json",
    "topology mesh --shape 2,2 --set network.router.vcs=2 --export graphml -o net.graphml",
    "topology dragonfly p=2 a=2 h=1",
    "topology fat-tree --shape 8",
    "collective ring --npus 4 --kind all-reduce --size 1MiB",
    "collective direct:2 --npus 6 --kind all-to-all --size 4KiB --json",
    "list models",
    "list llama3-70b --device h100",
    "list backends --json",
    "list topologies",
    "new project --template fat-tree",
    "doctor --json",
    "timeline run.h5 -o t.json --from 0ns --to 1us --npus 0-3 --links 4 --counter flits --max-events 100 -q",
    "report run.h5 -o page.html -q",
    "diff run.h5 run.h5 --json",
    "compare t.toml --backend packet --within 10% -q",
    "curve t.toml --loads 0.1,0.2 --workers 1 -q",
    "curve t.toml --loads 0.1:0.3:0.1 --workers 1 -q -o c.json",
    "saturation t.toml --resolution 0.3 --workers 1 -q",
    "sweep t.toml -o s --workers 1 --retry 0 -q",
    "resume run.h5",
    "workload generate --model model.csv --device h100 --shape 2,2 -o w.*.json",
    "workload convert micro_all_reduce.txt t.*.json --npus 4 --passes 2 --comm-scale 2 --compute-scale 0.5",
    "workload check micro_all_reduce.txt --shape 2,2",
    "workload show iteration.0.et --rank 0",
    "astra --net ring_network.yml --sys ring_system.json --workload iteration --num-passes 1 --comm-scale 1 -q",
    "astra --net torus_network.json --sys torus_system.txt --workload micro_all_reduce.txt --units-count 2 2 2 -q",
    "booksim - k=4 n=2 --show",
    "validate --list",
    "bench --list",
)


def recipe_of(number: int, seed: str, folder: Path) -> tuple[Random, Recipe]:
    """Return the recipe of a case, and the source of what else is drawn for it."""
    rng = Random(f"{seed}:{number}")
    every = recipes(folder)
    return rng, rng.choices(every, [each.weight for each in every])[0]


def draw(number: int, seed: str, folder: Path) -> Case:
    """Return case `number` of a seed."""
    rng, recipe = recipe_of(number, seed, folder)
    files = dict(recipe.files)
    for name in rng.sample(recipe.targets, min(len(recipe.targets), rng.choice((1, 1, 1, 2)))):
        files[name] = mutated(rng, name, files[name])
    command = rng.choice(recipe.commands)
    backend = rng.choice(("packet", "analytical", "analytical-congestion", "flow", "reference"))
    argv = command.format(backend=backend).split()
    if not recipe.targets or rng.random() < 0.05:
        argv = _options(rng, argv)
    return Case(f"{recipe.name}, case {number} of seed {seed}", files, tuple(argv), argv[0] in SIMULATES)


def _options(rng: Random, argv: list[str]) -> list[str]:
    """Change words of a command line."""
    argv = list(argv)
    for _ in range(rng.choice((1, 1, 2))):
        place = rng.randrange(1, len(argv)) if len(argv) > 1 else 0
        kind = rng.randrange(7)
        if kind == 0 and place:
            del argv[place]
        elif kind == 1:
            argv.insert(place + 1, _word(mutate.scalar(rng)))
        elif kind == 2:
            key = rng.choice(mutate.words())
            argv += ["--set", f"{key}={_word(mutate.scalar(rng))}"]
        elif kind == 3:
            count = rng.choice((20, 3000))
            argv += ["--set", f"system.groups[0].npus={list(range(count))}"]
        else:
            key, equals, value = argv[place].partition("=")
            changed = mutate.text(rng, value or key) if kind == 4 else _word(mutate.scalar(rng, value))
            argv[place] = f"{key}={changed}" if equals else changed
    # As the system passes them: bytes that are not UTF-8 become surrogates.
    return [os.fsdecode(word.replace("\0", "")[:100000].encode("utf-8", "surrogatepass")) for word in argv]


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@cache
def made(folder: Path) -> dict[str, bytes]:
    """Results of small runs, a curve, a comparison, a checkpoint and a model of traces."""
    from pyxsim.cli.app import main

    names = {"run": NETWORK + COLLECTIVE, "training_run": TRAINING, "traffic_run": TRAFFIC}
    (folder / "model.toml").write_text(MODEL, encoding="utf-8")
    for name, text in names.items():
        file = folder / f"{name}.toml"
        file.write_text(text, encoding="utf-8")
        backend = "analytical" if name == "training_run" else "packet"
        pyxsim.run(file, backend=backend).save(folder / f"{name}.h5")
    commands = (
        f"curve {folder}/traffic_run.toml --loads 0.1,0.2 --workers 1 -q -o {folder}/curve.h5",
        f"compare {folder}/run.toml -q -o {folder}/compare.h5",
        f"sweep {folder}/sweep.toml -q -o {folder}/s --workers 1",
        f"workload learn {INPUTS}/pytorch/step.*.kineto.json.gz {INPUTS}/goal/ring.goal -o {folder}/model.json -q",
    )
    (folder / "sweep.toml").write_text(NETWORK + COLLECTIVE + SWEEP, encoding="utf-8")
    for command in commands:
        if main(command.split()) != 0:
            raise RuntimeError(f"pyxsim {command} failed")
    (folder / "x.checkpoint").write_bytes(_checkpoint(folder))
    kept = (".h5", ".checkpoint", ".json")
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.suffix in kept}


def _sweep_folder(folder: Path) -> dict[str, bytes]:
    """The folder of a finished sweep of two points."""
    return {f"s/{path.relative_to(folder / 's')}": path.read_bytes() for path in (folder / "s").rglob("*.*")}


def _checkpoint(folder: Path) -> bytes:
    from pyxsim.runner.checkpoint.context import CheckpointContext, checkpoint_writer
    from pyxsim.runner.prepare import prepare

    path = folder / "made.checkpoint"
    prepared = prepare(pyxsim.load_experiment(folder / "run.toml"))
    writer = checkpoint_writer(str(path), None, CheckpointContext(), warn=print)
    writer.start(prepared)
    writer.write()
    return path.read_bytes()
