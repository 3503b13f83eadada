"""Runs cases in forks of this process, with limits, and judges how they end."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import pkgutil
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from validation.fuzz.seeds import Case

CPU_S = 10.0  # of one case
WALL_S = 40.0  # the same for a case that only waits; machines are shared
SIMULATE_S = 1.0  # after which a simulation is interrupted
RSS_MB = 2048
OUTPUT = 60_000  # bytes, of a hundred faults as text and as JSON
EXITS = (0, 2, 3, 130)
MARK = "was_run"
EVIL = f"open({MARK!r}, 'w').close()\ndef run(kind, n):\n    raise ValueError\n"  # lies beside the inputs of each case


@dataclass(frozen=True)
class Outcome:
    """How a case ended. `fault`: what is wrong with that, or ""."""

    code: int
    text: str
    cpu_s: float
    rss_mb: float
    fault: str


def import_everything() -> None:
    """Import all modules, so that no case pays for it, and freeze their objects: forks then share their pages."""
    import pyxsim
    from pyxsim import library

    for module in pkgutil.walk_packages(pyxsim.__path__, "pyxsim."):
        if not module.name.endswith("__main__"):
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)
    for name in ("matplotlib.pyplot", "plotly.graph_objects", "networkx", "rich.console", "scipy.sparse.csgraph"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    library.load_all()
    gc.collect()
    gc.freeze()


@dataclass
class _Child:
    index: int
    pid: int
    fd: int
    output: int
    folder: str
    simulates: bool
    began: float
    interrupted: bool = False
    killed: bool = False


def run_cases(cases: Sequence[int], draw: Callable[[int], Case], jobs: int) -> Iterator[tuple[int, Outcome]]:
    """Run cases by their numbers, `jobs` at a time; yields them as they end."""
    waiting = list(reversed(cases))
    running: dict[int, _Child] = {}
    poll = select.poll()
    while waiting or running:
        while waiting and len(running) < jobs:
            child = _start(waiting.pop(), draw)
            running[child.fd] = child
            poll.register(child.fd, select.POLLIN)
        ended = {fd for fd, _ in poll.poll(100)}
        for fd, child in list(running.items()):
            if fd in ended:
                poll.unregister(fd)
                del running[fd]
                yield child.index, _end(child)
            else:
                _limit(child)


def _start(index: int, draw: Callable[[int], Case]) -> _Child:
    sys.stdout.flush()
    sys.stderr.flush()
    folder = tempfile.mkdtemp(prefix="pyxsim-fuzz-")
    output = os.memfd_create("output")
    pid = os.fork()
    if pid == 0:
        code = 70
        try:
            code = _run(draw(index), folder, output)
        except BaseException:
            import traceback

            os.write(output, traceback.format_exc().encode("utf-8", "replace"))
        finally:
            os._exit(code)
    return _Child(index, pid, os.pidfd_open(pid), output, folder, False, time.monotonic())


def _run(case: Case, folder: str, output: int) -> int:
    """In the fork: the command, and its exit code."""
    from pyxsim.cli.app import main

    os.setsid()
    os.chdir(folder)
    for name, data in {**case.files, "evil.py": EVIL.encode()}.items():
        Path(name).write_bytes(data)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8")
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1)
    here = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    most = here + 2 * RSS_MB * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**28, 2**28))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    if case.simulates:
        _interrupt_after(SIMULATE_S)
    sys.argv = ["pyxsim", *case.argv]
    try:
        code = main(case.argv)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def _interrupt_after(seconds: float) -> None:
    """Send SIGINT to this process: from a fork of it, since a thread would not run while compiled code does."""
    parent = os.getpid()
    if os.fork() == 0:
        pipe = os.pidfd_open(parent)
        if not select.select([pipe], [], [], seconds)[0]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(parent, signal.SIGINT)
        os._exit(0)


def _limit(child: _Child) -> None:
    """Kill a case that takes too long."""
    wall = time.monotonic() - child.began
    if not child.killed and (wall > WALL_S or (wall > CPU_S and _cpu_s(child.pid) > CPU_S)):
        child.killed = True
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)


def _cpu_s(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def _end(child: _Child) -> Outcome:
    _, status, usage = os.wait4(child.pid, 0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)  # what it left behind
    text = os.pread(child.output, 10 * OUTPUT, 0).decode("utf-8", "replace")
    size = os.fstat(child.output).st_size
    os.close(child.fd)
    os.close(child.output)
    code = os.waitstatus_to_exitcode(status)
    cpu_s, rss_mb = usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024
    fault = "a hang" if child.killed else _fault(code, text, size, rss_mb) or _left(child.folder)
    shutil.rmtree(child.folder, ignore_errors=True)
    return Outcome(code, text, cpu_s, rss_mb, fault)


def _fault(code: int, text: str, size: int, rss_mb: float) -> str:
    if "Traceback (most recent call last)" in text:
        return "a traceback"
    if "this is a bug of pyxsim" in text:
        return "a bug"
    if code not in EXITS:
        return f"exit code {code}"
    if rss_mb > RSS_MB:
        return f"{rss_mb:.0f} MB"
    if code == 2 and not text.strip():
        return "no message"
    if code == 2 and size > OUTPUT:
        return f"a message of {size} bytes"
    return ""


def _left(folder: str) -> str:
    """What should not be in the folder of a case."""
    if os.path.exists(os.path.join(folder, MARK)):
        return "ran code of an input"
    parts = [name for _, _, names in os.walk(folder) for name in names if name.endswith(".part")]
    return f"left {parts[0]}" if parts else ""


def fault_line(text: str) -> str:
    """Return the last line that says something."""
    lines: list[Any] = [line for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""
