"""The proofs of schedules and plans."""

from __future__ import annotations

from dataclasses import asdict

from pyxsim.runner.prepared import Prepared, PreparedTraffic
from pyxsim.study.check.compositions import prove_compositions, schedule_names
from pyxsim.study.check.registered import Finding, checks


@checks.register("schedules", order=60)
def schedules(prepared: Prepared | PreparedTraffic) -> Finding:
    """List the schedules that `prepare` has proved."""
    names = [] if prepared.mode == "open" else schedule_names(prepared.system)
    return Finding([("schedule", f"proved: {name}") for name in names], {"schedules": names})


@checks.register("plans", order=70)
def plans(prepared: Prepared | PreparedTraffic) -> Finding:
    """Prove that the phases of every plan make up its collective. Raises ScheduleError."""
    proved = [] if prepared.mode == "open" else prove_compositions(prepared.system)
    rows = []
    for plan in proved:
        shape = "x".join(map(str, plan.shape))
        rows.append(("plan", f"proved: {plan.kind} = {', '.join(plan.phases)} (on {shape} with {plan.size} bytes)"))
    return Finding(rows, {"plans": [asdict(plan) for plan in proved]})
