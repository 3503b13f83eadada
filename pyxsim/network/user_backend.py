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
    """Wrap `send_many` and `advance` of a class, where it defines them: wrong returns raise InputError."""
    for name, wrap in (("send_many", _checked_send_many), ("advance", _checked_advance)):
        if callable(method := vars(backend).get(name)):
            setattr(backend, name, wrap(method))


def _checked_send_many(method: Callable[..., Any]) -> Callable[..., int]:
    @wraps(method)
    def send_many(self: Any, src: IntArray, *arguments: Any, **options: Any) -> int:
        before = self.messages_numbered
        first = method(self, src, *arguments, **options)
        if not isinstance(first, int | np.integer) or isinstance(first, bool) or first < before:
            allowed = f"the number of the first message, at least {before}"
            raise _fault(self, method, f"returned {first!r}", allowed)
        self.messages_numbered = int(first) + len(src)
        return int(first)

    return send_many


def _checked_advance(method: Callable[..., Any]) -> Callable[..., tuple[IntArray, IntArray]]:
    @wraps(method)
    def advance(self: Any, until: int | None, **options: Any) -> tuple[IntArray, IntArray]:
        before = self.now
        returned = method(self, until, **options)
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
