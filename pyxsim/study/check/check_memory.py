"""The memory of this machine that the run will need."""

from __future__ import annotations

from pyxsim.available_memory import available
from pyxsim.runner.memory_estimate import size_text
from pyxsim.runner.prepared import Prepared, PreparedTraffic
from pyxsim.study.check.registered import Finding, checks
from pyxsim.units import rounded


@checks.register("memory", order=90)
def memory(prepared: Prepared | PreparedTraffic) -> Finding:
    """Report the memory of the whole process at its peak, what is available, and the memory of the engine."""
    rows, data = [], {}
    if (needed := prepared.memory) is not None:
        limit = available()
        of_limit = "" if limit is None else f" of {size_text(limit.bytes)} available"
        rows.append(("memory", f"about {size_text(needed.bytes)}{of_limit}"))
        terms = {name: int(size) for name, size in needed.terms.items()}
        data["memory"] = {
            "bytes": needed.bytes,
            "available_bytes": None if limit is None else limit.bytes,
            "terms": terms,
        }
    size = prepared.network.engine_bytes()
    if size is not None:
        per_router = rounded(size / prepared.topology.routers, "B")
        rows.append(("memory", f"{rounded(size, 'B')} of it for the engine at the start, {per_router} per router"))
    return Finding(rows, {**data, "engine_bytes": size})
