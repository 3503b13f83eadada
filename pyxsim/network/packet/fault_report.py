"""What faults have done by the end of a run: messages that do not arrive, and counts of each link."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import IntArray
from pyxsim.core.engine import Engine
from pyxsim.network.packet.link_faults import LinkFaults
from pyxsim.network.protocol import BackendTable

if TYPE_CHECKING:
    from pyxsim.network.packet.packet_network import PacketNetwork

MOST_LINES = 20


def fault_report(network: PacketNetwork, faults: LinkFaults) -> list[str]:
    """Return a line for each message with lost packets, then one for each link that is down, with what waits for it."""
    engine = network.engine
    lines = []
    for message, lost in engine.lost_messages().tolist():
        packets = "a packet" if lost == 1 else f"{lost} packets"
        lines.append(f"{network.message_name(message)}, lost {packets}")
    down = faults.down(engine.now)
    waiting: dict[int, list[int]] = {}
    for entry in engine.waiting() if down else ():
        waiting.setdefault(entry["wants"], []).append(entry["message"])
    for link in down:
        messages = sorted(set(waiting.get(link, ())))
        shown = "; ".join(network.message_name(message) for message in messages[:3])
        more = f"; and {len(messages) - 3} more" if len(messages) > 3 else ""
        lines.append(f"link {network.link_name(link)} is down" + (f": {shown}{more}" if messages else ""))
    more_lines = len(lines) - MOST_LINES
    return [*lines[:MOST_LINES], f"... and {more_lines} more"] if more_lines > 0 else lines


def loss_counters(engine: Engine) -> dict[str, IntArray]:
    """Return running totals of each link of the engine: flits with errors, lost, sent again, and replay buffers.

    `replay_held`: cycles that flits have been in the replay buffer, together.
    """
    losses, retries = engine.losses(), engine.retries()
    none = np.zeros(len(losses["errors"]), np.int64)
    again = {name: retries[name] if len(retries[name]) else none for name in retries}
    return {
        "errors": losses["errors"],
        "flits_lost": losses["lost"],
        "resent": again["resent"],
        "timeouts": again["timeouts"],
        "stall_replay": again["full"],
        "replay_held": again["held"],
    }


def fault_tables(network: PacketNetwork) -> dict[str, BackendTable]:
    """Return the tables `link_faults` and `link_fault_windows`, after the end of the run."""
    totals, windows = network.totals(), network.windows_table()
    most = network.engine.retries()["count_most"][: len(totals["errors"])]
    names = ("errors", "flits_lost", "resent", "timeouts", "stall_replay")
    whole: dict[str, NDArray[Any]] = {name: totals[name] for name in names}
    whole["replay_max"] = most if len(most) else np.zeros(len(totals["errors"]), np.int64)
    whole["replay_mean"] = totals["replay_held"] / max(1, network.end)
    ends = np.minimum(windows.start + windows.length, max(network.end, 1))
    length = np.maximum(ends - windows.start, 1)[:, np.newaxis]
    counts = {name: windows.counts[name].astype(np.int64) for name in names}
    mean = windows.counts["replay_held"] / length
    return {
        "link_faults": BackendTable(whole),
        "link_fault_windows": BackendTable(
            {"time": windows.start, **counts, "replay_mean": mean}, {"window_cycles": windows.length}
        ),
    }
