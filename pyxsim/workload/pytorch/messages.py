"""What the profiler tells of a collective or of a message between two ranks, by gloo or by NCCL."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

LARGEST = 1 << 53
_ROOTED = ("broadcast", "reduce")
_NOT_TOLD = ("gather", "scatter")  # of which only the root tells the bytes
_KINDS = {
    "all_reduce": "all-reduce",
    "allreduce": "all-reduce",
    "all_gather": "all-gather",
    "allgather": "all-gather",
    "all_gather_into_tensor": "all-gather",
    "_allgather_base": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "reduce_scatter_tensor": "reduce-scatter",
    "_reduce_scatter_base": "reduce-scatter",
    "all_to_all": "all-to-all",
    "all_to_allv": "all-to-all",
    "alltoall": "all-to-all",
    "alltoall_base": "all-to-all",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
    "barrier": "barrier",
    "send": "send",
    "recv": "recv",
}
_BYTES = {
    **dict.fromkeys(("float", "int", "unsigned int", "int32", "float32"), 4),
    **dict.fromkeys(("double", "long", "long int", "long long", "unsigned long", "int64", "float64"), 8),
    **dict.fromkeys(("half", "bfloat16", "short", "short int", "float16", "int16"), 2),
    **dict.fromkeys(("byte", "char", "bool", "signed char", "unsigned char", "int8", "uint8"), 1),
}


@dataclass(frozen=True)
class Message:
    """A collective, or one end of a message.

    Attributes
    ----------
    kind
        As pyxsim names it; "send" or "recv".
    size
        Bytes that a rank gives; of a receive those that it gets.
    group
        Name of the process group; "" if the trace has only one.
    root, peer, tag
        The root as a position in the group, the peer as a rank; -1 for none.
    members
        Ranks of the group if the trace tells them here.
    """

    kind: str
    size: int
    group: str = ""
    root: int = -1
    peer: int = -1
    tag: int = 0
    members: tuple[int, ...] = ()


def of_gloo(name: str, args: dict[str, Any], caller: str, call: dict[str, Any]) -> Message | None:
    """Return what an event of gloo communicates; None if it is not told.

    `caller`, `call`: name and arguments of the operator of c10d that started it.
    """
    kind = _KINDS.get(name.removeprefix("gloo:"))
    size = _size_of(args.get("Input Dims"), args.get("Input type"))
    if kind == "barrier":
        return Message(kind, 0)
    if kind is None or kind in _NOT_TOLD or size is None or "any_source" in caller:
        return None
    # The operators have the tensors, the group, then numbers: the peer and the tag, or the root.
    numbers = [number for value in _list(call.get("Concrete Inputs")) if (number := _whole(value)) is not None]
    if kind in ("send", "recv"):
        return Message(kind, size, peer=numbers[0], tag=numbers[1] if len(numbers) > 1 else 0) if numbers else None
    if kind in _ROOTED:
        return Message(kind, size, root=numbers[0]) if numbers else None
    return Message(kind, size)


def of_nccl(name: str, args: dict[str, Any]) -> Message | None:
    """Return what a kernel of NCCL communicates; None for other kernels and without the bytes."""
    kind = _KINDS.get(str(args.get("Collective name", "")).lower()) if name.startswith("nccl") else None
    given, got = (_whole(args.get(f"{way} msg nelems")) for way in ("In", "Out"))
    width = _BYTES.get(_plain(args.get("dtype")))
    if kind is None or given is None or width is None:
        return None
    size = (got if kind == "recv" and got else given) * width
    if not 0 < size <= LARGEST or kind in _NOT_TOLD:
        return None
    group = str(args.get("Process Group Name", ""))
    if kind in ("send", "recv"):
        peer = _whole(args.get("Dst Rank" if kind == "send" else "Src Rank"))
        return None if peer is None else Message(kind, size, group, peer=peer)
    root = _whole(args.get("Root Rank")) if kind in _ROOTED else -1
    if root is None:
        return None
    ranks = str(args.get("Process Group Ranks", "")).strip("[] ").split(",")
    members = [_whole(rank.strip()) for rank in ranks]
    whole = tuple(member for member in members if member is not None)
    return Message(kind, size, group, root, members=whole if len(whole) == len(members) else ())


def _size_of(dims: Any, types: Any) -> int | None:
    """Bytes of the first argument: a tensor, or a list of tensors."""
    dims, types = _list(dims), _list(types)
    if not dims or not types:
        return None
    shapes = dims[0] if isinstance(dims[0], list) and dims[0] and isinstance(dims[0][0], list) else [dims[0]]
    width = _BYTES.get(_plain(types[0]))
    elements = 0
    for shape in shapes:
        if not isinstance(shape, list) or not all(type(each) is int and 0 <= each <= LARGEST for each in shape):
            return None
        elements += math.prod(shape) if shape else 0
    size = elements * (width or 0)  # unknown for a list of tensors, whose type is not told
    return size if 0 < size <= LARGEST else None


def _plain(word: Any) -> str:
    return str(word).lower().removeprefix("c10::")


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _whole(value: Any) -> int | None:
    """A whole number, also as a text."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 16:
        return int(value)
    return value if type(value) is int and 0 <= value <= LARGEST else None
