"""Collectives from files in whole runs: the times they take, data carried for real, files named from an experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyxsim import library
from pyxsim.collective.custom.export import to_chakra, to_msccl
from pyxsim.collective.lookup import get_schedule
from pyxsim.collective.plan import whole_bytes
from pyxsim.collective.sizes import block_sizes
from pyxsim.errors import InputError
from pyxsim.runner.lifecycle import run

RING = """
from pyxsim.collective.custom import Receive, Send

def forth(kind, n, rank):
    for step in range(n - 1):
        yield Send((rank + 1) % n, (rank - 1 - step) % n)
        yield Receive((rank - 1) % n, (rank - 2 - step) % n, reduce=True)
    for step in range(n - 1):
        yield Send((rank + 1) % n, (rank - step) % n)
        yield Receive((rank - 1) % n, (rank - 1 - step) % n)

def back(kind, n, rank):
    for step in range(n - 1):
        yield Send((rank - 1) % n, (rank + 1 + step) % n)
        yield Receive((rank + 1) % n, (rank + 2 + step) % n, reduce=True)
    for step in range(n - 1):
        yield Send((rank - 1) % n, (rank + step) % n)
        yield Receive((rank + 1) % n, (rank + 1 + step) % n)
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ring of the shelf as a program, as MSCCL XML and as traces, for 8 ranks."""
    library.load_all()
    folder = tmp_path_factory.mktemp("files")
    ring = get_schedule("all-reduce", "ring", 8)
    (folder / "ring.py").write_text(RING)
    (folder / "ring.xml").write_text(to_msccl(ring))
    to_chakra(ring, block_sizes(ring.kind, 8, ring.blocks, 1 << 20), folder / "ring")
    to_chakra(ring, block_sizes(ring.kind, 8, ring.blocks, 1 << 20), folder / "slow", reduction_micros=7)
    return folder


def time_of(folder: Path, algorithm: str, *, backend: str = "packet", shape: str = "[8]", **overrides: Any) -> int:
    path = folder / "experiment.toml"
    path.write_text(f"""
        [network]
        topology = "torus"
        shape = {shape}
        bandwidth = "50 GiB/s"
        latency = "500 ns"
        [system]
        queues = 1
        all_reduce = "{algorithm}"
        [collective]
        kind = "all-reduce"
        size = "1 MiB"
        """)
    given = [f"{key.replace('__', '.')}={value}" for key, value in overrides.items()]
    return int(run(path, backend=backend, overrides=given).time_ns)


def test_traces_take_the_time_that_astra_sim_2_has_measured(files: Path) -> None:
    """A ring of 8 with 7 us for each reduction: 14 * (500 + 131072 / 53.687) + 7 * 7000 ns, what ASTRA-sim 2 takes."""
    assert time_of(files, "slow.*.et", backend="analytical") == 14 * 2941 + 7 * 7000


@pytest.mark.parametrize("backend", ["packet", "analytical"])
@pytest.mark.parametrize("algorithm", ["ring.xml", "ring.py:forth", "ring.py:back", "ring.*.et"])
def test_the_ring_takes_as_long_from_a_file_as_from_the_shelf(files: Path, algorithm: str, backend: str) -> None:
    assert time_of(files, algorithm, backend=backend) == time_of(files, "ring", backend=backend)


@pytest.mark.parametrize("algorithm", ["ring.xml", "ring.py:forth", "ring.py:back"])
@pytest.mark.parametrize("size", ["1 B", "1000003 B"])
def test_data_are_carried(files: Path, algorithm: str, size: str) -> None:
    time_of(files, algorithm, output__carry="true", collective__size=size, system__chunks=3, system__queues=2)


def test_one_group_over_all_dimensions(files: Path) -> None:
    assert time_of(files, "one-ring.xml", shape="[4, 2]") == time_of(files, "one-ring", shape="[4, 2]")
    with pytest.raises(InputError, match=r"ring.xml does not support reduce-scatter"):
        time_of(files, "ring.xml", shape="[4, 2]")
    with pytest.raises(InputError, match=r"ring.xml: is for 8 GPUs, but the group has 4; .*'one-' before the path"):
        time_of(files, "ring.xml", shape="[4, 2]", system__optimization="baseline")


def test_the_key_and_the_file_are_told(files: Path) -> None:
    for name, problem in (
        ("nothing.xml", r"system.all_reduce: /.*nothing.xml: no such file"),
        (
            "ring.py",
            r"system.all_reduce: /.*ring.py: has 2 functions, and the name does not select one; .* one of forth, back",
        ),
        ("ring.0.et", r"system.all_reduce: /.*ring.0.et: is one trace; allowed: PREFIX"),
    ):
        with pytest.raises(InputError, match=problem):
            time_of(files, name)


def test_a_file_that_is_written_anew_is_read_anew(tmp_path: Path) -> None:
    """As in a notebook: other schedules under the same name, in one process, with the same experiment."""
    file = tmp_path / "mine.xml"
    for name in ("direct", "recursive-doubling", "direct"):
        file.write_text(to_msccl(get_schedule("all-reduce", name, 4)))
        times = []
        for algorithm in (str(file), name):
            experiment = {
                "network": {"topology": "switch", "shape": [4]},
                "system": {"all_reduce": algorithm},
                "collective": {"kind": "all-reduce", "size": "64 KiB"},
                "output": {"carry": True},
            }
            result = run(experiment)
            assert result.carried == 4
            times.append(result.time_cycles)
        assert times[0] == times[1]


WRITTEN = [
    ("all-reduce", "double-binary-tree", 8),
    ("all-reduce", "double-binary-tree:4", 5),
    ("reduce", "double-binary-tree", 6),
    ("broadcast", "double-binary-tree", 8),
    ("all-reduce", "direct:2", 6),
    ("all-to-all", "direct:2", 5),
    ("all-reduce", "bruck", 6),
    ("all-to-all", "bruck", 6),
    ("all-to-all", "ring", 5),
    ("all-to-all", "pairwise", 8),
    ("all-reduce", "bidirectional-ring", 6),
    ("all-reduce", "recursive-doubling", 6),
    ("all-reduce", "halving-doubling", 8),
    ("gather", "hierarchical", 8),
    ("all-gather", "hierarchical", 8),
    ("reduce-scatter", "multi-ring", 5),
]


@pytest.mark.parametrize(("kind", "name", "n"), WRITTEN)
def test_what_is_written_takes_as_long_as_the_shelf(tmp_path: Path, kind: str, name: str, n: int) -> None:
    """On wires that nobody shares. Messages that MSCCL cuts go side by side there, so these may be faster."""
    schedule = get_schedule(kind, name, n)
    size = 3840 * n * n
    (tmp_path / "a.xml").write_text(to_msccl(schedule))
    sizes = block_sizes(schedule.kind, n, schedule.blocks, whole_bytes(kind, size, n))
    to_chakra(schedule, sizes, tmp_path / "a")
    cut = int((~get_schedule(kind, str(tmp_path / "a.xml"), n).local).sum()) > int((~schedule.local).sum())

    def cycles(algorithm: str, *, carry: bool = False) -> int:
        experiment = {
            "network": {"topology": "fully-connected", "shape": [n], "latency": "500 ns"},
            "system": {kind.replace("-", "_"): algorithm},
            "collective": {"kind": kind, "size": f"{size} B"},
            "output": {"carry": carry},
        }
        result = run(experiment, backend="analytical")
        assert not carry or result.carried == n
        return int(result.time_cycles)

    own, told = cycles(name), cycles(str(tmp_path / "a.xml"), carry=True)
    assert cycles(str(tmp_path / "a.*.et")) == own
    assert told <= own if cut else told == own
