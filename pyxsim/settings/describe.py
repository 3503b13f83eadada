"""Describe the allowed values of settings in words, from the types of their models."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, get_args

from pydantic import BaseModel

from pyxsim.settings.types import MANY


def models_in(annotation: object) -> Iterator[type[BaseModel]]:
    """Yield the table models inside a type such as `tuple[Dimension, ...] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from models_in(inner)


def table_headers(path: str, annotation: object) -> list[str]:
    """Return the forms of a table's header: [path] for one, [[path]] for several, or both."""
    several = "tuple[" in str(annotation)
    return [*([f"[{path}]"] if not several or MANY in str(annotation) else []), *([f"[[{path}]]"] if several else [])]


@cache
def _schema(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of a model: 60 ms for an experiment, and every override needs it."""
    return model.model_json_schema()


def words_of(model: type[BaseModel], key: str) -> str:
    """Describe the allowed values of a key: "a size such as '4 KiB'"."""
    schema = _schema(model)
    return _in_words(schema["properties"][key], schema.get("$defs", {}))


def list_words(model: type[BaseModel], key: str, path: str) -> str:
    """Describe a key whose value is a list, with an example; `path` is its key path in the file."""
    schema = _schema(model)["properties"][key]
    items = next(option for option in schema.get("anyOf", [schema]) if option.get("type") == "array")["items"]
    if "$ref" in items:
        return f"a table [[{path}]] for each entry"
    each = {"integer": 4, "number": 1.5}.get(items["type"], "..")
    return f"a list such as [{each}, {each}], each {_in_words(items, {})}"


def _in_words(schema: dict[str, Any], defs: dict[str, Any]) -> str:
    options = schema.get("anyOf") or schema.get("oneOf")
    if options:
        words = [_in_words(option, defs) for option in options if option.get("type") != "null"]
        # "one value, or one per dimension" would describe its element twice.
        return " or ".join("a list of them" if word == f"a list, each {words[0]}" else word for word in words)
    if "$ref" in schema or schema.get("type") == "object":
        return "a table"
    if "enum" in schema or "const" in schema:
        return " or ".join(f"'{word}'" for word in schema.get("enum", [schema.get("const")]))
    if "format" in schema:
        return f"a {schema['format']} such as '{schema['examples'][0]}'"
    if schema.get("type") == "integer":
        return f"a whole number from {schema['minimum']} to {schema['maximum']}"
    if schema.get("type") == "array":
        return "a list, each " + _in_words(schema["items"], defs) if "items" in schema else "a list"
    return _PLAIN[schema["type"]]


_PLAIN = {"boolean": "true or false", "string": "a text", "number": "a number", "null": "nothing"}
