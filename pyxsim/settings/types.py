"""Types of settings: tables, quantities with units, integers, one value or one per dimension.

Each type is `Annotated` with its validator (a text becomes an exact number), its serializer, and its JSON schema, whose
`format` names it in the documentation.
"""

from __future__ import annotations

import math
import operator
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from os import PathLike
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    PlainSerializer,
    PlainValidator,
    Tag,
    ValidationError,
    WithJsonSchema,
)
from pydantic._internal._model_construction import ModelMetaclass  # there is no public name
from pydantic_core import core_schema

from pyxsim import units
from pyxsim.errors import InputError, closest, raise_all
from pyxsim.registry import Registry

T = TypeVar("T")

ONE, MANY, WORD, TABLE = "<one>", "<many>", "<word>", "<table>"  # tags of union branches; no setting has such a name


class TableType(ModelMetaclass):
    """The class of tables: a call `Network(shape=[4], ...)` raises InputError, as reading a file does."""

    on_invalid: ClassVar[Callable[[ValidationError, Any], Exception]]  # set by load.py, which translates errors

    def __call__(self, *values: Any, **settings: Any) -> Any:
        try:
            return super().__call__(*values, **settings)
        except ValidationError as error:
            raise TableType.on_invalid(error, self) from None


class Table(BaseModel, metaclass=TableType):
    """A table of an experiment file: unknown keys are errors, defaults are validated, and instances are immutable."""

    # Validators are built on first use: building all of them at import took a seventh of the start-up time.
    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_default=True, arbitrary_types_allowed=True, defer_build=True
    )

    def __repr_args__(self) -> Iterator[tuple[str, Any]]:
        """Yield the settings that were given, as a file has them: `Collective(kind='all-reduce', size='1 MiB')`."""
        written = self.model_dump(include=self.model_fields_set)
        for name, info in type(self).model_fields.items():
            key = info.serialization_alias or name
            if written.get(key) not in (None, {}, ()):
                value = getattr(self, name)
                has_tables = isinstance(value, BaseModel) or (
                    isinstance(value, tuple) and any(isinstance(item, BaseModel) for item in value)
                )
                yield key, value if has_tables else written[key]

    def __str__(self) -> str:
        return repr(self)


def listed(words: Any) -> list[Any]:
    """Return a list; a single text or path becomes a list of one."""
    return [words] if isinstance(words, str | PathLike) else list(words)


def fresh(value: Any) -> Any:
    """Return a copy of tables and lists, so that overrides do not change the caller's."""
    if isinstance(value, Mapping):
        return {key: fresh(item) for key, item in value.items()}
    if isinstance(value, BaseModel):
        return value.model_dump(mode="python", exclude_unset=True)
    if isinstance(value, list | tuple):
        return [fresh(item) for item in value]
    return value


def written(text: str) -> Any:
    """Mark a default in the form of a file; the field validates it (validate_default)."""
    return text


def shown(value: object) -> str:
    """Format a value for messages, at most 60 characters: texts in quotes, true for True."""
    text = _as_toml(value)
    return text if len(text) <= 60 else f"{text[:56]}..."


def _as_toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_as_toml, value))}]"
    if isinstance(value, Mapping) and value:
        return f"{{ {', '.join(f'{key} = {_as_toml(item)}' for key, item in value.items())} }}"
    return repr(value)


def _quantity(
    parse: Callable[[object], Any], write: Callable[[Any], str], what: str, example: str, *, positive: bool = True
) -> tuple[PlainValidator, PlainSerializer, WithJsonSchema]:
    """The type of a text with a unit; from Python also an exact number in base units (Fraction, Cycles)."""

    def read(value: object) -> Any:
        # An exact number is read through its text, so that the same limits apply.
        number = parse(write(value) if isinstance(value, Fraction | units.Cycles) else value)
        if positive and number in (0, units.Cycles(0)):
            raise InputError(f"{shown(value)} is zero", allowed=f"a {what} above zero, such as '{example}'")
        return number

    schema = {"type": "string", "format": what, "examples": [example]}
    return PlainValidator(read), PlainSerializer(write, return_type=str), WithJsonSchema(schema)


_BANDWIDTH = _quantity(units.parse_bandwidth, units.format_bandwidth, "bandwidth", "100 GB/s")
_FREQUENCY = _quantity(units.parse_frequency, units.format_frequency, "frequency", "1 GHz")
_FLOPS = _quantity(units.parse_flops, units.format_flops, "computing speed", "312 TFLOP/s")
_BYTES = _quantity(units.parse_bytes, units.format_bytes, "size", "4 KiB", positive=False)
_POSITIVE_BYTES = _quantity(units.parse_bytes, units.format_bytes, "size", "4 KiB")
_TIME = _quantity(units.parse_duration, units.format_duration, "time", "500 ns", positive=False)
_POSITIVE_TIME = _quantity(units.parse_duration, units.format_duration, "time", "500 ns")

# Zero is refused, except where the name does not say so: a size or a time may be called Positive.
Bandwidth = Annotated[Fraction, *_BANDWIDTH]
Frequency = Annotated[Fraction, *_FREQUENCY]
Flops = Annotated[Fraction, *_FLOPS]
Bytes = Annotated[int, *_BYTES]
PositiveBytes = Annotated[int, *_POSITIVE_BYTES]
Time = Annotated[units.Duration, *_TIME]
PositiveTime = Annotated[units.Duration, *_POSITIVE_TIME]


def _integer(value: object) -> int | None:
    """The value as int if it is an integer (also of NumPy), else None; booleans are not."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def whole(least: int, most: int, *words: str) -> tuple[PlainValidator, WithJsonSchema]:
    """The type of an integer from `least` to `most`, or one of some words."""
    either = "".join(f"{shown(word)} or " for word in words)
    allowed = f"{either}a whole number from {least} to {most}"

    def read(value: object) -> int | str:
        if isinstance(value, str) and value in words:
            return value
        number = _integer(value)
        if number is None:
            problem = f"unknown value {shown(value)}" if words else f"{shown(value)} is not a whole number"
            hint = closest(value, words) if isinstance(value, str) else ""
            raise InputError(problem, allowed=allowed + hint)
        if not least <= number <= most:
            raise InputError(f"{shown(number)} is too {'small' if number < least else 'large'}", allowed=allowed)
        return number

    schema: dict[str, Any] = {"type": "integer", "minimum": least, "maximum": most}
    return PlainValidator(read), WithJsonSchema({"anyOf": [{"enum": list(words)}, schema]} if words else schema)


_MOST_DIGITS = 400
_HUGE_POWER = re.compile(r"[eE][+-]?0*[1-9][\d_]{3,}")


def exact(value: object) -> Fraction | None:
    """Convert a number exactly as written (0.1 is one tenth, not the nearest binary fraction); None for others.

    A number of more than 400 characters or a power of ten beyond 999 is none: its exact value would fill the memory.
    """
    try:
        text = "" if isinstance(value, bool) else str(value)  # ValueError for an integer of thousands of digits
        return None if len(text) > _MOST_DIGITS or _HUGE_POWER.search(text) else Fraction(text)
    except (ValueError, ZeroDivisionError, OverflowError):
        return None


def number(least: int, most: int) -> tuple[PlainValidator, PlainSerializer, WithJsonSchema]:
    """The type of an exact number from `least` to `most`; written as a text."""
    allowed = f"a number from {least} to {most}, such as {least}.5"

    def read(value: object) -> Fraction:
        number = exact(value)
        if number is None:
            raise InputError(f"{shown(value)} is not a number", allowed=allowed)
        if not least <= number <= most:
            raise InputError(f"{shown(value)} is too {'small' if number < least else 'large'}", allowed=allowed)
        return number

    schema = {"type": "number", "minimum": least, "maximum": most}
    return PlainValidator(read), PlainSerializer(str, return_type=str), WithJsonSchema(schema)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"{shown(value)} is neither true nor false", allowed="true or false")
    return value


Flag = Annotated[bool, PlainValidator(_flag), WithJsonSchema({"type": "boolean"})]


def _word(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{shown(value)} is not a name", allowed="a string in quotes")
    if "\0" in value:  # it may name a file
        raise InputError(f"{shown(value)} contains a null character", allowed="plain text")
    return _text(value)


def _text(value: str) -> str:
    """A text that a file can hold."""
    if not value.isprintable() and any("\ud800" <= c <= "\udfff" for c in value):
        raise InputError(f"{shown(value)} contains a character that is not valid Unicode", allowed="plain text")
    return value


Word = Annotated[str, PlainValidator(_word), WithJsonSchema({"type": "string"})]


def _line(value: object) -> str:
    word = _word(value)
    if not word.isprintable():  # it appears in rows of tables
        raise InputError(f"{shown(word)} contains unprintable characters", allowed="one line of plain text")
    return word


Line = Annotated[str, PlainValidator(_line), WithJsonSchema({"type": "string"})]


@dataclass(frozen=True, eq=False)
class Registered:
    """In an annotation: the value is a name of a registry.

    Parameters
    ----------
    registry
        Asked only for words that are not listed here, because asking may import what registers the names.
    words
        Valid words; those that are not registered are listed last.
    """

    registry: Registry[Any]
    words: tuple[str, ...] = ()

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(self.checked)

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        return {"type": "string", "enum": self.allowed()}

    def allowed(self) -> list[str]:
        """Return all valid words."""
        return list(dict.fromkeys([*self.registry.names(), *self.words]))

    def checked(self, value: object) -> str:
        """Return a valid word. Raises InputError with the closest match for any other value."""
        if isinstance(value, str):
            if value in self.words:
                return value
            if value in self.registry:
                return self.registry.canonical(value)
        text = value if isinstance(value, str) else None
        raise InputError(f"unknown value {shown(value)}", allowed=self.allowed(), given=text)


def _plain(value: object) -> Any:
    """A value that TOML supports, for free options; copies lists and tables."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bool):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InputError(f"{shown(value)} is not a finite number", allowed="a number")
        return value
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return _plain_table(value)
    number = _integer(value)
    if number is None or not -(2**63) <= number < 2**63:
        raise InputError(f"{shown(value)} cannot be a setting", allowed="a string, number, true, false, list or table")
    return number


def _plain_table(value: object) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise InputError(f"{shown(value)} is not a table", allowed="a table such as { key = value }")
    return {key: _plain(item) for key, item in value.items()}


def plain_list(value: object) -> tuple[Any, ...]:
    """Validate a non-empty list of values that TOML supports."""
    if not isinstance(value, list | tuple) or not value:
        raise InputError(f"{shown(value)} is not a list of values", allowed="a list such as [1, 2, 4]")
    return tuple(_plain(item) for item in value)


Options = Annotated[dict[str, Any], PlainValidator(_plain_table), WithJsonSchema({"type": "object"})]


def _one_or_many(value: object) -> str:
    return MANY if isinstance(value, list | tuple) else ONE


def _word_or_table(value: object) -> str:
    return TABLE if isinstance(value, Mapping | BaseModel) else WORD


PerDimension = Annotated[
    Annotated[T, Tag(ONE)] | Annotated[tuple[T, ...], Field(min_length=1), Tag(MANY)], Discriminator(_one_or_many)
]
# The same for tables: [key] once, or [[key]] several times.
OneOrMany = Annotated[
    Annotated[T, Tag(ONE)] | Annotated[tuple[T, ...], Field(min_length=1), Tag(MANY)], Discriminator(_one_or_many)
]
W = TypeVar("W")
WordOrTable = Annotated[Annotated[W, Tag(WORD)] | Annotated[T, Tag(TABLE)], Discriminator(_word_or_table)]


def per_dimension(value: T | tuple[T, ...], dimensions: int) -> tuple[T, ...]:
    """Return one value per dimension of a setting that has one for all, or one per dimension."""
    return value if isinstance(value, tuple) else (value,) * dimensions


MOST_NPUS = 2**20
Npu = Annotated[int, *whole(0, MOST_NPUS - 1)]


def _distinct(npus: tuple[int, ...]) -> tuple[int, ...]:
    twice = {npu: count for npu, count in Counter(npus).items() if count > 1}
    raise_all([InputError(f"NPU {npu} is listed {twice[npu]} times", allowed="each NPU once") for npu in twice])
    return npus


def _several(npus: tuple[int, ...]) -> tuple[int, ...]:
    if len(npus) == 1:
        raise InputError(f"{shown(npus)} is a single NPU", allowed="a list of at least two NPUs")
    return npus


Npus = Annotated[tuple[Npu, ...], Field(min_length=1), AfterValidator(_distinct)]
# In the order of their ranks.
Members = Annotated[Npus, AfterValidator(_several)]
