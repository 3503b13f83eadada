"""`python -m validation.fuzz.interrupt`: send signals to commands at random moments.

Each case runs a command in an empty folder and sends it or its process group SIGINT, SIGTERM, SIGHUP, SIGKILL, or
SIGSTOP and SIGCONT when it has used a random part of the processor time of the whole command; at times once more. Then
the command must end in time, leave no process, no lock and no temporary file, print no traceback, and every output must
be absent or readable. The command that continues it must keep the finished points of a sweep and give the output of an
uninterrupted run, to the bit.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import h5py
import numpy as np

from pyxsim.cli.app import main as pyxsim
from pyxsim.errors import InputError
from pyxsim.results.diff import APART, EXPERIMENT, RUN, _leaves, diff
from validation.fuzz.processes import Command
from validation.fuzz.sandbox import import_everything
from validation.fuzz.seeds import COLLECTIVE, NETWORK, TRAFFIC

ENDS_S = 10.0  # after the signal, on an idle machine
REFERENCES = {"DIMENSION_LIST", "REFERENCE_LIST"}  # attributes
FRESH = 0.12  # part of the cases in a new Python
SIGNALS = ("SIGINT", "SIGINT", "SIGTERM", "SIGHUP", "SIGKILL", "SIGSTOP")
LONG = (
    NETWORK.replace("[4]", "[8]")
    + COLLECTIVE.replace("4 KiB", "512 KiB")
    + '[output]\nwindow = "1 us"\n[run]\nskip = false\n'
)
SWEEP = LONG + '[sweep]\n"system.chunks" = [1, 2]\n"collective.size" = ["64 KiB", "128 KiB"]\n'
OPEN = TRAFFIC.replace("measure = 100", "measure = 3000")


@dataclass(frozen=True)
class Kind:
    """A command, the files that it writes, and how it is continued (by default with itself)."""

    name: str
    command: str
    outputs: tuple[str, ...]
    again: str = ""
    weight: int = 4
    warm: bool = True


TABLES = ("s/table.csv", "s/table.h5")
KINDS = (
    Kind("run", "run x.toml -o out.h5 -q", ("out.h5",)),
    Kind("checkpoint", "run x.toml -o out.h5 --checkpoint 0.05s -q", ("out.h5",), "resume out.h5.checkpoint -q", 6),
    Kind("traffic", "run t.toml -o out.h5 --checkpoint 0.05s -q", ("out.h5",), "resume out.h5.checkpoint -q"),
    Kind("sweep", "sweep s.toml -o s --workers 2 -q", TABLES, weight=5, warm=False),
    Kind(
        "dask",
        "sweep s.toml -o s --dask local --workers 1 -q",
        TABLES,
        "sweep s.toml -o s --workers 1 -q",
        2,
        warm=False,
    ),
    Kind("compare", "compare x.toml --set collective.size=64KiB -o out.h5 -q", ("out.h5",)),
    Kind("curve", "curve t.toml --loads 0.1,0.2,0.3 --workers 2 -o out.h5 -q", ("out.h5",), warm=False),
    Kind("report", "report in.h5 -o out.html -q", ("out.html",)),
)


class Cases:
    """Runs cases in folders of `root` and collects what is wrong, and counts by command and signal."""

    def __init__(self, root: Path, kinds: list[Kind]) -> None:
        self.root, self.kinds = root, kinds
        self.reference = root / "reference"
        self.cpu_s: dict[str, float] = {}
        self.signals: Counter[tuple[str, str]] = Counter()
        self.late = 0
        _inputs(self.reference)
        _warm_up(self.reference)
        for kind in kinds:
            self.cpu_s[kind.name] = self._uninterrupted(kind)

    def _uninterrupted(self, kind: Kind) -> float:
        """Run a command to its end; return its processor time in seconds."""
        folder = self.reference / kind.name
        _inputs(folder)
        shutil.copy(self.reference / "in.h5", folder)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        _complete(kind.command, folder)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        # The processes of a Dask cluster are killed before anybody could wait for them: about three imports of Dask.
        more = 4.0 if kind.name == "dask" else 0.0
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime + more

    def run(self, number: int, seed: str) -> list[str]:
        """Run a case; return what is wrong."""
        rng = Random(f"{seed}:{number}")
        kind = rng.choices(self.kinds, [kind.weight for kind in self.kinds])[0]
        folder = self.root / f"case{number}"
        _inputs(folder)
        if kind.name == "report":
            shutil.copy(self.reference / "in.h5", folder)
        fresh = rng.random() < FRESH
        name = rng.choice(SIGNALS)
        self.signals[kind.name, name] += 1
        wrong = list(self._interrupted(kind, name, fresh, rng, folder))
        wrong = [f"{number}: {kind.name}{' (new Python)' * fresh}: {line}" for line in wrong]
        if wrong:
            wrong += [f"    {line[:300]}" for line in _said(folder).splitlines()[-12:]]
        shutil.rmtree(folder, ignore_errors=True)
        return wrong

    def _interrupted(self, kind: Kind, name: str, fresh: bool, rng: Random, folder: Path) -> Iterator[str]:
        number = getattr(signal, name)
        command = Command(kind.command.split(), folder, fresh=fresh)
        at = rng.uniform(0.0, self.cpu_s[kind.name] + 0.7 * fresh)
        began = time.monotonic()
        while (left := at - command.cpu_s()) > 0 and (elapsed := time.monotonic() - began) < 120.0:
            if command.ended(max(0.004, left / 2, 0.01 * elapsed)):  # no sooner on two processors
                break
        self.late += command.ended(0.0)
        command.send(number, group=rng.random() < 0.3)
        if name == "SIGSTOP":
            time.sleep(rng.uniform(0.0, 0.3))
            command.send(signal.SIGCONT, group=True)
        elif rng.random() < 0.3 and not command.ended(rng.uniform(0.0, 0.8)):
            command.send(number, group=False)
        began, busy = time.monotonic(), max(1.0, os.getloadavg()[0] / len(os.sched_getaffinity(0)))
        limit = (120.0 if name == "SIGSTOP" else ENDS_S) * busy
        if not command.ended(limit):
            yield f"does not end within {limit:.0f} s of {name}: processes {command.alive()}"
            command.kill()
        code = command.code()
        took = time.monotonic() - began
        while (alive := command.alive()) and time.monotonic() < began + took + 2.0 * busy:
            time.sleep(0.05)
        if alive:
            yield f"leaves processes {alive} after {name}"
            command.kill()
        allowed = (0,) if name == "SIGSTOP" else (0, 128 + number, -number)
        if code not in allowed and not (fresh and _before_python(folder)):
            yield f"exit code {code} after {name}"
        if "Traceback" in _said(folder) and not fresh:
            yield f"a traceback after {name}"
        if name != "SIGKILL":
            yield from _files_left(folder, name)
        yield from (f"{path} is damaged after {name}" for path in kind.outputs if not _readable(folder / path))
        if name == "SIGSTOP":
            yield from self._differences(kind, folder, "after SIGSTOP and SIGCONT")
            return
        points = {path: path.stat().st_mtime_ns for path in folder.glob("s/points/*.h5")}
        has_checkpoint = (folder / "out.h5.checkpoint").exists()
        again = kind.command if kind.again.startswith("resume") and not has_checkpoint else kind.again or kind.command
        if (code := Command(again.split(), folder, fresh=False).code()) != 0:
            yield f"'{again}' ends with exit code {code} after {name}"
        when = f"after {name} and '{again}'"
        if any(not path.exists() or path.stat().st_mtime_ns != written for path, written in points.items()):
            yield f"a finished point is lost or was run once more {when}"
        yield from _files_left(folder, f"{name} and '{again}'")
        yield from self._differences(kind, folder, when)

    def _differences(self, kind: Kind, folder: Path, when: str) -> Iterator[str]:
        """Yield the outputs that differ from those of an uninterrupted command."""
        for name in kind.outputs:
            mine, theirs = folder / name, self.reference / kind.name / name
            if not mine.exists():
                yield f"no {name} {when}"
            elif not (_equal(mine, theirs) if name.endswith(".h5") else mine.read_bytes() == theirs.read_bytes()):
                yield f"{name} differs {when}"


def _inputs(folder: Path) -> None:
    folder.mkdir()
    for name, text in (("x", LONG), ("s", SWEEP), ("t", OPEN)):
        (folder / f"{name}.toml").write_text(text, encoding="utf-8")


def _warm_up(folder: Path) -> None:
    """Run commands in this process, so that forks find built models and caches; one result is the input of reports."""
    here = Path.cwd()
    os.chdir(folder)
    try:
        for words in ("run x.toml -o in.h5", "diff in.h5 in.h5", *(kind.command for kind in KINDS if kind.warm)):
            if pyxsim([*words.removesuffix(" -q").split(), "-q"]) != 0:
                raise RuntimeError(f"'{words}' fails")
    finally:
        os.chdir(here)
    gc.collect()
    gc.freeze()


def _complete(command: str, folder: Path) -> None:
    if Command(command.split(), folder, fresh=False).code() != 0:
        raise RuntimeError(f"{command} fails: {_said(folder)}")


def _said(folder: Path) -> str:
    return (folder / "stderr.txt").read_text(encoding="utf-8", errors="replace")


def _before_python(folder: Path) -> bool:
    """Whether a new Python had not reached `main` of pyxsim: it may end plainly."""
    return "KeyboardInterrupt" in _said(folder)


def _files_left(folder: Path, when: str) -> Iterator[str]:
    names = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.name.endswith(".part")]
    names += [str(path.relative_to(folder)) for path in (folder / "tmp").iterdir()]
    if names:
        yield f"leaves {', '.join(names[:3])} after {when}"


def _readable(path: Path) -> bool:
    """Whether an output is absent or complete."""
    if not path.exists():
        return True
    if path.suffix == ".h5":
        try:
            with h5py.File(path) as file:
                file.visititems(_read_all)
        except OSError:
            return False
    return path.suffix != ".html" or path.read_bytes().rstrip().endswith(b"</html>")


def _read_all(_: str, thing: Any) -> None:
    if isinstance(thing, h5py.Dataset):
        thing[()]


def _equal(first: Path, second: Path) -> bool:
    """Whether two results are equal to the bit."""
    try:
        return _content(first) == _content_of_reference(second) or diff(first, second).equal
    except (InputError, OSError):
        return False


def _content(path: Path) -> dict[str, Any]:
    """The data and attributes of a file without references, which take h5py long, and what differs between runs."""
    content: dict[str, Any] = {}

    def add(name: str, thing: Any) -> None:
        if isinstance(thing, h5py.Dataset):
            values = thing[()]
            plain = values.tolist() if thing.dtype.hasobject and hasattr(values, "tolist") else None
            content[name] = str(thing.dtype), thing.shape, plain or np.asarray(values).tobytes()
        for key in set(thing.attrs) - REFERENCES - set(APART):
            leaves = _leaves(key, thing.attrs[key], thing.file)
            content[f"{name}@{key}"] = {
                place: str(leaf)
                for place, leaf in leaves.items()
                if not (set(place) & set(APART) or (key == EXPERIMENT and place[:1] == (RUN,)))
            }

    with h5py.File(path) as file:
        add("/", file)
        file.visititems(add)
    return content


_content_of_reference = cache(_content)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m validation.fuzz.interrupt", description=__doc__)
    parser.add_argument("--cases", type=int, default=1000, metavar="N")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="number of the first case")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--only", default="", metavar="KIND", help="only commands whose name contains this word")
    given = parser.parse_args()
    began, faults = time.monotonic(), 0
    import_everything()
    with contextlib.suppress(ImportError):
        import distributed  # noqa: F401
    with tempfile.TemporaryDirectory(prefix="pyxsim-interrupt-") as name:
        cases = Cases(Path(name), [kind for kind in KINDS if given.only in kind.name])
        for number in range(given.first, given.first + given.cases):
            wrong = cases.run(number, given.seed)
            faults += bool(wrong)
            for line in wrong:
                print(line, flush=True)
    for kind in cases.kinds:
        counts = {signal_name: cases.signals[kind.name, signal_name] for signal_name in dict.fromkeys(SIGNALS)}
        row = ", ".join(f"{count} {signal_name}" for signal_name, count in counts.items())
        print(f"{kind.name}: {sum(counts.values())} ({row})")
    cpu = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    took = time.monotonic() - began
    print(
        f"{given.cases} interruptions ({cases.late} after the end of the command): {faults} faults; "
        f"{cpu / 60:.1f} CPU min in {took:.0f} s"
    )
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
