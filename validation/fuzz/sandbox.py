"""Runs cases in forks of this process, with limits, and judges how they end.

A fork runs a batch of cases one after the other, since a fork costs as much as several cases. A case that fails there
runs again in a fork of its own, and only that outcome counts.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import pickle
import pkgutil
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from validation.fuzz.seeds import Case

CPU_S = 10.0  # of one case
WALL_S = 120.0  # the same for a case that only waits; machines are shared
SIMULATE_S = 1.0  # after which a simulation is interrupted
RSS_MB = 2048
BATCH = 40  # cases of a fork
BATCH_MB = 700  # after which a fork ends before its batch does
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
class _Worker:
    """A fork, and what it has told. `current`: its case, and the wall and CPU time when that began."""

    cases: list[int]
    pid: int
    pipe: int
    output: int
    folder: str
    current: tuple[int, float, float] | None = None
    done: set[int] = field(default_factory=set)
    killed: bool = False


def run_cases(cases: Sequence[int], draw: Callable[[int], Case], jobs: int) -> Iterator[tuple[int, Outcome]]:
    """Run cases by their numbers, in `jobs` forks at a time; yields them as they end."""
    size = max(1, min(BATCH, -(-len(cases) // jobs)))
    waiting = [list(cases[at : at + size]) for at in reversed(range(0, len(cases), size))]
    running: dict[int, _Worker] = {}
    poll = select.poll()
    while waiting or running:
        while waiting and len(running) < jobs:
            worker = _start(waiting.pop(), draw)
            running[worker.pipe] = worker
            poll.register(worker.pipe, select.POLLIN)
        ready = {fd for fd, _ in poll.poll(100)}
        for fd, worker in list(running.items()):
            if fd not in ready:
                _limit(worker)
                continue
            told = _receive(fd)
            if told is None:
                poll.unregister(fd)
                del running[fd]
                outcome = _end(worker)
                left = [case for case in worker.cases if case not in worker.done]
                if len(worker.cases) == 1 and left:
                    yield left.pop(), outcome
                elif worker.current is not None:
                    left.remove(worker.current[0])
                    waiting.append([worker.current[0]])
                waiting += [left] if left else []
                continue
            if isinstance(told, float):
                case = next(each for each in worker.cases if each not in worker.done)
                worker.current = case, time.monotonic(), told
                continue
            assert worker.current is not None
            case, worker.current = worker.current[0], None
            worker.done.add(case)
            if told.fault and len(worker.cases) > 1:
                waiting.append([case])
            else:
                yield case, told


def _start(cases: list[int], draw: Callable[[int], Case]) -> _Worker:
    sys.stdout.flush()
    sys.stderr.flush()
    folder = tempfile.mkdtemp(prefix="pyxsim-fuzz-")
    output = os.memfd_create("output")
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 70
        try:
            os.close(reader)
            _work(cases, draw, folder, output, writer)
            code = 0
        except BaseException:
            os.write(output, traceback.format_exc().encode("utf-8", "replace"))
        finally:
            os._exit(code)
    os.close(writer)
    return _Worker(cases, pid, reader, output, folder)


def _work(cases: list[int], draw: Callable[[int], Case], folder: str, output: int, pipe: int) -> None:
    """Run cases in the fork. For each, send the CPU time at its start, then its outcome."""
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    here = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    most = here + 2 * RSS_MB * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**28, 2**28))
    environment = dict(os.environ)
    for number in cases:
        _send(pipe, _own_cpu_s())
        os.environ.clear()
        os.environ.update(environment)
        place = os.path.join(folder, str(number))
        os.mkdir(place)
        os.chdir(place)
        outcome = _outcome(draw(number), place, output)
        os.chdir("/")
        shutil.rmtree(place, ignore_errors=True)
        _send(pipe, outcome)
        if _memory_mb("VmRSS") > BATCH_MB:
            return


def _send(pipe: int, message: float | Outcome) -> None:
    data = pickle.dumps(message)
    data = len(data).to_bytes(8, "little") + data
    while data:
        data = data[os.write(pipe, data) :]


def _receive(pipe: int) -> float | Outcome | None:
    """Return the next message of a fork of this process; None if it has ended."""
    data = bytearray()
    size = 8
    while len(data) < size:
        part = os.read(pipe, size - len(data))
        if not part:
            return None
        data += part
        if len(data) == 8:
            size += int.from_bytes(data, "little")
    message: float | Outcome = pickle.loads(data[8:])
    return message


def _outcome(case: Case, folder: str, output: int) -> Outcome:
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # resets VmHWM
    began = _own_cpu_s()
    os.ftruncate(output, 0)
    os.lseek(output, 0, os.SEEK_SET)
    try:
        code = _run(case, output)
    except BaseException:
        code = 70
        os.write(output, traceback.format_exc().encode("utf-8", "replace"))
    text, size = _written(output)
    children_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    rss_mb = max(_memory_mb("VmHWM"), children_mb)
    return Outcome(code, text, _own_cpu_s() - began, rss_mb, _fault(code, text, size, rss_mb) or _left(folder))


def _run(case: Case, output: int) -> int:
    """Run the command of a case and return its exit code."""
    from pyxsim.cli.app import main

    for name, data in {**case.files, "evil.py": EVIL.encode()}.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(data)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    sys.argv = ["pyxsim", *case.argv]
    try:
        signal.setitimer(signal.ITIMER_REAL, SIMULATE_S if case.simulates else 0.0)
        code = main(case.argv)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def _own_cpu_s() -> float:
    """CPU seconds of this process and of the children that it waited for."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def _memory_mb(name: str) -> float:
    text = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    return int(text.partition(f"{name}:")[2].split()[0]) / 1024


def _limit(worker: _Worker) -> None:
    """Kill a fork whose case takes too long."""
    if worker.killed or worker.current is None:
        return
    _, began, cpu_s = worker.current
    wall = time.monotonic() - began
    if wall > WALL_S or (wall > CPU_S and _cpu_s(worker.pid) - cpu_s > CPU_S):
        worker.killed = True
        with contextlib.suppress(ProcessLookupError):
            os.killpg(worker.pid, signal.SIGKILL)


def _cpu_s(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _end(worker: _Worker) -> Outcome:
    """Return the outcome of the case in which a fork ended."""
    _, status, usage = os.wait4(worker.pid, 0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(worker.pid, signal.SIGKILL)  # what it left behind
    text, size = _written(worker.output)
    os.close(worker.pipe)
    os.close(worker.output)
    code = os.waitstatus_to_exitcode(status)
    cpu_s, rss_mb = usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024
    fault = "a hang" if worker.killed else _fault(code, text, size, rss_mb) or "ended the process"
    shutil.rmtree(worker.folder, ignore_errors=True)
    return Outcome(code, text, cpu_s, rss_mb, fault)


def _written(output: int) -> tuple[str, int]:
    return os.pread(output, 10 * OUTPUT, 0).decode("utf-8", "replace"), os.fstat(output).st_size


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
