"""Translate pydantic's errors into one InputError each, with the key path as the user wrote it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from pyxsim.errors import InputError, InputErrors, nearest
from pyxsim.settings.describe import list_words, models_in, table_headers, words_of
from pyxsim.settings.types import MANY, ONE, TABLE, WORD, shown

Loc = Sequence[str | int]
_BRANCHES = {ONE, MANY, WORD, TABLE}


def key_path(loc: Loc) -> str:
    """Convert ("network", "dims", 1, "block") to "network.dims[1].block"; marks of union branches are dropped."""
    path = ""
    for part in loc:
        if isinstance(part, int):
            path += f"[{part}]"
        elif part not in _BRANCHES:
            plain = part if re.fullmatch(r"[\w-]+", part) else f'"{part}"'
            path += f".{plain}" if path else plain
    return path


def join(outer: str, inner: str | None) -> str:
    """Join two key paths; the inner one may start with an index."""
    if not inner or not outer:
        return outer or inner or ""
    return f"{outer}{inner}" if inner.startswith("[") else f"{outer}.{inner}"


def fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the fields of a table by their keys in a file."""
    return {info.alias or name: info for name, info in model.model_fields.items()}


def model_at(root: type[BaseModel], loc: Loc) -> type[BaseModel] | None:
    """Return the model of the table at a location, or None if no table with known keys is there."""
    model: type[BaseModel] | None = root
    for part in loc:
        if isinstance(part, int) or part in _BRANCHES:
            continue
        if model is None or part not in fields(model):
            return None
        model = next(models_in(fields(model)[part].annotation), None)
    return model


def all_keys(
    model: type[BaseModel], path: str = "", head: str = "the top of the file"
) -> Iterator[tuple[str, str, str]]:
    """Yield the name of each key of a table and of the tables in it, its key path, and the header of its table."""
    for key, info in fields(model).items():
        inside = join(path, key)
        yield key, inside, head
        for inner in dict.fromkeys(models_in(info.annotation)):
            yield from all_keys(inner, inside, table_headers(inside, info.annotation)[0])


def unknown_key(root: type[BaseModel], loc: Loc) -> InputError:
    """Return the error for an unknown key, with the tables that have it or the closest known key, here or elsewhere."""
    name, model = str(loc[-1]), model_at(root, loc[:-1])
    words = list(fields(model)) if model is not None else []
    everywhere = list(all_keys(root))
    tables = [(path, head) for key, path, head in everywhere if key == name]
    if loc[0] != "job":  # a job repeats tables of the top level
        tables = [each for each in tables if not each[0].startswith("job.")] or tables
    if tables:
        problem = f"unknown key here; it belongs to {' or '.join(head for _, head in tables)}"
    elif words and nearest(name, words) is None and (paths := _near(name, everywhere, f"{key_path(loc[:-1])}.")):
        words_and_path = f"{', '.join(words)}; did you mean {' or '.join(paths)}?"
        return InputError("unknown key", key=key_path(loc), allowed=words_and_path, given=name)
    else:
        problem = "unknown key"
    return InputError(problem, key=key_path(loc), allowed=words, given=name)


def _near(name: str, keys: Sequence[tuple[str, str, str]], table: str) -> list[str]:
    """The key paths with the closest name: those inside the table, if there are any, else those of other tables.

    The other tables have hundreds of keys, and some short one resembles almost any word: those must be closer.
    """
    for candidates, cutoff in (([key for key in keys if key[1].startswith(table)], 0.6), (keys, 0.75)):
        if (closest := nearest(name, [key for key, *_ in candidates], cutoff)) is not None:
            return list(dict.fromkeys(path for key, path, _ in candidates if key == closest))
    return []


def _missing(root: type[BaseModel], error: Mapping[str, Any]) -> InputError:
    loc = error["loc"]
    model = model_at(root, loc[:-1])
    info = fields(model)[str(loc[-1])] if model is not None else None
    table = info is not None and next(models_in(info.annotation), None) is not None
    if info is not None and table:
        return InputError(f"the table {table_headers(key_path(loc), info.annotation)[0]} is missing", key=key_path(loc))
    allowed = words_of(model, str(loc[-1])) if model is not None else None
    return InputError("is missing", key=key_path(loc), allowed=allowed)


def _literal(root: type[BaseModel], error: Mapping[str, Any]) -> InputError:
    words = re.findall(r"'([^']*)'", error["ctx"]["expected"])
    given = error["input"]
    return InputError(
        f"unknown value {shown(given)}",
        key=key_path(error["loc"]),
        allowed=words,
        given=given if isinstance(given, str) else None,
    )


def _no_table(root: type[BaseModel], error: Mapping[str, Any]) -> InputError:
    loc = error["loc"]
    model, path = model_at(root, loc), key_path(loc)
    allowed = "a table such as { key = value }"
    if model is not None:
        head = f"[[{key_path(loc[:-1])}]]" if isinstance(loc[-1], int) else f"[{path}]"
        allowed = f"a table {head} with the keys {', '.join(fields(model))}"
    return InputError(f"{shown(error['input'])} is not a table", key=path, allowed=allowed)


_SIZES = re.compile(r"\d+([x,]\d+)+", re.ASCII)  # "4x4"


def _no_list(root: type[BaseModel], error: Mapping[str, Any]) -> InputError:
    loc = error["loc"]
    model, path = model_at(root, loc[:-1]), key_path(loc)
    allowed = list_words(model, str(loc[-1]), path) if model is not None else None
    value = error["input"]
    meant = f"; did you mean [{', '.join(re.split('[x,]', value))}]?" if _SIZES.fullmatch(str(value)) else ""
    return InputError(f"{shown(value)} is not a list{meant}", key=path, allowed=allowed)


def _empty(root: type[BaseModel], error: Mapping[str, Any]) -> InputError:
    return InputError("the list is empty", key=key_path(error["loc"]), allowed="at least one entry")


def _unknown(root: type[BaseModel], error: Mapping[str, Any]) -> InputError:
    return unknown_key(root, error["loc"])


def _no_text(root: type[BaseModel], error: Mapping[str, Any]) -> InputError:
    return InputError(f"the key {shown(error['input'])} is not a string", key=key_path(error["loc"][:-1]))


def _no_unicode(root: type[BaseModel], error: Mapping[str, Any]) -> InputError:
    # An unpaired surrogate; it can come from Python only.
    return InputError("the string is not valid Unicode", key=key_path(error["loc"]))


_TRANSLATIONS: dict[str, Callable[[type[BaseModel], Mapping[str, Any]], InputError]] = {
    "extra_forbidden": _unknown,
    "missing": _missing,
    "literal_error": _literal,
    "model_type": _no_table,
    "model_attributes_type": _no_table,
    "dict_type": _no_table,
    "mapping_type": _no_table,
    "tuple_type": _no_list,
    "list_type": _no_list,
    "too_short": _empty,
    "invalid_key": _no_text,
    "string_unicode": _no_unicode,
}


def translate(error: ValidationError, root: type[BaseModel]) -> list[InputError]:
    """Return all errors in pydantic's order; `root` is the model that was validated."""
    faults: list[InputError] = []
    for detail in error.errors(include_url=False):
        if detail["type"] == "too_short" and detail["input"]:
            continue  # pydantic drops faulty entries before it counts; their errors are in the list already
        cause = detail.get("ctx", {}).get("error")
        if isinstance(cause, InputError):
            key = key_path(detail["loc"])
            inner = cause.faults if isinstance(cause, InputErrors) else [cause]
            for one in inner:
                moved = InputError(one.problem, key=join(key, one.key), allowed=one.allowed, given=one.given)
                faults.append(moved)
        elif detail["type"] in _TRANSLATIONS:
            faults.append(_TRANSLATIONS[detail["type"]](root, detail))
        else:  # an error type that no setting can cause today: pydantic's own message, also one line
            faults.append(InputError(detail["msg"], key=key_path(detail["loc"])))
    return faults
