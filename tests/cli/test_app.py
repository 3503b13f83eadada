"""The command itself: help, version, speed, bugs; and the package as a library."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import pyxsim as package
from pyxsim.cli.commands import app
from tests.cli.inputs import SMALL, Command, environment

COMMANDS = ["run", "check", "list", "topology", "doctor", "astra"]


def test_version(pyxsim: Command) -> None:
    assert pyxsim("--version").out == f"pyxsim {package.__version__}\n"


def test_help(pyxsim: Command) -> None:
    ended = pyxsim("--help")
    assert (ended.code, ended.err) == (0, "")
    for command in COMMANDS:
        assert f"  {command} " in ended.out
    assert "..." not in ended.out.partition("Commands:")[2]  # no description is cut off


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_has_its_help(pyxsim: Command, command: str) -> None:
    ended = pyxsim(command, "-h")
    assert ended.code == 0
    options = ended.out.partition("Options:")[2].strip().splitlines()
    assert all(len(line.split("  ")[-1].strip()) > 5 for line in options)


def test_without_a_command(pyxsim: Command) -> None:
    ended = pyxsim()
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("Usage: pyxsim")


def test_with_the_runner_of_typer(folder: Path) -> None:
    runner = CliRunner()
    assert runner.invoke(app, ["run", "small.toml", "--json"]).exit_code == 0
    assert runner.invoke(app, ["run", "none.toml"]).exit_code == 2
    assert runner.invoke(app, ["run", "deadlock.toml"]).exit_code == 3


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys, pyxsim; heavy = {'numpy', 'h5py', 'pydantic', 'networkx', 'rich', 'matplotlib'};"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules);"
        "from pyxsim.cli.app import main; main(['--help']); print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    # typer itself may bring some of them; what counts is that the simulator stays out.
    assert "numpy" not in done.stderr
    assert "h5py" not in done.stderr


def test_a_run_imports_neither_graphs_nor_pictures(folder: Path) -> None:
    """They take longer to load than such a run to simulate."""
    code = (
        "import sys; from pyxsim.cli.app import main; code = main(['run', 'small.toml', '--quiet', '-o', 'out.h5']);"
        "print(sorted({'networkx', 'matplotlib', 'xarray'} & set(sys.modules))); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "[]"), done.stderr


def test_a_bug_is_one_line(pyxsim: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def bug(*_: object, **__: object) -> None:
        raise ZeroDivisionError("division\nby zero")

    monkeypatch.setattr("pyxsim.cli.simulate.run_experiment", bug)
    monkeypatch.delenv("PYXSIM_TRACEBACK", raising=False)
    ended = pyxsim("run", "small.toml")
    assert ended.code == 1
    assert ended.lines == [
        "pyxsim: this is a bug of pyxsim: ZeroDivisionError: division by zero; PYXSIM_TRACEBACK=1 shows where"
    ]
    monkeypatch.setenv("PYXSIM_TRACEBACK", "1")
    ended = pyxsim("run", "small.toml")
    assert ended.code == 1
    assert "Traceback (most recent call last)" in ended.err
    assert ended.lines[-1] == "pyxsim: this is a bug of pyxsim: ZeroDivisionError: division by zero"


def test_too_little_memory_is_no_bug(pyxsim: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise MemoryError("for the state of the network")

    monkeypatch.setattr("pyxsim.cli.simulate.run_experiment", fail)
    ended = pyxsim("run", "small.toml")
    assert (ended.code, ended.lines) == (1, [ended.lines[0]])
    assert ended.lines[0].startswith("pyxsim: not enough memory for the state of the network; ")
    assert "fewer NPUs" in ended.lines[0]


class TestPackage:
    def test_a_run(self, folder: Path) -> None:
        result = package.run("small.toml", overrides=["collective.size=4 KiB"])
        assert isinstance(result, package.Result)
        result.save("out.h5")
        assert package.Result.load("out.h5").json() == result.json()

    def test_an_experiment(self, folder: Path) -> None:
        experiment = package.load_experiment("small.toml")
        assert package.run(experiment).time_ns == package.run("small.toml").time_ns

    def test_a_plot(self, folder: Path) -> None:
        """In a fresh process: nobody has imported pyxsim.reports before."""
        pytest.importorskip("matplotlib")
        code = (
            "import pyxsim; from matplotlib.axes import Axes;"
            "assert isinstance(pyxsim.run('small.toml').plot.utilization(), Axes);"
            "assert pyxsim.run('small.toml')._repr_html_().startswith('<div>')"
        )
        words = [sys.executable, "-c", code]
        done = subprocess.run(words, env=environment(MPLBACKEND="Agg"), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    def test_names(self) -> None:
        assert {"run", "Result", "load_experiment", "__version__"} <= set(dir(package))
        with pytest.raises(AttributeError, match="no attribute 'rnu'"):
            package.rnu  # noqa: B018

    def test_faults(self, folder: Path) -> None:
        from pyxsim.errors import InputError

        (folder / "e.toml").write_text(SMALL.replace("torus", "tors"), encoding="utf-8")
        with pytest.raises(InputError, match="unknown topology 'tors'"):
            package.run("e.toml")


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit of the address space")
def test_a_memory_limit_says_what_to_change(folder: Path) -> None:
    (folder / "large.toml").write_text(
        '[network]\ntopology = "ring"\nshape = [4096]\nbandwidth = "64 GB/s"\nlatency = "10 ns"\n'
        '[collective]\nkind = "all-reduce"\nsize = "4 KiB"\n',
        encoding="utf-8",
    )
    words = [sys.executable, "-m", "pyxsim", "check", "large.toml"]
    limits = {**environment(), "OPENBLAS_NUM_THREADS": "1"}
    limited = ["sh", "-c", 'ulimit -v 700000; exec "$@"', "sh", *words]
    done = subprocess.run(limited, cwd=folder, capture_output=True, text=True, env=limits, timeout=60)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("pyxsim: not enough memory: Unable to allocate ")
    assert "; ulimit -v limits memory to 0.717 GB; fewer NPUs, " in line
