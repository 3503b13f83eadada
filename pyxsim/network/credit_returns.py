"""Credits as messages ([network.credits]): which link carries those of another, and their times (docs/credits.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.core.engine_options import CreditReturns, Links
from pyxsim.errors import InputError
from pyxsim.network.link_params import MAX_DENOMINATOR, LinkParams
from pyxsim.routing.opposite import opposite_links
from pyxsim.settings import Network
from pyxsim.topology.topology import Topology
from pyxsim.units import format_bytes, to_cycles


def carriers_of(topology: Topology) -> IntArray:
    """Return int64[links, and host links]: the link that carries the credits of each one; -1: they return ideally.

    It is the link in the opposite direction; for a host link, the other host link of its NPU.
    """
    carriers = opposite_links(topology.link_src, topology.link_dst)
    if not topology.hosts:
        return carriers
    to_network = topology.links + np.arange(topology.npus)
    return np.concatenate([carriers, to_network + topology.npus, to_network])


def share_of_flit(network: Network) -> Fraction:
    """Return the time of a message over that of a flit."""
    assert network.credits is not None
    return Fraction(network.credits.bytes_of_message(network.flit), network.flit)


def with_credit_returns(
    links: Links, topology: Topology, network: Network, wires: Sequence[LinkParams | None]
) -> Links:
    """Return links of the engine whose credits return by messages; the same without [network.credits].

    Parameters
    ----------
    wires
        Parameters of each link; None for a lane inside an NPU, whose credits return ideally.

    Raises
    ------
    InputError
        If a message is larger than a flit, a batch larger than a buffer, or no link has an opposite one.
    """
    credits = network.credits
    if credits is None:
        return links
    carriers = carriers_of(topology)
    opposite = np.concatenate([carriers, np.full(len(wires) - len(carriers), -1)])
    paired = np.flatnonzero(opposite >= 0)
    if not len(paired):
        problem = "no link has one in the opposite direction, which would carry its credits"
        raise InputError(problem, key="network.credits", allowed="a topology with links in both directions")
    _check(network, int(np.asarray(links.depth)[paired].min()))
    share = share_of_flit(network)
    num, den = (np.array(values, np.int64) for values in (links.s_num, links.s_den))
    num[opposite[paired]] *= share.denominator
    den[opposite[paired]] *= share.denominator
    if (den > MAX_DENOMINATOR).any():
        problem = f"times on a link would be counted in 1 / {int(den.max())} cycles"
        allowed = f"a size that divides the flit of {format_bytes(network.flit)}, or a bandwidth that divides the clock"
        raise InputError(problem, key="network.credits.size", allowed=allowed)
    clock = network.clock
    timeout = np.ones(len(wires), np.int64)
    for link in paired.tolist():
        wire = wires[link]
        assert wire is not None
        timeout[link] = wire.loop if credits.timeout is None else to_cycles(credits.timeout, clock)[0]
    every = credits.restored_every
    returns = CreditReturns(
        opposite=opposite,
        timeout=timeout,
        share=share,
        batch=credits.batch,
        wait=to_cycles(credits.wait, clock)[0] if credits.rides else -1,
        all_vcs=credits.value("vcs") == "all",
        data_first=credits.priority == "data",
        cumulative=credits.cumulative,
        resync=0 if every is None else to_cycles(every, clock)[0],
        advertise=credits.initial == "advertise",
    )
    return replace(links, s_num=num, s_den=den, credits=returns)


def _check(network: Network, depth: int) -> None:
    """Raise InputError for a message that no flit carries, or a batch that no buffer fills."""
    credits = network.credits
    assert credits is not None
    size = credits.bytes_of_message(network.flit)
    if size > network.flit:
        problem = f"a message of {format_bytes(size)} is larger than a flit"
        raise InputError(problem, key="network.credits.size", allowed=f"at most {format_bytes(network.flit)}")
    if credits.rides and not size:
        problem = "credits that take no bandwidth need no flit to carry them"
        raise InputError(problem, key="network.credits.size", allowed='above 0, or return = "flits"')
    if "wait" in credits.model_fields_set and not credits.rides:
        problem = "has no effect on credits that return in messages only"
        raise InputError(problem, key="network.credits.wait", allowed='no value, or return = "piggyback"')
    if credits.batch > depth:
        problem = f"a batch of {credits.batch} credits, but the buffer of a VC has {depth} flits"
        raise InputError(problem, key="network.credits.batch", allowed=f"at most {depth}")
