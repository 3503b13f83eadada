"""[network.credits]: credits as messages (docs/credits.md)."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from pyxsim.settings.types import Bytes, PositiveTime, Table, Time, whole, written
from pyxsim.units import Duration, parse_duration

MOST_BATCH = 2**20


class Credits(Table):
    """Credits as messages on the link in the opposite direction, or in the headers of flits there."""

    model_config = ConfigDict(serialize_by_alias=True, validate_by_name=True, validate_by_alias=True)

    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "uec": {"back": "flits", "size": 8, "vcs": "one", "counters": "cumulative"},
        "ualink": {"back": "piggyback", "size": 64, "vcs": "all", "counters": "incremental"},
        "nvlink": {"back": "piggyback", "size": 16, "vcs": "all", "counters": "incremental"},
        "infiniband": {"back": "flits", "size": 8, "vcs": "one", "counters": "cumulative"},
        "pcie": {"back": "flits", "size": 8, "vcs": "one", "counters": "cumulative", "resync": parse_duration("30 us")},
    }
    DEFAULTS: ClassVar[dict[str, Any]] = {
        "back": "flits",
        "size": None,
        "vcs": "one",
        "counters": "cumulative",
        "resync": None,
    }

    preset: Literal["uec", "ualink", "nvlink", "infiniband", "pcie"] | None = Field(
        default=None, description="Defaults of a standard ([credits.md](credits.md))."
    )
    back: Literal["flits", "piggyback"] | None = Field(
        default=None,
        alias="return",
        description='How credits return. "flits": in separate messages. "piggyback": in the header of a flit of the '
        'opposite direction, or in a separate message if none starts within `wait`. Default: "flits", or that of the '
        "preset.",
    )
    batch: Annotated[int, *whole(1, MOST_BATCH)] = Field(
        default=1, description="Credits of a VC that are collected before they return."
    )
    timeout: PositiveTime | None = Field(
        default=None,
        description="Time after which an incomplete batch returns. Default: the credit loop of the link.",
    )
    wait: Time = Field(
        default=written("20 ns"), description="Time for which due credits wait for a flit to carry them (piggyback)."
    )
    size: Bytes | None = Field(
        default=None,
        description="Bytes of a message, which takes bandwidth of the opposite direction; 0: messages take none, and "
        "are never lost. Default: that of a flit, or that of the preset.",
    )
    vcs: Literal["one", "all"] | None = Field(
        default=None,
        description='Whether a message has the credits of one VC or of all VCs. Default: "one", or that of the preset.',
    )
    priority: Literal["credits", "data"] = Field(
        default="credits", description="Which goes first when a message and a flit contend for a link."
    )
    counters: Literal["cumulative", "incremental"] | None = Field(
        default=None,
        description='What a message counts. "cumulative": all credits of a VC since the start, so that the next '
        'message restores lost ones. "incremental": those since the last message. Default: "cumulative", or that of '
        "the preset.",
    )
    resync: PositiveTime | None = Field(
        default=None,
        description="Interval at which lost credits are sent again. Default: never, or that of the preset.",
    )
    initial: Literal["ideal", "advertise"] = Field(
        default="ideal",
        description='Whether senders start with all credits, or ("advertise") with none until the first messages '
        "arrive; the same holds when a link without retry that has lost its flits comes up again.",
    )

    def value(self, key: str) -> Any:
        """Return a setting, or the default of its preset."""
        given = getattr(self, key)
        if given is not None:
            return given
        return (self.DEFAULTS | (self.PRESETS[self.preset] if self.preset else {}))[key]

    @property
    def rides(self) -> bool:
        """Whether credits ride on flits."""
        return bool(self.value("back") == "piggyback")

    @property
    def cumulative(self) -> bool:
        """Whether a message restores lost credits."""
        return bool(self.value("counters") == "cumulative")

    @property
    def restored_every(self) -> Duration | None:
        """Interval at which lost credits are sent again."""
        every: Duration | None = self.value("resync")
        return every

    def bytes_of_message(self, flit: int) -> int:
        """Return the bytes of a message, in a network with flits of `flit` bytes."""
        size: int | None = self.value("size")
        return flit if size is None else size
