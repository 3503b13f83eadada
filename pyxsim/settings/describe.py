"""The settings in words: what a key may be, and the reference of all keys as Markdown (docs/settings.md holds it)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo


def models_in(annotation: object) -> Iterator[type[BaseModel]]:
    """The table models inside a type such as `tuple[Dimension, ...] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from models_in(inner)


def words_of(model: type[BaseModel], key: str) -> str:
    """What a key may be, in words: "a size such as '4 KiB'"."""
    schema = model.model_json_schema()
    return _words(schema["properties"][key], schema.get("$defs", {}))


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
    return {"boolean": "true or false", "string": "a text", "null": "nothing"}[schema["type"]]


def reference(model: type[BaseModel]) -> str:
    """All keys of an experiment as Markdown, one section for each table: what each may be, its default, what it is."""
    return "\n".join(_section("", model, is_list=False)).strip() + "\n"


def _section(path: str, model: type[BaseModel], *, is_list: bool) -> Iterator[str]:
    if path:
        yield from ("", f"## `[[{path}]]`" if is_list else f"## `[{path}]`")
    yield from ("", " ".join((model.__doc__ or "").split()), "")
    yield from ("| key | may be | default | |", "|---|---|---|---|")
    for key, info in model.model_fields.items():
        may_be = words_of(model, key)
        yield f"| `{key}` | {may_be} | {_default(info)} | {info.description} |".replace("  ", " ")
    for key, info in model.model_fields.items():
        for inner in models_in(info.annotation):
            inside = f"{path}.{key}" if path else key
            yield from _section(inside, inner, is_list="tuple[" in str(info.annotation))


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return "required"
    value = info.get_default(call_default_factory=True)
    if value is None or isinstance(value, BaseModel) or value == {}:
        return ""
    return f"`{json.dumps(value)}`"
