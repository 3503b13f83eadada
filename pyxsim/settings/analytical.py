"""[network.analytical]: what the analytical and flow backends model besides latency and bandwidth of the links."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field

from pyxsim.settings.types import Bandwidth, PerDimension, Table, Time, number, written

_Factor = Annotated[Fraction, *number(0, 10**9)]
_ONE = 'One value, or one per dimension. Only with compat = "astra-sim-1".'


class Analytical(Table):
    """Settings of the analytical and flow backends; the packet backend ignores them."""

    forwarding: Literal["cut-through", "store-and-forward"] | None = Field(
        default=None,
        description="How messages are forwarded where they queue for links (--backend analytical-congestion): as soon "
        "as the head arrives, or once the whole message has arrived. Default: cut-through; with "
        'compat = "astra-sim-2" always store-and-forward.',
    )
    sending: Literal["in-order", "together"] = Field(
        default="in-order",
        description="How messages share an injection lane (--backend flow): they start in order, each when those "
        "before it leave bandwidth, as packets do; or all share the lane from the cycle in which they are sent.",
    )
    nic_latency: PerDimension[Time] = Field(
        default=written("0 ns"), description=f"Latency of a network interface; each message passes two. {_ONE}"
    )
    router_latency: PerDimension[Time] = Field(
        default=written("0 ns"), description=f"Latency of the switch of a dimension. {_ONE}"
    )
    hbm_latency: PerDimension[Time] = Field(
        default=written("0 ns"), description=f"Latency of the memory, which overlaps with the network. {_ONE}"
    )
    hbm_bandwidth: PerDimension[Bandwidth] | None = Field(default=None, description=f"Bandwidth of the memory. {_ONE}")
    hbm_scale: PerDimension[_Factor] = Field(
        default=Fraction(0), description=f"Factor for the memory time; 0: no memory time. {_ONE}"
    )

    @property
    def summands(self) -> tuple[str, ...]:
        """The keys that differ from their defaults and that only ASTRA-sim 1 supports."""
        defaults = type(self)()
        keys = [key for key in type(self).model_fields if key not in ("forwarding", "sending")]
        return tuple(key for key in keys if getattr(self, key) != getattr(defaults, key))
