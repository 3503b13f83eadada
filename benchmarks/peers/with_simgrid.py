"""SimGrid: its torus cluster, a flow for each packet, all started by one actor.

Flows share links fairly; there are no packets in routers, no flits, VCs or credits. Its routes are its own: dimension
after dimension, the shorter way round.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from torus import Outcome, Traffic, main, missing

try:
    from simgrid import Comm, Engine, Host, simgrid_version, this_actor
except ImportError:
    missing("pip install simgrid, or Debian's python3-simgrid")

SECOND = 1e9  # cycles

PLATFORM = """<?xml version="1.0"?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <cluster id="torus" prefix="n" suffix="" radical="0-{last}" speed="1Gf" bw="{width}GBps" lat="{hop}ns"
           topology="TORUS" topo_parameters="{side},{side}" sharing_policy="SPLITDUPLEX"/>
</platform>
"""
# Its default model is TCP; this one uses the given bandwidth and latency of a link.
MODEL = [f"--cfg=network/{setting}" for setting in ("model:CM02", "TCP-gamma:0", "crosstraffic:0")]


def run(traffic: Traffic) -> Outcome:
    engine = Engine(["simgrid", *MODEL])
    with TemporaryDirectory() as folder:
        file = Path(folder, "torus.xml")
        told = {"last": traffic.nodes - 1, "width": traffic.width, "hop": traffic.hop, "side": traffic.side}
        file.write_text(PLATFORM.format(**told), encoding="ascii")
        engine.load_platform(str(file))
    hosts = [engine.host_by_name(f"n{node}") for node in range(traffic.nodes)]
    latency: list[float] = []
    _start(hosts[0], lambda: _send(traffic, hosts, latency))
    begin = time.process_time()
    engine.run()
    cpu = time.process_time() - begin
    version = simgrid_version if isinstance(simgrid_version, str) else simgrid_version()
    return Outcome(version, len(latency), sum(latency) / len(latency), cpu)


def _start(host: Host, job: object) -> None:
    """Start an actor; since SimGrid 4 hosts create them."""
    if hasattr(host, "add_actor"):
        host.add_actor("source", job)
    else:
        from simgrid import Actor

        Actor.create("source", host, job)


def _send(traffic: Traffic, hosts: list[Host], latency: list[float]) -> None:
    flows = []
    for cycle, src, dst in zip(traffic.cycle, traffic.src, traffic.dst, strict=True):
        if cycle / SECOND > Engine.clock:
            this_actor.sleep_until(cycle / SECOND)
        flows.append(Comm.sendto_async(hosts[src], hosts[dst], traffic.size))
    for flow, cycle in zip(flows, traffic.cycle, strict=True):
        flow.wait()
        latency.append(flow.finish_time * SECOND - cycle)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main(run)
