"""What a backend simulates once for many (docs/folding.md)."""

from __future__ import annotations

from pyxsim.network.link_paths import hops_of_routes
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
    text = f"NPU 0 stands for all while they keep step: of {groups:,} groups of messages, {classes} simulated at first"
    lines = [("folding", text)]
    if prepared.network.capabilities.packets and _has_datelines_between(prepared):
        text = "messages pass several links of rings with datelines: there NPUs lose step, and then all are simulated"
        lines.append(("", f'{text}; network.router.routing = "bubble" has no datelines'))
    return Finding(lines, {"folding": {"groups": groups, "classes": classes}})


def _has_datelines_between(prepared: Prepared) -> bool:
    """Whether messages pass several links of a dimension with VC classes."""
    relation = prepared.topology.relation
    source, target, plane = prepared.system.traffic()[:, :3].T
    return relation.classes > 1 and int(hops_of_routes(relation, source, target, plane).max(initial=0)) > 1
