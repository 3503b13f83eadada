"""The three ways in which pyxsim reaches a user: a wheel, a wheel built from the source archive, an editable install.

Each is tried in its own environment, from a folder that is not the tree, with a copy of the tree that git would
give. The environments see the libraries of the one that runs the tests (numpy, ..., setuptools, Cython) through a .pth
file, so nothing is downloaded; they do not see its pyxsim, because a .pth file in a folder so added is not read.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import pytest

pytestmark = pytest.mark.slow

SHELVES = ("topologies", "routings", "patterns", "collectives")
# What an installed pyxsim says of itself: where it is, which engine it has, what its shelves hold.
PROBE = """
import json, sys
import pyxsim
from pyxsim import library, registry
from pyxsim.core import engine
library.load_all()
print(json.dumps({
    "package": pyxsim.__file__, "version": pyxsim.__version__, "build": engine.build_info["kind"],
    "topologies": registry.topologies.names(), "patterns": registry.patterns.names(),
    "collectives": registry.collectives.names(),
    "routings": sorted({*registry.grid_routings, *registry.graph_routings}),
    "shelf": sys.modules["pyxsim_library.topologies.ring"].__file__,
}))
"""


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    """Standard output of a command; its whole output is the error text when it fails."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYXSIM_", "PYTHON"))}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**clean, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


@dataclass
class Installed:
    """An environment with pyxsim in it, seen from an empty folder."""

    prefix: Path
    away: Path

    @property
    def python(self) -> Path:
        return self.prefix / "bin" / "python"

    def probe(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(run(self.python, "-c", PROBE, cwd=self.away))
        return answer


@pytest.fixture
def environment(tmp_path: Path) -> Installed:
    prefix, away = tmp_path / "env", tmp_path / "away"
    away.mkdir()
    run(sys.executable, "-m", "venv", "--without-pip", prefix, cwd=away)
    inside = run(prefix / "bin" / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=away)
    libraries = Path(numpy.__file__).parent.parent
    (Path(inside.strip()) / "libraries.pth").write_text(f"{libraries}\n", encoding="utf-8")
    return Installed(prefix, away)


def pip_install(environment: Installed, *what: str | Path, **variables: str) -> None:
    pip = (sys.executable, "-m", "pip", "--python", environment.python, "--quiet", "--disable-pip-version-check")
    run(*pip, "install", "--no-index", "--no-deps", "--no-build-isolation", *what, cwd=environment.away, **variables)


@pytest.fixture(scope="session")
def archive(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source archive, made from a clean copy of the tree."""
    copy = clean_copy(tree, tmp_path_factory.mktemp("archive"))
    code = "import setuptools.build_meta as backend; backend.build_sdist('dist')"
    run(sys.executable, "-c", code, cwd=copy)
    (found,) = (copy / "dist").glob("pyxsim-*.tar.gz")
    return found


@pytest.fixture(scope="session")
def wheel(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, made from a clean copy of the tree."""
    return build_wheel(clean_copy(tree, tmp_path_factory.mktemp("wheel")))


def clean_copy(tree: Path, folder: Path) -> Path:
    """The tree without anything that builds or runs have left in it."""
    kept_out = shutil.ignore_patterns(
        ".git", ".venv", ".*_cache", ".hypothesis", "build", "dist", "*.egg-info", "*.so", "__pycache__"
    )

    def left_out(place: str, names: list[str]) -> set[str]:
        of_runs = {"results"} if Path(place) == tree else set()  # pyxsim/results is a package
        return kept_out(place, names) | of_runs

    return Path(shutil.copytree(tree, folder / "tree", ignore=left_out))


def build_wheel(source: Path) -> Path:
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    run(*pip, "wheel", "--no-index", "--no-deps", "--no-build-isolation", "-w", "dist", ".", cwd=source)
    (found,) = (source / "dist").glob("pyxsim-*.whl")
    return found


def contents(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as file:
        return set(file.namelist())


def shelf_files(tree: Path) -> set[str]:
    names = (path for shelf in SHELVES for path in (tree / shelf).iterdir())
    return {path.relative_to(tree).as_posix() for path in names if path.suffix in (".py", ".toml", ".graphml")}


def made_files(tree: Path, names: Iterable[str], suffixes: tuple[str, ...]) -> list[str]:
    """The files that a build makes. C and C++ without a .pyx beside it, such as that of libpyxsim, is a source."""

    def made(name: str) -> bool:
        return not name.endswith((".c", ".cpp")) or (tree / name).with_suffix(".pyx").is_file()

    return [name for name in names if name.endswith(suffixes) and made(name)]


def test_the_archive_holds_sources_only(tree: Path, archive: Path) -> None:
    with tarfile.open(archive) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    assert not made_files(tree, names, (".c", ".cpp", ".so", ".o", ".pyc"))
    assert not [name for name in names if name.startswith((".venv", "build", "results"))]
    sources = {path.relative_to(tree).as_posix() for path in (tree / "pyxsim").rglob("*.p[yx][xdi]")}
    assert sources
    others = {"pyproject.toml", "Makefile", "README.md", "LICENSE", "docs/index.md", "tests/conftest.py", ".ci/run"}
    wanted = sources | shelf_files(tree) | others
    assert wanted <= names, sorted(wanted - names)


def test_the_wheel_holds_the_package_and_the_shelves(tree: Path, wheel: Path) -> None:
    names = contents(wheel)
    assert not made_files(tree, names, (".c", ".cpp", ".o", ".pyc"))
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"pyxsim"}
    package = {
        path.relative_to(tree).as_posix()
        for path in (tree / "pyxsim").rglob("*")
        if path.suffix in (".py", ".pyx", ".pxd", ".pyi") or path.name == "py.typed"
    }
    wanted = package | {f"pyxsim/_library/{name}" for name in shelf_files(tree)}
    assert wanted <= names, sorted(wanted - names)
    modules = {path.relative_to(tree).with_suffix("").as_posix() for path in (tree / "pyxsim").rglob("*.pyx")}
    modules.add("pyxsim/_views")  # what Cython's memory views need, once for all
    assert modules == {name.split(".")[0] for name in names if name.endswith(".so")}


def test_the_archive_builds_the_same_wheel(wheel: Path, archive: Path, tmp_path: Path) -> None:
    with tarfile.open(archive) as file:
        # Python knows filters since 3.11.4.
        file.extractall(tmp_path, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    (source,) = tmp_path.iterdir()
    assert contents(build_wheel(source)) == contents(wheel)


def test_a_wheel_works_away_from_the_tree(wheel: Path, environment: Installed) -> None:
    pip_install(environment, wheel)
    answer = environment.probe()
    assert str(answer["package"]).startswith(str(environment.prefix))
    assert str(answer["shelf"]).startswith(str(environment.prefix))
    assert answer["build"] == "release"
    assert {"ring", "torus"} <= set(answer["topologies"])
    assert "ring" in answer["collectives"]
    assert "run" in run(environment.prefix / "bin" / "pyxsim", "--help", cwd=environment.away)
    assert "run" in run(environment.python, "-m", "pyxsim", "--help", cwd=environment.away)


def test_an_experiment_runs_from_a_wheel(tree: Path, wheel: Path, environment: Installed) -> None:
    pip_install(environment, wheel)
    experiment = shutil.copy(tree / "inputs" / "torus_all_reduce.toml", environment.away)
    run(environment.prefix / "bin" / "pyxsim", "run", experiment, "-o", "out.h5", cwd=environment.away)
    assert (environment.away / "out.h5").stat().st_size > 0


def test_an_editable_install_shows_the_tree_and_its_build(tree: Path, environment: Installed, tmp_path: Path) -> None:
    copy = clean_copy(tree, tmp_path)
    # Release again, with nothing else changed: the debug modules are newer than their sources and must go all the same.
    for build in ("release", "debug", "release"):
        pip_install(environment, "--editable", copy, PYXSIM_DEBUG=str(int(build == "debug")))
        answer = environment.probe()
        assert str(answer["package"]) == str(copy / "pyxsim" / "__init__.py")
        assert str(answer["shelf"]) == str(copy / "topologies" / "ring.py")
        assert answer["build"] == build
    # A new file of a shelf is there at once, without another installation.
    (copy / "topologies" / "mine.py").write_text(
        "from pyxsim.registry import topologies\n\n\n@topologies.register('mine')\ndef mine():\n    return None\n",
        encoding="utf-8",
    )
    assert "mine" in environment.probe()["topologies"]
