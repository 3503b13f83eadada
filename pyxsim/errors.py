"""The errors of pyxsim; the class determines the exit code of the command.

2: the input is wrong. 3: the simulated system failed. 1: a bug of pyxsim.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from typing import Any, ClassVar

KEPT = 100  # characters at either end of a part of a message that echoes a long input
LONGEST_LIST = 8000  # characters of a list of allowed words
LONGEST_WORD = 200  # of one with a closest match
MOST_FAULTS = 100  # lines of several faults


class PyxsimError(Exception):
    """The base class of all errors that pyxsim raises deliberately.

    Attributes
    ----------
    in_command
        Whether a command is running: texts name its options, else the parameters of the Python functions.
    """

    exit_code = 1
    in_command: ClassVar[bool] = False

    def __str__(self) -> str:
        return _spelled(super().__str__())


_PARAMETERS = {
    "allow-deadlock": "allow_deadlock=True",
    "allow-oom": "allow_oom=True",
    "carry": "output.carry = true",
    "counter": "counters",
    "from": "begin",
    "library": "libraries",
    "max-events": "most_events",
    "no-skip": "run.skip = false",
    "set": "overrides",
    "threads": "run.threads",
    "to": "end",
    **{name: name for name in ("backend", "dask", "device", "kind", "links", "npus", "plot", "rank", "shape", "size")},
    **{name: name for name in ("groups", "network", "passes", "repeat", "retry", "scheduling", "workers")},
    **{name: name.replace("-", "_") for name in ("comm-scale", "compute-scale", "injection-scale", "num-passes")},
    **{name: name.replace("-", "_") for name in ("num-queues-per-dim", "rendezvous-protocol", "stat-row")},
    **{name: name.replace("-", "_") for name in ("from-device", "to-device", "precision", "tensor", "ranks")},
}
"""Options of the commands and the parameters or settings of the same meaning in Python."""
_OPTION = re.compile(
    r"`[^`]*`|(?<![\w-])--([a-z-]+[a-z])(?: (packet|analytical-congestion|analytical|flow|DIR)(?![\w-]))?"
)


def _spelled(text: str) -> str:
    """Return an error text with parameters for options, outside commands in backquotes."""

    def parameter(option: re.Match[str]) -> str:
        name = _PARAMETERS.get(option[1] or "")
        if name is None:
            return option[0]
        value = f"['{option[2]}']" if name == "libraries" else f"'{option[2]}'"
        return name if option[2] is None else f"{name}={value}"

    return text if PyxsimError.in_command or "--" not in text else _OPTION.sub(parameter, text)


def _one_line(text: str) -> str:
    """The text on one line: line breaks become blanks, other unprintable characters are escaped."""
    words = " ".join(text.split())
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in words)


def cut(text: str, most: int = 500) -> str:
    """Return a text; of one with more than `most` characters, the first and last hundred."""
    return text if len(text) <= most else f"{text[:KEPT]} [... {len(text) - 2 * KEPT} characters ...] {text[-KEPT:]}"


def nearest(word: str, words: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the closest match of a misspelt word among `words`, or None; `cutoff` is that of difflib."""
    if len(word) > LONGEST_WORD:
        return None
    plain: dict[str, str] = {}
    for candidate in words:
        plain.setdefault(_squeeze(candidate), candidate)
    matches = difflib.get_close_matches(_squeeze(word), plain, n=1, cutoff=cutoff)
    return plain[matches[0]] if matches else None


def _squeeze(word: str) -> str:
    # all_reduce, all-reduce and allReduce are the same word.
    return word.lower().replace("_", "").replace("-", "").replace(" ", "")


def closest(word: str, words: Iterable[str]) -> str:
    """Return "; did you mean 'x'?" for an error text, or "" if no word is close."""
    match = nearest(word, words)
    return f"; did you mean '{match}'?" if match is not None else ""


class InputError(PyxsimError, ValueError):
    """A fault of the input, reported in one line.

    It is a ValueError so that validators (pydantic) collect it with the other faults of a file.

    Parameters
    ----------
    problem
        What is wrong.
    file, key
        Where: the file, and the setting or option.
    allowed
        A text, or the allowed words.
    given
        The word that was read; the line then ends with the closest allowed word.
    """

    exit_code = 2

    def __init__(
        self,
        problem: str,
        *,
        file: str | None = None,
        key: str | None = None,
        allowed: str | Iterable[str] | None = None,
        given: str | None = None,
    ) -> None:
        self.problem = problem
        self.file = file
        self.key = key
        self.allowed: str | tuple[str, ...] | None = (
            allowed if allowed is None or isinstance(allowed, str) else tuple(allowed)
        )
        self.given = given
        super().__init__(problem)

    def __str__(self) -> str:
        text = ": ".join(cut(part) for part in (self.file, self.key, self.problem) if part)
        if isinstance(self.allowed, str):
            text += f"; allowed: {cut(self.allowed, LONGEST_LIST)}"
        elif self.allowed is not None:
            text += f"; allowed: {cut(', '.join(self.allowed), LONGEST_LIST) or 'none'}"
            if self.given is not None:
                text += closest(self.given, self.allowed)
        return _one_line(_spelled(text))

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions pickle only their positional arguments; worker processes send this one with its keywords.
        return _rebuild, (type(self), self.problem, self.file, self.key, self.allowed, self.given)

    def at(self, *, file: str | None = None, key: str | None = None) -> InputError:
        """Return the fault with its file and key, where they were not known."""
        placed = copy(self)
        placed.file, placed.key = self.file or file, self.key or key
        return placed

    def named_by(self, key: str) -> InputError:
        """Return the fault of a file as one of the setting that names it; a fault with a key stays the same."""
        if self.key is not None:
            return self
        placed = copy(self)
        placed.problem = f"{self.file}: {self.problem}" if self.file else self.problem
        placed.file, placed.key = None, key
        return placed


def _rebuild(
    kind: type[InputError],
    problem: str,
    file: str | None,
    key: str | None,
    allowed: str | tuple[str, ...] | None,
    given: str | None,
) -> InputError:
    return kind(problem, file=file, key=key, allowed=allowed, given=given)


class InputErrors(InputError):
    """Several faults of one input, in `faults`; the text has a line for each."""

    def __init__(self, faults: Sequence[InputError]) -> None:
        super().__init__(f"{len(faults)} faults")
        self.faults = list(faults)

    def __str__(self) -> str:
        lines = [str(fault) for fault in self.faults[:MOST_FAULTS]]
        more = len(self.faults) - len(lines)
        return "\n".join([*lines, f"and {more} more faults"] if more else lines)

    def __reduce__(self) -> tuple[object, ...]:
        return InputErrors, (self.faults,)

    def at(self, *, file: str | None = None, key: str | None = None) -> InputErrors:
        """Return the faults with their file and key, where they were not known."""
        return InputErrors([fault.at(file=file, key=key) for fault in self.faults])

    def named_by(self, key: str) -> InputErrors:
        """Return the faults as `InputError.named_by`."""
        return InputErrors([fault.named_by(key) for fault in self.faults])


def bundle(faults: Sequence[InputError]) -> InputError:
    """Return one fault unchanged, several as InputErrors."""
    return faults[0] if len(faults) == 1 else InputErrors(faults)


def raise_all(faults: Sequence[InputError]) -> None:
    """Raise the faults, if there are any."""
    if faults:
        raise bundle(faults)


class LockstepLost(Exception):
    """Only some NPUs are simulated, and the others would do something else: the run starts over with all of them.

    The message is the reason.
    """


class SimulationError(PyxsimError):
    """The simulated system failed; the input is valid. `report`: what `pyxsim.check` had found before."""

    exit_code = 3
    report: Any = None


class DeadlockError(SimulationError):
    """Packets wait for each other in a cycle; `cycle` names its members in order."""

    def __init__(self, message: str, cycle: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.cycle = list(cycle)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.args[0], self.cycle)


class StuckError(SimulationError):
    """No event is left although work remains. `waits`: a line for each task that waits."""

    def __init__(self, message: str, waits: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.waits = list(waits)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.args[0], self.waits)


class UnreachableError(SimulationError):
    """The network has no route between two nodes that communicate."""


def single_faults(error: InputError) -> list[InputError]:
    """Return the single faults of an error."""
    return error.faults if isinstance(error, InputErrors) else [error]


def all_or_faults(*steps: Callable[[], Any]) -> list[Any]:
    """Return what the steps return. Raises the faults of all of them together."""
    values, faults = [], []
    for step in steps:
        try:
            values.append(step())
        except InputError as error:
            faults += single_faults(error)
    raise_all(faults)
    return values
