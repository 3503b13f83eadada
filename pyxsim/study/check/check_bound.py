"""The lower bound of a run; latency and load of open traffic."""

from __future__ import annotations

from fractions import Fraction

from pyxsim.results.table import plain
from pyxsim.runner.prepared import Prepared, PreparedTraffic
from pyxsim.runner.traffic.open_loop import Study, traffic_bound
from pyxsim.study.check.registered import Finding, checks
from pyxsim.units import format_time_ns


@checks.register("bound", order=100)
def bound(prepared: Prepared | PreparedTraffic) -> Finding:
    """Compute the lower bound and the optimum of the run time, or the theory of open traffic."""
    if prepared.mode == "open":
        return _open_traffic(prepared)
    minimum_ns = prepared.lower_bound * 10**9 / prepared.experiment.network.clock
    rows = [("lower bound", f"{format_time_ns(minimum_ns)} for its bytes on these links")] if minimum_ns else []
    optimum = prepared.optimum(thorough=True)
    optimum_ns = None if optimum is None else optimum.cycles * 10**9 / prepared.experiment.network.clock
    if optimum is not None and optimum_ns:
        rows.append(("optimum", f"{format_time_ns(optimum_ns)} with any algorithm: {optimum.limit}"))
    data = {"lower_bound_ns": plain(minimum_ns), "optimum_ns": plain(optimum_ns)}
    return Finding(rows, {**data, "optimum_limit": optimum.limit if optimum else ""})


def _open_traffic(prepared: PreparedTraffic) -> Finding:
    """The zero-load latency in cycles, and the load that fills a link, in flits per node and cycle."""
    data = {"lower_bound_ns": plain(Fraction(0)), "optimum_ns": None, "optimum_limit": ""}
    theory = Study(prepared).theory
    if theory is None:
        return Finding((), data)
    load = traffic_bound(prepared)
    rows = [("latency", f"{theory.zero_load:.1f} cycles at zero load")]
    if load is not None:
        rows.append(
            ("throughput bound", f"{load:.3f} flits per node and cycle, at which the busiest link or lane saturates")
        )
    return Finding(rows, {**data, "zero_load_latency": theory.zero_load, "load_bound": load})
