"""Inputs that once ended in a traceback, a hang or too much memory: each is refused in a line now.

The fuzzer runs them before it draws cases, and `tests/validation/test_findings.py` each by itself.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import networkx as nx
import numpy as np

from validation.fuzz import seeds
from validation.fuzz.seeds import COLLECTIVE, MATRIX, NETWORK, OF_GRAPH, REPLAY, TRAFFIC, TRAINING, Case

LATE = 10**9  # a number of a node


def _h5(change: Callable[[h5py.File], Any]) -> Callable[[bytes], bytes]:
    def changed(source: bytes) -> bytes:
        image = io.BytesIO(source)
        with h5py.File(image, "r+") as file:
            change(file)
        return image.getvalue()

    return changed


def _replace(name: str, make: Callable[[h5py.File], Any]) -> Callable[[h5py.File], None]:
    def change(file: h5py.File) -> None:
        del file[name]
        make(file)

    return change


def _attribute(name: str, value: Any) -> Callable[[h5py.File], None]:
    return lambda file: file.attrs.__setitem__(name, value)


def _short(name: str) -> Callable[[h5py.File], None]:
    """A variable with one entry less than the others of its table."""

    def change(file: h5py.File) -> None:
        data = file[name][()]
        del file[name]
        file[name] = data[:-1]

    return change


def _flipped(source: bytes, place: int) -> bytes:
    return b"".join((source[:place], bytes([source[place] ^ 1]), source[place + 1 :]))


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "missing dataset": _h5(lambda file: file.__delitem__("phases/queueing")),
    "missing end": _h5(lambda file: file.__delitem__("collectives/end")),
    "missing table": _h5(lambda file: file.__delitem__("links_total")),
    "group for a dataset": _h5(_replace("links/flits", lambda file: file.create_group("links/flits"))),
    "dataset for a group": _h5(_replace("chunks", lambda file: file.create_dataset("chunks", data=1))),
    "wrong type": _h5(_replace("chunks/rank", lambda file: file.create_dataset("chunks/rank", data=["x"]))),
    "other length": _h5(_short("chunks/rank")),
    "soft cycle": _h5(_replace("links/flits", lambda file: file.__setitem__("links/flits", h5py.SoftLink("/links")))),
    "hard cycle": _h5(_replace("links/flits", lambda file: file.__setitem__("links/flits", file["links"]))),
    "link to another file": _h5(
        _replace("links/flits", lambda file: file.__setitem__("links/flits", h5py.ExternalLink("run.h5", "/links")))
    ),
    "a terabyte": _h5(
        _replace("links/flits", lambda f: f.create_dataset("links/flits", (10**9, 1000), "i1", chunks=(1024, 64)))
    ),
    "deep JSON": _h5(_attribute("summary", "[" * 60000)),
    "surrogate": _h5(lambda f: f.attrs.create("title", b"\xed\xa0\x80", dtype=h5py.string_dtype("utf-8"))),
    "cut": lambda source: source[: len(source) // 2],
    "checksum": lambda source: _flipped(source, source.index(b"OHDR") + 40),
    "version": lambda source: source.replace(b"OHDR\x02", b"OHDR\x07"),
}


def _without(name: str, *attributes: str) -> Callable[[h5py.File], None]:
    """A file without the datasets of a name, and without the keys of that name in the JSON of attributes."""

    def strip(tree: Any) -> Any:
        if isinstance(tree, dict):
            return {key: strip(each) for key, each in tree.items() if key != name}
        return [strip(each) for each in tree] if isinstance(tree, list) else tree

    def change(file: h5py.File) -> None:
        names: list[str] = []
        file.visit(names.append)
        for each in names:
            if each.endswith(name):
                del file[each]
        for key in attributes:
            file.attrs[key] = json.dumps(strip(json.loads(file.attrs[key])))

    return change


WITHOUT: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("traffic_run.h5", "network_latency", ()),
    ("traffic_run.h5", "network_latency", ("record", "summary")),
    ("traffic_run.h5", "measured_packets", ("record", "summary")),
    ("curve.h5", "network_latency", ()),
    ("training_run.h5", "end", ("record", "summary")),
    ("compare.h5", "end", ()),
)
READERS = ("diff x.h5 run.h5", "report x.h5 -q -o page.html", "timeline x.h5 -q -o t.json")


def _npy(array: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array, allow_pickle=True)
    return out.getvalue()


def _header(text: bytes) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


def _arrays() -> dict[str, bytes]:
    archive = io.BytesIO()
    np.savez(archive, np.ones((9, 9)))
    huge = b"{'descr': '<i8', 'fortran_order': False, 'shape': (10000000000, 4), }\n"
    return {
        "unfinished header": _header(b"{'descr': '<f8', 'shape': (((\n"),
        "huge shape": _header(huge),
        "negative shape": _header(huge.replace(b"10000000000", b"-1")),
        "archive": archive.getvalue(),
        "void": _npy(np.zeros((9, 9), "V4")),
        "objects": _npy(np.full((9, 9), None)),
        "beyond 64 bits": _npy(np.full((9, 4), 2**64 - 1, np.uint64)),
    }


def findings(folder: Path) -> Iterator[Case]:
    """Yield all cases. `folder`: where results for them are made once."""
    made = seeds.made(folder)
    for name, damage in DAMAGE.items():
        for command in READERS:
            files = {"run.h5": made["run.h5"], "x.h5": damage(made["run.h5"])}
            yield Case(f"hdf5: {name}, {command.split()[0]}", files, tuple(command.split()))
    for kind, name, attributes in WITHOUT:
        for command in READERS:
            files = {"run.h5": made["run.h5"], "x.h5": _h5(_without(name, *attributes))(made[kind])}
            yield Case(f"hdf5: no {name} in {kind}, {command.split()[0]}", files, tuple(command.split()), valid=True)
    for name, data in _arrays().items():
        for experiment in (MATRIX, REPLAY):
            files = {"x.toml": experiment.format("m.npy").encode(), "m.npy": data}
            yield Case(f"npy: {name}, {'matrix' if experiment is MATRIX else 'trace'}", files, ("check", "x.toml"))
    plain = (NETWORK + COLLECTIVE).encode()
    text = b"MICRO\n1\nconv1 -1 5 NONE 0 5 NONE 0 5 ALLREDUCE 1048576 5\n"
    convert = "workload convert w.txt t.*.json --npus 4 --compute-scale"
    for scale in ("1e-999999999", "1e999999999", "9" * 5000):
        yield Case(f"scale {scale[:20]}", {"w.txt": text}, (*convert.split(), scale))
    null = plain.replace(b'"ring"', b'"graph"').replace(b"shape = [4]", b'options = { file = "a\\u0000b" }')
    yield Case("zero byte in a name", {"x.toml": null}, ("check", "x.toml"))
    yield Case(
        "zero byte in an algorithm", {"x.toml": plain + b'[system]\nall_reduce = "a\\u0000.xml"\n'}, ("check", "x.toml")
    )
    yield Case("blank argument", {"x.toml": plain}, ("check", "x.toml", " "))
    lists = plain.replace(b'"64 GB/s"', b'["64 GB/s", "32 GB/s"]')
    yield Case("a list of bandwidths too long", {"x.toml": lists}, ("topology", "x.toml"))
    yield Case("blank topology", {}, ("topology", "\n", "--shape", "2,2"))
    yield Case("long topology", {}, ("topology", "torus" * 2000))
    yield Case("large dragonfly", {}, ("topology", "dragonfly", "p=2", "a=2222", "h=1"))
    yield Case("long option", {"x.toml": plain}, ("check", "x.toml", "--" + "x" * 70000))
    yield Case("long value", {"x.toml": plain}, ("check", "x.toml", "--set", f"system.all_reduce={'x' * 70000}"))
    slow = TRAINING.replace("0.5", '"1e-60"').encode()
    yield Case("no efficiency", {"x.toml": slow, "model.toml": seeds.MODEL.encode()}, ("check", "x.toml"))
    yield Case("many faults", {"x.toml": TRAFFIC.encode()}, ("check", "x.toml", "--set", f"network.shape={[0] * 3000}"))
    edges = OF_GRAPH.format("net.edges").encode()
    for line in (
        f"0 1\n1 {LATE}\n",
        f"0 {2**70}\n",
        "0 1\n1 2 {'bandwidth': (\n",
        '0 1 {"length": 1e400}\n',
        "0 1 {\n",
    ):
        files = {"x.toml": edges, "net.edges": line.encode()}
        yield Case(f"edges {line[:30]!r}", files, ("check", "x.toml"), valid="{" not in line)
    crowd = nx.path_graph(3)
    crowd.nodes[1]["npus"] = 2**40
    graphml = "\n".join(nx.generate_graphml(crowd)).encode()
    files = {"x.toml": OF_GRAPH.format("net.graphml").encode(), "net.graphml": graphml}
    yield Case("2^40 NPUs at a node", files, ("check", "x.toml", "--backend", "flow"))
    for value in (str(2**63), str(2**70), "-1", "(1 +", "[1, ", "'a", "4 KiB *"):
        yield Case(f"chunks {value}", {"x.toml": plain}, ("check", "x.toml", "--set", f"system.chunks={value}"))
    members = f"system.groups=[{{name='a', npus={list(range(5000))}}}]"
    yield Case("a group of thousands", {"x.toml": plain}, ("check", "x.toml", "--set", members))
    large = (seeds.INPUTS / "training" / "transformer_1t.toml").read_bytes()
    yield Case("a large training step", {"x.toml": large}, ("check", "x.toml", "--set", "workload.batch=5120"))
    deep = seeds.MODEL.replace("layers = 4", "layers = 1000000000").encode()
    yield Case("a deep model", {"x.toml": TRAINING.encode(), "model.toml": deep}, ("check", "x.toml"))
    twisted = (seeds.INPUTS / "systems" / "tpu_v4_twisted.toml").read_bytes()
    yield Case("twisted torus", {"x.toml": twisted}, ("check", "x.toml", "--backend", "flow"), valid=True)
    yield Case("a large schedule", {}, ("collective", "ring", "--npus", "3000"))
