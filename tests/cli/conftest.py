"""Commands as a user types them, in a folder of their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyxsim import library, registry
from pyxsim.cli.app import main
from tests import fork_server
from tests.cli.inputs import (
    ASTRA,
    DEADLOCK,
    SMALL,
    UNDER_WAY,
    Command,
    Ended,
    Process,
    Start,
    environment,
    hear_signals,
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: small.toml, deadlock.toml, and the three files of ASTRA-sim."""
    texts = {"small.toml": SMALL, "deadlock.toml": DEADLOCK, **ASTRA}
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(autouse=True)
def own_libraries(loaded: None) -> Iterator[None]:
    """What a test puts on a shelf is gone after it."""
    shelves = [sys.modules[name] for shelf in library.SHELVES if (name := f"pyxsim_library.{shelf}") in sys.modules]
    modules, paths = set(sys.modules), [list(shelf.__path__) for shelf in shelves]
    yield
    for module in {name for name in sys.modules if name.startswith("pyxsim_library.")} - modules:
        for each in registry.REGISTRIES:
            each.discard(module)
        del sys.modules[module]
    for shelf, path in zip(shelves, paths, strict=True):
        shelf.__path__[:] = path


@pytest.fixture
def pyxsim(folder: Path, capfd: pytest.CaptureFixture[str]) -> Command:
    """Carry out a command in this process."""

    def command(*words: str) -> Ended:
        capfd.readouterr()
        code = main(words)
        sys.stderr.flush()
        out, err = capfd.readouterr()
        return Ended(code, out, err)

    return command


@pytest.fixture
def start(folder: Path) -> Iterator[Start]:
    """Start a command in a process of its own, which hears Ctrl-C whatever the shell of the tests has set. `told`: a
    file that the process makes as soon as a long run is under way. `fresh`: in a new Python."""
    started: list[Process] = []

    def begin(*words: str, told: Path | None = None, fresh: bool = False, **options: Any) -> Process:
        program = ["-m", "pyxsim"] if told is None else [str(UNDER_WAY), str(told)]
        words = (sys.executable, *program, *words)
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": environment(), **options}
        if fresh:
            process: Process = subprocess.Popen(words, preexec_fn=hear_signals, **options)
        else:
            process = fork_server.Popen(words, **options)
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()
