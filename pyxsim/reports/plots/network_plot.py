"""The plot of a network whose links are coloured by utilization."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyxsim import library
from pyxsim.errors import PyxsimError
from pyxsim.reports.plots.network_drawing import draw
from pyxsim.reports.plots.plot_registry import plot
from pyxsim.reports.plots.projections import MOST_DRAWN, projections
from pyxsim.reports.plots.style import axes, heat, nice_top, nothing, percent_axis, titled
from pyxsim.results.result import Result
from pyxsim.topology import build

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LINK_SETTINGS = ("bandwidth", "latency")


@plot("topology")
def network(result: Result, ax: Axes | None = None) -> Axes:
    """Drawing: the network, links coloured by utilization; large networks as projections along dimensions."""
    ax = axes(ax, 6, 6)
    topology = topology_of(result)
    if topology is None:
        return nothing(ax, "the network of the result is unknown")
    if topology.links > MOST_DRAWN:
        return projections(result, topology, ax)
    figure = ax.get_figure()
    before = set(figure.axes) if figure else set()
    if not result.has_link_counters:
        draw(topology, ax=ax)
        ax.set_title("")
        titled(ax, "Network")
        return ax
    use = result.link_utilization[: topology.links]
    # The same scale as the heat map of links.
    top = nice_top(float(max(use.max(initial=0), result.utilization[:, : topology.links].max(initial=0))))
    draw(topology, ax=ax, values=use, cmap=heat(), scale=(0.0, top))
    for bar in set(figure.axes) - before if figure else ():
        percent_axis(bar.yaxis)
    ax.set_title("")
    titled(ax, "Utilization over the run")
    return ax


def topology_of(result: Result) -> Any:
    """Return the topology of a result, rebuilt from its settings if it was loaded; None if that fails or differs.

    Its links are the first ones of the result; host links follow, and are not drawn.
    """
    if result.topology is not None:
        return result.topology
    settings = result.experiment.get("network", {})
    dims = [{k: v for k, v in dim.items() if k not in _LINK_SETTINGS} for dim in settings.get("dims") or []]
    try:
        library.load_all()
        topology = build(settings.get("topology"), settings.get("shape"), dims, settings.get("options"))
    except PyxsimError:  # a user's own topology, whose file may be gone
        return None
    names = result.links.name
    if result.link_kinds[:1] == ["host"]:
        topology = topology.with_hosts()
    return topology if topology.counted_link_name == names else None
