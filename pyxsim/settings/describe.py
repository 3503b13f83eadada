"""What a key of the settings may be, in words, from the types in its model."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, get_args

from pydantic import BaseModel

from pyxsim.settings.types import MANY


def models_in(annotation: object) -> Iterator[type[BaseModel]]:
    """The table models inside a type such as `tuple[Dimension, ...] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from models_in(inner)


def heads(path: str, annotation: object) -> list[str]:
    """How the header of a table is written: [path] once, [[path]] as often as one likes, or either."""
    several = "tuple[" in str(annotation)
    return [*([f"[{path}]"] if not several or MANY in str(annotation) else []), *([f"[[{path}]]"] if several else [])]


@cache
def _schema(model: type[BaseModel]) -> dict[str, Any]:
    """What pydantic tells of a model. It takes 60 ms for an experiment, and is asked for with every override."""
    return model.model_json_schema()


def words_of(model: type[BaseModel], key: str) -> str:
    """What a key may be, in words: "a size such as '4 KiB'"."""
    schema = _schema(model)
    return _words(schema["properties"][key], schema.get("$defs", {}))


def list_words(model: type[BaseModel], key: str, path: str) -> str:
    """What a key may be that only a list can be, with an example. `path`: of the key in the file."""
    schema = _schema(model)["properties"][key]
    items = next(option for option in schema.get("anyOf", [schema]) if option.get("type") == "array")["items"]
    if "$ref" in items:
        return f"a table [[{path}]] for each entry"
    each = {"integer": 4, "number": 1.5}.get(items["type"], "..")
    return f"a list such as [{each}, {each}], each {_words(items, {})}"


def _words(schema: dict[str, Any], defs: dict[str, Any]) -> str:
    options = schema.get("anyOf") or schema.get("oneOf")
    if options:
        words = [_words(option, defs) for option in options if option.get("type") != "null"]
        # "one value, or one per dimension" repeats itself; what a list holds need not be said twice
        return " or ".join("a list of such" if word == f"a list, each {words[0]}" else word for word in words)
    if "$ref" in schema or schema.get("type") == "object":
        return "a table"
    if "enum" in schema or "const" in schema:
        return " or ".join(f"'{word}'" for word in schema.get("enum", [schema.get("const")]))
    if "format" in schema:
        return f"a {schema['format']} such as '{schema['examples'][0]}'"
    if schema.get("type") == "integer":
        return f"a whole number from {schema['minimum']} to {schema['maximum']}"
    if schema.get("type") == "array":
        return "a list, each " + _words(schema["items"], defs) if "items" in schema else "a list"
    return _PLAIN[schema["type"]]


_PLAIN = {"boolean": "true or false", "string": "a text", "number": "a number", "null": "nothing"}
