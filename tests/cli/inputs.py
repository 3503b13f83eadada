"""The inputs of the tests of the command line, and what a command gives back."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyxsim
from tests import fork_server

SMALL = """
[network]
topology = "torus"
shape = [2, 2]

[collective]
kind = "all-reduce"
size = "64 KiB"
"""
# A circle of four links without datelines: every NPU sends two hops ahead, one VC, little buffer.
DEADLOCK = """
[network]
topology = "garnet-torus"
shape = [4, 1, 1]

[network.router]
vcs = 1
buffer = 2
routing = "ring"

[system]
all_reduce = "direct"

[collective]
kind = "all-reduce"
size = "1 MiB"
"""
ASTRA = {
    "network.txt": """
num-npus: 8
num-packages: 4
package-rows: 2
topology: Torus3D
local-rings: 2
vertical-rings: 2
horizontal-rings: 2
flit-width: 2048
local-packet-size: 4096
package-packet-size: 4096
tile-link-width: 256
package-link-width: 256
vcs-per-vnet: 50
routing-algorithm: Ring_XY
router-latency: 1
local-link-latency: 90
package-link-latency: 200
buffers-per-vc: 5000
local-link-efficiency: 1.0
package-link-efficiency: 1.0
""",
    "system.txt": """
scheduling-policy: LIFO
endpoint-delay: 1
active-chunks-per-dimension: 1
preferred-dataset-splits: 4
boost-mode: 0
all-reduce-implementation: ring_ring_ring
all-gather-implementation: ring_ring_ring
reduce-scatter-implementation: ring_ring_ring
all-to-all-implementation: ring_ring_ring
collective-optimization: localBWAware
""",
    "workload.txt": "MICRO\n1\nconv1 -1 5 NONE 0 5 NONE 0 5 ALLREDUCE 65536 5\n",
}
ASTRA_WORDS = (
    "astra",
    "--network-configuration=network.txt",
    "--system-configuration=system.txt",
    "--workload-configuration=workload.txt",
)


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.err.splitlines()


Command = Callable[..., Ended]
Process = subprocess.Popen[str] | fork_server.Popen
Start = Callable[..., Process]


def environment(**more: str) -> dict[str, str]:
    """For a process of its own: it finds the package that is tested here, whatever its folder."""
    here = str(Path(pyxsim.__file__).resolve().parent.parent)
    before = [more.pop("PYTHONPATH")] if "PYTHONPATH" in more else []
    paths = [*before, here, os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **more}


UNDER_WAY = Path(__file__).with_name("under_way.py")


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Wait until a function says yes, however slow the machine is; what never happens is a fault all the same."""
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end, f"{what} did not happen"
        time.sleep(0.02)


def hear_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
