"""What holds for every test: slow ones only on demand, one way to draw examples, and the expected build of the core."""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from pyxsim import library
from pyxsim.peak_memory import resident_mb
from pyxsim.registry import REGISTRIES
from pyxsim.results import hdf5_check
from pyxsim.runner import run_result
from pyxsim.runner.prepared import Prepared
from pyxsim.study.sweep import crew
from pyxsim.workload import IssuedCollective
from tests import examples, fork_server

MUCH_MB = 300  # of garbage in a process of tests

# No test depends on what another run has proved, nor writes into the user's cache.
os.environ.setdefault("PYXSIM_CACHE", "")
if "PYXSIM_CONFIG" not in os.environ:  # where the key of checkpoints is made; processes that tests start share it
    os.environ["PYXSIM_CONFIG"] = tempfile.mkdtemp(prefix="pyxsim-config-")
    atexit.register(shutil.rmtree, os.environ["PYXSIM_CONFIG"], ignore_errors=True)
# validation/ and benchmarks/ are packages of the checkout, not of the wheel. Last: the installed pyxsim comes first.
sys.path.append(str(Path(__file__).resolve().parents[1]))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", default=False, help="run the tests marked slow, too")


def pytest_configure(config: pytest.Config) -> None:
    # To look for garbage at every 700 new objects, as Python has it, was a twelfth of the time of all tests.
    gc.set_threshold(50_000, 10, 10)
    examples.draw(whole=config.getoption("--slow"))
    # No deadline: a shared machine is slow when it likes. In CI the examples are the same in every run.
    # Tests without a number of their own take no seconds: twice the usual share.
    profile = "ci" if os.environ.get("CI") else "local"
    number = 100 if config.getoption("--slow") else 20
    settings.register_profile(profile, deadline=None, derandomize=profile == "ci", max_examples=number)
    settings.load_profile(profile)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--slow"):
        return
    skip = pytest.mark.skip(reason="slow: run with --slow (make validate)")
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(skip)


def pytest_collection_finish(session: pytest.Session) -> None:
    """What is there by now stays to the end: some hundred thousand objects, through which the collector of garbage need
    not go again and again."""
    gc.collect()
    gc.freeze()


def build_of_the_core() -> tuple[str, str]:
    """("release" or "debug", the file of the engine that `import` finds)."""
    from pyxsim.core import engine

    return str(engine.build_info["kind"]), str(engine.__file__)


def pytest_report_header(config: pytest.Config) -> str:
    try:
        kind, file = build_of_the_core()
    except ImportError as error:
        return f"pyxsim core: not built ({error})"
    return f"pyxsim core: {kind} build, {file}"


def pytest_sessionstart(session: pytest.Session) -> None:
    """Refuse to test another build than the Makefile means: an old one looks just like a new one."""
    expected = os.environ.get("PYXSIM_EXPECT_BUILD")
    if expected:
        kind, file = build_of_the_core()
        if kind != expected:
            pytest.exit(f"expected a {expected} build of the core, found a {kind} build: {file}", returncode=3)


@pytest.fixture(scope="session", autouse=True)
def loaded() -> None:
    """Once: to look whether all files of the shelves are there takes a millisecond, for each of some thousand tests."""
    library.load_all()


@pytest.fixture(scope="session")
def collected_at() -> list[float]:
    """The memory of this process in MB when garbage was looked for last."""
    return [resident_mb()]


@pytest.fixture(scope="module", autouse=True)
def collected(collected_at: list[float]) -> Iterator[None]:
    """What the tests of a file have made and forgotten is gone when it is much: runs and networks are circles of
    objects. After each file it would take a tenth of the time of all tests."""
    yield
    if resident_mb() > collected_at[0] + MUCH_MB:
        gc.collect()
        collected_at[0] = resident_mb()


@pytest.fixture(autouse=True)
def shelves_as_before(loaded: None) -> Iterator[None]:
    """What a test puts on the shelves from a library of its own is gone after it: others draw from what is there."""
    before = {id(shelf): set(shelf._entries) for shelf in REGISTRIES}
    yield
    for shelf in REGISTRIES:
        names = before.get(id(shelf), set())  # a test may make a registry, and of the same kind
        for module in {entry.module for name, entry in shelf._entries.items() if name not in names}:
            if not module.startswith("pyxsim."):  # which registers once, when it is imported
                shelf.discard(module)


@pytest.fixture(scope="session", autouse=True)
def no_collective_beats_its_optimum(loaded: None) -> None:
    """Whatever a test simulates in this process takes at least the time below which no algorithm gets."""
    row_of = run_result.collective_row

    def checked(prepared: Prepared, collective: IssuedCollective, bound: Fraction) -> dict[str, Any]:
        row = row_of(prepared, collective, bound)
        if row["end"] >= 0 and prepared.network.capabilities.congestion:  # else messages share links for nothing
            took = row["end"] - row["start"]
            assert not took < row["optimum"], f"{took} cycles, below {prepared.optimum_of(collective.per_group)}: {row}"
        return row

    run_result.collective_row = checked


@pytest.fixture(scope="session", autouse=True)
def forked_workers() -> None:
    """The workers of a sweep begin as copies of one process, which has imported all that they import."""
    crew.subprocess = fork_server  # type: ignore[assignment,attr-defined]


@pytest.fixture
def new_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The workers of a sweep are new processes in this test, as they are for a user."""
    monkeypatch.setattr(crew, "subprocess", subprocess)


@pytest.fixture(scope="session", autouse=True)
def rough_figures(request: pytest.FixtureRequest) -> dict[str, Callable[..., None]]:
    """Figures are drawn without their layout and with few pixels, which takes a third of the time; in tests/reports
    and with --slow they are drawn as for a user. Return the functions that do that, by name, where matplotlib is."""
    try:
        engine = importlib.import_module("matplotlib.layout_engine").ConstrainedLayoutEngine
        figure = importlib.import_module("matplotlib.figure").Figure
    except ImportError:
        return {}
    execute, savefig = engine.execute, figure.savefig
    if not request.config.getoption("--slow"):
        engine.execute = lambda *_: None
        figure.savefig = lambda page, target, **options: savefig(page, target, **{**options, "dpi": 20})
    return {
        "matplotlib.layout_engine.ConstrainedLayoutEngine.execute": execute,
        "matplotlib.figure.Figure.savefig": savefig,
    }


_in_a_fork = hdf5_check._in_a_fork


@pytest.fixture(scope="session", autouse=True)
def checks_of_hdf5() -> None:
    """HDF5 files are checked in this process, by the same function: a fork of a process of tests takes ten times as
    long. Processes that tests start fork, and so do tests that use `forked_checks`."""
    hdf5_check._in_a_fork = lambda name, seconds: hdf5_check.inspect(name)


@pytest.fixture
def forked_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """HDF5 files are checked in forks in this test, as for a user: for files that may crash the library."""
    monkeypatch.setattr(hdf5_check, "_in_a_fork", _in_a_fork)


@pytest.fixture(scope="session")
def tree() -> Path:
    """The folder of the source tree."""
    return Path(__file__).resolve().parent.parent
