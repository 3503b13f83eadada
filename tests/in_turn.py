"""Cases that take less time than pytest takes for a test, one after the other in one test."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any

import pytest

Test = Callable[..., None]


def in_turn(names: str | Sequence[str], cases: Iterable[Any]) -> Callable[[Test], Test]:
    """`pytest.mark.parametrize` within one test: it carries out all cases, and fails with those that fail.

    Fixtures are made once for all cases. Below `pytest.mark.parametrize`; several make a product, as there.
    """
    keys = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    rows = [dict(zip(keys, [case] if len(keys) == 1 else case, strict=True)) for case in cases]
    assert rows

    def decorate(test: Test) -> Test:
        @wraps(test)
        def all_cases(**others: Any) -> None:
            failures = []
            for row in rows:
                try:
                    test(**others, **row)
                except (Exception, pytest.fail.Exception) as failure:
                    failure.add_note(f"in the case {row}")
                    failures.append(failure)
            if len(failures) == 1:
                raise failures[0]
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {len(rows)} cases fail", failures)

        signature = inspect.signature(test)
        parameters = [each for name, each in signature.parameters.items() if name not in keys]
        assert len(parameters) + len(keys) == len(signature.parameters), "a case names what the test does not take"
        all_cases.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return all_cases

    return decorate
