"""How a command can end: exit codes, and the lines that tell the reason. No traceback for anything that is no bug."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import traceback

from pyxsim.errors import InputError, PyxsimError, StuckError

BUG = 1
SIGNAL = 128  # a command that ends by signal n exits with 128 + n, as shells tell it
TRACEBACK = "PYXSIM_TRACEBACK"


def exit_code(error: BaseException, signal_number: int = signal.SIGINT) -> int:
    """The exit code of an error; of an interruption by the signal that caused it."""
    if isinstance(error, PyxsimError):
        return error.exit_code
    if isinstance(error, KeyboardInterrupt):
        return SIGNAL + signal_number
    if isinstance(error, BrokenPipeError):
        return SIGNAL + signal.SIGPIPE
    return BUG


def lines(error: BaseException) -> list[str]:
    """What people are told of an error: a line for each fault of the input, one line for anything else."""
    if isinstance(error, InputError):
        return str(error).splitlines()
    if isinstance(error, StuckError):
        return [_one_line(str(error)), *map(_one_line, error.waits)]
    if isinstance(error, PyxsimError):
        return [_one_line(str(error))]
    if isinstance(error, KeyboardInterrupt):
        return [f"interrupted; {error}" if error.args else "interrupted"]
    if isinstance(error, BrokenPipeError):
        return []  # whoever read the output has gone: nobody is left to be told
    if isinstance(error, MemoryError):
        what = str(error)  # ours: "for ..."; numpy's: a sentence
        return [_one_line(f"not enough memory{' ' if what.startswith('for ') or not what else ': '}{what}")]
    hint = "" if os.environ.get(TRACEBACK) == "1" else f"; {TRACEBACK}=1 shows where"
    return [_one_line(f"this is a bug of pyxsim: {type(error).__name__}: {error}{hint}")]


def tell(error: BaseException, signal_number: int = signal.SIGINT) -> int:
    """Tell an error on stderr and return its exit code."""
    if isinstance(error, BrokenPipeError):
        silence()
    bug = isinstance(error, Exception) and not isinstance(error, PyxsimError | BrokenPipeError)
    if bug and os.environ.get(TRACEBACK) == "1":
        traceback.print_exception(error)
    for line in lines(error):
        complain(line)
    return exit_code(error, signal_number)


def complain(line: str) -> None:
    """One line on stderr, wherever the cursor of a progress bar stands."""
    try:
        print(f"pyxsim: {line}", file=sys.stderr, flush=True)
    except BrokenPipeError:
        silence()


def silence() -> None:
    """Send what is still to be written nowhere: Python flushes its streams once more when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with contextlib.suppress(OSError, ValueError):  # a stream without a file has nothing to lose
                os.dup2(nowhere, stream.fileno())


def without_terminal() -> None:
    """Send stdout and stderr nowhere if they were a terminal that is gone: to write there is an error."""
    for number in (1, 2):
        try:
            os.write(number, b"")
        except OSError:
            with contextlib.suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), number)


def _one_line(text: str) -> str:
    return " ".join(text.split())
