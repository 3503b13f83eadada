"""The objects of a JSON text, read piece by piece: in sequence, or the entries of one list.

A text may be larger than the memory; one object has `MAX_MESSAGE` characters at most.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from pyxsim.chakra.stream import MAX_MESSAGE
from pyxsim.errors import InputError

PIECE = 1 << 20  # bytes per read
_BLANK = re.compile(r"[ \t\r\n]*")


class RepeatedName(ValueError):
    """An object has a name twice."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    item = dict(pairs)
    if len(item) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise RepeatedName(f"has an object with '{twice}' twice")
    return item


_DECODER = json.JSONDecoder(object_pairs_hook=_once)


class JsonItems:
    """The values of a JSON text, one at a time.

    Parameters
    ----------
    stream
        The bytes of the text.
    path
        Its name in errors.

    Attributes
    ----------
    take
        Called after each value with a part of the text, where the next value begins, and whether it is an entry of a
        list: takes some values itself, in a list each with its comma, and returns where it ended.
    """

    def __init__(self, stream: BinaryIO, path: str) -> None:
        self.take: Callable[[str, int, bool], int] | None = None
        self._path = path
        self._pieces = _pieces(stream, path)
        self._text = next(self._pieces, "")
        self._begin = 0  # the number of characters before `_text`
        self._at = 0

    @property
    def at(self) -> int:
        """The number of characters before the next one."""
        return self._begin + self._at

    def next_is(self, *words: str) -> bool:
        """Pass `words` if they come next, with any blanks between them. The first piece has them, or an entry's end."""
        text, at = self._text, self._at
        for word in words:
            at = self._end_of_blanks(text, at)
            if not text.startswith(word, at):
                return False
            at += len(word)
        self._at = at
        return True

    def sequence(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield all objects from here to the end of the text, each with the character at which it begins."""
        while self._peek():
            yield self._object("a sequence of objects")
            self._let_take(listed=False)

    def entries(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the objects of a list whose bracket has been passed, up to its end."""
        if self._peek() == "]":
            self._at += 1
            return
        while True:
            yield self._object("a list of objects")
            sign = self._peek()
            if sign not in (",", "]"):
                raise self._invalid(f"expecting ',' or ']' at character {self.at}")
            self._at += 1
            if sign == "]":
                return
            self._let_take(listed=True)

    def rest_of_object(self) -> dict[str, Any]:
        """Return the other members of an object, after a member that was read. Raises InputError."""
        if self._peek() == ",":
            self._at += 1
            self._text, self._at, self._begin = "{" + self._text[self._at :], 0, self._begin + self._at - 1
            return self._object("an object")[1]
        if self._peek() != "}":
            raise self._invalid(f"expecting ',' or '}}' at character {self.at}")
        self._at += 1
        return {}

    def end(self) -> None:
        """Raise InputError if anything but blanks is left."""
        if self._peek():
            raise self._invalid(f"extra data at character {self.at}")

    def _let_take(self, *, listed: bool) -> None:
        if self.take is not None:
            self._at = self.take(self._text, self._at, listed)
            if self._at > PIECE // 2:  # an object that is cut off is an error first, which counts the lines before it
                self._drop()

    def _drop(self) -> None:
        """Forget what has been passed."""
        self._begin += self._at
        self._text, self._at = self._text[self._at :], 0

    def _object(self, allowed: str) -> tuple[int, dict[str, Any]]:
        self._peek()
        while True:
            try:
                item, end = _DECODER.raw_decode(self._text, self._at)
                break
            except RepeatedName as fault:
                raise InputError(f"{fault} (character {self.at})", file=self._path) from fault
            except RecursionError:
                problem = "nested too deeply"
            except ValueError as error:
                position = error.pos if isinstance(error, json.JSONDecodeError) else self._at
                what = error.msg if isinstance(error, json.JSONDecodeError) else "a number is too long"
                problem = f"{what[:1].lower()}{what[1:]} at character {self._begin + position}"
            # It may only be cut off: an error is reported when more text does not remove it.
            if not self._more():
                raise self._invalid(problem)
        if not isinstance(item, dict):
            raise InputError(f"has no object at character {self.at}", file=self._path, allowed=allowed)
        at, self._at = self.at, end
        return at, item

    def _peek(self) -> str:
        """The next character that is no blank; at the end of the text none."""
        while True:
            self._at = self._end_of_blanks(self._text, self._at)
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    @staticmethod
    def _end_of_blanks(text: str, at: int) -> int:
        return _BLANK.match(text, at).end()  # type: ignore[union-attr]  # always matches

    def _more(self) -> bool:
        """Read a piece more, and drop what has been passed; False at the end, or if one object is too long."""
        piece = None if len(self._text) - self._at > MAX_MESSAGE else next(self._pieces, None)
        if piece is None:
            return False
        self._drop()
        self._text += piece
        return True

    def _invalid(self, problem: str) -> InputError:
        return InputError(f"not valid JSON of a Chakra trace: {problem}", file=self._path)


def _pieces(stream: BinaryIO, path: str) -> Iterator[str]:
    """Yield the text of a file, piece by piece."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    at = 0
    while data := stream.read(PIECE):
        try:
            text = decoder.decode(data)
        except UnicodeDecodeError as error:
            raise InputError(f"not a text file: not UTF-8 after byte {at}", file=path) from error
        at += len(data)
        yield text
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise InputError("not a text file: it ends in the middle of a character", file=path) from error
