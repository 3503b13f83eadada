"""XML elements with their line, whose attributes must all be known."""

from __future__ import annotations

import re
from typing import NoReturn
from xml.parsers import expat

from pyxsim.errors import InputError, nearest
from pyxsim.textfile import read_text


class Element:
    """One element; `elements` are its children. Attributes that were never read are unknown."""

    def __init__(self, file: str, line: int, tag: str, attributes: dict[str, str]) -> None:
        self.tag = tag
        self.elements: list[Element] = []
        self._place = f"{file}:{line}"
        self._attributes = attributes
        self._asked: list[str] = []

    @property
    def place(self) -> str:
        """File and line of its start tag."""
        return self._place

    def refuse(self, problem: str, *, allowed: str | list[str] | None = None, given: str | None = None) -> NoReturn:
        """Raise InputError at the line of the element."""
        raise InputError(problem, file=self._place, key=self.tag, allowed=allowed, given=given)

    def text(self, name: str, default: str | None = None) -> str:
        """Return an attribute; without a default it is required."""
        self._asked.append(name)
        value = self._attributes.get(name, default)
        if value is None:
            near = nearest(name, self._attributes)
            self.refuse(f"{name} is missing" + (f"; did you mean '{near}'?" if near else ""))
        return value

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
    """Return the root of an XML file. `what` it should be, for errors. Raises InputError."""
    root = Element(path, 1, "", {})
    inside = [root]
    parser = expat.ParserCreate()

    def start(tag: str, attributes: dict[str, str]) -> None:
        element = Element(path, parser.CurrentLineNumber, tag, attributes)
        inside[-1].elements.append(element)
        inside.append(element)

    def end(tag: str) -> None:
        inside.pop()

    parser.StartElementHandler, parser.EndElementHandler = start, end
    try:
        parser.Parse(read_text(path, what), True)
    except expat.ExpatError as error:
        raise InputError(f"not valid XML: {expat.ErrorString(error.code)}", file=f"{path}:{error.lineno}") from error
    return root.elements[0]
