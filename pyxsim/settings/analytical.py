"""[network.analytical]: what the analytical backends model besides latency and bandwidth of the links."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field

from pyxsim.settings.types import Bandwidth, PerDimension, Table, Time, number, written

_Factor = Annotated[Fraction, *number(0, 10**9)]
_ONE = 'One for all dimensions, or a list. Only with compat = "astra-sim-1".'


class Analytical(Table):
    """What the backends of delays model; the packet backend has no use for it."""

    forwarding: Literal["cut-through", "store-and-forward"] | None = Field(
        default=None,
        description="How messages go on where they queue for links (--backend analytical-congestion): the head as soon "
        "as it has crossed one, or everything once all of it is there. Default: cut-through; with "
        'compat = "astra-sim-2" store-and-forward, the only way there.',
    )
    sending: Literal["in-order", "together"] = Field(
        default="in-order",
        description="Whether messages that leave an NPU by one lane start in their order, as packets do, each when "
        "those before it leave room there; or all share it from the cycle in which they are handed over "
        "(--backend flow).",
    )
    nic_latency: PerDimension[Time] = Field(
        default=written("0 ns"), description=f"Of a network interface, passed twice by each message. {_ONE}"
    )
    router_latency: PerDimension[Time] = Field(
        default=written("0 ns"), description=f"Of the switch of a dimension that has one. {_ONE}"
    )
    hbm_latency: PerDimension[Time] = Field(
        default=written("0 ns"), description=f"Of the memory, which works while the message flies. {_ONE}"
    )
    hbm_bandwidth: PerDimension[Bandwidth] | None = Field(default=None, description=f"Of the memory. {_ONE}")
    hbm_scale: PerDimension[_Factor] = Field(
        default=Fraction(0), description=f"Factor for the time of the memory; 0 leaves it out. {_ONE}"
    )

    @property
    def summands(self) -> tuple[str, ...]:
        """The keys that say something that only ASTRA-sim 1 knows."""
        neutral = type(self)()
        keys = [key for key in type(self).model_fields if key not in ("forwarding", "sending")]
        return tuple(key for key in keys if getattr(self, key) != getattr(neutral, key))
