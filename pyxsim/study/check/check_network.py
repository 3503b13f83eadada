"""The network: NPUs and links."""

from __future__ import annotations

from pyxsim.runner.prepared import Prepared, PreparedTraffic
from pyxsim.study.check.registered import Finding, checks
from pyxsim.units import plural


@checks.register("network", order=10)
def network(prepared: Prepared | PreparedTraffic) -> Finding:
    """Count NPUs and links, host links included."""
    topology = prepared.topology
    size = " x ".join(map(str, topology.shape))
    parts = [plural(topology.npus, "NPU"), plural(topology.counted_links, "link")]
    rows = [("settings", "good"), ("network", f"{topology.name} {size}: {', '.join(parts)}")]
    return Finding(rows, {"npus": topology.npus, "links": topology.counted_links})
