"""The fixed cases. Their work must not change, because sessions are compared."""

from __future__ import annotations

import time
import tomllib
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.case import Case, Run
from benchmarks.traffic import Open, simulate
from pyxsim.compat.astra.files import astra_experiment
from pyxsim.runner.lifecycle import simulate as simulate_study
from pyxsim.runner.prepare import prepare
from pyxsim.settings import Experiment, load_experiment
from pyxsim.settings.load import resolved_toml
from pyxsim.settings.toml import to_toml

Tables = dict[str, dict[str, Any]]

# inputs/torus_all_reduce.toml, the experiment of `make run`; a test compares them.
FIRST: Tables = {
    "network": {
        "topology": "torus",
        "shape": [4, 4, 4],
        "bandwidth": "100 GB/s",
        "latency": "100 ns",
        "flit": "256 B",
        "packet": "4 KiB",
        "router": {"pipeline": "booksim", "vcs": 4, "buffer": "auto"},
    },
    "system": {
        "chunks": 8,
        "active_chunks": 4,
        "optimization": "localBWAware",
        "endpoint_delay": "10 ns",
        "all_reduce": "ring",
    },
    "collective": {"kind": "all-reduce", "size": "1 MiB"},
    "output": {"window": "100 ns", "seed": 1},
}
# In each of 4 chunks each of 4096 NPUs sends 15 messages in dimension 0, 15 in dimension 1, 30 in dimension 2, and
# again 15 and 15: 1,474,560 messages.
LARGE: Tables = {
    "network": {"topology": "torus", "shape": [16, 16, 16], "bandwidth": "100 GiB/s", "latency": "500 ns"},
    "system": {"chunks": 4, "queues": 1, "endpoint_delay": "10 ns", "all_reduce": "ring"},
    "collective": {"kind": "all-reduce", "size": "64 MiB"},
}
# Every NPU sends to all others at once over long paths: most of the time most flits wait.
DIRECT: Tables = {
    "network": {
        "topology": "ring",
        "shape": [16],
        "bandwidth": "100 GB/s",
        "latency": "100 ns",
        "router": {"pipeline": "booksim", "vcs": 4, "buffer": 32},
    },
    "system": {"chunks": 4, "active_chunks": 4, "all_reduce": "direct"},
    "collective": {"kind": "all-reduce", "size": "4 MiB"},
}
# The gradients of DLRM's MLPs and its all-to-alls on 16 NPUs, two passes.
TRAINING: Tables = {
    "network": {"topology": "torus", "shape": [4, 4], "bandwidth": "25 GB/s", "latency": "500 ns", "packet": "4 KiB"},
    "system": {"all_reduce": "ring", "all_to_all": "direct", "npu": {"device": "a100-80gb", "efficiency": 0.5}},
    "workload": {"model": "dlrm", "batch": 1024, "passes": 1},
    "output": {"window": "100 us"},
}
# ASTRA-sim 1 over Garnet as in its samples, 64 NPUs: 2 rings of each kind, 50 VCs x 5000 flits.
GARNET = {
    "network": """
        num-npus: 64 num-packages: 16 package-rows: 4 topology: Torus3D
        local-rings: 2 vertical-rings: 2 horizontal-rings: 2
        flit-width: 2048 local-packet-size: 4096 package-packet-size: 4096 tile-link-width: 256 package-link-width: 256
        vcs-per-vnet: 50 routing-algorithm: Ring_XY router-latency: 1 local-link-latency: 90 package-link-latency: 200
        buffers-per-vc: 5000 local-link-efficiency: 1.0 package-link-efficiency: 1.0
    """,
    "system": """
        scheduling-policy: LIFO endpoint-delay: 1 active-chunks-per-dimension: 1 preferred-dataset-splits: 4
        boost-mode: 0
        all-reduce-implementation: ring_ring_ring all-gather-implementation: ring_ring_ring
        reduce-scatter-implementation: ring_ring_ring all-to-all-implementation: ring_ring_ring
        collective-optimization: localBWAware
    """,
    "workload": "MICRO\n1\nconv1 -1 5 NONE 0 5 NONE 0 5 ALLREDUCE 1048576 5\n",
}


def run_tables(tables: Tables, backend: str = "packet", *, skip: bool = True) -> Run:
    """Run an experiment with its system layer. `skip`: skip repeating cycles; by default as its tables set."""
    begin = time.process_time()
    return _run(load_experiment(tables, _overrides(skip)), backend, begin)


def _overrides(skip: bool) -> list[str]:
    return [] if skip else ["run.skip=false"]


def _show_tables(tables: Tables, backend: str = "packet") -> str:
    return _remarks("" if backend == "packet" else f"to be run with --backend {backend}") + to_toml(tables)


def _remarks(*lines: str) -> str:
    return "".join(f"# {line}\n" for line in lines if line)


def _garnet_experiment(folder: str) -> Experiment:
    """Write the three files of ASTRA-sim 1, one key and value per line, into a folder."""
    files = []
    for name, text in GARNET.items():
        words = text.split()
        pairs = "".join(f"{key} {value}\n" for key, value in zip(words[::2], words[1::2], strict=True))
        files.append(Path(folder, f"{name}.txt"))
        files[-1].write_text(text if name == "workload" else pairs, encoding="utf-8")
    return astra_experiment(*files)


def _show_garnet() -> str:
    """With the collective in place of the workload text, which exists in no folder of the user."""
    with TemporaryDirectory() as folder:
        tables = tomllib.loads(resolved_toml(_garnet_experiment(folder)))
    del tables["workload"]
    like = "The case reads its all-reduce from a text of ASTRA-sim 1, whose layer adds 18 cycles, as does"
    return _remarks(f"{like} inputs/garnet_sample.toml.") + to_toml({**tables, "collective": FIRST["collective"]})


def _garnet(*, skip: bool = True) -> Run:
    begin = time.process_time()
    with TemporaryDirectory() as folder:
        return _run(load_experiment(_garnet_experiment(folder), _overrides(skip)), "packet", begin)


def _run(experiment: Experiment, backend: str, begin: float) -> Run:
    """`begin`: when reading began."""
    prepared = prepare(experiment, backend=backend)
    result = simulate_study(prepared, backend=backend)
    whole = time.process_time() - begin
    counter = {"packet": "router_visits", "ethernet": "packet_hops"}.get(backend, "messages")
    facts = {"time_ns": result.time_ns, "skipped_cycles": result.counts["skipped_cycles"]}
    return Run(result.counts[counter], result.time_cycles, result.sim_cpu_s, whole, facts)


def _with(tables: Tables, **changes: dict[str, Any]) -> Tables:
    """Return the tables with some keys replaced."""
    return {name: {**tables.get(name, {}), **changes.get(name, {})} for name in {**tables, **changes}}


def _larger(shape: list[int], chunks: int, size: str) -> Tables:
    """The first experiment on more NPUs, every cycle of it, by one thread."""
    return _with(
        FIRST,
        network={"shape": shape},
        system={"chunks": chunks},
        collective={"size": size},
        run={"skip": False, "threads": 1},
    )


def _permutation(leaves: int, transport: str, size: str) -> Tables:
    """Each NPU of a leaf-spine network without oversubscription sends a message to that of the same place in the next
    half of the leaves."""
    npus = 16
    tables: Tables = {
        "network": {
            "topology": "leaf-spine",
            "options": {"npus": npus, "leaves": leaves, "spines": npus},
            "bandwidth": "50 GB/s",
            "latency": "500 ns",
            "ethernet": {"transport": transport},
        }
    }
    count = npus * leaves
    messages = [{"src": src, "dst": (src + count // 2) % count, "size": size} for src in range(count)]
    return {**tables, "message": messages}  # type: ignore[dict-item]


def _open(what: str, traffic: Open) -> Case:
    return Case(what, partial(_simulate, traffic), partial(_show_open, traffic))


def _simulate(traffic: Open, *, skip: bool = True) -> Run:
    """Open traffic: messages never stop, so no cycles are skipped."""
    return simulate(traffic)


def _show_open(traffic: Open) -> str:
    like = "The case draws its packets beforehand, and measures the engine alone: these are others, of the same kind."
    return _remarks(like) + to_toml(traffic.tables())


def _of(what: str, tables: Tables, backend: str = "packet", **more: Any) -> Case:
    """Return a case that is an experiment."""
    return Case(what, partial(run_tables, tables, backend), partial(_show_tables, tables, backend), **more)


CASES: dict[str, Case] = {
    "torus8x8-uniform-0.4": _open("8x8 torus, uniform traffic, 5-flit packets", Open(8, 0.4, 20_000)),
    "torus8x8-uniform-0.1": _open("8x8 torus, uniform traffic, 5-flit packets", Open(8, 0.1, 40_000)),
    "torus8x8-uniform-0.2-1flit": _open("8x8 torus, uniform, 1-flit packets", Open(8, 0.2, 20_000, flits=1)),
    "torus32x32-uniform-0.1": _open("1024 routers, 5-flit packets", Open(32, 0.1, 2000)),
    "torus64x64-uniform-0.05": _open("4096 routers, as busy as 64 at 0.4", Open(64, 0.05, 600)),
    "torus8x8-hotspot": _open("8x8 torus, 5 % of the packets to node 0: congested", Open(8, 0.4, 8000, hot=0.05)),
    "ring16-direct-all-reduce": _of("4 MiB on a ring of 16, all at once: congested", DIRECT),
    "torus4x4x4-all-reduce": _of("inputs/torus_all_reduce.toml: 1 MiB on 64 NPUs", FIRST),
    "torus8x8x8-all-reduce": _of("the same on 512 NPUs, 2 MiB", _larger([8, 8, 8], 8, "2 MiB")),
    "torus16x16x16-all-reduce": _of("the same on 4096 NPUs, 256 KiB in 4 chunks", _larger([16, 16, 16], 4, "256 KiB")),
    "torus4x4x4-all-reduce-attribution": _of(
        'the same with attribution = "links"', _with(FIRST, output={"attribution": "links"})
    ),
    "torus4x4x4-all-reduce-garnet": Case(
        "the same size as ASTRA-sim 1 with Garnet's sample has it: inputs/garnet_sample.toml",
        _garnet,
        _show_garnet,
    ),
    "torus4x4x4-all-reduce-1GiB": _of(
        "the first one with 1 GiB: most of it repeats, and is skipped",
        _with(FIRST, collective={"size": "1 GiB"}),
        long=True,
    ),
    "torus4x4-training": _of("a step of DLRM on 16 NPUs, flit by flit", TRAINING),
    "torus16x16x16-packet": _of(
        "all-reduce of 1 MiB in 4 chunks on 4096 NPUs, flit by flit",
        _with(LARGE, collective={"size": "1 MiB"}),
        long=True,
    ),
    **{
        f"torus16x16x16-{backend}": _of(
            f"all-reduce of 64 MiB in 4 chunks on 4096 NPUs, --backend {backend}",
            LARGE,
            backend,
            unit="messages",
        )
        for backend in ("analytical", "analytical-congestion", "flow")
    },
    **{
        f"clos{16 * leaves}-permutation-{transport}": _of(
            f"a message of {size} from each of {16 * leaves} NPUs to another, --backend ethernet, {transport}",
            _permutation(leaves, transport, size),
            "ethernet",
            unit="packet hops",
            long=leaves > 8,
        )
        for leaves, size in ((8, "8 MB"), (64, "2 MB"))
        for transport in ("dctcp", "ndp", "nscc")
    },
}
