"""The shortest interval between packets on a link without other traffic (docs/router.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import numpy as np

from pyxsim.arrays import IntArray, unique_rows
from pyxsim.core.engine_options import STORE_AND_FORWARD, WORMHOLE
from pyxsim.network.protocol import Backend

COVERED = 0.995  # share of the time that counts as a busy link


@dataclass(frozen=True)
class Stream:
    """Back-to-back packets on a link or lane.

    Attributes
    ----------
    flits
        Flits per packet.
    pace
        Flit time in cycles.
    slots, vcs
        Flits per VC, and the VCs that the packets may use.
    loop
        Cycles until the credit of a body flit returns.
    held
        Cycles from head to head of successive packets on one VC.
    credits
        Cycles from head to head that the downstream buffers of all VCs allow.
    queued
        Cycles from head to head if packets do not interleave; 0 if they do.
    narrow
        Cycles from head to head while no other packet is on another VC.
    drained
        Whether a VC is released only after its packet has left the downstream buffer.
    """

    flits: int
    pace: Fraction
    slots: int
    vcs: int
    loop: int
    held: Fraction
    credits: Fraction
    queued: Fraction
    narrow: Fraction
    drained: bool

    @property
    def cycles(self) -> Fraction:
        """Cycles from head to head."""
        return max(self.flits * self.pace, self.held / self.vcs, self.credits, self.queued)

    @property
    def returns(self) -> Fraction:
        """Cycles from head to head, limited by credits only."""
        return max(self.flits * self.pace, self.credits, self.held / self.vcs if self.drained else Fraction(0))

    @property
    def at_most(self) -> float:
        """The largest share of the time for which the link can be busy, if packets interleave."""
        return float(self.flits * self.pace / self.returns)

    @property
    def returns_in_turn(self) -> Fraction:
        """Cycles from head to head, limited by credits, on a lane that finishes a packet before the next."""
        return max(self.returns, self.queued)

    @property
    def at_most_in_turn(self) -> float:
        """The largest share of the time for which a lane can be busy."""
        return float(self.flits * self.pace / self.returns_in_turn)

    @property
    def share(self) -> float:
        """The share of the time for which the link can be busy."""
        return float(self.flits * self.pace / self.cycles)

    @property
    def certain(self) -> float:
        """The share of the time for which the link is busy even if packets do not use several VCs at once."""
        return float(self.flits * self.pace / max(self.cycles, self.narrow))

    @property
    def needed(self) -> int:
        """The flits per VC that cover the credit loop."""
        return ceil(self.loop / self.pace / self.vcs)

    @property
    def enough(self) -> int:
        """The number of VCs that keeps the link busy."""
        return ceil(self.held / (self.flits * self.pace))


def stream(network: Backend, link: int, flits: int) -> Stream:
    """Return the stream of packets of `flits` flits over a link or lane of the engine."""
    config = network.config
    links, options, stages = config.links, config.options, config.stages
    injects = links.network <= link < links.network + links.injection
    ejects = link >= links.network + links.injection
    pace = Fraction(int(links.s_num[link]), int(links.s_den[link]))
    wait = -(-(stages.rc + stages.va - options.speculative) // options.speedup)  # of a head in front of the switch
    traversal = 0 if injects else options.st // options.speedup
    loop = traversal + ceil(pace) + int(links.delay[link] + links.credit_delay[link])
    slots, pool, vcs = int(links.depth[link]), int(links.pool[link]), _vcs(network, link)
    next_head = pace if injects else max(pace, Fraction(1 + wait))  # after a tail, on the VC that it released
    whole = options.flow != WORMHOLE
    slow = pace if whole else max(pace, Fraction(loop, slots + pool))
    rounds, rest = divmod(flits - 1, slots + pool)  # times that all credits are consumed and return
    body = rounds * (slots + pool) * slow + rest * pace
    gone = (
        body + loop + (0 if ejects else wait)
    )  # until the packet has left the downstream buffer and its credits are back
    if options.flow == STORE_AND_FORWARD and not ejects:
        gone += body
    narrow = flits * slow if flits > slots + pool else Fraction(0)
    if options.drained:
        held = gone + (0 if injects or options.speculative or not stages.va else 1)
    else:
        held = body + next_head
        if not (injects or stages.va):  # a head takes the first free VC: that of the previous packet
            narrow = max(narrow, (flits - 1) * pace + next_head)
    queued = Fraction(0)
    if whole:  # a head needs space for its whole packet
        credits = gone / max(1, (slots + pool) // flits + (vcs - 1) * (slots // flits))
    else:
        credits = Fraction(flits * loop, slots * vcs + pool)
        if options.ordered:  # packets leave in order: only the credits of the first packet count
            credits = max(credits, body + pace)
    if (
        not options.interleaved
    ):  # a lane finishes a packet before it starts another: the downstream buffers must hold it
        behind = flits if injects else max(0, flits - 2 * (slots + pool))
        first = max(Fraction(0), loop + wait - (slots + pool) * slow) if injects and flits > slots + pool else 0
        queued = max(queued, flits * pace + behind * (slow - pace) + first)
    return Stream(flits, pace, slots, vcs, loop, held, credits, queued, narrow, options.drained)


def _vcs(network: Backend, link: int) -> int:
    """The number of VCs per class for messages of the first virtual network."""
    links, fixed = network.config.links, any(network.topology.relation.fixed_vcs)
    first, classes = int(links.ranges[link]), int(links.classes[link])
    counts = (links.high - links.low)[first : first + classes]
    return max(1, int(counts.max() if fixed and link < links.network else counts.min()))


def kind_streams(network: Backend, flits: int) -> Iterator[tuple[int, Stream]]:
    """Yield each kind of links with the stream on its slowest link."""
    for kind in range(len(network.topology.link_kinds)):
        if (slowest := _slowest(network, np.flatnonzero(network.topology.link_dim == kind), flits)) is not None:
            yield kind, slowest


def lane_stream(network: Backend, flits: int) -> Stream | None:
    """Return the stream on the slowest injection lane; None without lanes."""
    links = network.config.links
    return _slowest(network, np.arange(links.network, links.network + links.injection), flits)


def _slowest(network: Backend, candidates: IntArray, flits: int) -> Stream | None:
    """The stream with the lowest share among these links; equal links are evaluated once."""
    links = network.config.links
    columns = (links.s_num, links.s_den, links.delay, links.credit_delay, links.depth, links.ranges, links.classes)
    number = unique_rows(np.array([values[candidates] for values in columns], np.int64).T)[1]
    distinct = candidates[np.unique(number, return_index=True)[1]]
    return min((stream(network, link, flits) for link in distinct.tolist()), key=lambda s: s.share, default=None)


def starved(network: Backend, flits: int) -> Iterator[str]:
    """Yield warnings about links that full packets cannot keep busy: credits or VCs return too late."""
    kinds = network.topology.link_kinds
    for kind, each in kind_streams(network, flits):
        if each.at_most < COVERED:
            of_dimension = kinds[kind] == f"d{kind}"
            what = f"dimension {kind}" if of_dimension else f"the {kinds[kind]} links"
            yield _short(
                each, each.returns, what, "its links" if of_dimension else "they", f"{each.vcs} VCs (of a class)"
            )
    lane = lane_stream(network, flits)
    if lane is not None and lane.share < COVERED:
        one = lane.queued > lane.returns
        vcs = "1 VC (a packet at a time)" if one else f"{lane.vcs} VCs"
        what = "the host links" if network.topology.hosts else "injection lanes"
        yield _short(lane, lane.returns_in_turn, what, "they", vcs)


def _short(each: Stream, cycles: Fraction, what: str, subject: str, vcs: str) -> str:
    share = f"{float(each.flits * each.pace / cycles):.0%}"
    if each.drained and cycles == each.held / each.vcs:
        return (
            f"network.router.vc_reuse: a VC takes a packet of {each.flits} flits every {float(each.held):.0f} cycles, "
            f"when all its credits have returned: with {vcs} {what} can be busy {share} of the time; {each.enough} "
            "suffice"
        )
    needed = ceil(each.loop / each.pace) if vcs.startswith("1 ") else each.needed
    return (
        f"network.router.buffer: {each.slots} flits x {vcs} cover {share} of the credit loop of {what} "
        f"({each.loop} cycles): {subject} can be busy {share} of the time; {needed} flits cover it"
    )
