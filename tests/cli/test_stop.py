"""Ctrl-C, SIGTERM, closed pipes: exit codes as shells expect them, never a traceback, nothing simulated is lost."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import h5py
import pytest
from pydantic_core import PydanticSerializationError, SchemaError

from pyxsim.results import hdf5
from pyxsim.results.result import Result
from pyxsim.runner.signals import REPEAT, StopSignals
from tests import fork_server
from tests.cli.inputs import SMALL, UNDER_WAY, Command, Process, Start, environment, wait_for

LONG = ("run", "small.toml", "--set", "collective.size=100 GiB", "--no-skip")  # minutes


@pytest.fixture(autouse=True)
def heard() -> Iterator[None]:
    """Signals are heard, whatever the shell of the tests has set: nohup, or a background job of a script."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    for number in numbers:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def end(process: Process) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=60)
    assert "Traceback" not in err
    return process.returncode, out, err


ENDS = [(signal.SIGINT, 130), (signal.SIGTERM, 143), pytest.param(signal.SIGHUP, 129, marks=pytest.mark.slow)]


@pytest.mark.parametrize(("number", "code"), ENDS)
def test_a_run_that_is_ended_keeps_what_there_is(start: Start, folder: Path, number: signal.Signals, code: int) -> None:
    process = start(*LONG, "-o", "out.h5", "--quiet", told=folder / "begun")
    wait_for((folder / "begun").exists, "the simulation")
    process.send_signal(number)
    assert end(process) == (
        code,
        "",
        "pyxsim: interrupted; out.h5 contains the incomplete result\n",
    )
    with h5py.File(folder / "out.h5") as file:
        assert file.attrs["complete"] == 0
        flits = file["links_total/flits"][()]
        assert flits.sum() > 0
        assert (file["links/flits"][()].sum(axis=0) == flits).all()
        # In no window was a link busier than time allows: nothing was counted twice or in the wrong place. The last
        # flit holds its link for 256 B / 100 B = 2.56 cycles, up to 2 of them beyond the end.
        assert file["links/busy"][()].max() <= file["links"].attrs["window_cycles"] + 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_results_are_written_comes_too_late(
    pyxsim: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """Twice, as `timeout` sends it. All is done then, and complete."""
    save = Result.save

    def slow(result: Result, path: str) -> None:
        signal.raise_signal(number)
        signal.raise_signal(number)
        save(result, path)

    monkeypatch.setattr(Result, "save", slow)
    ended = pyxsim("run", "small.toml", "-o", "out.h5", "--quiet")
    assert (ended.code, ended.err) == (0, "")
    with h5py.File(folder / "out.h5") as file:
        assert file.attrs["complete"] == 1


@pytest.mark.parametrize("words", [("compare", "small.toml"), ("curve", "open.toml", "--loads", "0.1")])
def test_a_signal_while_files_are_written(
    pyxsim: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    traffic = SMALL.partition("[collective]")[0] + '[traffic]\npattern = "uniform"\nload = 0.1\nprecision = 0.2\n'
    (folder / "open.toml").write_text(traffic, encoding="utf-8")
    put = hdf5.put_file

    def slow(path: Path, image: bytes) -> None:
        signal.raise_signal(signal.SIGTERM)
        put(path, image)

    for module in ("comparison_file", "curve"):
        monkeypatch.setattr(f"pyxsim.results.{module}.put_file", slow)
    assert pyxsim(*words, "-o", "out.h5", "--quiet").code == 0
    assert (folder / "out.h5").exists()


@pytest.mark.parametrize(
    "error",
    [
        SchemaError('Error building "model" serializer:\n  SchemaError: Field `npu`:\n  KeyboardInterrupt: '),
        PydanticSerializationError("Error calling function `<lambda>`: KeyboardInterrupt: "),
    ],
)
def test_ctrl_c_that_pydantic_caught(
    pyxsim: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """A signal while pydantic builds a model, which it does at its first use, or writes one, becomes its error."""

    def building(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("pyxsim.cli.simulate.load_experiment", building)
    ended = pyxsim("run", "small.toml")
    assert (ended.code, ended.err) == (130, "pyxsim: interrupted\n")


def test_a_signal_in_a_destructor_is_not_lost(capfd: pytest.CaptureFixture[str]) -> None:
    """Python prints and ignores every exception there."""

    class Ends:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGTERM)

    def deleted() -> bool:
        Ends()
        return True

    with StopSignals.of_command(lambda: None) as stop:
        assert deleted()
        with pytest.raises(KeyboardInterrupt):
            time.sleep(60)
        assert stop.number == signal.SIGTERM
    assert capfd.readouterr().err == ""


def test_a_signal_while_python_ends_leaves_the_exit_code() -> None:
    """Neither of the three, one after the other."""
    code = (
        "import signal, sys; from pyxsim.cli.app import main; sys.argv = ['pyxsim', 'run', 'none.toml'];"
        "code = main();"
        "[signal.raise_signal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]; sys.exit(code)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ended.returncode, len(ended.stderr.splitlines())) == (2, 1)


def test_an_interrupted_exec_leaves_the_exit_code(tmp_path: Path) -> None:
    """`python -m` ends by SIGINT (-2) where a KeyboardInterrupt has left the `exec` of a text (dataclasses)."""
    (tmp_path / "command.py").write_text(
        "import sys, pyxsim.cli.usage; from pyxsim.cli.app import main; sys.argv = ['pyxsim', 'run', 'none.toml'];"
        "pyxsim.cli.usage.command_line = lambda *_: exec('raise KeyboardInterrupt'); sys.exit(main())"
    )
    ended = subprocess.run([sys.executable, "-m", "command"], cwd=tmp_path, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (130, "pyxsim: interrupted\n")


def test_impatience() -> None:
    """Signals within a moment are one wish; a later one does not wait for a place where the run can be left."""
    with StopSignals.of_command(lambda: None) as stop, stop.deferred():
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        assert stop.number == signal.SIGTERM
        time.sleep(REPEAT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert stop.number == signal.SIGINT


def test_the_terminal_goes_away(folder: Path) -> None:
    """What is shown while a run goes on is not worth its end; the system says SIGHUP."""
    process = fork_server.Popen([sys.executable, "-c", _ON_A_TERMINAL], env=environment(TERM="xterm"))
    assert process.wait(timeout=60) == 0
    with h5py.File(folder / "out.h5") as file:
        assert file.attrs["complete"] == 0


_ON_A_TERMINAL = f"""
import os, pty, sys
words = {("run", "small.toml", "--set", "collective.size=100 GiB", "--no-skip", "-o", "out.h5")!r}
pid, terminal = pty.fork()
if not pid:
    from pyxsim.cli.app import main
    sys.exit(main(words))
seen = b""
while b" left" not in seen:
    seen += os.read(terminal, 65536)
os.close(terminal)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 129)
"""


def test_json_of_a_run_that_is_ended(start: Start, folder: Path) -> None:
    process = start(*LONG, "--json", told=folder / "begun")
    wait_for((folder / "begun").exists, "the simulation")
    process.send_signal(signal.SIGINT)
    code, out, err = end(process)
    data = json.loads(out)
    assert code == 130
    assert data["complete"] is False
    assert data["bytes_delivered"] < data["cycles"] * 1000
    assert err == "pyxsim: interrupted; nothing was written, because -o is missing\n"


def test_ctrl_c_before_the_simulation(start: Start, folder: Path) -> None:
    shelf = folder / "slow" / "topologies"
    shelf.mkdir(parents=True)
    (shelf / "slow.py").write_text(
        "import pathlib, time\npathlib.Path('here').touch()\ntime.sleep(60)\n", encoding="utf-8"
    )
    process = start("run", "small.toml", "-o", "out.h5", "--library", "slow")
    wait_for((folder / "here").exists, "loading the library")
    process.send_signal(signal.SIGINT)
    assert end(process) == (130, "", "pyxsim: interrupted\n")
    assert not (folder / "out.h5").exists()


def test_ctrl_c_while_python_is_still_importing(start: Start, folder: Path) -> None:
    package = folder / "slow" / "typer"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        "import pathlib, time\npathlib.Path('here').touch()\ntime.sleep(60)\n", encoding="utf-8"
    )
    process = start("run", "small.toml", env=environment(PYTHONPATH=str(folder / "slow")), fresh=True)
    wait_for((folder / "here").exists, "the import")
    process.send_signal(signal.SIGINT)
    assert end(process) == (130, "", "pyxsim: interrupted\n")


def test_a_signal_that_is_ignored_stays_ignored(folder: Path) -> None:
    """As under nohup, or for a background job of a script."""
    words = [sys.executable, str(UNDER_WAY), "begun", *LONG, "--quiet"]
    pipe = fork_server.PIPE
    options = {"env": environment(), "ignored": [signal.SIGINT], "stderr": pipe, "stdout": pipe, "text": True}
    process = fork_server.Popen(words, **options)
    try:
        wait_for((folder / "begun").exists, "the simulation")
        process.send_signal(signal.SIGINT)
        with pytest.raises(fork_server.TimeoutExpired):
            process.wait(timeout=0.4)
        process.terminate()
        assert end(process)[0] == 143
    finally:
        process.kill()
        process.communicate()


def test_progress_on_a_terminal(start: Start, folder: Path) -> None:
    """Shown after two seconds, gone at the end; then the summary of what there is."""
    ours, theirs = pty.openpty()
    terminal = environment(TERM="xterm", COLUMNS="120", LINES="40")
    process = start(*LONG, "-o", "out.h5", stderr=theirs, env=terminal)
    os.close(theirs)
    seen = ""
    interrupted = False
    while True:
        try:
            seen += os.read(ours, 65536).decode(errors="replace")
        except OSError:  # the other end is closed
            break
        if not interrupted and " left" in seen:
            process.send_signal(signal.SIGINT)
            interrupted = True
    os.close(ours)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == ""
    bar, _, rest = seen.partition("interrupted: the summary covers the simulated part")
    # Each of the 4 NPUs sends one and a half buffers (test_run.py), in messages of 50 and 25 GiB: none is there yet.
    for part in ("simulated", "0 B of 600 GiB", "visits/s", "left"):
        assert part in bar
    assert "out.h5 contains the incomplete result" in rest
    assert " left" not in rest


@pytest.mark.parametrize("words", [(), pytest.param(("--json",), marks=pytest.mark.slow)])
def test_no_progress_without_a_terminal(start: Start, folder: Path, words: tuple[str, ...]) -> None:
    process = start(*LONG, *words, told=folder / "begun")
    wait_for((folder / "begun").exists, "the simulation")
    time.sleep(2.2)
    process.send_signal(signal.SIGINT)
    _, _, err = end(process)
    assert "visits/s, " not in err.partition("simulated in")[0]
    assert "\x1b" not in err


TOLD = [("list", "--json"), ("run", "small.toml", "--json"), ("--help",)]


@pytest.mark.parametrize("words", [*TOLD, pytest.param(("--version",), marks=pytest.mark.slow)])
def test_nobody_reads_stdout(start: Start, words: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = start(*words, stdout=writer)
    os.close(writer)
    _, err = process.communicate(timeout=60)
    assert err == ""
    assert process.returncode in (1, 141)  # typer's own texts end with 1


def test_nobody_reads_stderr(start: Start, folder: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = start("run", "small.toml", "-o", "out.h5", stderr=writer)
    os.close(writer)
    out, _ = process.communicate(timeout=60)
    assert out == ""
    assert (folder / "out.h5").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_stdout_is_full(start: Start) -> None:
    with Path("/dev/full").open("w") as full:
        process = start("list", "--json", stdout=full)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert err == "pyxsim: stdout cannot be written: No space left on device\n"


@pytest.mark.parametrize("stream", [1, 2])
def test_closed_streams(start: Start, folder: Path, stream: int) -> None:
    words = [sys.executable, "-m", "pyxsim", "run", "small.toml", "--json", "-o", "out.h5"]
    done = subprocess.run(["sh", "-c", f'exec "$@" {stream}>&-', "sh", *words], capture_output=True, env=environment())
    assert done.returncode == 0
    assert (folder / "out.h5").exists()
    assert done.stderr == b""
    if stream == 2:
        json.loads(done.stdout)


@pytest.mark.parametrize("words", [("run", "small.toml"), ("list",)])
def test_no_reader_of_both_streams(start: Start, words: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = start(*words, stdout=writer, stderr=writer)
    os.close(writer)
    process.communicate(timeout=60)
    assert process.returncode == 141
