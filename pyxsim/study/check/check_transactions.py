"""Memory transactions: how many, their packets and flits, and the time that limits of requests take."""

from __future__ import annotations

import numpy as np

from pyxsim.analysis.transaction_counts import expected_counts, least_cycles
from pyxsim.network.link_paths import hops_of_routes
from pyxsim.network.packet.transactions.transaction_limits import limits
from pyxsim.network.packet.transactions.transaction_tables import KINDS
from pyxsim.runner.prepared import Prepared, PreparedTraffic
from pyxsim.study.check.registered import Finding, checks
from pyxsim.units import format_time_ns, percent, plural


@checks.register("transactions", order=84)
def transactions(prepared: Prepared | PreparedTraffic) -> Finding | None:
    """Count transactions and flits of each kind, which a complete run has exactly, and bound its time by Little's
    law."""
    network = prepared.experiment.network
    rules = network.transactions
    if rules is None or prepared.mode == "open" or prepared.job.issues_later:
        return None
    accesses = prepared.system.accesses()
    counts = expected_counts(accesses, rules, network.flit)
    rows = []
    for kind, found in counts.items():
        flits = found["request_flits"] + found["response_flits"]
        text = (
            f"{_counted(found['transactions'], KINDS[kind])}: {flits:,} flits, {found['request_flits']:,} of requests"
        )
        rows.append(("transactions", f"{text}; {percent(found['carried_bytes'] / (flits * network.flit))} are data"))
    times = _times(prepared)
    least = least_cycles(accesses, rules, times)
    if least:
        bound = format_time_ns(least * 10**9 / network.clock)
        rows.append(("", f"at least {bound} with {plural(rules.outstanding, 'request')} outstanding (Little's law)"))
    kinds = [{"kind": KINDS[kind], **found} for kind, found in counts.items()]
    return Finding(rows, {"transactions": kinds, "transaction_bound_cycles": least})


def _times(prepared: Prepared) -> dict[str, int]:
    """The fewest cycles of a packet on its way, and of memory and switch."""
    network, topology, links = prepared.experiment.network, prepared.topology, prepared.network.config.links
    rules = network.transactions
    assert rules is not None
    of_all = limits(network, rules, reduces=False)
    way = 0
    src, dst, plane = prepared.system.traffic()[:, :3].T
    if len(src) and not prepared.experiment.faults:  # which may change latencies
        hops = hops_of_routes(topology.relation, src, dst, plane).min() if topology.relation.deterministic else 1
        ends = np.cumsum([links.network, links.injection])
        of_link, of_lane, of_sink = (part.min() for part in np.split(links.delay, ends))
        way = int(hops * of_link + of_lane + of_sink)
    return {"way": way, "memory": of_all["memory_latency"], "switch": of_all["switch_latency"]}


def _counted(count: int, kind: str) -> str:
    """1 -> "1 load of a sum", 2 -> "2 loads of sums"."""
    plurals = {"load of a sum": "loads of sums", "store to all": "stores to all"}
    return f"{count:,} {plurals[kind]}" if count != 1 and kind in plurals else plural(count, kind)
