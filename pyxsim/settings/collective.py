"""[collective] and [[message]]: what is communicated, by which NPUs, and when."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, PlainSerializer, PlainValidator, WithJsonSchema, model_validator

from pyxsim.errors import InputError, raise_all
from pyxsim.settings.algorithms import ROOTED, AlgorithmNames
from pyxsim.settings.types import Members, Npu, PositiveBytes, Table, Time, Word, shown, whole, written
from pyxsim.units import format_bytes, parse_bytes

_Dim = Annotated[int, *whole(0, 63)]
BARRIER_BYTES = 1  # size of the messages of a barrier
UNREAD_BYTES = 2**30  # taken for the size of a matrix in a file, where an estimate needs one before it is read
Rows = tuple[tuple[int, ...], ...]


def _matrix(value: object) -> str | Rows:
    """The name of a file, or rows of sizes."""
    if isinstance(value, str) and value.strip():
        return value
    if not isinstance(value, list | tuple) or not value or not all(isinstance(row, list | tuple) for row in value):
        allowed = 'rows of sizes such as [["0 B", "4 KiB"], ["1 KiB", "0 B"]], or the name of a file'
        raise InputError(f"{shown(value)} is not a matrix", allowed=allowed)
    return tuple(tuple(size if type(size) is int else parse_bytes(size) for size in row) for row in value)


def _matrix_text(value: str | Rows) -> Any:
    return value if isinstance(value, str) else [[format_bytes(size) for size in row] for row in value]


_Matrix = Annotated[
    Any,
    PlainValidator(_matrix),
    PlainSerializer(_matrix_text, return_type=Any),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "array"}}]}),
]


class Collective(Table):
    """A collective; for several, one table `[[collective]]` each."""

    kind: Literal[
        "all-reduce",
        "reduce-scatter",
        "all-gather",
        "all-to-all",
        "broadcast",
        "reduce",
        "gather",
        "scatter",
        "barrier",
    ] = Field(description="The operation.")
    size: PositiveBytes | None = Field(
        default=None,
        description="The buffer of one NPU; for all-gather and gather the shard that one NPU contributes (as in "
        "ASTRA-sim), for scatter the buffer of the root. Required, except for a barrier.",
    )
    matrix: _Matrix | None = Field(
        default=None,
        description="Instead of `size`, for an all-to-all whose pairs exchange different amounts (all-to-all-v): row i "
        "has the sizes that the i-th NPU sends to each NPU. Or a file of bytes, a row per line (.csv, .txt, .npy), "
        "relative to the folder of the experiment.",
    )
    name: Word | None = Field(default=None, description="Name in results. Default: its kind.")
    at: Time = Field(default=written("0 ns"), description="Time at which the collective is issued.")
    root: Npu | None = Field(
        default=None,
        description="The NPU that sends in a broadcast or scatter and receives in a reduce or gather. "
        "Default: the first participant.",
    )
    priority: Annotated[int, *whole(-(2**31), 2**31)] | None = Field(
        default=None,
        description="Collectives with a higher priority are scheduled first. Only with "
        '`system.scheduling = "explicit"`. Default: 0.',
    )
    group: Word | None = Field(
        default=None, description="The participating NPUs, as the name of a group in [[system.groups]]."
    )
    npus: Members | None = Field(
        default=None, description="The participating NPUs, in the order of their ranks. Default: all NPUs."
    )
    dims: Annotated[tuple[_Dim, ...], Field(min_length=1)] | None = Field(
        default=None,
        description="Runs the collective in each group of NPUs that differ only along these dimensions; it ends when "
        "all groups have finished. Default: all dimensions, as one group.",
    )
    algorithm: AlgorithmNames = Field(
        default=None, description="The algorithm of this collective, in the form of `all_reduce` in [system]."
    )

    @model_validator(mode="after")
    def _check_consistency(self) -> Collective:
        given = [key for key in ("group", "npus", "dims") if getattr(self, key) is not None]
        faults = [
            InputError(f"cannot be combined with `{given[0]}`", key=key, allowed="one of them") for key in given[1:]
        ]
        if self.kind == "barrier" and self.size is not None:
            faults.append(InputError("a barrier transfers no data", key="size", allowed="no size"))
        if self.matrix is not None:
            faults += self._matrix_faults()
        elif self.kind != "barrier" and self.size is None:
            faults.append(InputError("is missing", key="size", allowed="a size such as '4 KiB'"))
        if self.root is not None and self.kind not in ROOTED:
            faults.append(InputError(f"{self.kind} has no root", key="root", allowed=f"with {', '.join(ROOTED)}"))
        elif self.root is not None and self.dims is not None:
            problem = "each group along `dims` has its own root, its first NPU"
            faults.append(InputError(problem, key="root", allowed="`root` or `dims`"))
        if self.dims is not None and len(set(self.dims)) < len(self.dims):
            faults.append(
                InputError("a dimension is listed more than once", key="dims", allowed="each dimension at most once")
            )
        raise_all(faults)
        return self

    def _matrix_faults(self) -> list[InputError]:
        faults = []
        if self.kind != "all-to-all":
            faults.append(InputError(f"{self.kind} has no matrix", key="matrix", allowed="with all-to-all"))
        if self.size is not None:
            faults.append(InputError("cannot be combined with `size`", key="matrix", allowed="one of them"))
        if isinstance(self.matrix, tuple) and any(len(row) != len(self.matrix) for row in self.matrix):
            lengths = sorted({len(row) for row in self.matrix})
            problem = f"{len(self.matrix)} rows with {' or '.join(map(str, lengths))} entries"
            faults.append(InputError(problem, key="matrix", allowed="as many entries in each row as there are rows"))
        elif isinstance(self.matrix, tuple) and not any(map(any, self.matrix)):
            faults.append(InputError("all entries are zero", key="matrix", allowed="at least one size above zero"))
        return faults

    @property
    def bytes(self) -> int:
        """The size in bytes; for a barrier that of its messages, with a matrix that of the largest buffer."""
        if isinstance(self.matrix, tuple):
            return max(map(sum, self.matrix))
        if self.matrix is not None:
            return UNREAD_BYTES
        return BARRIER_BYTES if self.size is None else self.size

    @property
    def label(self) -> str:
        """The name in results."""
        return self.name or self.kind


class Message(Table):
    """A message from one NPU to another, with or without collectives."""

    src: Npu = Field(description="The sender.")
    dst: Npu = Field(description="The receiver.")
    size: PositiveBytes = Field(description="Size of the message.")
    at: Time = Field(default=written("0 ns"), description="Time at which the message is sent.")
    name: Word | None = Field(default=None, description='Name in results. Default: "message".')

    @model_validator(mode="after")
    def _check_destination(self) -> Message:
        if self.src == self.dst:
            raise InputError(f"NPU {self.src} cannot send a message to itself", key="dst", allowed="another NPU")
        return self
