"""Files that are damaged in every way: each is a trace, or one fault with the file and a place in it."""

from __future__ import annotations

import gzip
import random
import resource
import time
from pathlib import Path

import pytest

from pyxsim import chakra
from pyxsim.chakra import Attribute, IOInfo, Node, NodeType
from pyxsim.chakra.check import check
from pyxsim.chakra.codec import as_varint
from pyxsim.chakra.statistics import statistics
from pyxsim.chakra.trace_graph import load
from pyxsim.errors import InputError

FORMS = (".et", ".et.gz", ".json", ".jsonl")


def nodes() -> list[Node]:
    """One of each type, with every type of attribute."""
    values = {"bool": True, "string": "text", "bytes": b"\x00\xff", "double": 0.5, "float": 0.5}
    many = [
        Attribute(name, name, [value] if name.endswith("list") else value, "doc")
        for name in chakra.ATTRIBUTE_TYPES
        for value in [values.get(name.partition("_")[0], 3)]
    ]
    link = [Attribute(name, "int64_val", value) for name, value in (("comm_size", 64), ("comm_tag", 1))]
    out = [Node(0, "all of them", NodeType.METADATA, inputs=IOInfo("a", "b", "c"), attr=many)]
    for number, kind in enumerate(NodeType, 1):
        attributes = [*link, Attribute("comm_dst", "int32_val", 1), Attribute("comm_src", "int32_val", 0)]
        attributes += [Attribute("tensor_size", "uint64_val", 9), Attribute("comm_type", "int64_val", 2)]
        out.append(Node(number, kind.name, kind, [number - 1], [0], 5, 7, attr=attributes))
    return out


def mutated(rng: random.Random, data: bytes) -> bytes:
    """The bytes with one to four damages."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(out) + 1)
        length = rng.choice((1, 2, 8, 64))
        what = rng.randrange(7)
        if what == 0:
            del out[at:]
        elif what == 1 and at < len(out):
            out[at] ^= 1 << rng.randrange(8)
        elif what == 2:
            out[at : at + length] = rng.randbytes(length)
        elif what == 3:
            other = rng.randrange(len(out) + 1)
            out[at:at] = out[other : other + length]
        elif what == 4:
            del out[at : at + length]
        elif what == 5:
            out[at : at + 1] = as_varint(rng.choice((2**24, 2**31, 2**40, 2**63, 2**64 - 1)))
        else:
            out[at:at] = b"\xff" * rng.randint(1, 12)
    return bytes(out)


def damaged(folder: Path, seed: int, count: int) -> int:
    """Read so many damaged files; how many of them were told to be wrong."""
    rng = random.Random(seed)
    good = {}
    for form in FORMS:
        chakra.write(folder / f"good{form}", nodes())
        good[form] = (folder / f"good{form}").read_bytes()
    told = 0
    for k in range(count):
        form = FORMS[k % len(FORMS)]
        path = folder / f"bad.0{form}"
        if form == ".et.gz" and k % 8 < 4:  # damaged before it was compressed
            path.write_bytes(gzip.compress(mutated(rng, gzip.decompress(good[form])), 1))
        else:
            path.write_bytes(mutated(rng, good[form]) if rng.random() < 0.97 else rng.randbytes(rng.randrange(400)))
        began = time.process_time()
        try:
            graph = load(path)
            statistics(graph)
            faults = check({0: graph})
        except InputError as error:
            faults = [error]
        assert time.process_time() - began < 2, f"file {k} of seed {seed}"
        told += bool(faults)
        for fault in faults:
            assert "\n" not in str(fault)
            assert fault.file == str(path) or fault.key is not None
    return told


def test_damaged_files(tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # kB
    assert damaged(tmp_path, 1, 400) > 300
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


@pytest.mark.slow
def test_ten_thousand_damaged_files(tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert damaged(tmp_path, 2, 10_000) > 8_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000
