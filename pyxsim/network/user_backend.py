"""Checks of what the methods of a user's backend return (docs/extending_backend.md)."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.errors import InputError
from pyxsim.library import file_of


def check_returns(backend: type) -> None:
    """Wrap `send_many` and `advance` of a user's class: wrong returns raise InputError.

    They are wrapped together, whichever of them the class inherits from a shipped backend. Only the methods that
    pyxsim calls are checked, not those that these reach by `super()`.
    """
    wraps_of: dict[str, Callable[..., Any]] = {"send_many": _checked_send_many, "advance": _checked_advance}
    methods = {name: getattr(backend, name) for name in wraps_of}
    if all(getattr(method, "__module__", "").startswith("pyxsim.") for method in methods.values()):
        return
    for name, method in methods.items():
        if callable(method) and not getattr(method, "__isabstractmethod__", False):
            setattr(backend, name, wraps_of[name](method))


def _checked_send_many(method: Callable[..., int]) -> Callable[..., int]:
    @wraps(method)
    def send_many(self: Any, src: IntArray, *arguments: Any, **options: Any) -> int:
        if type(self).send_many is not send_many:
            return method(self, src, *arguments, **options)
        before, count = self.messages_numbered, len(src)
        first: Any = method(self, src, *arguments, **options)
        skips = self.capabilities.background  # its packets are numbered, too
        whole = isinstance(first, int | np.integer) and not isinstance(first, bool)
        if not whole or first < before or (first > before and not skips):
            allowed = f"the number of the first message, {'at least ' if skips else ''}{before}"
            raise _fault(self, method, f"returned {first!r}", allowed)
        self.messages_numbered = end = int(first) + count
        if end > len(self.numbers_in_flight):
            more = np.zeros(2 * end - len(self.numbers_in_flight), np.bool_)
            self.numbers_in_flight = np.concatenate((self.numbers_in_flight, more))
        self.numbers_in_flight[first:end] = True
        return int(first)

    return send_many


def _checked_advance(
    method: Callable[..., tuple[IntArray, IntArray]],
) -> Callable[..., tuple[IntArray, IntArray]]:
    @wraps(method)
    def advance(self: Any, until: int | None, **options: Any) -> tuple[IntArray, IntArray]:
        if type(self).advance is not advance:
            return method(self, until, **options)
        before = self.now
        returned: Any = method(self, until, **options)
        if not isinstance(returned, tuple | list) or len(returned) != 2:
            raise _fault(self, method, f"returned {type(returned).__name__}", "(messages, cycles), two arrays")
        messages, cycles = (_int_array(self, method, column) for column in returned)
        if messages.shape != cycles.shape:
            problem = f"returned {len(messages)} messages and {len(cycles)} cycles"
            raise _fault(self, method, problem, "arrays of one length")
        if len(messages):
            if not 0 <= messages.min() <= messages.max() < self.messages_numbered:
                outside = messages[(messages < 0) | (messages >= self.messages_numbered)][0]
                sent = f"{self.messages_numbered} messages were sent, numbered from 0"
                raise _fault(self, method, f"returned message {outside}", sent)
            ordered = np.sort(messages)
            again = np.append(ordered[1:][np.diff(ordered) == 0], messages[~self.numbers_in_flight[messages]])
            if len(again):
                raise _fault(self, method, f"returned message {again[0]} again", "each message once, when it arrives")
            self.numbers_in_flight[messages] = False
            if cycles[0] < before or (np.diff(cycles) < 0).any() or (until is not None and cycles[-1] > until):
                end = "the run" if until is None else f"cycle {until}"
                allowed = f"cycles in ascending order, from {before} to the end of {end}"
                raise _fault(self, method, f"returned cycles {cycles[0]} to {cycles[-1]}", allowed)
        if not isinstance(self.now, int | np.integer) or self.now < max([before, *cycles[-1:]]):
            raise _fault(self, method, f"left `now` at {self.now!r}", "the last cycle that it returned, or a later one")
        return messages, cycles

    return advance


def _int_array(backend: Any, method: Callable[..., Any], column: Any) -> IntArray:
    try:
        array = np.asarray(column)
    except ValueError:
        array = np.asarray(None)
    if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
        what = f"an array of {array.dtype} and shape {array.shape}" if array.ndim else type(column).__name__
        raise _fault(backend, method, f"returned {what}", "two arrays int64[K], messages and cycles")
    return np.ascontiguousarray(array, np.int64)


def _fault(backend: Any, method: Callable[..., Any], problem: str, allowed: str) -> InputError:
    name = type(backend).__name__
    return InputError(f"{name}.{method.__name__}() {problem}", file=file_of(method), allowed=allowed)
