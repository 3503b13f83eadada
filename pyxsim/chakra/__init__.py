"""Chakra execution traces: what each rank computes, sends and receives, with dependencies."""

from pyxsim.chakra.messages import ATTRIBUTE_TYPES, Attribute, CommType, IOInfo, Metadata, Node, NodeType
from pyxsim.chakra.rows import Rows
from pyxsim.chakra.trace import Trace, form, read, read_rows, write

__all__ = [
    "ATTRIBUTE_TYPES",
    "Attribute",
    "CommType",
    "IOInfo",
    "Metadata",
    "Node",
    "NodeType",
    "Rows",
    "Trace",
    "form",
    "read",
    "read_rows",
    "write",
]
