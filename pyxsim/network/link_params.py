"""Parameters of links in the engine's units: flit times, delays, credit delays, buffers."""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import NamedTuple

from pyxsim.core.engine import LONGEST_DELAY
from pyxsim.errors import InputError
from pyxsim.settings import Network
from pyxsim.units import format_bandwidth, format_bytes, format_frequency

MAX_SLOTS = 2**31 - 1
MAX_DENOMINATOR = 2**22  # times on a link are counted in 1/denominator cycles, in 64 bits: enough for 2^40 cycles


class LinkParams(NamedTuple):
    """Parameters of a link: flit time `s` (cycles), latency and credit latency (cycles)."""

    s: Fraction
    latency: int
    delay: int  # from the end of serialisation to the input VC
    credit_delay: int
    traversal: int = 0  # switch traversal, where it is no part of `delay`

    @property
    def loop(self) -> int:
        """Cycles from a body flit's leaving its buffer to the use of its credit, on an idle link."""
        return self.traversal + ceil(self.s) + self.delay + self.credit_delay


class Keys(NamedTuple):
    """Where the settings of a link are, for error messages: key paths or descriptions."""

    bandwidth: str
    latency: str


LINK, LANE = (Keys(f"network.{lane}bandwidth", f"network.{lane}latency") for lane in ("", "lane_"))


class LinkParamsFactory:
    """Makes `LinkParams` from settings. `warnings`: lines for the user, each once."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.stages = network.router.stages()
        self.warnings: list[str] = []

    def wire(
        self,
        bandwidth: Fraction,
        latency: int,
        *,
        from_router: bool = True,
        into_router: bool = True,
        serdes_credit: int | None = None,
        keys: Keys = LINK,
        unused: bool = False,
    ) -> LinkParams:
        """Return the parameters of a link between two routers, or of a lane.

        Parameters
        ----------
        bandwidth
            In bytes per second.
        latency
            In cycles.
        unused
            No link has these parameters: a bandwidth above a flit per cycle is no fault.

        Raises
        ------
        InputError
            If the link carries more than a flit per cycle, or its times are outside the range of the engine.
        """
        router, stages = self.network.router, self.stages
        s = self.network.cycles_per_flit(bandwidth)
        if s < 1:
            if not unused:
                raise self._too_wide(bandwidth, keys.bandwidth)
            s = Fraction(1)
        serdes = router.serdes if s > 1 else 0
        credit = serdes + ceil(s) - 1 if serdes else 0
        if serdes_credit is not None:
            credit = serdes_credit if s > 1 else 0
        delay, traversal = latency + serdes, 0
        if from_router:
            credit += router.credit_delay
            # With an internal or output speed-up, ST takes steps of the router, before the output queue.
            if router.queue_after_st:
                traversal = stages.st // router.steps
            else:
                delay += stages.st
        if into_router:
            delay += stages.bw + stages.sa - 1
        wire = LinkParams(s, latency, delay, 1 + latency + credit, traversal)
        self._check_range(wire, keys)
        return wire

    def _too_wide(self, bandwidth: Fraction, key: str) -> InputError:
        network = self.network
        most = format_bandwidth(network.flit * network.clock)
        return InputError(
            f"{format_bandwidth(bandwidth)} is more than a flit of {format_bytes(network.flit)} per cycle of "
            f"{format_frequency(network.clock)}",
            key=key,
            allowed=f"at most {most}; or a larger network.flit, or a network.clock of at least "
            f"{format_frequency(Fraction(ceil(bandwidth / network.flit)))} (without network.clock, pyxsim chooses it)",
        )

    def _check_range(self, wire: LinkParams, keys: Keys) -> None:
        """Raise InputError if the engine cannot represent the parameters."""
        if wire.s.denominator > MAX_DENOMINATOR:
            raise InputError(
                f"the flit time would be {wire.s} cycles, a fraction with too large a denominator",
                key=keys.bandwidth,
                allowed=f"a bandwidth at which flit * clock / bandwidth has a denominator of at most {MAX_DENOMINATOR}",
            )
        stages = self.stages
        longest = ceil(wire.s) + max(wire.delay, wire.credit_delay) + stages.rc + stages.va + wire.traversal + 4
        if longest > LONGEST_DELAY:
            raise InputError(
                f"a flit would spend {longest} cycles on a link",
                key=keys.latency if wire.latency > wire.s else keys.bandwidth,
                allowed=f"at most {LONGEST_DELAY} cycles of the clock",
            )

    def depth(self, wire: LinkParams, packet: int, bubble: bool = False) -> int:
        """Return the flits per VC for packets of up to `packet` flits. Raises InputError.

        "auto": one VC alone keeps its link busy, also during RC and VA of a head. Virtual cut-through and bubble flow
        control (`bubble`) add the flits of one packet, store-and-forward those of two.
        """
        router, stages = self.network.router, self.stages
        packets = {"wormhole": 0, "virtual-cut-through": 1, "store-and-forward": 2}[router.flow_control]
        packets += bubble
        if router.buffer != "auto":
            if bubble and router.buffer < packet + 1:
                raise InputError(
                    f"routing bubble requires buffers of a packet and one more slot: {packet + 1} flits, not"
                    f" {router.buffer}",
                    key="network.router.buffer",
                    allowed=f"at least {packet + 1}",
                )
            if packets and router.buffer + router.shared_buffer < packet:
                pool = f" and {router.shared_buffer} shared" if router.shared_buffer else ""
                raise InputError(
                    f"{router.flow_control} requires buffers of a packet: {packet} flits, not {router.buffer}{pool}",
                    key="network.router.buffer",
                    allowed=f"at least {max(1, packet - router.shared_buffer)}",
                )
            return router.buffer
        waits = -(-(stages.rc + stages.va) // router.steps)
        depth = ceil((wire.loop + waits) / wire.s) + 1 + packets * packet
        if depth > MAX_SLOTS:
            raise InputError("the buffer that covers the credit loop is too large", key="network.router.buffer")
        return depth
