"""`python -m validation.random_experiments`: run small random experiments on all backends, mostly to sanitize the core.

Topologies, routers, collectives, messages and open traffic are drawn from a seed. Each experiment must end with a
complete result or with the error of a combination that pyxsim refuses. `make sanitize` runs them on a build in which
the sanitizers of the compiler end the program at the first fault.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from random import Random
from typing import Any

import pyxsim
from pyxsim.core import engine
from pyxsim.errors import InputError, SimulationError
from pyxsim.settings.credits import Credits

BACKENDS = ("packet",) * 6 + ("analytical", "analytical-congestion", "flow", "flow", "reference")
NETWORKS: tuple[dict[str, Any], ...] = (
    *({"topology": "ring", "shape": [n]} for n in (3, 4, 7)),
    *({"topology": "torus", "shape": shape} for shape in ([3, 2], [4, 4], [2, 3, 2])),
    *({"topology": "mesh", "shape": shape} for shape in ([5], [3, 4])),
    *({"topology": name, "shape": [n]} for name in ("switch", "fully-connected") for n in (4, 8)),
    {"topology": "hyperx", "options": {"routers": [3, 3]}},
    {"topology": "dragonfly", "options": {"p": 2, "a": 2, "h": 1}},
    {"topology": "leaf-spine", "options": {"npus": 2, "leaves": 3, "spines": 2}},
    {"topology": "k-ary-n-tree", "options": {"k": 2, "n": 3}},
    {"topology": "butterfly", "options": {"k": 2, "n": 3}},
    {"topology": "slim-fly", "options": {"q": 5}},
    {"dims": [{"block": "ring", "npus": 4}, {"block": "switch", "npus": 2, "bandwidth": "20 GB/s"}]},
    {"dims": [{"block": "fully-connected", "npus": 3}, {"block": "mesh", "npus": 3, "latency": "7 ns"}]},
)
ALLOCATORS = (
    *("age", "islip:2", "islip-unranked", "loa", "max-size", "pim:2"),
    *("separable-input-first", "separable-output-first", "wavefront", "rr-wavefront"),
)
ROUTER: dict[str, tuple[Any, ...]] = {
    "pipeline": ("booksim", "garnet", {"bw": 1, "rc": 0, "va": 0, "sa": 1, "st": 0}),
    "lookahead": (True,),
    "speculation": (True,),
    "vcs": (1, 2, 3, 5, 8),
    "buffer": (1, 4, 9),
    "shared_buffer": (1, 6),
    "flow_control": ("virtual-cut-through", "store-and-forward"),
    "vc_reuse": ("drained",),
    "credit_delay": (1, 5),
    "va_allocator": ALLOCATORS,
    "sa_allocator": ALLOCATORS,
    "input_speedup": (2,),
    "output_speedup": (2,),
    "internal_speedup": (2, 1.5),
    "hold_switch": (True,),
    "priority": ("age", "network-age", "local-age", "hops", "queue"),
    "arbiter": ("step",),
    "injection": ("interleaved",),
    "output_queue": (True,),
    "serdes": (2,),
    "routing": ("valiant", "romm", "minimal-adaptive", "ugal", "xy-yx", "adaptive-xy-yx", "dimension-order-balanced"),
}
LINKS: dict[str, tuple[Any, ...]] = {
    "flit": ("16 B", "64 B", "100 B"),
    "packet": ("256 B", "400 B", "1 KiB"),
    "header": ("8 B",),
    "bandwidth": ("10 GB/s", "64 GB/s", "25.6 GB/s"),
    "latency": ("1 cycle", "13 ns", "100 ns"),
    "lanes": (1, 2, "per-dimension"),
    "lane_latency": ("3 ns",),
    "pad_packets": (True,),
}
SYSTEM: dict[str, tuple[Any, ...]] = {
    "chunks": (2, 5),
    "active_chunks": (2,),
    "scheduling": ("FIFO", "explicit"),
    "intra_dimension": ("RG", "smallest-first", "fewest-phases-first"),
    "inter_dimension": ("round-robin", "themis"),
    "optimization": ("baseline",),
    "endpoint_delay": ("5 ns",),
    "reduction_delay": ("3 ns",),
    "local_memory_bandwidth": ("100 GB/s",),
    "start_skew": ("50 ns",),
    "stragglers": ([{"npus": [1], "slow": 2.5}],),
    "all_reduce": ("direct", "ring", "halving-doubling", "double-binary-tree", "bidirectional-ring"),
}
OUTPUT: dict[str, tuple[Any, ...]] = {
    "window": ("20 ns", "1 us"),
    "carry": (True,),
    "attribution": ("links", "messages"),
    "seed": (2, 3),
}
TRAFFIC: dict[str, tuple[Any, ...]] = {
    "pattern": ("uniform-other", "neighbor", "random-permutation", "tornado"),
    "packet_flits": (2, [1, 4]),
    "injection": ({"process": "on-off", "alpha": 0.2, "beta": 0.3},),
    "replies": ({"delay": 3},),
}
FAULTS: tuple[dict[str, Any], ...] = (
    {"down": True},
    {"down": True, "in_flight": "lose"},
    {"bandwidth": "3 GB/s"},
    {"latency": "333 ns"},
    {"bit_error_rate": 1e-4},
    {"bandwidth": "7 GB/s", "bit_error_rate": 1e-5},
)
RETRY: dict[str, tuple[Any, ...]] = {
    "preset": ("uec", "ualink", "pcie"),
    "buffer": (1, 5, 100),
    "ack_delay": ("7 ns",),
    "timeout": ("50 ns", "1 us"),
    "nack_bits": (64, 10_000),
}
CREDITS: dict[str, tuple[Any, ...]] = {
    "preset": ("uec", "ualink", "nvlink", "infiniband", "pcie"),
    "return": ("flits", "piggyback"),
    "batch": (2, 3, 8),
    "timeout": ("5 ns", "300 ns"),
    "wait": ("0 ns", "3 ns", "100 ns"),
    "size": ("0 B", "8 B", "16 B"),
    "vcs": ("one", "all"),
    "priority": ("data",),
    "counters": ("cumulative", "incremental"),
    "resync": ("100 ns", "3 us"),
    "initial": ("advertise",),
}
KINDS = ("all-reduce", "all-reduce", "reduce-scatter", "all-gather", "all-to-all", "broadcast", "gather", "barrier")
SIZES = ("64 B", "1 KiB", "3000 B", "8 KiB")


def part(rng: Random, table: dict[str, tuple[Any, ...]], share: float) -> dict[str, Any]:
    """Draw a value for about this share of the keys."""
    return {key: rng.choice(values) for key, values in table.items() if rng.random() < share}


def experiment(rng: Random, threads: tuple[int, ...]) -> tuple[dict[str, Any], str]:
    """Draw an experiment and its backend; where it has threads, their number is one of `threads`."""
    backend = rng.choice(BACKENDS) if 1 in threads else "packet"
    packets = backend in ("packet", "reference")
    network = {**rng.choice(NETWORKS), **part(rng, LINKS, 0.3)}
    network["router"] = part(rng, ROUTER, 0.1) if packets else {}
    if "va_allocator" not in network["router"] and rng.random() < 0.05:
        network["router"]["ordered"] = True
    elif "va_allocator" in network["router"] and rng.random() < 0.2:
        network["router"]["vc_requests"] = "credit"
    found: dict[str, Any] = {"network": network, "output": part(rng, OUTPUT, 0.25)}
    if backend == "packet" and rng.random() < 0.3:
        load = rng.choice((0.02, 0.1, 0.3))
        found["traffic"] = {"load": load, "warmup": 30, "measure": 200, **part(rng, TRAFFIC, 0.3)}
        found["output"].pop("carry", None)
        if "replies" in found["traffic"]:
            found["traffic"].pop("packet_flits", None)
            network["router"] |= {"virtual_networks": [2, 2], "vcs": 4}
    else:
        found["system"] = part(rng, SYSTEM, 0.2)
        if "stragglers" in found["system"]:
            found["system"]["endpoint_delay"] = "5 ns"
        found["collective"] = [_collective(rng) for _ in range(rng.choice((1, 1, 2)))]
        if rng.random() < 0.3:
            found["message"] = [{"src": 0, "dst": rng.choice((1, 2)), "size": rng.choice(SIZES)}]
    if backend == "packet":
        found["run"] = {"threads": rng.choice(threads), "skip": rng.random() < 0.7}
    else:
        found["output"].pop("attribution", None)
    if packets and rng.random() < 0.3:
        _add_faults(rng, found)
    if packets and rng.random() < 0.3:
        network["credits"] = part(rng, CREDITS, 0.3)
        if not Credits(**network["credits"]).rides:
            network["credits"].pop("wait", None)
    return found, backend


def _add_faults(rng: Random, found: dict[str, Any]) -> None:
    """Let links fail, and mostly come up again."""
    if rng.random() < 0.6:
        found["network"]["retry"] = part(rng, RETRY, 0.3)
        found["output"].pop("attribution", None)
    found["faults"] = [_fault(rng) for _ in range(rng.choice((1, 1, 2, 3)))]


def _fault(rng: Random) -> dict[str, Any]:
    what = rng.choice(({"link": "*"}, {"link": "*"}, {"router": "*"}, {"npu": "*"}))
    times = {"at": f"{rng.randrange(2000)} ns", "for": f"{rng.randrange(1, 500)} ns"}
    if rng.random() < 0.3:
        times["up"] = f"{rng.randrange(1, 500)} ns"
    elif rng.random() < 0.1:
        del times["for"]
    count = {"count": rng.choice((1, 2)), "seed": rng.randrange(9), "both_directions": rng.random() < 0.7}
    return {**what, **count, **times, **rng.choice(FAULTS)}


def _collective(rng: Random) -> dict[str, Any]:
    kind = rng.choice(KINDS)
    return {"kind": kind, "at": rng.choice(("0 ns", "40 ns"))} | (
        {} if kind == "barrier" else {"size": rng.choice(SIZES)}
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m validation.random_experiments", description=__doc__)
    parser.add_argument("--cases", type=int, default=1000, metavar="N", help="experiments that run to their end")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="number of the first case")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--threads", action="store_true", help="only packets, simulated by several threads")
    parser.add_argument("--show", action="store_true", help="print each case before it runs")
    given = parser.parse_args()
    print(f"compiled core: {engine.__file__}", flush=True)
    ran, refused, faults = Counter[str](), Counter[str](), 0
    threads = (2, 3) if given.threads else (1, 1, 1, 2, 3)
    began, number = time.process_time(), given.first
    while ran.total() < given.cases:
        source, backend = experiment(Random(f"{given.seed}:{number}"), threads)
        if given.show:
            print(f"{number}: {backend}: {source}", flush=True)
        try:
            result = pyxsim.run(source, backend=backend)
        except (InputError, SimulationError) as error:
            refused[str(error).splitlines()[0][:150]] += 1
        else:
            ran[backend] += 1
            if not result.complete:
                faults += 1
                print(f"{number}: {backend}: not complete: {source}")
        number += 1
    by_backend = ", ".join(f"{count} {name}" for name, count in ran.most_common())
    print(f"{ran.total()} experiments ({by_backend}), {refused.total()} refused: {faults} faults")
    print(f"{(time.process_time() - began) / 60:.1f} CPU min")
    if given.show:
        for reason, count in refused.most_common():
            print(f"{count:5} {reason}")
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
