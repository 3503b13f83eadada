"""Networks as the topology text of HPCC's ns-3 model (`pyxsim/topology/ns3_text.py`)."""

from __future__ import annotations

from pyxsim.topology.inventory.plain import PlainNetwork, lost
from pyxsim.units import nine_places

FORM = "hpcc"


def hpcc_text(network: PlainNetwork) -> str:
    """Return the text: NPUs have the first numbers, switches the next; one line for each link."""
    order = [*network.npus, *sorted(set(range(len(network.names))) - set(network.npus))]
    number = {part: i for i, part in enumerate(order)}
    switches = range(len(network.npus), len(order))
    ends = [frozenset((link.a, link.b)) for link in network.links]
    if len(set(ends)) < len(ends):
        lost(FORM, "parallel links: ns-3 uses the last of them only")
    lost(FORM, "names, kinds of links and routes")
    lines = [f"{len(order)} {len(switches)} {len(network.links)}", " ".join(map(str, switches))]
    for link in network.links:
        rate, delay = nine_places(link.rate * 8 / 10**9), nine_places(link.latency * 10**9)
        lines.append(f"{number[link.a]} {number[link.b]} {rate}Gbps {delay}ns 0")
    return "\n".join(lines) + "\n"
