"""pyxsim on the traffic of the peers."""

from __future__ import annotations

import numpy as np
from torus import Outcome, Traffic, main

import pyxsim
from benchmarks.traffic import FLIT, Open, Packets, simulate


def run(traffic: Traffic) -> Outcome:
    shape = Open(traffic.side, 0.0, 0, flits=traffic.size // FLIT)
    plane = np.zeros(len(traffic.src), np.int64)  # up, if both ways are equally short
    done = simulate(shape, Packets(np.array(traffic.cycle), np.array(traffic.src), np.array(traffic.dst), plane))
    facts = done.facts
    return Outcome(pyxsim.__version__, facts["packets"], facts["packet_latency"], done.cpu_s, done.work)


if __name__ == "__main__":
    main(run)
