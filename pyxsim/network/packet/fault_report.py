"""The effects of faults by the end of a run: messages that do not arrive, and counts of each link."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import IntArray
from pyxsim.core.engine import Engine
from pyxsim.network.packet.link_faults import LinkFaults
from pyxsim.network.protocol import BackendTable
from pyxsim.network.windows import Windows

MOST_LINES = 20


def fault_report(
    engine: Engine,
    faults: LinkFaults,
    link_name: Callable[[int], str],
    message_name: Callable[[int], str],
    held: Callable[[int], list[int]],
) -> list[str]:
    """Return a line for each message with lost packets, then one for each link that is down, with its waiting messages.

    `held`: returns the messages that wait at their source for a link.
    """
    lines = [] if faults.epochs is None else faults.epochs.report()
    for message, lost in engine.lost_messages().tolist() if faults.drops else ():
        packets = "a packet" if lost == 1 else f"{lost} packets"
        lines.append(f"{message_name(message)}, lost {packets}")
    down = faults.down(engine.now)
    waiting: dict[int, list[int]] = {}
    for entry in engine.waiting() if down else ():
        waiting.setdefault(entry["wants"], []).append(entry["message"])
    for link in down:
        messages = sorted({*waiting.get(link, ()), *held(link)})
        shown = "; ".join(message_name(message) for message in messages[:3])
        more = f"; and {len(messages) - 3} more" if len(messages) > 3 else ""
        lines.append(f"link {link_name(link)} is down" + (f": {shown}{more}" if messages else ""))
    more_lines = len(lines) - MOST_LINES
    return [*lines[:MOST_LINES], f"... and {more_lines} more"] if more_lines > 0 else lines


def held_messages(engine: Engine, sources: Sequence[int], links: int, link: int) -> list[int]:
    """Return the messages that wait at an NPU for its host link.

    Parameters
    ----------
    sources
        The NPU that sends each message.
    links
        Links between routers, which come before the host links.
    """
    sent = [message for message, source in enumerate(sources) if source == link - links]
    return [message for message in sent if engine.message_times(message)[2] < 0]


def loss_counters(engine: Engine) -> dict[str, IntArray]:
    """Return running totals of each link of the engine: flits corrupted, lost and retransmitted, and replay buffers.

    `replay_held`: total of the cycles that flits have spent in the replay buffer.
    """
    losses, retries = engine.losses(), engine.retries()
    zeros = np.zeros(len(losses["errors"]), np.int64)
    retry = {name: retries[name] if len(retries[name]) else zeros for name in retries}
    return {
        "errors": losses["errors"],
        "flits_lost": losses["lost"],
        "resent": retry["resent"],
        "timeouts": retry["timeouts"],
        "stall_replay": retry["full"],
        "replay_held": retry["held"],
    }


def fault_tables(
    totals: Mapping[str, IntArray], most: NDArray[Any], windows: Windows, end: int, held_until: int
) -> dict[str, BackendTable]:
    """Return the tables `link_faults` and `link_fault_windows`.

    Parameters
    ----------
    totals
        Running totals at the end, with those of `loss_counters`.
    most
        Most flits in each replay buffer; empty without retry.
    windows
        The same totals by windows.
    end
        Cycle in which the run ended.
    held_until
        Cycle up to which flits were counted that waited for their last answers: `end` or a later one.
    """
    count = len(totals["errors"])
    names = ("errors", "flits_lost", "resent", "timeouts", "stall_replay")
    whole: dict[str, NDArray[Any]] = {name: totals[name] for name in names}
    whole["replay_max"] = most[:count] if len(most) else np.zeros(count, np.int64)
    whole["replay_mean"] = totals["replay_held"] / max(1, held_until)
    ends = np.minimum(windows.start + windows.length, max(end, 1))
    ends[-1:] = np.maximum(ends[-1:], held_until)
    length = np.maximum(ends - windows.start, 1)[:, np.newaxis]
    by_window: dict[str, NDArray[Any]] = {name: windows.counts[name].astype(np.int64) for name in names}
    by_window |= {"time": windows.start, "replay_mean": windows.counts["replay_held"] / length}
    attrs = {"window_cycles": windows.length}
    return {"link_faults": BackendTable(whole), "link_fault_windows": BackendTable(by_window, attrs)}
