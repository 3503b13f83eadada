"""Credits as messages: their bandwidth, and the buffers that batches need (docs/credits.md)."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

from pyxsim.analysis.packet_spacing import kind_streams
from pyxsim.network.credit_returns import carriers_of, share_of_flit
from pyxsim.runner.prepared import Prepared, PreparedTraffic
from pyxsim.runner.traffic.open_loop import largest_packet
from pyxsim.study.check.registered import Finding, checks
from pyxsim.units import format_bytes, percent, plural


@checks.register("credits", order=82)
def credits(prepared: Prepared | PreparedTraffic) -> Finding | None:
    """Report how credits return, their share of the opposite links, and the buffers at which batches cost nothing."""
    experiment, network = prepared.experiment, prepared.network
    rules = experiment.network.credits
    if rules is None or not network.capabilities.packets:
        return None
    share, batch = share_of_flit(experiment.network), rules.batch
    size = rules.bytes_of_message(experiment.network.flit)
    most = float(share / (batch + share))
    links = int((carriers_of(prepared.topology) >= 0).sum())
    riding = "in flits of the opposite direction, or " if rules.rides else ""
    text = (
        f"of {plural(links, 'link')} return {riding}in messages of {format_bytes(size)}, {plural(batch, 'credit')} each"
    )
    text += (
        f": up to {percent(most)} of a link that is saturated in both directions"
        if size
        else ": they take no bandwidth"
    )
    rows = [("credits", text)]
    data = {"links": links, "size": size, "batch": batch, "most_share": most}
    closed = prepared.mode == "closed"
    flits = network.cut(experiment.network.packet)[1] if closed else largest_packet(experiment)
    streams = [stream for _, stream in kind_streams(network, flits)] if batch > 1 else []
    if streams:
        needed = max(_enough(stream.loop, stream.pace, batch) for stream in streams)
        slots = min(stream.slots for stream in streams)
        rows.append(
            ("", f"with batches of {batch}, a VC needs {needed} flits of buffer to keep its link busy; it has {slots}")
        )
        data |= {"enough_flits": needed, "flits_per_vc": slots}
    return Finding(rows, {"credits": data})


def _enough(loop: int, s: Fraction, batch: int) -> int:
    """Flits of buffer with which a VC keeps its link busy, in whole batches."""
    return ceil((loop / s + batch - 1) / batch) * batch
