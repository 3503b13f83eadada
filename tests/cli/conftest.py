"""Commands as a user types them, in a folder of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pyxsim.cli.app import main

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


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: small.toml, deadlock.toml, and the three files of ASTRA-sim."""
    texts = {"small.toml": SMALL, "deadlock.toml": DEADLOCK, **ASTRA}
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def pyxsim(folder: Path, capfd: pytest.CaptureFixture[str]) -> Command:
    """Carry out a command in this process."""

    def command(*words: str) -> Ended:
        capfd.readouterr()
        code = main(words)
        sys.stderr.flush()
        out, err = capfd.readouterr()
        return Ended(code, out, err)

    return command


Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(folder: Path) -> Iterator[Start]:
    """Start a command in a process of its own, which hears Ctrl-C whatever the shell of the tests has set."""
    started = []

    def begin(*words: str, **options: Any) -> subprocess.Popen[str]:
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": os.environ, **options}
        hear = _hear_signals
        process = subprocess.Popen([sys.executable, "-m", "pyxsim", *words], preexec_fn=hear, **options)
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def _hear_signals() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
