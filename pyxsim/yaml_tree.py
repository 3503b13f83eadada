"""YAML files as trees of values that know their place: key path and line.

All scalars are texts, so that no word becomes a date or a truth value. Aliases are refused: a file of a few lines could
stand for gigabytes. ASTRA-sim's flat YAML has a stricter reader of its own (`flat_yaml`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NoReturn

from pyxsim.errors import InputError
from pyxsim.textfile import read_text

_DEEPEST = 50
_KINDS: dict[Any, str] = {dict: "a mapping", list: "a list", str: "a value"}
_WHOLE = re.compile(r"[+-]?\d{1,9}", re.ASCII)
_DECIMAL = re.compile(r"\d{1,18}(\.\d{0,18})?([eE][+-]?\d{1,2})?", re.ASCII)


class YamlNode:
    """A mapping, a list or a text of a YAML file, with its place."""

    __slots__ = ("file", "line", "path", "value")

    def __init__(self, file: str, line: int, path: str, value: Any) -> None:
        self.file, self.line, self.path, self.value = file, line, path, value

    def refuse(self, problem: str, *, allowed: str | list[str] | None = None, given: str | None = None) -> NoReturn:
        """Raise InputError at this place."""
        raise InputError(problem, file=f"{self.file}:{self.line}", key=self.path or None, allowed=allowed, given=given)

    def _as(self, kind: type) -> Any:
        if not isinstance(self.value, kind):
            self.refuse(f"is {_KINDS[type(self.value)]}, not {_KINDS[kind]}")
        return self.value

    def mapping(self, known: tuple[str, ...]) -> dict[str, YamlNode]:
        """Return the entries of a mapping. Raises InputError for keys that are not known."""
        entries: dict[str, YamlNode] = self._as(dict)
        for key, node in entries.items():
            if key not in known:
                node.refuse("unknown key", allowed=list(known), given=key)
        return entries

    def items(self) -> list[YamlNode]:
        """Return the items of a list; an empty value is an empty list."""
        return [] if self.value == "" else self._as(list)

    def text(self) -> str:
        """Return a value as a text."""
        return str(self._as(str))

    def word(self, words: tuple[str, ...]) -> str:
        """Return a value that is one of some words."""
        word = self.text()
        if word not in words:
            self.refuse(f"'{word}' is unknown", allowed=list(words), given=word)
        return word

    def whole(self, least: int) -> int:
        """Return a whole number of at most nine digits."""
        text = self.text()
        if not _WHOLE.fullmatch(text) or int(text) < least:
            self.refuse(f"'{text}' is not allowed", allowed=f"a whole number from {least}")
        return int(text)

    def decimal(self) -> str:
        """Return the text of a number that is not negative."""
        text = self.text()
        if not _DECIMAL.fullmatch(text):
            self.refuse(f"'{text}' is not allowed", allowed="a number such as 25 or 0.5")
        return text


def read_yaml(path: str, what: str) -> list[YamlNode]:
    """Return the documents of a YAML file. `what` it should be, for errors. Raises InputError."""
    text = read_text(path, what)
    try:
        import yaml
    except ImportError as error:
        problem = f"{what} requires PyYAML: pip install 'pyxsim[yaml]'"
        raise InputError(problem, file=path) from error
    loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        return list(_documents(path, yaml.parse(text, Loader=loader)))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{path}:{mark.line + 1}" if mark is not None else path
        raise InputError(f"not valid YAML: {getattr(error, 'problem', None) or error}", file=place) from error
    except (ValueError, RecursionError, OverflowError) as error:
        raise InputError(f"not valid YAML: {error}", file=path) from error


def _documents(path: str, events: Iterator[Any]) -> Iterator[YamlNode]:
    """Build the trees without recursion."""
    stack: list[tuple[YamlNode, YamlNode | None]] = []  # open mappings and lists, each with the key that waits
    for event in events:
        kind, line = type(event).__name__, event.start_mark.line + 1
        if kind == "AliasEvent":
            raise InputError("has an alias (*)", file=f"{path}:{line}", allowed="values written out")
        if kind in ("SequenceEndEvent", "MappingEndEvent"):
            done, _ = stack.pop()
            if not stack:
                yield done
        if kind not in ("ScalarEvent", "SequenceStartEvent", "MappingStartEvent"):
            continue
        value: Any = {"ScalarEvent": str, "SequenceStartEvent": list, "MappingStartEvent": dict}[kind]()
        if kind == "ScalarEvent":
            value = "" if event.value == "~" or event.value == "null" else event.value
        node = YamlNode(path, line, "", value)
        if stack:
            node = _placed(stack, node)
        elif kind == "ScalarEvent":
            yield node
        if kind != "ScalarEvent":
            if len(stack) >= _DEEPEST:
                node.refuse("is nested too deeply", allowed=f"at most {_DEEPEST} levels")
            stack.append((node, None))


def _placed(stack: list[tuple[YamlNode, YamlNode | None]], node: YamlNode) -> YamlNode:
    """Put a node into the innermost open mapping or list."""
    parent, key = stack[-1]
    if isinstance(parent.value, list):
        node.path = f"{parent.path}[{len(parent.value)}]"
        parent.value.append(node)
    elif key is None:
        node.path = parent.path
        word = node.text()
        node.path = f"{parent.path}.{word}" if parent.path else word
        if word in parent.value:
            node.refuse("is given twice")
        stack[-1] = (parent, node)
    else:
        node.path = key.path
        parent.value[key.value] = node
        stack[-1] = (parent, None)
    return node
