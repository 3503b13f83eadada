"""[network.transactions]: loads, stores and atomics of a scale-up fabric (docs/memory_traffic.md)."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from pyxsim.errors import InputError, raise_all
from pyxsim.settings.types import Bandwidth, Bytes, Flag, PositiveTime, Table, whole, written

LEAST_SIZE, MOST_SIZE = 32, 256
MOST_HEADER = 256
MOST_OUTSTANDING = 2**20


class SwitchReduction(Table):
    """What the switch does with sums and with stores to all (algorithms `multimem` and `in-switch`)."""

    size: Bytes | None = Field(
        default=None,
        description=f"Data of a transaction that the switch adds or copies, {LEAST_SIZE} to {MOST_SIZE} bytes. "
        "Default: that of other transactions.",
    )
    buffers: Annotated[int, *whole(1, MOST_OUTSTANDING)] | None = Field(
        default=None,
        description="Entries of the reduction buffer, each for the sum of one transaction in progress; further sums "
        "wait. Default: no limit.",
    )
    rate: Bandwidth | None = Field(
        default=None, description="Bytes of operands per second that the adders consume. Default: no limit."
    )
    latency: PositiveTime = Field(
        default=written("50 ns"),
        description="Time from the last operand to the result, or from a request to its copies, in addition to the "
        "routers' latency.",
    )


class Transactions(Table):
    """Messages as memory transactions with requests and responses, on the packet backend."""

    PRESETS: ClassVar[dict[str, dict[str, int]]] = {
        "nvlink": {"size": 128, "request": 16, "response": 16},
        "ualink": {"size": 256, "request": 16, "response": 8},
    }

    preset: Literal["nvlink", "ualink"] = Field(
        default="nvlink",
        description="Defaults of `size`, `request` and `response` ([memory_traffic.md](memory_traffic.md)).",
    )
    size: Bytes | None = Field(
        default=None,
        description=f"Data of a transaction, {LEAST_SIZE} to {MOST_SIZE} bytes; the last one of an access may be "
        "shorter. Default: that of the preset.",
    )
    request: Bytes | None = Field(
        default=None,
        description="Header of a request, which has data if it is a store or an atomic. Default: that of the preset.",
    )
    response: Bytes | None = Field(
        default=None,
        description="Header of a response, which has data if it answers a load; else it is an acknowledgment. "
        "Default: that of the preset.",
    )
    outstanding: Annotated[int, *whole(1, MOST_OUTSTANDING)] = Field(
        default=4096, description="Maximum number of outstanding requests of an NPU."
    )
    outstanding_per_destination: Annotated[int, *whole(1, MOST_OUTSTANDING)] | None = Field(
        default=None,
        description="Maximum number of outstanding stores to, and of outstanding loads from, one NPU. Default: no "
        "limit.",
    )
    ordering: Literal["relaxed", "in-order", "strict"] = Field(
        default="relaxed",
        description='"in-order": a request is outstanding until it and all earlier ones of its NPU have responses. '
        '"strict": a request waits for the response to the previous one to the same NPU.',
    )
    store_acks: Flag = Field(
        default=True, description="Whether stores, and atomics that return nothing, are acknowledged by a response."
    )
    atomics_return: Flag = Field(
        default=False, description="Whether the response of an atomic returns the old value, of the operand's size."
    )
    memory_latency: PositiveTime = Field(
        default=written("300 ns"), description="Time from the arrival of a request at an NPU to its response."
    )
    memory_bandwidth: Bandwidth | None = Field(
        default=None, description="Bytes per second that the memory of an NPU reads or writes. Default: no limit."
    )
    turnaround: PositiveTime = Field(
        default=written("20 ns"),
        description="Time from a response to the request that it unblocks, and from the last data of a message to its "
        "completion at the receiver.",
    )
    switch: SwitchReduction = Field(
        default_factory=SwitchReduction, description="Reduction and multicast in the switch."
    )

    @model_validator(mode="after")
    def _size_in_range(self) -> Transactions:
        data, header = ("size of a transaction", LEAST_SIZE, MOST_SIZE), ("size of a header", 1, MOST_HEADER)
        sizes = {
            "size": (self.size, *data),
            "switch.size": (self.switch.size, *data),
            "request": (self.request, *header),
            "response": (self.response, *header),
        }
        faults = [
            InputError(f"{size} B is not a valid {what}", key=key, allowed=f"{least} B to {most} B")
            for key, (size, what, least, most) in sizes.items()
            if size is not None and not least <= size <= most
        ]
        raise_all(faults)
        return self

    @property
    def size_at_switch(self) -> int:
        """Data of a transaction that the switch adds or copies."""
        return self.bytes_of("size") if self.switch.size is None else int(self.switch.size)

    def bytes_of(self, what: str) -> int:
        """Return `size`, `request` or `response` in bytes."""
        given: Any = getattr(self, what)
        return int(self.PRESETS[self.preset][what] if given is None else given)
