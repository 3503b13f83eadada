"""Check this installation. Modules are imported one by one, because any of them may be broken."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from pyxsim import __version__
from pyxsim.errors import PyxsimError

ENOUGH_MEMORY = 4 * 10**9  # bytes, for networks of some thousand NPUs
OLDEST_PYTHON = (3, 11)
REQUIRED = ("numpy", "h5py", "networkx", "pydantic", "typer", "rich")
EXTRAS = {"report": ("matplotlib",), "xarray": ("xarray", "h5netcdf", "netCDF4"), "scalesim": ("scalesim",)}


class Diagnosis(NamedTuple):
    """The finding about one item. `ok`: True if it works, False if it is broken, None for information."""

    name: str
    ok: bool | None
    text: str


def _looked(name: str, look: Callable[[], Iterator[Diagnosis]]) -> list[Diagnosis]:
    items: list[Diagnosis] = []
    try:
        items.extend(look())
    except Exception as error:  # the doctor reports whatever is broken here
        text = str(error) if isinstance(error, PyxsimError) else f"{type(error).__name__}: {error}"
        items.append(Diagnosis(name, False, " ".join(text.split())))
    return items


def _python() -> Iterator[Diagnosis]:
    version = platform.python_version()
    supported = sys.version_info >= OLDEST_PYTHON
    need = "" if supported else f"; pyxsim needs {'.'.join(map(str, OLDEST_PYTHON))} or newer"
    yield Diagnosis("python", supported, f"{version}, {sys.executable}{need}")
    yield Diagnosis("pyxsim", True, f"{__version__}, {Path(__file__).resolve().parent.parent}")


def _packages() -> Iterator[Diagnosis]:
    for package in REQUIRED:
        version = _version(package)
        yield Diagnosis(package, version is not None, version or f"missing: pip install {package}")


def _extras() -> Iterator[Diagnosis]:
    for extra, packages in EXTRAS.items():
        for package in packages:
            version = _version(package)
            yield Diagnosis(
                package, True if version else None, version or f"not installed: pip install 'pyxsim[{extra}]'"
            )


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _engine() -> Iterator[Diagnosis]:
    from pyxsim.core import engine

    kind = engine.build_info["kind"]
    note = "" if "debug" not in kind else ": bounds checks and self-check, several times slower"
    yield Diagnosis("engine", True, f"{kind} build{note}, {engine.__file__}")


def _shelves() -> Iterator[Diagnosis]:
    from pyxsim import library
    from pyxsim.registry import blocks, collectives, graph_routings, grid_routings, patterns, topologies

    library.load_all()
    shelves = {
        "topologies": (topologies, blocks),
        "routings": (grid_routings, graph_routings),
        "patterns": (patterns,),
        "collectives": (collectives,),
    }
    for shelf, registries in shelves.items():
        folders = ", ".join(map(str, library.shelf_dirs(shelf))) or "no folder"
        count = sum(map(len, registries))
        yield Diagnosis(shelf, count > 0, f"{count} entries, {folders}")


def _output() -> Iterator[Diagnosis]:
    from pyxsim.results.hdf5 import check_writable

    check_writable(Path.cwd() / "pyxsim-doctor.h5")
    yield Diagnosis("output", True, f"this folder can be written, {Path.cwd()}")


def _memory() -> Iterator[Diagnosis]:
    from pyxsim.peak_memory import memory_limit

    limit = memory_limit()
    if limit is None:
        yield Diagnosis("memory", True, "no limit for this process")
        return
    nbytes, name = limit
    problem = f"{name} limits it to {nbytes / 1e9:.3g} GB"
    if nbytes < ENOUGH_MEMORY:
        problem += "; large networks require more; raise the limit or simulate fewer NPUs"
    yield Diagnosis("memory", None if nbytes < ENOUGH_MEMORY else True, problem)


def _self_test() -> Iterator[Diagnosis]:
    """A ring all-reduce whose time is known in closed form, and its file."""
    from pyxsim.collective.closed_form import neighbour_time, ring_all_reduce_time
    from pyxsim.results.result import Result
    from pyxsim.runner.lifecycle import run

    npus, size, flit, packet, latency = 4, 1 << 20, 256, 4096, 500
    # At 1 GHz a nanosecond is a cycle, and 100 GB/s are 100 bytes per cycle.
    width = 100
    experiment: dict[str, Any] = {
        "network": {
            "topology": "ring",
            "shape": [npus],
            "clock": "1 GHz",
            "bandwidth": f"{width} GB/s",
            "latency": f"{latency} ns",
            "flit": f"{flit} B",
            "packet": f"{packet} B",
        },
        "system": {"all_reduce": "ring"},
        "collective": {"kind": "all-reduce", "size": f"{size} B"},
    }
    result = run(experiment)
    expected = ring_all_reduce_time(
        npus,
        size,
        lambda nbytes: neighbour_time(nbytes, flit=flit, packet=packet, s=Fraction(flit, width), latency=latency),
    )
    correct = result.time_cycles == expected
    problem = f"a ring all-reduce took {result.time_cycles} cycles; the closed form gives {expected}"
    yield Diagnosis("self-test", correct, problem)
    with tempfile.TemporaryDirectory() as folder:
        result.save(Path(folder) / "self-test.h5")
        back = Result.load(Path(folder) / "self-test.h5")
    yield Diagnosis("HDF5", back.json() == result.json(), "the file of this run reads back correctly")


_CHECKS: dict[str, Callable[[], Iterator[Diagnosis]]] = {
    "python": _python,
    "packages": _packages,
    "engine": _engine,
    "extras": _extras,
    "shelves": _shelves,
    "output": _output,
    "memory": _memory,
    "self-test": _self_test,
}


def doctor() -> list[Diagnosis]:
    """Check this installation: versions, build of the engine, shelves, and a run with a known result.

    Returns
    -------
    list of Diagnosis
        One for each item examined; `ok` is False if it is broken, None if it is only information.
    """
    return [finding for name, look in _CHECKS.items() for finding in _looked(name, look)]
