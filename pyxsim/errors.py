"""What can go wrong, by whose fault it is; the exit code of the command line follows from the class.

2: the input is wrong. 3: the simulated system failed. 1: anything else, that is pyxsim itself.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from typing import Any


class PyxsimError(Exception):
    """Base of every error that pyxsim raises on purpose."""

    exit_code = 1


def _one_line(text: str) -> str:
    """The text on one line: line breaks become blanks, other unprintable characters are escaped."""
    words = " ".join(text.split())
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in words)


def nearest(word: str, words: Iterable[str]) -> str | None:
    """The one of `words` that a typing error most likely turned into `word`, or None."""
    plain: dict[str, str] = {}
    for candidate in words:
        plain.setdefault(_squeeze(candidate), candidate)
    found = difflib.get_close_matches(_squeeze(word), plain, n=1, cutoff=0.6)
    return plain[found[0]] if found else None


def _squeeze(word: str) -> str:
    # all_reduce, all-reduce and allReduce differ only in habits of spelling.
    return word.lower().replace("_", "").replace("-", "").replace(" ", "")


def closest(word: str, words: Iterable[str]) -> str:
    """The end of an error text: "; did you mean 'x'?", or nothing when no word is close."""
    found = nearest(word, words)
    return f"; did you mean '{found}'?" if found is not None else ""


class InputError(PyxsimError, ValueError):
    """A fault in what the user wrote, told in one line.

    `problem` says what is wrong, `file` and `key` say where. `allowed` is a text, or the list of the allowed words;
    with a list and the word that was `given` the line ends with the closest match.

    It is a ValueError so that validators (pydantic) collect it together with the other faults of a file.
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
        text = ": ".join(part for part in (self.file, self.key, self.problem) if part)
        if isinstance(self.allowed, str):
            text += f"; allowed: {self.allowed}"
        elif self.allowed is not None:
            text += f"; allowed: {', '.join(self.allowed) or 'nothing here'}"
            if self.given is not None:
                text += closest(self.given, self.allowed)
        return _one_line(text)

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions pickle by their positional arguments; worker processes send ours home with the keywords too.
        return _rebuild, (type(self), self.problem, self.file, self.key, self.allowed, self.given)

    def at(self, *, file: str | None = None, key: str | None = None) -> InputError:
        """The same fault with its place filled in where it was not known yet."""
        placed = copy(self)
        placed.file, placed.key = self.file or file, self.key or key
        return placed

    def named_by(self, key: str) -> InputError:
        """The same fault of a thing that the setting `key` names, such as a file, which then has two places.

        A fault that knows the key that it is about stays as it is.
        """
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
    """Several faults of one input, in `faults`; the text has one line for each."""

    def __init__(self, faults: Sequence[InputError]) -> None:
        super().__init__(f"{len(faults)} faults")
        self.faults = list(faults)

    def __str__(self) -> str:
        return "\n".join(str(fault) for fault in self.faults)

    def __reduce__(self) -> tuple[object, ...]:
        return InputErrors, (self.faults,)

    def at(self, *, file: str | None = None, key: str | None = None) -> InputErrors:
        """The same faults, each with its place filled in where it was not known yet."""
        return InputErrors([fault.at(file=file, key=key) for fault in self.faults])

    def named_by(self, key: str) -> InputErrors:
        """The same faults, each as `InputError.named_by` tells it."""
        return InputErrors([fault.named_by(key) for fault in self.faults])


def bundle(faults: Sequence[InputError]) -> InputError:
    """One fault as it is, several as InputErrors."""
    return faults[0] if len(faults) == 1 else InputErrors(faults)


def raise_all(faults: Sequence[InputError]) -> None:
    """Raise what there is: nothing, one fault, or several together."""
    if faults:
        raise bundle(faults)


class SimulationError(PyxsimError):
    """The simulated system failed; the input was readable and the simulator works."""

    exit_code = 3


class DeadlockError(SimulationError):
    """Packets wait for each other in a circle; `cycle` names the members in order."""

    def __init__(self, message: str, cycle: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.cycle = list(cycle)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.args[0], self.cycle)


class StuckError(SimulationError):
    """The network has nothing left to carry, and not all is done. `waits`: a line for each who waits."""

    def __init__(self, message: str, waits: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.waits = list(waits)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.waits)


class UnreachableError(SimulationError):
    """The network has no route between two nodes that must talk."""


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
