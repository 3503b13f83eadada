"""Buffers against the credit loop."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from pyxsim.analysis.packet_spacing import COVERED, kind_streams, lane_stream
from pyxsim.runner.prepared import Prepared, PreparedTraffic
from pyxsim.runner.traffic.open_loop import largest_packet
from pyxsim.study.check.registered import Finding, checks
from pyxsim.units import percent, plural


@dataclass(frozen=True)
class Buffer:
    """The buffers of one dimension's links, or of one kind of links, against their credit loop.

    Parameters
    ----------
    vcs
        VCs that a packet may use, of its class.
    credit_loop
        Cycles from a flit to the return of its credit.
    share
        The largest share of the time for which full packets can keep a link busy.
    """

    dimension: int
    name: str
    flits_per_vc: int
    vcs: int
    credit_loop: int
    share: float


@checks.register("buffers", order=80)
def buffers(prepared: Prepared | PreparedTraffic) -> Finding:
    """Compare the buffers of every kind of links with its credit loop."""
    kinds, rows = buffers_of(prepared), []
    for number in kinds:
        text = f"{plural(number.flits_per_vc, 'flit')} x {plural(number.vcs, 'VC')}"
        loop = f"the credit loop of {plural(number.credit_loop, 'cycle')}"
        text += f" cover {loop}" if number.share >= COVERED else f" for {loop}: {percent(number.share)} busy at most"
        kind = number.name in prepared.topology.link_kinds
        name = f"{number.name} links" if kind else f"dimension {number.dimension} ({number.name})"
        rows.append(("buffers", f"{name}: {text}"))
    return Finding(rows, {"buffers": [asdict(number) for number in kinds]})


def buffers_of(prepared: Prepared | PreparedTraffic) -> list[Buffer]:
    """Return the buffers of each dimension, or kind, that has links; none for backends without packets."""
    if not prepared.network.capabilities.packets:
        return []
    topology, experiment = prepared.topology, prepared.experiment
    closed = prepared.mode == "closed"
    flits = prepared.network.cut(experiment.network.packet)[1] if closed else largest_packet(experiment)
    buffers = []
    if topology.hosts and (hosts := lane_stream(prepared.network, flits)) is not None:
        buffers.append(Buffer(0, topology.link_kinds[0], hosts.slots, hosts.vcs, hosts.loop, hosts.at_most_in_turn))
    for kind, stream in kind_streams(prepared.network, flits):
        name = topology.link_kinds[kind]
        if name == f"d{kind}" and kind < len(topology.dims):
            name = f"{topology.dims[kind].name} {topology.dims[kind].npus}"
        buffers.append(Buffer(kind, name, stream.slots, stream.vcs, stream.loop, stream.at_most))
    return buffers
