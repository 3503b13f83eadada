"""Exit codes of commands, and their error messages. Only a bug prints a traceback."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import traceback

from pyxsim.errors import InputError, PyxsimError, StuckError, cut
from pyxsim.peak_memory import memory_limit

BUG = 1
SIGNAL = 128  # a command that signal n ends exits with 128 + n, as in shells
TRACEBACK = "PYXSIM_TRACEBACK"


def exit_code(error: BaseException, signal_number: int = signal.SIGINT) -> int:
    """Return the exit code of an error; `signal_number` caused a KeyboardInterrupt."""
    if isinstance(error, PyxsimError):
        return error.exit_code
    if isinstance(error, KeyboardInterrupt):
        return SIGNAL + signal_number
    if isinstance(error, BrokenPipeError):
        return SIGNAL + signal.SIGPIPE
    fault = _system_fault(error) or _user_fault(error)
    return BUG if fault is None else fault.exit_code


def lines(error: BaseException) -> list[str]:
    """Return the lines for an error: one for each fault of the input, one for anything else."""
    if isinstance(error, InputError):
        return str(error).splitlines()
    if isinstance(error, StuckError):
        return [_one_line(str(error)), *map(_one_line, error.waits)]
    if isinstance(error, PyxsimError):
        return [_one_line(str(error))]
    if isinstance(error, KeyboardInterrupt):
        return [f"interrupted; {error}" if error.args else "interrupted"]
    if isinstance(error, BrokenPipeError):
        return []  # the reader of the output has closed it
    if isinstance(error, MemoryError):
        what = str(error)  # pyxsim's own text starts with "for"; NumPy's is a sentence
        part = f"not enough memory{' ' if what.startswith('for ') or not what else ': '}{what}".rstrip()
        return [_one_line(f"{part}; {_of_memory()}")]
    if (fault := _system_fault(error) or _user_fault(error)) is not None:
        return [str(fault)]
    hint = "" if os.environ.get(TRACEBACK) == "1" else f"; {TRACEBACK}=1 shows where"
    from pyxsim.library import in_use  # as in _user_fault

    whose = "pyxsim, or of a file of --library" if in_use() else "pyxsim"
    return [_one_line(f"this is a bug of {whose}: {type(error).__name__}: {cut(str(error))}{hint}")]


def unwrapped(error: BaseException) -> BaseException:
    """Return the KeyboardInterrupt that pydantic caught while it built or wrote a model, or the error itself."""
    of_pydantic = type(error).__module__.startswith("pydantic_core")
    wrapped = of_pydantic and str(error).rstrip(": \n").endswith("KeyboardInterrupt")
    return KeyboardInterrupt() if wrapped else error


def tell(error: BaseException, signal_number: int = signal.SIGINT) -> int:
    """Print an error on stderr and return its exit code."""
    if isinstance(error, BrokenPipeError):
        silence()
    bug = isinstance(error, Exception) and not isinstance(error, PyxsimError | BrokenPipeError)
    bug = bug and _system_fault(error) is None
    if bug and os.environ.get(TRACEBACK) == "1":
        traceback.print_exception(error)
    for line in lines(error):
        complain(line)
    return exit_code(error, signal_number)


def complain(line: str) -> None:
    """Print one line on stderr, also beside a progress bar."""
    try:
        print(f"pyxsim: {line}", file=sys.stderr, flush=True)
    except BrokenPipeError:
        silence()


def silence() -> None:
    """Discard pending output: Python flushes its streams again when it exits."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with contextlib.suppress(OSError, ValueError):  # a stream without a file
                os.dup2(nowhere, stream.fileno())


def without_terminal() -> None:
    """Discard stdout and stderr if they were a terminal that has closed: writing to it fails."""
    for number in (1, 2):
        try:
            os.write(number, b"")
        except OSError:
            with contextlib.suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), number)


def _of_memory() -> str:
    """What to change where memory runs out."""
    remedy = "fewer NPUs, smaller tables ([output] attribution, window) or a backend without packets require less"
    limit = memory_limit()
    return remedy if limit is None else f"{limit[1]} limits memory to {limit[0] / 1e9:.3g} GB; {remedy}"


def _system_fault(error: BaseException) -> InputError | None:
    """The fault of a file that the operating system refused (a full disk, a name too long), or None."""
    if not isinstance(error, OSError) or not error.errno:
        return None
    names = [os.fsdecode(name) for name in (error.filename, error.filename2) if isinstance(name, str | bytes)]
    return InputError(os.strerror(error.errno), file=names[0] if names else None)


def _user_fault(error: BaseException) -> InputError | None:
    """The fault of a user's library file that raised this error, or None."""
    from pyxsim.library import user_fault  # slow to import, and few commands fail

    return user_fault(error)


def _one_line(text: str) -> str:
    return " ".join(text.split())
