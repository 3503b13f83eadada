"""Commands in processes of their own: forks of this one, which has imported pyxsim, or new Pythons.

A new Python takes longer to start than a small run. A fork is a real process too: it has its own session, standard
streams, default signal handlers and end. Python's start is missing, so a part of the cases uses new Pythons.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pyxsim.cli.app import main
from pyxsim.study.sweep import crew

MARK = "PYXSIM_INTERRUPTED"  # an environment variable that the programs of a case inherit
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Command:
    """The command `pyxsim WORDS` in `folder`, running.

    Parameters
    ----------
    words
        Arguments of the command.
    folder
        Current folder of the process; it has `stderr.txt` and `tmp`, the folder for temporary files.
    fresh
        Whether to start a new Python; otherwise a fork.
    """

    def __init__(self, words: Sequence[str], folder: Path, *, fresh: bool) -> None:
        folder.joinpath("tmp").mkdir(exist_ok=True)
        self.token = f"{os.getpid()}-{folder.name}"
        more = {
            "TMPDIR": str(folder / "tmp"),
            "PYXSIM_CONFIG": str(folder.parent / "config"),
            "PYXSIM_TRACEBACK": "1",
            MARK: self.token,
        }
        with open(folder / "stderr.txt", "ab") as output:
            if fresh:
                self.pid = subprocess.Popen(
                    [sys.executable, "-m", "pyxsim", *words],
                    cwd=folder,
                    env={**os.environ, **more},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                    preexec_fn=_hear_signals,
                ).pid
            else:
                self.pid = _fork(lambda: _command(words, folder, more, output.fileno()))
        self._descriptor = os.pidfd_open(self.pid)

    def ended(self, seconds: float) -> bool:
        """Wait up to `seconds`; return whether the process has ended."""
        return bool(select.select([self._descriptor], [], [], seconds)[0])

    def code(self) -> int:
        """Wait for the end and return the exit code, negative for a signal."""
        os.close(self._descriptor)
        with contextlib.suppress(ChildProcessError):
            return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        raise RuntimeError("the process was waited for elsewhere")

    def send(self, number: int, *, group: bool) -> None:
        """Send a signal to the process or to its process group."""
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if group else os.kill)(self.pid, number)

    def alive(self) -> list[int]:
        """Return the ids of the processes of this command that have not ended, in any session."""
        mark, found = f"{MARK}={self.token}".encode(), []
        for entry in os.scandir("/proc"):
            if entry.name.isdigit():
                try:
                    fields = _read(f"/proc/{entry.name}/stat").rpartition(b")")[2].split()
                    mine = int(fields[3]) == self.pid or mark in _read(f"/proc/{entry.name}/environ").split(b"\0")
                except OSError:
                    continue
                found += [int(entry.name)] * (mine and fields[0] not in (b"Z", b"X"))
        return found

    def kill(self) -> None:
        """Kill all processes of this command."""
        for pid in self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def cpu_s(self) -> float:
        """Return the processor time of the process, its threads and its descendants so far, in seconds."""
        return _cpu_ns(self.pid) / 1e9


def _cpu_ns(pid: int) -> int:
    total = 0
    try:
        ended = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()[13:15]  # children that were waited for
        total += sum(map(int, ended)) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
        for thread in os.listdir(f"/proc/{pid}/task"):
            total += int(_read(f"/proc/{pid}/task/{thread}/schedstat").split()[0])
            total += sum(_cpu_ns(int(child)) for child in _read(f"/proc/{pid}/task/{thread}/children").split())
    except OSError:  # it has just ended
        pass
    return total


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read(1 << 17) or b""


def _hear_signals() -> None:
    """Restore default handlers, which a background job of a shell does not have; a blocked signal ends the process."""
    for number in ENDING:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _fork(job: Callable[[], int]) -> int:
    """Run a function in a fork, which ends as Python ends; return its process id.

    The function unblocks the ending signals when it is ready for them: before, the fork would end as this program does.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    pid = os.fork()
    if pid:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return pid
    code = 70
    try:
        try:
            code = job()
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    finally:
        os._exit(code)


def _command(words: Sequence[str], folder: Path, environment: dict[str, str], output: int) -> int:
    """In the fork: the command and its exit code."""
    os.setsid()
    atexit._clear()  # what this program registered is not the command's
    crew.subprocess = _Forked  # type: ignore[assignment,attr-defined]
    os.environ.update(environment)
    tempfile.tempdir = None
    os.chdir(folder)
    _stream_to(os.open(os.devnull, os.O_RDONLY), output)
    sys.argv = ["pyxsim", *words]
    _hear_signals()
    return main()


def _stream_to(standard_input: int, output: int) -> None:
    os.dup2(standard_input, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115


class _Worker:
    """The part of `subprocess.Popen` that a sweep uses for its workers, as a fork."""

    def __init__(self, words: Sequence[str], *, stdin: int, stdout: Any, stderr: Any, pass_fds: Sequence[int]) -> None:
        def job() -> int:
            top = os.sysconf("SC_OPEN_MAX")
            _stream_to(os.open(os.devnull, os.O_RDONLY), stdout.fileno())
            first = 3
            for kept in [*sorted(pass_fds), top]:
                os.closerange(first, kept)
                first = kept + 1
            _hear_signals()
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            exec(compile(words[2], "<worker>", "exec"), {"__name__": "__main__"})
            return 0

        self.pid = _fork(job)
        self._code: int | None = None

    def kill(self) -> None:
        if self._code is None:
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        if self._code is None:
            self._code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._code


class _Forked:
    """In place of the module `subprocess` in the workers of a sweep."""

    Popen = _Worker
    DEVNULL = subprocess.DEVNULL
