"""The messages of a trace: metadata, nodes, attributes, as in Chakra's et_def.proto.

Unknown fields (storage operations, later versions) are kept and written back, so a file that is read and written is
identical to the byte.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

MAX_ATTRIBUTES = 1 << 16  # per node: a small compressed file could claim many


class NodeType(IntEnum):
    """The type of a node."""

    INVALID = 0
    METADATA = 1
    MEM_LOAD = 2
    MEM_STORE = 3
    COMP = 4
    COMM_SEND = 5
    COMM_RECV = 6
    COMM_COLL = 7
    STORAGE = 8
    BATCH = 9
    CHECKPOINT = 10


class CommType(IntEnum):
    """The collective of a COMM_COLL node: its attribute comm_type."""

    ALL_REDUCE = 0
    REDUCE = 1
    ALL_GATHER = 2
    GATHER = 3
    SCATTER = 4
    BROADCAST = 5
    ALL_TO_ALL = 6
    REDUCE_SCATTER = 7
    REDUCE_SCATTER_BLOCK = 8
    BARRIER = 9


# The types of values in Chakra's order, and for whole numbers: bits and sign.
WHOLE = {
    "int32": (32, True),
    "int64": (64, True),
    "uint32": (32, False),
    "uint64": (64, False),
    "sint32": (32, True),
    "sint64": (64, True),
    "fixed32": (32, False),
    "fixed64": (64, False),
    "sfixed32": (32, True),
    "sfixed64": (64, True),
}
VALUE_TYPES = ("double", "float", *WHOLE, "bool", "string", "bytes")
ATTRIBUTE_TYPES = tuple(f"{name}_{form}" for name in VALUE_TYPES for form in ("val", "list"))


@dataclass(slots=True)
class Attribute:
    """A name and a value; `type` is the field that holds it: "int64_val", "bool_list", or "" for none."""

    name: str = ""
    type: str = ""
    value: Any = None
    doc_string: str = ""
    unknown: bytes = b""


@dataclass(slots=True)
class IOInfo:
    """The inputs or outputs of a node, as strings."""

    values: str = ""
    shapes: str = ""
    types: str = ""
    unknown: bytes = b""


@dataclass(slots=True)
class Metadata:
    """The first message of a trace."""

    version: str = ""
    attr: list[Attribute] = field(default_factory=list)
    unknown: bytes = b""


@dataclass(slots=True)
class Node:
    """One node of a trace. It may start when the nodes `ctrl_deps` and `data_deps` have ended."""

    id: int = 0
    name: str = ""
    type: int = NodeType.INVALID  # a NodeType, or a number that is none yet
    ctrl_deps: list[int] = field(default_factory=list)
    data_deps: list[int] = field(default_factory=list)
    start_time_micros: int = 0
    duration_micros: int = 0
    inputs: IOInfo | None = None
    outputs: IOInfo | None = None
    attr: list[Attribute] = field(default_factory=list)
    unknown: bytes = b""

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of an attribute by name."""
        for attribute in self.attr:
            if attribute.name == name:
                return attribute.value
        return default
