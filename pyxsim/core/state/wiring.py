"""Ports of the routers and numbers of their VCs, from the ends of the links."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import Int32Array


def wire(routers: int, src: Int32Array, dst: Int32Array, vcs: Int32Array) -> dict[str, Int32Array]:
    """Arrays of the engine by name. `src`, `dst`: routers at the ends of each link, -1 for an interface.

    in_start, in_links    CSR over routers: incoming links in order of number, which puts network links before lanes
    out_start, out_links  the same for outgoing links
    link_port             number of the input port at the end of a link
    link_vc_offset        number of its VC 0 among all input VCs of that router
    input_vcs             input VCs per router
    base                  number of a router's first input VC among all VCs: router by router, sinks at the end
    link_base             number of its VC 0 among all VCs
    link_word, link_words  its first word in the bit masks of its VCs, and how many
    vc_link               the link of each VC
    in_listed             VCs by link and number: where they are
    link_out_port, link_out_offset, output_vcs   the same for output ports and output VCs
    """
    in_start, in_links = _by_router(routers, dst)
    out_start, out_links = _by_router(routers, src)
    fan_in = np.diff(in_start)
    before = _sums(vcs[in_links])
    port, offset = np.zeros_like(vcs), np.zeros_like(vcs)
    port[in_links] = np.arange(len(in_links)) - np.repeat(in_start[:-1], fan_in)
    offset[in_links] = before[:-1] - np.repeat(before[in_start[:-1]], fan_in)
    out_port, out_offset = np.zeros_like(vcs), np.zeros_like(vcs)
    out_before = _sums(vcs[out_links])
    fan_out = np.diff(out_start)
    out_port[out_links] = np.arange(len(out_links)) - np.repeat(out_start[:-1], fan_out)
    out_offset[out_links] = out_before[:-1] - np.repeat(out_before[out_start[:-1]], fan_out)
    words = (vcs + 63) // 64
    input_vcs = np.diff(before[in_start])
    base = _sums(input_vcs)
    sinks = dst < 0
    link_base = np.where(sinks, 0, base[:-1][np.where(sinks, 0, dst)] + offset if routers else 0)
    link_base[sinks] = base[-1] + _sums(vcs[sinks])[:-1]
    listed = np.repeat(link_base - _sums(vcs)[:-1], vcs) + np.arange(int(vcs.sum()))
    vc_link = np.zeros(len(listed), np.int32)
    vc_link[listed] = np.repeat(np.arange(len(vcs), dtype=np.int32), vcs)
    return {
        "in_start": in_start,
        "in_links": in_links,
        "out_start": out_start,
        "out_links": out_links,
        "link_port": port,
        "link_vc_offset": offset,
        "input_vcs": input_vcs,
        "link_out_port": out_port,
        "link_out_offset": out_offset,
        "output_vcs": np.diff(out_before[out_start]),
        "base": base[:-1],
        "link_base": link_base.astype(np.int32),
        "link_word": _sums(words)[:-1],
        "link_words": words,
        "vc_link": vc_link,
        "in_listed": listed,
    }


def classes_of_vcs(
    base: Int32Array,
    vcs: Int32Array,
    vnets: int,
    classes: Int32Array,
    ranges: Int32Array,
    low: Int32Array,
    high: Int32Array,
) -> Int32Array:
    """Return the VC class of each VC, indexed as by `wire`, from the `base` of each link; 0 for a VC in no range."""
    vc_class = np.zeros(int(vcs.sum()), np.int32)
    # Links with the same ranges are handled together.
    kinds, which = np.unique(np.stack([classes, ranges]), axis=1, return_inverse=True)
    for kind, (count, first) in enumerate(kinds.T.tolist()):
        bases = base[which == kind]
        for row in range(vnets * count):
            for vc in range(low[first + row], high[first + row]):
                vc_class[bases + vc] = row % count
    return vc_class


def _by_router(routers: int, ends: Int32Array) -> tuple[Int32Array, Int32Array]:
    links = np.flatnonzero(ends >= 0).astype(np.int32)
    order = np.argsort(ends[links], kind="stable")
    return _sums(np.bincount(ends[links], minlength=routers)), links[order]


def _sums(counts: NDArray[np.integer]) -> Int32Array:
    """Return 0 and the cumulative sums."""
    sums = np.zeros(len(counts) + 1, dtype=np.int32)
    np.cumsum(counts, out=sums[1:])
    return sums
