"""[collective] and [[message]]: what is to be communicated, by whom, and when it is begun."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from pyxsim.errors import InputError, raise_all
from pyxsim.settings.algorithms import ROOTED, AlgorithmNames
from pyxsim.settings.members import Members, Npu
from pyxsim.settings.types import PositiveBytes, Table, Time, Word, whole, written

_Dim = Annotated[int, *whole(0, 63)]
BARRIER_BYTES = 1  # what a message of a barrier carries, which has no data


class Collective(Table):
    """A collective operation that the experiment times; of several, a table `[[collective]]` for each."""

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
        "ASTRA-sim), for scatter the buffer of the root. Needed, except for a barrier, which has none.",
    )
    name: Word | None = Field(default=None, description="What it is called in results; left out: its kind.")
    at: Time = Field(default=written("0 ns"), description="When it is issued.")
    root: Npu | None = Field(
        default=None,
        description="The NPU that the data of a broadcast or scatter come from, those of a reduce or gather go to. "
        "Left out: the first that takes part.",
    )
    priority: Annotated[int, *whole(-(2**31), 2**31)] | None = Field(
        default=None, description='The higher goes first, with `system.scheduling = "explicit"`. Left out: 0.'
    )
    group: Word | None = Field(default=None, description="The NPUs that take part: a name of [[system.groups]].")
    npus: Members | None = Field(
        default=None, description="The NPUs that take part, in the order of their ranks. Left out: all."
    )
    dims: Annotated[tuple[_Dim, ...], Field(min_length=1)] | None = Field(
        default=None,
        description="One collective in each group of NPUs that differ along these dimensions only; the end is that of "
        "the last. Left out: along all dimensions, which is one group.",
    )
    algorithm: AlgorithmNames = Field(
        default=None, description="As the keys of [system] that are named after kinds, for this one."
    )

    @model_validator(mode="after")
    def _sound(self) -> Collective:
        given = [key for key in ("group", "npus", "dims") if getattr(self, key) is not None]
        faults = [InputError(f"`{given[0]}` is given, too", key=key, allowed="one of them") for key in given[1:]]
        if self.kind == "barrier" and self.size is not None:
            faults.append(InputError("a barrier has no data", key="size", allowed="no size"))
        if self.kind != "barrier" and self.size is None:
            faults.append(InputError("is missing", key="size", allowed="a size such as '4 KiB'"))
        if self.root is not None and self.kind not in ROOTED:
            faults.append(InputError(f"{self.kind} has no root", key="root", allowed=f"with {', '.join(ROOTED)}"))
        elif self.root is not None and self.dims is not None:
            problem = "every group along `dims` has a root of its own, the first of its NPUs"
            faults.append(InputError(problem, key="root", allowed="`root`, or `dims`"))
        if self.dims is not None and len(set(self.dims)) < len(self.dims):
            faults.append(InputError("a dimension is listed twice", key="dims", allowed="every dimension once"))
        raise_all(faults)
        return self

    @property
    def bytes(self) -> int:
        """Its size; that of a barrier's messages."""
        return BARRIER_BYTES if self.size is None else self.size

    @property
    def label(self) -> str:
        """What it is called in results."""
        return self.name or self.kind


class Message(Table):
    """A message from one NPU to another, beside collectives or without any."""

    src: Npu = Field(description="The NPU that sends.")
    dst: Npu = Field(description="The NPU that receives.")
    size: PositiveBytes = Field(description="Its bytes.")
    at: Time = Field(default=written("0 ns"), description="When it is sent.")
    name: Word | None = Field(default=None, description='What it is called in results; left out: "message".')

    @model_validator(mode="after")
    def _to_another(self) -> Message:
        if self.src == self.dst:
            raise InputError(f"NPU {self.src} sends to itself", key="dst", allowed="another NPU")
        return self
