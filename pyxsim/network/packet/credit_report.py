"""Credits as messages by the end of a run: counts of each link and VC, and credits that are missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.core.engine import Engine
from pyxsim.core.engine_options import Links
from pyxsim.network.protocol import BackendTable
from pyxsim.network.windows import Windows

_OF_VCS = {"returned": "returned", "messages": "carried", "lost": "destroyed", "restored": "restored"}


def credit_counters(engine: Engine, links: Links) -> dict[str, NDArray[Any]]:
    """Return running totals of each link of the engine.

    Returns
    -------
    dict
        "credit_messages", "credit_riding", "credit_resent": messages, flits that carried credits of the link, and
        retransmitted messages; "credits_returned",
        "credits_lost"; "credit_time": time that the messages of the opposite link took on it, in 1 / 2^20 cycles.
    """
    assert links.credits is not None
    returns, opposite = engine.credit_returns(), np.asarray(links.credits.opposite, np.int64)
    first = np.cumsum(links.vcs) - np.asarray(links.vcs)
    time = np.where(opposite >= 0, returns["busy"][opposite], 0.0)
    of_links = {name: np.add.reduceat(returns[f"vc_{name}"], first) for name in ("returned", "destroyed")}
    return {
        "credit_messages": returns["messages"],
        "credit_riding": returns["riding"],
        "credit_resent": returns["resent"],
        "credits_returned": of_links["returned"],
        "credits_lost": of_links["destroyed"],
        "credit_time": np.rint(time * 2.0**20).astype(np.int64),
    }


def credit_tables(
    engine: Engine, links: Links, totals: Mapping[str, NDArray[Any]], windows: Windows, end: int
) -> dict[str, BackendTable]:
    """Return the tables `link_credits`, `link_credit_windows` and `vc_credits`.

    Parameters
    ----------
    totals
        Running totals at the end, with those of `credit_counters`, of the listed links.
    windows
        The same totals by windows.
    end
        Cycle in which the run ended.
    """
    count = len(totals["credit_messages"])
    carriers = totals["credit_messages"] + totals["credit_riding"]
    whole: dict[str, NDArray[Any]] = {
        "messages": totals["credit_messages"],
        "riding": totals["credit_riding"],
        "resent": totals["credit_resent"],
        "returned": totals["credits_returned"],
        "credits_per_message": totals["credits_returned"] / np.maximum(carriers, 1),
        "lost": totals["credits_lost"],
        "share": totals["credit_time"] / 2.0**20 / max(1, end),
    }
    returns = engine.credit_returns()
    vcs = int(np.max(links.vcs, initial=1))
    of_vcs = {name: returns[f"vc_{inside}"].reshape(-1, vcs)[:count] for name, inside in _OF_VCS.items()}
    of_vcs["without_credits"] = returns["vc_empty"].reshape(-1, vcs)[:count]
    whole["restored"] = of_vcs["restored"].sum(axis=1)
    ends = np.minimum(windows.start + windows.length, max(end, 1))
    length = np.maximum(ends - windows.start, 1)[:, np.newaxis]
    names = {"messages": "credit_messages", "riding": "credit_riding"}
    names |= {"returned": "credits_returned", "lost": "credits_lost"}
    by_window: dict[str, NDArray[Any]] = {
        name: windows.counts[inside].astype(np.int64) for name, inside in names.items()
    }
    by_window |= {"time": windows.start, "share": windows.counts["credit_time"] / 2.0**20 / length}
    attrs = {"window_cycles": windows.length}
    return {
        "link_credits": BackendTable(whole),
        "link_credit_windows": BackendTable(by_window, attrs),
        "vc_credits": BackendTable({"vc": np.arange(vcs), **of_vcs}),
    }


def missing_credits(engine: Engine, links: Links, link_name: Callable[[int], str]) -> list[str]:
    """Return a line for each link with lost credits: its VCs, the number of credits, and that of slots."""
    lost = engine.credit_returns()["vc_lost"]
    vcs, depth = np.asarray(links.vcs), np.asarray(links.depth)
    first = np.cumsum(vcs) - vcs
    lines = []
    for link in np.flatnonzero(np.add.reduceat(lost, first)).tolist():
        of_link = lost[first[link] : first[link] + vcs[link]]
        short = [f"{of_link[vc]} of VC {vc}" for vc in np.flatnonzero(of_link).tolist()]
        more = [f"{len(short) - 4} more VCs"] if len(short) > 4 else []
        lines.append(f"link {link_name(link)} lost credits: {', '.join([*short[:4], *more])}, of {depth[link]} each")
    return lines
