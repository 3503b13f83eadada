"""What htsim derives from its options and the network: round-trip time, queues, ECN thresholds, timeout."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from pyxsim.compat.htsim.fat_tree import FatTree
from pyxsim.compat.htsim.htsim_options import ALGORITHMS, BALANCE, HEADER, HtsimOptions
from pyxsim.errors import InputError

QUEUE_FACTOR = {True: 1, False: 5}  # bandwidth-delay products in a queue, with trimming and without
QA_GATE = 3
LEAST_RATE = 0.01  # of pulls, with congestion control of oversubscribed networks


@dataclass(frozen=True)
class DerivedRules:
    """Times in picoseconds, sizes in bytes.

    Attributes
    ----------
    rtt
        Round trip of a full packet and its acknowledgment on the longest path of an idle network.
    transmission
        The part of it that is transmission.
    bdp_packets
        Full packets that the rtt holds.
    """

    rtt: int
    transmission: float
    bdp_packets: int
    queue: int
    ecn_low: int
    ecn_high: int
    min_rto: int
    target: int


def derive(options: HtsimOptions, tree: FatTree) -> DerivedRules:
    """Return the rules of a run, rounded as htsim does. Raises InputError."""
    gigabits, seconds = options.line / 1e9, 1e12
    data = options.mtu * 8 / gigabits * tree.diameter * 1000
    reply = HEADER * 8 / gigabits * tree.diameter * 1000
    rtt = int(2 * tree.diameter_latency + data + reply)
    bdp_packets = math.ceil(rtt / seconds * (options.line // 8) / options.mtu)
    if options.queue_packets is None:
        packets = bdp_packets * (options.queue_factor or QUEUE_FACTOR[options.trimming])
    else:
        packets = options.queue_packets
    queue = packets * options.mtu
    low, high = options.ecn_packets or (math.ceil(bdp_packets * 0.2), math.ceil(bdp_packets * 0.8))
    if not low <= high <= packets:
        allowed = f"LOW <= HIGH <= {packets} packets (the queue: -q)"
        raise InputError(f"the thresholds are {low} and {high} packets", key="-ecn", allowed=allowed)
    min_rto = int((15 + queue * 6.0 * 8 * 1_000_000 / options.line) * 1_000_000)
    target = options.target or (int(rtt * 0.75) if options.trimming else rtt)
    return DerivedRules(rtt, data + reply, bdp_packets, queue, low * options.mtu, high * options.mtu, min_rto, target)


def base_rtt(options: HtsimOptions, rules: DerivedRules, tree: FatTree, src: int, dst: int) -> int:
    """Return the round-trip time that a flow assumes at first (ps)."""
    if not options.accurate_base_rtt:
        return rules.rtt
    return int(2 * tree.latency(src, dst) + int(rules.transmission))


def oversubscribed(options: HtsimOptions, tree: FatTree) -> tuple[bool, float]:
    """Return whether receivers adapt the rate of pulls to marks, and the least rate."""
    ratio = tree.oversubscription
    by_itself = ratio > 1 and not options.sender_flag and not options.never_oversubscribed_cc
    return by_itself or options.oversubscribed_cc, max(0.9 / ratio, LEAST_RATE) if by_itself else LEAST_RATE


def engine_rules(options: HtsimOptions, rules: DerivedRules, tree: FatTree) -> dict[str, Any]:
    """Return the rules of the engine."""
    adapts, least = oversubscribed(options, tree)
    return {
        "mtu": options.mtu,
        "header": HEADER,
        "control": HEADER,
        "trim": options.trim_size if options.trimming else 0,
        "line": options.line,
        "network_rtt": rules.rtt,
        "min_rto": rules.min_rto,
        "end": options.end,
        "sender_cc": int(options.sender_cc),
        "receiver_cc": int(options.receiver_cc),
        "algorithm": ALGORITHMS.index(options.algorithm),
        "window": options.window_packets * options.mtu,
        "target": rules.target,
        "qa_gate": QA_GATE if options.qa_gate < 0 else options.qa_gate,
        "paths": options.paths,
        "balance": BALANCE.index(options.balance),
        "sack_threshold": options.sack_threshold,
        "sleek": int(options.sleek),
        "update_rtt_on_nack": int(options.update_rtt_on_nack),
        "oversubscribed_cc": int(adapts),
        "oversub_min_rate": least,
        "oversub_ai": options.oversub_ai,
        "oversub_md": options.oversub_md,
        "oversub_alpha": options.oversub_alpha,
    }
