"""The tables of an experiment for Python: `pyxsim.Experiment(network=pyxsim.Torus([4, 4]), ...)`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from pydantic_core import PydanticUndefined

from pyxsim.settings.types import Table


def documented(table: type[Table]) -> type[Table]:
    """Give a table a docstring with its parameters and a signature with the defaults as a file writes them."""
    head = inspect.getdoc(table) or ""
    if "\nParameters\n" not in head:
        table.__doc__ = "\n".join([head, "", "Parameters", "----------", *_parameters(table)])
        keyword = inspect.Parameter.KEYWORD_ONLY
        shown = [
            inspect.Parameter(name, keyword, default=_default(field)) for name, field in table.model_fields.items()
        ]
        table.__signature__ = inspect.Signature(shown)
    return table


def _parameters(table: type[Table]) -> Iterator[str]:
    for name, field in table.model_fields.items():
        yield name
        yield f"    {field.description or ''}".rstrip()


def _default(field: Any) -> Any:
    if field.is_required():
        return inspect.Parameter.empty
    default = field.get_default(call_default_factory=True)
    return inspect.Parameter.empty if default is PydanticUndefined else default
