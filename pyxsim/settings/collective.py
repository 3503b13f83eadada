"""[collective] and [[message]]: what is communicated, by which NPUs, and when."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from pyxsim.errors import InputError, raise_all
from pyxsim.settings.algorithms import ROOTED, AlgorithmNames
from pyxsim.settings.types import Members, Npu, PositiveBytes, Table, Time, Word, whole, written

_Dim = Annotated[int, *whole(0, 63)]
BARRIER_BYTES = 1  # size of the messages of a barrier


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
        if self.kind != "barrier" and self.size is None:
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

    @property
    def bytes(self) -> int:
        """The size in bytes; for a barrier that of its messages."""
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
