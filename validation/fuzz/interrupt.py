"""`python -m validation.fuzz.interrupt`: send signals to commands at random moments.

Each case runs a command in an empty folder, sends SIGINT, SIGTERM, SIGHUP, SIGKILL, or SIGSTOP and SIGCONT after a
random time, and once more at times. Then the command must end, leave no process, no lock and no temporary file, and
every output must be absent or readable; the command that continues it must give what an uninterrupted run gives, to
the bit.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from validation.fuzz.seeds import COLLECTIVE, NETWORK, TRAFFIC

ENDS_S = 45.0  # after the signal
MARK = "PYXSIM_INTERRUPTED"  # an environment variable that all processes of a case inherit
SIGNALS = ("SIGINT", "SIGINT", "SIGTERM", "SIGHUP", "SIGKILL", "SIGSTOP")
LONG = (
    NETWORK.replace("[4]", "[8]")
    + COLLECTIVE.replace("4 KiB", "3 MiB")
    + '[output]\nwindow = "1 us"\n[run]\nskip = false\n'
)
SWEEP = LONG + '[sweep]\n"system.chunks" = [1, 2, 3]\n"collective.size" = ["256 KiB", "1 MiB"]\n'


@dataclass(frozen=True)
class Kind:
    """A command, the files that it writes, how it is continued (by default with itself), and how long it takes."""

    name: str
    command: str
    outputs: tuple[str, ...]
    seconds: float
    again: str = ""
    weight: int = 3


KINDS = (
    Kind("run", "run x.toml -o out.h5 -q", ("out.h5",), 4.0),
    Kind("checkpoint", "run x.toml -o out.h5 --checkpoint 0.2s -q", ("out.h5",), 5.0, "resume out.h5.checkpoint -q", 6),
    Kind("sweep", "sweep s.toml -o s --workers 2 -q", ("s/table.csv", "s/table.h5"), 8.0, weight=4),
    Kind("dask", "sweep s.toml -o s --dask local --workers 2 -q", ("s/table.csv", "s/table.h5"), 14.0, weight=4),
    Kind("compare", "compare x.toml --set collective.size=512KiB -o out.h5 -q", ("out.h5",), 5.0),
    Kind("curve", "curve t.toml --loads 0.1,0.2,0.3 --workers 2 -o out.h5 -q", ("out.h5",), 5.0),
    Kind("report", "report in.h5 -o out.html -q", ("out.html",), 3.0),
)


def pyxsim(command: str, folder: Path, **more: str) -> subprocess.Popen[bytes]:
    """Start a command in a session of its own, with its own folder for temporary files."""
    folder.joinpath("tmp").mkdir(exist_ok=True)
    environment = {**os.environ, "TMPDIR": str(folder / "tmp"), "PYXSIM_CONFIG": str(folder.parent / "config"), **more}
    with open(folder / "stderr.txt", "ab") as errors:
        words = [sys.executable, "-m", "pyxsim", *command.split()]
        return subprocess.Popen(
            words, cwd=folder, env=environment, stderr=errors, stdout=errors, start_new_session=True
        )


def prepare(folder: Path) -> None:
    """Write the inputs of a case."""
    folder.mkdir()
    for name, text in (("x", LONG), ("s", SWEEP), ("t", TRAFFIC.replace("measure = 100", "measure = 20000"))):
        (folder / f"{name}.toml").write_text(text, encoding="utf-8")


def interrupted(kind: Kind, rng: Random, folder: Path, reference: Path) -> Iterator[str]:
    """Run a case; yield what is wrong."""
    prepare(folder)
    if kind.name == "report":
        shutil.copy(reference / "in.h5", folder / "in.h5")
    token = f"{os.getpid()}-{folder.name}"
    process = pyxsim(kind.command, folder, **{MARK: token})
    name = rng.choice(SIGNALS)
    time.sleep(rng.uniform(0.3, kind.seconds))
    _send(process, name, group=rng.random() < 0.3)
    if name == "SIGSTOP":
        time.sleep(rng.uniform(0.1, 1.0))
        _send(process, "SIGCONT", group=True)
    elif rng.random() < 0.3:
        time.sleep(rng.uniform(0.0, 1.5))
        _send(process, name, group=False)
    began = time.monotonic()
    try:
        code = process.wait(ENDS_S + 3 * kind.seconds)
    except subprocess.TimeoutExpired:
        yield f"does not end within {time.monotonic() - began:.0f} s of {name}"
        _kill(token)
        code = process.wait()
    number = 0 if name == "SIGSTOP" else getattr(signal, name)
    if code not in (0, 128 + number, -number, 130):
        yield f"exit code {code} after {name}"
    time.sleep(0.3)
    left = _alive(token)
    if left:
        time.sleep(2.0)
        left = _alive(token)
    if left:
        yield f"leaves processes {left} after {name}"
        _kill(token)
    if name != "SIGKILL":
        yield from _files_left(folder, name)
    yield from (f"{each} is damaged after {name}" for each in kind.outputs if not _readable(folder / each))
    if name == "SIGSTOP":
        yield from _differences(kind, folder, reference, "after SIGSTOP and SIGCONT")
        return
    has_checkpoint = (folder / "out.h5.checkpoint").exists()
    again = kind.again if kind.again and has_checkpoint else kind.command
    if pyxsim(again, folder).wait(300) != 0:
        yield f"'{again}' fails after {name}"
    yield from _files_left(folder, f"{name} and '{again}'")
    yield from _differences(kind, folder, reference, f"after {name} and '{again}'")


def _send(process: subprocess.Popen[bytes], name: str, *, group: bool) -> None:
    try:
        (os.killpg if group else os.kill)(process.pid, getattr(signal, name))
    except ProcessLookupError:
        return


def _alive(token: str) -> list[int]:
    """The processes of a case that are left."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                mine = f"{MARK}={token}".encode() in (folder / "environ").read_bytes().split(b"\0")
                zombie = "\nState:\tZ" in (folder / "status").read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
            found += [int(folder.name)] * (mine and not zombie)
    return found


def _kill(token: str) -> None:
    for pid in _alive(token):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


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
        return subprocess.run([sys.executable, "-m", "pyxsim", "diff", path, path, "-q"]).returncode == 0
    return path.suffix != ".html" or path.read_bytes().rstrip().endswith(b"</html>")


def _differences(kind: Kind, folder: Path, reference: Path, when: str) -> Iterator[str]:
    """Where the outputs differ from those of an uninterrupted command."""
    for name in kind.outputs:
        mine, theirs = folder / name, reference / kind.name / name
        if not mine.exists():
            yield f"no {name} {when}"
        elif name.endswith(".h5"):
            command = [sys.executable, "-m", "pyxsim", "diff", str(mine), str(theirs), "-q"]
            if subprocess.run(command, stderr=subprocess.DEVNULL).returncode != 0:
                yield f"{name} differs {when}"
        elif name.endswith(".csv") and mine.read_bytes() != theirs.read_bytes():
            yield f"{name} differs {when}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m validation.fuzz.interrupt", description=__doc__)
    parser.add_argument("--cases", type=int, default=1000, metavar="N")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--only", default="", metavar="KIND")
    given = parser.parse_args()
    faults, signals = 0, Counter[str]()
    with tempfile.TemporaryDirectory(prefix="pyxsim-interrupt-") as name:
        root = Path(name)
        reference = root / "reference"
        prepare(reference)
        kinds = [kind for kind in KINDS if given.only in kind.name]
        if pyxsim("run x.toml -o in.h5 -q", reference).wait() != 0:
            raise RuntimeError("the reference run fails")
        for kind in kinds:
            prepare(reference / kind.name)
            shutil.copy(reference / "in.h5", reference / kind.name)
            if pyxsim(kind.command, reference / kind.name).wait() != 0:
                raise RuntimeError(f"{kind.command} fails: {(reference / kind.name / 'stderr.txt').read_text()}")
        for number in range(given.cases):
            rng = Random(f"{given.seed}:{number}")
            kind = rng.choices(kinds, [each.weight for each in kinds])[0]
            folder = root / f"case{number}"
            wrong = list(interrupted(kind, rng, folder, reference))
            signals[kind.name] += 1
            faults += bool(wrong)
            for line in wrong:
                print(f"{number}: {kind.name}: {line}", flush=True)
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{given.cases} interruptions ({', '.join(f'{n} {name}' for name, n in signals.items())}): {faults} faults")
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
