"""ns.py: packets through output-queued switches, store and forward: a Port and a Wire for each link, by simpy.

Queues have no end; there are no flits, VCs or credits, and no pipeline in a switch but for the latency of its links.
"""

from __future__ import annotations

import importlib.metadata
import time

from torus import Outcome, Traffic, main, missing, neighbours, next_hop

try:
    import simpy
    from ns.demux.fib_demux import FIBDemux
    from ns.packet.packet import Packet
    from ns.port.port import Port
    from ns.port.wire import Wire
except ImportError:
    missing("pip install ns.py")


class Sink:
    """Count arrivals and their latency."""

    def __init__(self, env: simpy.Environment) -> None:
        self.env = env
        self.packets = 0
        self.latency = 0

    def put(self, packet: Packet) -> None:
        self.packets += 1
        self.latency += self.env.now - packet.time


def run(traffic: Traffic) -> Outcome:
    env = simpy.Environment()
    sink, side = Sink(env), traffic.side
    nodes = range(traffic.nodes)
    switches = []
    for node in nodes:
        # A flow is the traffic to one destination.
        hops = {dst: next_hop(side, node, dst) for dst in nodes if dst != node}
        ports = [Port(env, rate=traffic.width * 8) for _ in neighbours(side, node)]
        switches.append(FIBDemux(fib=hops, outs=ports, ends={node: sink}))
    for node, switch in enumerate(switches):
        for port, other in zip(switch.outs, neighbours(side, node), strict=True):
            port.out = Wire(env, lambda: traffic.hop)
            port.out.out = switches[other]
    env.process(_source(env, traffic, switches))
    begin = time.process_time()
    env.run()
    cpu = time.process_time() - begin
    return Outcome(importlib.metadata.version("ns.py"), sink.packets, sink.latency / sink.packets, cpu)


def _source(env: simpy.Environment, traffic: Traffic, switches: list[FIBDemux]):  # type: ignore[no-untyped-def]
    for number, (cycle, src, dst) in enumerate(zip(traffic.cycle, traffic.src, traffic.dst, strict=True)):
        if cycle > env.now:
            yield env.timeout(cycle - env.now)
        switches[src].put(Packet(cycle, traffic.size, number, src=src, dst=dst, flow_id=dst))


if __name__ == "__main__":
    main(run)
