"""What an experiment has the NPUs do: which files are what, and what is refused before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyxsim import chakra
from pyxsim.chakra import Attribute, Node, NodeType
from pyxsim.errors import InputError
from pyxsim.network.backends import by_cost
from pyxsim.runner.lifecycle import run
from pyxsim.workload.readers import reader_of

TEXT = "MICRO\n1\nlayer -1 5 NONE 0 5 NONE 0 5 ALLREDUCE 65536 5\n"


def traces(folder: Path, npus: int = 4, group: str = "") -> str:
    """A computation of 2 us, then an all-reduce of 4 KiB; the traces of all NPUs."""
    attributes = [Attribute("comm_type", "int64_val", 0), Attribute("comm_size", "int64_val", 4096)]
    attributes += [Attribute("pg_name", "string_val", group)] if group else []
    for npu in range(npus):
        nodes = [
            Node(0, "think", NodeType.COMP, duration_micros=2),
            Node(1, "sum", NodeType.COMM_COLL, data_deps=[0], attr=attributes),
        ]
        chakra.write(folder / f"w.{npu}.et", nodes)
    return str(folder / "w")


def experiment(file: object, **others: Any) -> dict[str, Any]:
    network = {"topology": "ring", "shape": [4], "bandwidth": "50 GB/s", "latency": "500 ns"}
    system = others.pop("system", {})
    return {"network": network, "system": system, "workload": {"file": str(file), **others}}


@pytest.mark.parametrize("backend", by_cost())
def test_traces_on_every_backend(tmp_path: Path, backend: str) -> None:
    once = run(experiment(traces(tmp_path)), backend=backend)
    assert once.time_ns > 2000 + 6 * 500
    assert [each["name"] for each in once.collectives] == ["sum"]
    twice = run(experiment(tmp_path / "w.*.et", passes=2), backend=backend)
    assert twice.time_ns == 2 * once.time_ns
    assert len(twice.collectives) == 2


def test_groups(tmp_path: Path) -> None:
    traces(tmp_path, group="3")
    (tmp_path / "g.json").write_text('{"3": [2, 0, 1, 3]}')
    file = tmp_path / "e.toml"  # relative paths count from its folder
    file.write_text(
        '[network]\ntopology = "ring"\nshape = [4]\nbandwidth = "50 GB/s"\nlatency = "500 ns"\n'
        '[workload]\nfile = "w"\ngroups = "g.json"\n'
    )
    assert run(file, backend="analytical").collectives[0]["group"] == "npus 2,0,1,3"
    with pytest.raises(InputError, match=r"^workload.file: .*w\.0\.et: .* '3'"):
        run(experiment(tmp_path / "w"))
    (tmp_path / "g.json").write_text('{"3": [2, 0, 1, 4]}')
    with pytest.raises(InputError, match=r"g\.json: 3: has rank 4; allowed: 0 to 3"):
        run(experiment(tmp_path / "w", groups=str(tmp_path / "g.json")))


def test_files_that_are_nothing(tmp_path: Path) -> None:
    (tmp_path / "noise").write_bytes(b"\x00\xff\xfe\x00")
    (tmp_path / "noise.et").write_bytes(b"\x00\xff\xfe\x00")
    (tmp_path / "text").write_text(TEXT)
    (tmp_path / "folder").mkdir()
    problems = {
        "noise": "noise:1: is not a text",
        "noise.et": "there is no trace of NPU 1",
        "folder": "folder: is a folder",
        "tex": "tex: no such file; did you mean 'text'",
        "w.*.et": "no such traces exist",
    }
    for name, problem in problems.items():
        with pytest.raises(InputError, match=rf"^workload\.file: .*{problem}") as caught:
            run(experiment(tmp_path / name))
        assert "\n" not in str(caught.value)
    with pytest.raises(
        InputError,
        match=r"^workload.groups: the reader 'astra-sim-1' of .*text does not use this setting; allowed: .*'chakra'",
    ):
        run(experiment(tmp_path / "text", groups="g.json"))
    with pytest.raises(
        InputError,
        match=r"^system.npu: the reader 'astra-sim-1' of .*text does not use this setting; allowed: .*'model'",
    ):
        run(experiment(tmp_path / "text", system={"npu": {"device": "h100", "roofline": True}}))


def test_version_1_has_no_traces(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^system.compat: .*only ASTRA-sim 2 reads Chakra traces; allowed"):
        run(experiment(traces(tmp_path), system={"compat": "astra-sim-1"}))


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({}, "workload.file: is missing"),
        ({"file": "w", "model": "gpt3"}, "workload.model: cannot be combined with `file`; allowed: one of them"),
        ({"model": "gpt3", "groups": "g"}, "workload.groups: requires traces"),
    ],
)
def test_what_a_workload_is_made_of(table: dict[str, str], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        run({**experiment("w"), "workload": table})


READER = '''
from pathlib import Path
from pyxsim.registry import readers
from pyxsim.workload.graph import GraphBuilder, Kind

@readers.register("waits", endings=(".waits", ".et.waits"))
def read(name, context):
    """One computation of so many cycles at each NPU."""
    builder = GraphBuilder(context.topology.npus)
    for npu in range(context.topology.npus):
        builder.task(npu, Kind.COMPUTE, ticks=int(Path(name).read_text()), resource="compute")
    return builder.graph()
'''


def test_a_reader_of_a_users_library(tmp_path: Path) -> None:
    (tmp_path / "mine" / "readers").mkdir(parents=True)
    (tmp_path / "mine" / "readers" / "waits.py").write_text(READER)
    (tmp_path / "w.et.waits").write_text("7")
    once = run(experiment(tmp_path / "w.et.waits", passes=2), backend="analytical", libraries=[tmp_path / "mine"])
    assert once.time_cycles == 2 * 7
    problem = r"^workload.compute_scale: the reader 'waits' of .*w.et.waits does not use this setting"
    with pytest.raises(InputError, match=problem):
        run(experiment(tmp_path / "w.et.waits", compute_scale=2), backend="analytical", libraries=[tmp_path / "mine"])


def test_which_reader_reads_what(tmp_path: Path) -> None:
    traces(tmp_path)
    names = {
        "w": "chakra",
        "w.*.et": "chakra",
        "x.json.gz": "chakra",
        "none": "astra-sim-1",
        "model.txt": "astra-sim-1",
    }
    assert {name: reader_of(str(tmp_path / name)).name for name in names} == names
    assert reader_of("gpt3-175b", "model").name == "model"
