"""Connection matrices and topology files in htsim's formats, written for these tests."""

from __future__ import annotations

from collections.abc import Callable


def matrix(hosts: int, lines: list[str], triggers: tuple[str, ...] = ()) -> str:
    """A connection matrix."""
    head = [f"Nodes {hosts}", f"Connections {len(lines)}", f"Triggers {len(triggers)}"]
    return "\n".join([*head, *lines, *triggers, ""])


def flows(hosts: int, senders: range, peer: Callable[[int], int], size: Callable[[int], int], waves: int = 1) -> str:
    """A connection matrix with a flow per sender, which starts at 0, 1, .. `waves` - 1 us."""
    return matrix(hosts, [f"{i}->{peer(i)} start {i % waves} size {size(i)}" for i in senders])


TRIGGERS = matrix(
    16,
    [
        "0->13 id 1 start 0 size 100000 send_done_trigger 1",
        "1->12 id 2 start 2.7 size 200000 send_done_trigger 1",
        "2->11 id 3 trigger 1 size 90000 send_done_trigger 2",
        "2->10 id 4 trigger 1 size 90000 send_done_trigger 2",
        "3->9 id 5 trigger 2 size 50000 send_done_trigger 3",
        "4->9 id 6 trigger 2 size 50000",
        "5->9 id 7 trigger 3 size 50000",
    ],
    ("trigger id 1 barrier count 2", "trigger id 2 multishot", "trigger id 3 oneshot"),
)
MESSAGES = matrix(
    16,
    [
        "0->13 id 1 msg start 0 size 5000",
        "0->13 id 1 msg start 3 size 100000",
        "2->13 id 2 msg start 3 size 300000",
        "0->13 id 1 msg 4 start 14 size 777",
        "2->13 id 2 msg start 5 size 4087",
        "5->13 id 3 start 1 size 400000",
    ],
)
LEAF_SPINE = """# 4:1
Nodes 32
Tiers 2
Podsize 32
Tier 0
Downlink_speed_Gbps 100
Radix_Down 8
Radix_Up 2
Downlink_Latency_ns 700
Switch_Latency_ns 50
Oversubscribed 4
Tier 1
Downlink_speed_Gbps 100
Radix_Down 4
Downlink_Latency_ns 1000
"""
BUNDLES = """Nodes 8
Tiers 3
Podsize 4
Tier 0
Downlink_speed_Gbps 200
Radix_Down 2
Radix_Up 2
Downlink_Latency_ns 1000
Tier 1
Downlink_speed_Gbps 200
Radix_Down 2
Radix_Up 4
Downlink_Latency_ns 1000
Bundle 1
Tier 2
Downlink_speed_Gbps 100
Radix_Down 4
Downlink_Latency_ns 1000
Bundle 2
"""
FILES = {
    "one.cm": matrix(16, ["0->13 start 0 size 2000000"]),
    "small.cm": matrix(16, ["0->13 start 0 size 4086"]),
    "both.cm": matrix(16, ["0->13 start 0 size 2000000", "13->0 start 0 size 2000000"]),
    "tor.cm": matrix(16, ["0->1 start 0 size 5000"]),
    "two.cm": matrix(16, ["8->0 id 1 start 0 size 2000000", "9->0 id 2 start 0 size 2000000"]),
    "ten.cm": matrix(2, ["0->1 id 1 start 0 size 40860"]),
    "hundred.cm": matrix(2, ["0->1 id 1 start 0 size 408600"]),
    "reuse.cm": matrix(2, ["0->1 id 1 msg start 0 size 4086"] * 10),
    "perm.cm": flows(16, range(16), lambda i: (5 * i + 3) % 16, lambda i: 60000 + 7000 * i, 3),
    "incast.cm": flows(16, range(4, 12), lambda i: 0, lambda i: 150000 + i),
    "spine.cm": flows(32, range(24), lambda i: (i + 11) % 32, lambda i: 100000),
    "eight.cm": matrix(8, [f"{i}->{(i + 3) % 8} id {i + 1} start {i % 3} size {100000 + 1111 * i}" for i in range(8)]),
    "triggers.cm": TRIGGERS,
    "messages.cm": MESSAGES,
    "spine.topo": LEAF_SPINE,
    "bundle.topo": BUNDLES,
    "perm128.cm": flows(128, range(128), lambda i: (37 * i + 5) % 128, lambda i: 500000),
    "incast128.cm": flows(128, range(1, 97), lambda i: 0, lambda i: 60000),
    "perm1024.cm": flows(1024, range(1024), lambda i: (37 * i + 5) % 1024, lambda i: 200000),
}
