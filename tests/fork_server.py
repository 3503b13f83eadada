"""Processes that begin as a copy of one that has imported pyxsim already.

A new Python takes 0.7 s until it is in `pyxsim run`, ten times as long as what most tests do then. `Popen` has the
face of `subprocess.Popen` as far as tests need it: a real process with files, signals and an end of its own. Python's
own start is not in it: tests of imports, of closed streams or of PYTHONPATH start a new one.

As a program (`python fork_server.py FD`) this is the server: one for each process of tests, a single thread.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

import pyxsim

PIPE, DEVNULL, STDOUT = subprocess.PIPE, subprocess.DEVNULL, subprocess.STDOUT
TimeoutExpired = subprocess.TimeoutExpired

PRELOADED = """
from pyxsim.cli import simulate, sweep, compare, curves
from pyxsim.reports.html import write_report
from pyxsim.study.sweep import task, worker
from pyxsim import library
library.load_all()
"""


class Popen:
    """A process `[sys.executable, "-m" module | "-c" code | file, ...]`. Signals have their default handlers, except
    those in `ignored`. What goes to a PIPE is kept in a file until `communicate`."""

    def __init__(
        self,
        words: Sequence[str],
        *,
        stdin: Any = DEVNULL,
        stdout: Any = None,
        stderr: Any = None,
        env: dict[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        pass_fds: Sequence[int] = (),
        start_new_session: bool = False,
        ignored: Sequence[int] = (),
        text: bool = False,
    ) -> None:
        assert words[0] == sys.executable
        assert stdin == DEVNULL
        self.returncode: int | None = None
        self._text = text
        self._kept: dict[int, IO[bytes]] = {}
        self._texts: list[Any] = [None, None]
        fds = [self._fd(0, stdout, 1), self._fd(1, stderr, 2)]
        ours, theirs = socket.socketpair()
        request = {
            "words": list(words[1:]),
            "env": dict(os.environ if env is None else env),
            "cwd": str(Path.cwd() if cwd is None else cwd),
            "session": start_new_session,
            "ignored": [int(number) for number in ignored],
            "blocked": [int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, ())],
            "as": [1, 2, *pass_fds],
        }
        with theirs:
            _request(json.dumps(request).encode(), [theirs.fileno(), *fds, *pass_fds])
        self._news = ours.makefile("r")
        ours.close()
        self.pid = int(self._news.readline())

    def _fd(self, place: int, target: Any, inherited: int) -> int:
        if target == PIPE:
            self._kept[place] = tempfile.TemporaryFile()  # noqa: SIM115
            return self._kept[place].fileno()
        if target is None:
            return inherited
        return target if isinstance(target, int) else int(target.fileno())

    def poll(self) -> int | None:
        try:
            return self.wait(timeout=0)
        except TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if timeout is not None and not select.select([self._news], [], [], timeout)[0]:
                raise TimeoutExpired("a forked process", timeout)
            self.returncode = os.waitstatus_to_exitcode(int(self._news.readline()))
            self._news.close()
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[Any, Any]:
        self.wait(timeout)
        while self._kept:
            place, file = self._kept.popitem()
            with file:
                file.seek(0)
                self._texts[place] = file.read().decode() if self._text else file.read()
        out, err = self._texts
        return out, err

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Popen:
        return self

    def __exit__(self, *args: object) -> None:
        self.wait()


def run(
    words: Sequence[str],
    *,
    check: bool = False,
    capture_output: bool = False,
    timeout: float | None = None,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:
    """As `subprocess.run`."""
    if capture_output:
        options |= {"stdout": PIPE, "stderr": PIPE}
    process = Popen(words, **options)
    try:
        out, err = process.communicate(timeout)
    except BaseException:
        process.kill()
        raise
    done = subprocess.CompletedProcess(words, process.wait(), out, err)
    if check:
        done.check_returncode()
    return done


_server: list[socket.socket] = []


def _request(body: bytes, fds: list[int]) -> None:
    if not _server:
        _begin()
    socket.send_fds(_server[0], [len(body).to_bytes(4, "big")], fds)
    _server[0].sendall(body)


def _begin() -> None:
    ours, theirs = socket.socketpair()
    here = str(Path(pyxsim.__file__).resolve().parent.parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH", "")]))}
    words = [sys.executable, __file__, str(theirs.fileno())]
    with theirs:
        server = subprocess.Popen(
            words, pass_fds=[theirs.fileno()], env=environment, start_new_session=True, stdin=DEVNULL, cwd=here
        )
    _server.append(ours)

    def leave() -> None:
        ours.close()
        server.wait()

    atexit.register(leave)


# --- the server ---


def serve(home: socket.socket) -> Callable[[], object] | None:
    """Fork for each request. Returns in the new process what it is to do; None in the server at its end."""
    while True:
        size, fds, _, _ = socket.recv_fds(home, 4, 16)
        while True:  # those that have ended count to the processor time of this process
            try:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    break
            except ChildProcessError:
                break
        if not size:
            return None
        body = bytearray()
        while len(body) < int.from_bytes(size, "big"):
            body += home.recv(65536)
        if os.fork() == 0:
            keeper = os.fork()
            if keeper == 0:
                home.close()
                return _prepared(json.loads(body), fds)
            for fd in fds[1:]:
                os.close(fd)
            home.close()
            os.write(fds[0], b"%d\n" % os.waitpid(keeper, 0)[1])
            os._exit(0)
        for fd in fds:
            os.close(fd)


def _prepared(request: dict[str, Any], fds: list[int]) -> Callable[[], object]:
    """Make this process what was asked for."""
    news, *given = fds
    # First out of the way of the numbers that they are to have.
    wanted = request["as"]
    above = max(100, *wanted) + 1
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD, above) for fd in fds]
    for fd in fds:
        os.close(fd)
    news, *given = high
    for fd, number in zip(given, wanted, strict=True):
        os.dup2(fd, number, inheritable=True)
        os.close(fd)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    if request["session"]:
        os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, signal.SIG_IGN if number in request["ignored"] else usual)
    signal.pthread_sigmask(signal.SIG_SETMASK, request["blocked"])
    encoding = sys.stdout.encoding
    sys.stdout = sys.__stdout__ = open(1, "w", encoding=encoding, closefd=False)  # type: ignore[misc]  # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(  # type: ignore[misc]  # noqa: SIM115
        2, "w", encoding=encoding, errors="backslashreplace", buffering=1, closefd=False
    )
    os.write(news, b"%d\n" % os.getpid())
    os.close(news)
    first, *rest = request["words"]
    if first == "-m":
        sys.argv = rest
        return lambda: runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    if first == "-c":
        sys.argv = ["-c", *rest[1:]]
        return lambda: exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
    sys.argv = [first, *rest]
    sys.path[0] = str(Path(first).parent)
    return lambda: runpy.run_path(first, run_name="__main__")


def main() -> None:
    gc.set_threshold(50_000, *gc.get_threshold()[1:])
    exec(PRELOADED, {})
    gc.freeze()
    job = serve(socket.socket(fileno=int(sys.argv[1])))
    if job is None:
        return
    code: Any = None
    try:
        job()
    except SystemExit as end:  # others end the process as they do in any Python
        code = end.code
    if code is None or isinstance(code, int):
        leave(code or 0)
    sys.exit(code)


def leave(code: int) -> None:
    """End this process as Python does, but leave its objects to the system: to take apart all that is imported writes
    into pages that it shares with the server, and takes longer than most of what is tested."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code & 0xFF)


if __name__ == "__main__":
    main()
