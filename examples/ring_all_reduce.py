"""A ring all-reduce in Python, as a simulator of its own would send it: pyxsim carries the messages.

Every NPU sends one share of the buffer to the next NPU, and another one when it has received one: 2(n - 1) steps.
`python examples/ring_all_reduce.py` compares the end with the closed form, 2(n - 1) times the time of one message.
"""

from __future__ import annotations

import pyxsim

NPUS, SIZE = 8, 8 * 2**20
SHARE, STEPS = SIZE // NPUS, 2 * (NPUS - 1)
# A link carries 100 bytes per cycle of 1 ns; the way of a message to its neighbor takes 500 cycles.
SETTINGS = {"network": {"topology": "ring", "shape": [NPUS], "bandwidth": "100 GB/s", "latency": "500 ns"}}


def step(sim: pyxsim.Simulator, npu: int, number: int) -> None:
    """Send the share of a step, and continue with the next one when that of the NPU before is there."""
    if number == STEPS:
        return
    sim.send(npu, (npu + 1) % NPUS, SHARE, tag=number)
    sim.recv((npu - 1) % NPUS, npu, SHARE, tag=number, callback=lambda: step(sim, npu, number + 1))


def simulated() -> int:
    """Return the cycle in which the last NPU has ended."""
    with pyxsim.Simulator(SETTINGS, backend="analytical") as sim:
        for npu in range(NPUS):
            step(sim, npu, 0)
        sim.advance()
        sim.check_received()
        return sim.now


def closed_form() -> int:
    """Return 2(n - 1) times the time of one message, in whole cycles."""
    return STEPS * (500 + SHARE // 100)


if __name__ == "__main__":
    print(f"simulated {simulated():,} ns, closed form {closed_form():,} ns")
