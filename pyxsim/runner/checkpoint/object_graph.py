"""Pickle a graph of objects without recursion.

Pickle recurses along references, and chunks, queues and tasks form chains as long as a run. So objects of plain classes
are numbered in the order of discovery, and their states follow in sequence. All others (arrays, containers,
dataclasses, compiled classes) are pickled with the object that refers to them, and are complete once read.

A pickle is code: `checkpoint_file` checks the signature of the user before it is read.
"""

from __future__ import annotations

import pickle
from dataclasses import is_dataclass
from typing import IO, Any

PROTOCOL = 5


def write(root: object, file: IO[bytes]) -> None:
    """Raises what pickle raises for what cannot be written: functions without a name, open files."""
    _Writer(file).all_of(root)


def read(file: IO[bytes]) -> Any:
    """What was written. Raises what pickle raises."""
    return _Reader(file).all_of()


OF_A_CLASS_STATEMENT = 1 << 9  # Py_TPFLAGS_HEAPTYPE
PLAIN = ("__new__", "__reduce__", "__reduce_ex__")


def _is_numbered(kind: type) -> bool:
    """Whether objects of this class can be created empty and get their state later: nothing hashes them before."""
    plain = all(getattr(kind, name) is getattr(object, name) for name in PLAIN)
    by_identity = getattr(kind, "__hash__", None) in (object.__hash__, None)
    return plain and by_identity and bool(kind.__flags__ & OF_A_CLASS_STATEMENT) and not is_dataclass(kind)


def _object(kind: type, number: int) -> Any:
    """Stands in a file for an object with a number; the reader replaces this function."""
    raise pickle.UnpicklingError("a checkpoint cannot be read with plain pickle")


class _Writer(pickle.Pickler):
    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file, PROTOCOL)
        self._numbered: list[Any] = []
        self._kinds: dict[type, bool] = {}

    def all_of(self, root: object) -> None:
        self.dump(root)
        for member in self._numbered:  # which become more meanwhile
            self.dump(member.__getstate__())

    def reducer_override(self, each: Any) -> Any:
        kind = type(each)
        if kind not in self._kinds:
            self._kinds[kind] = _is_numbered(kind)
        if not self._kinds[kind]:
            return NotImplemented
        self._numbered.append(each)
        return _object, (kind, len(self._numbered) - 1)


class _Reader(pickle.Unpickler):
    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file)
        self._numbered: list[Any] = []

    def all_of(self) -> Any:
        root = self.load()
        for member in self._numbered:
            self._fill(member, self.load())
        return root

    def find_class(self, module: str, name: str) -> Any:
        return self._made if (module, name) == (__name__, _object.__name__) else super().find_class(module, name)

    def _made(self, kind: type, number: int) -> Any:
        assert number == len(self._numbered), "objects are read in the order in which they were written"
        self._numbered.append(object.__new__(kind))
        return self._numbered[-1]

    def _fill(self, each: Any, state: Any) -> None:
        """As pickle does it."""
        if hasattr(each, "__setstate__"):
            each.__setstate__(state)
            return
        fields, slots = state if isinstance(state, tuple) else (state, None)
        vars(each).update(fields or {})
        for name, value in (slots or {}).items():
            object.__setattr__(each, name, value)
