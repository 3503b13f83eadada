"""Allocators of a user (docs/extending_allocator.md): copies equal the built-in ones, and faults give one line."""

from __future__ import annotations

import math
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import pyxsim
from pyxsim import diff
from pyxsim.errors import InputError
from pyxsim.runner.checkpoint import checkpoint_file
from pyxsim.runner.checkpoint.writer import CheckpointWriter
from pyxsim.runner.hooks import ProgressHooks
from pyxsim.runner.lifecycle import simulate
from pyxsim.runner.prepare import prepare
from pyxsim.settings import load_experiment
from tests.cli.inputs import Command
from tests.runner.checkpoint.test_checkpoint import Boundaries, assert_same, everything

SENDS = [(src, dst, at) for at in (0, 40) for src in range(9) for dst in (0, 4, 8 - src) if src != dst]


@pytest.fixture
def mine(folder: Path) -> Path:
    shelf = folder / "mine" / "allocators"
    shelf.mkdir(parents=True)
    return Path(shutil.copy(Path(__file__).with_name("user_allocators.py"), shelf / "test_allocators.py"))


def experiment(va: str, sa: str, **router: Any) -> Any:
    """A torus with messages to few destinations."""
    return load_experiment(
        {
            "network": {
                "topology": "torus",
                "shape": [3, 3],
                "latency": "5 ns",
                "packet": "256 B",
                "router": {"va_allocator": va, "sa_allocator": sa, "vcs": 2, **router},
            },
            "message": [{"src": s, "dst": d, "size": "512 B", "at": f"{at} ns"} for s, d, at in SENDS],
        }
    )


def differing(first: Any, second: Any) -> set[str]:
    found = {each.name for each in diff(first, second).differences}
    return {name for name in found if not name.startswith(("/@experiment", "/@sha256"))}


PAIRS = [
    ("islip:2", "my-islip:2", {"speculation": True}),
    ("separable-input-first", "my-input-first", {}),
    ("age", "my-age", {"input_speedup": 2, "internal_speedup": 2}),
]


@pytest.mark.parametrize(("shipped", "copy", "router"), PAIRS, ids=[copy for _, copy, _ in PAIRS])
def test_a_copy_equals_the_built_in_one(mine: Path, shipped: str, copy: str, router: dict[str, Any]) -> None:
    """On the packet backend, also with attribution and in threads."""
    # SA of separable-input-first picks VCs, not outputs: a matrix of another kind.
    sa = ("islip", "my-islip") if shipped == "separable-input-first" else (shipped, copy)
    for overrides in ([], ["output.attribution='links'"], ["run.threads=2"]):
        built_in, own = (
            pyxsim.run(experiment(va, switch, **router), libraries=["mine"], overrides=overrides)
            for va, switch in zip((shipped, copy), sa, strict=True)
        )
        assert differing(built_in, own) == set()


@pytest.mark.parametrize("name", ["my-islip:2", "random"])
def test_the_reference_calls_it_alike(mine: Path, name: str) -> None:
    packet, reference = (
        pyxsim.run(experiment(name, name, speculation=True), libraries=["mine"], backend=backend)
        for backend in ("packet", "reference")
    )
    assert differing(packet, reference) == set()


def test_fast_forward_needs_a_stateless_allocator(mine: Path, pyxsim: Command) -> None:
    long = ("--set", "collective.kind=all-gather", "--set", "collective.size=512 KiB", "--library", "mine")
    told = pyxsim("run", "small.toml", *long, "--set", "network.router.sa_allocator=my-islip", "--set", "run.threads=1")
    assert "the allocator 'my-islip' is not registered as stateless" in told.out + told.err


def checkpoints(path: str, **options: Any) -> ProgressHooks:
    return ProgressHooks(checkpoints=CheckpointWriter(path, math.inf, libraries=["mine"], **options))


@pytest.mark.parametrize("name", ["my-islip:2", "random"])
def test_a_checkpoint_holds_its_attributes(mine: Path, tmp_path: Path, name: str) -> None:
    tables = experiment(name, name)
    path = tmp_path / "run.checkpoint"
    boundaries = Boundaries()
    whole = simulate(prepare(tables, libraries=["mine"]), hooks=checkpoints("", stop_requested=boundaries))
    left = checkpoints(str(path), stop_requested=Boundaries(boundaries.count // 2), warn=pytest.fail)
    assert not simulate(prepare(tables, libraries=["mine"]), hooks=left).complete
    _, (prepared, _) = checkpoint_file.read(path)
    resumed = simulate(prepared)
    assert_same(everything(whole, tmp_path / "whole.h5"), everything(resumed, tmp_path / "resumed.h5"))


def test_attributes_that_do_not_pickle_leave_no_checkpoint(mine: Path, tmp_path: Path) -> None:
    told: list[str] = []
    hooks = checkpoints(str(tmp_path / "run.checkpoint"), stop_requested=Boundaries(1), warn=told.append)
    simulate(prepare(experiment("rotating", "not-picklable"), libraries=["mine"]), hooks=hooks)
    assert len(told) == 1
    assert "this run writes no checkpoints" in told[0]


FAULTS = {
    "fails": r"test_allocators.py:\d+: ZeroDivisionError: ",
    "other": r"test_allocators.py:\d+: the allocator 'other' granted Request\(.*\), which was not requested",
    "twice": r"test_allocators.py:\d+: the allocator 'twice' granted input \d+ twice",
    "nothing": r"test_allocators.py:\d+: the allocator 'nothing' returned None",
    "pairs": r"test_allocators.py:\d+: the allocator 'pairs' granted \(\d+, \d+\), which was not requested",
    "array": r"test_allocators.py:\d+: the allocator 'array' granted array\(.*\), which was not requested",
    "starves": r"test_allocators.py:\d+: the allocator 'starves' granted nothing in 10,000 calls in a row",
    "no-constructor": r"test_allocators.py:\d+: the allocator 'no-constructor' fails: TypeError",
}


@pytest.mark.parametrize("backend", ["packet", "reference"])
@pytest.mark.parametrize("name", [name for name in FAULTS if name != "starves"])
def test_a_fault_is_one_line(mine: Path, pyxsim: Command, name: str, backend: str) -> None:
    words = ("--library", "mine", "--backend", backend, "--set", f"network.router.sa_allocator={name}")
    ended = pyxsim("run", "small.toml", *words)
    assert ended.code == 2
    assert len(ended.lines) == 1
    assert re.search(FAULTS[name], ended.lines[0])


def test_an_allocator_that_grants_nothing_ends_the_run(mine: Path) -> None:
    with pytest.raises(InputError, match=FAULTS["starves"]):
        pyxsim.run(experiment("rotating", "starves"), libraries=["mine"])


def test_a_fault_in_a_thread_ends_the_run(mine: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        pyxsim.run(experiment("rotating", "fails"), libraries=["mine"], overrides=["run.threads=2"])


def test_the_stage_counts(mine: Path) -> None:
    with pytest.raises(InputError, match=r"network.router.va_allocator: the allocator 'only-sa' does not serve VA"):
        pyxsim.run(experiment("only-sa", "only-sa"), libraries=["mine"])
