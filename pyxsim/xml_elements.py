"""XML elements with their line, whose attributes must all be known."""

from __future__ import annotations

import re
from typing import NoReturn
from xml.parsers import expat

from pyxsim.errors import InputError, nearest
from pyxsim.textfile import read_text

_MOST_ELEMENTS = 2**20
_MOST_CONTENT = 2**16  # characters of text that an element keeps


class Element:
    """One element; `elements` are its children, `content` the text in it.

    Attributes that were never read are unknown.
    """

    __slots__ = ("_asked", "_attributes", "_file", "_line", "content", "elements", "tag")

    def __init__(self, file: str, line: int, tag: str, attributes: dict[str, str]) -> None:
        self.tag = tag
        self.content = ""
        self.elements: list[Element] = []
        self._file, self._line = file, line
        self._attributes = attributes
        self._asked: list[str] = []

    @property
    def place(self) -> str:
        """File and line of its start tag."""
        return f"{self._file}:{self._line}"

    def refuse(self, problem: str, *, allowed: str | list[str] | None = None, given: str | None = None) -> NoReturn:
        """Raise InputError at the line of the element."""
        raise InputError(problem, file=self.place, key=self.tag, allowed=allowed, given=given)

    def text(self, name: str, default: str | None = None) -> str:
        """Return an attribute; without a default it is required."""
        self._asked.append(name)
        value = self._attributes.get(name, default)
        if value is None:
            near = nearest(name, self._attributes)
            self.refuse(f"{name} is missing" + (f"; did you mean '{near}'?" if near else ""))
        return value

    def has(self, name: str) -> bool:
        """Return whether an attribute is given."""
        return name in self._attributes

    def word(self, name: str, words: list[str], default: str | None = None) -> str:
        """Return an attribute that is one of some words."""
        value = self.text(name, default)
        if value not in words:
            self.refuse(f"{name} is '{value}'", allowed=words, given=value)
        return value

    def number(self, name: str, least: int, default: int | None = None) -> int:
        """Return an attribute that is a whole number."""
        value = self.text(name, None if default is None else str(default))
        if not re.fullmatch(r"-?\d{1,9}", value, re.ASCII) or int(value) < least:
            self.refuse(f"{name} is '{value}'", allowed=f"a whole number from {least}")
        return int(value)

    def done(self, *tags: str) -> None:
        """Raise InputError for unread attributes and for children with other tags than `tags`."""
        for name in self._attributes:
            if name not in self._asked:
                self.refuse(f"{name} is unknown", allowed=sorted({*self._asked}), given=name)
        for element in self.elements:
            if element.tag not in tags:
                element.refuse(f"no such element in <{self.tag}>", allowed=list(tags) or "nothing", given=element.tag)


def read_xml(path: str, what: str) -> Element:
    """Return the root of an XML file. `what` it should be, for errors. Raises InputError.

    Entities are refused, and no other file is read: a declared document type has no effect.
    """
    root = Element(path, 1, "", {})
    inside = [root]
    count = 0
    parser = expat.ParserCreate()
    parser.buffer_text = True

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal count
        count += 1
        if count > _MOST_ELEMENTS:
            place = f"{path}:{parser.CurrentLineNumber}"
            raise InputError("has too many elements", file=place, allowed=f"at most {_MOST_ELEMENTS}")
        element = Element(path, parser.CurrentLineNumber, tag, attributes)
        inside[-1].elements.append(element)
        inside.append(element)

    def end(tag: str) -> None:
        inside.pop()

    def data(text: str) -> None:
        if text and not text.isspace():
            element = inside[-1]
            element.content = f"{element.content}{text}" if len(element.content) < _MOST_CONTENT else element.content

    def entity(name: str, *_: object) -> None:
        raise InputError(
            f"declares the entity '{name}'", file=f"{path}:{parser.CurrentLineNumber}", allowed="no entities"
        )

    parser.EntityDeclHandler, parser.CharacterDataHandler = entity, data
    parser.StartElementHandler, parser.EndElementHandler = start, end
    try:
        parser.Parse(read_text(path, what), True)
    except expat.ExpatError as error:
        raise InputError(f"not valid XML: {expat.ErrorString(error.code)}", file=f"{path}:{error.lineno}") from error
    return root.elements[0]
