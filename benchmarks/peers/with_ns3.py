"""ns-3: packets through point-to-point devices, store and forward; ns3.cc beside this file, compiled when it is new.

Queues have no end; there are no flits, VCs or credits, and no pipeline in a router but for the latency of its links.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from torus import Outcome, Traffic, main, missing, neighbours, next_hop

HOW = "apt install libns3-dev, and a C++ compiler with pkg-config"
SOURCE = Path(__file__).with_name("ns3.cc")
PROGRAM = Path(__file__).resolve().parents[2] / "build" / "peers" / "ns3"
MODULES = ("point-to-point", "network", "core")


def run(traffic: Traffic) -> Outcome:
    version = _version()
    if not PROGRAM.exists() or PROGRAM.stat().st_mtime < SOURCE.stat().st_mtime:
        _compile()
    done = subprocess.run([PROGRAM], input=_told(traffic), capture_output=True, text=True, check=True)
    packets, latency, cpu, events = done.stdout.split()
    return Outcome(version, int(packets), float(latency), float(cpu), int(events))


def _version() -> str:
    tool = shutil.which("pkg-config")
    if tool is None:
        missing(HOW)
    done = subprocess.run([tool, "--modversion", "ns3-core"], capture_output=True, text=True, check=False)
    if done.returncode:
        missing(HOW)
    return done.stdout.strip()


def _compile() -> None:
    compiler = os.environ.get("CXX") or shutil.which("c++")
    if compiler is None:
        missing(HOW)
    PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    libraries = [f"-lns3-{name}" for name in MODULES]
    subprocess.run([compiler, "-O3", "-std=c++17", str(SOURCE), "-o", str(PROGRAM), *libraries], check=True)


def _told(traffic: Traffic) -> str:
    """Write the input of ns3.cc."""
    nodes, side = range(traffic.nodes), traffic.side
    lines = [f"{traffic.nodes} 4 {traffic.size} {traffic.width} {traffic.hop}"]
    lines += [" ".join(map(str, neighbours(side, node))) for node in nodes]
    ports = ([-1 if node == dst else next_hop(side, node, dst) for dst in nodes] for node in nodes)
    lines += [" ".join(map(str, row)) for row in ports]
    lines.append(str(len(traffic.cycle)))
    lines += [f"{cycle} {src} {dst}" for cycle, src, dst in zip(traffic.cycle, traffic.src, traffic.dst, strict=True)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main(run)
