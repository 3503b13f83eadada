"""What a backend simulates once for many (docs/folding.md)."""

from __future__ import annotations

from pyxsim.runner.prepared import Prepared, PreparedTraffic
from pyxsim.study.check.registered import Finding, checks


@checks.register("folding", order=88)
def folding(prepared: Prepared | PreparedTraffic) -> Finding | None:
    """Report how many groups of messages are simulated, and whether NPU 0 stands for all NPUs."""
    if prepared.mode == "open":
        return None
    if prepared.every_npu is None:
        why = prepared.why_every_npu
        return (
            Finding([("folding", f"NPU 0 does not stand for all: {why}")], {"folding": {"why": why}}) if why else None
        )
    counts = prepared.network.counts()
    groups, classes = counts["groups"], counts["classes"]
    text = f"NPU 0 stands for all while they keep step: {classes} of {groups:,} groups of messages are simulated"
    return Finding([("folding", text)], {"folding": {"groups": groups, "classes": classes}})
