"""Python's garbage collector during a run."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import wraps
from types import SimpleNamespace
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def without_collection(function: Callable[P, R]) -> Callable[P, R]:
    """Disable the collector during a function that makes many objects and drops few."""

    @wraps(function)
    def wrapper(*args: P.args, **options: P.kwargs) -> R:
        enabled = gc.isenabled()
        gc.disable()
        try:
            return function(*args, **options)
        finally:
            if enabled:
                gc.enable()

    return wrapper


_frozen = SimpleNamespace(by_program=False, by_run=False)


def with_frozen_objects(function: Callable[P, R]) -> Callable[P, R]:
    """During a function, collect only among objects that it makes, not again and again among all earlier ones.

    Where the program has frozen objects itself, they stay frozen. Counting frozen objects takes 10 ms for a million, so
    it is done only until the count is not zero.
    """

    @wraps(function)
    def wrapper(*args: P.args, **options: P.kwargs) -> R:
        if not (_frozen.by_program or _frozen.by_run):
            _frozen.by_program = gc.get_freeze_count() > 0
        if _frozen.by_program or _frozen.by_run:
            return function(*args, **options)
        gc.freeze()
        _frozen.by_run = True
        try:
            return function(*args, **options)
        finally:
            _frozen.by_run = False
            gc.unfreeze()

    return wrapper
