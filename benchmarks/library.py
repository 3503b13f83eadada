"""The cost of the C library beside the simulation: `python -m benchmarks.library`.

A client in C (library_client.c) sends rounds of messages between neighbors on a ring. The same messages in the same
batches are given to the backend directly, as arrays of numpy: what the client takes longer is the cost of the library.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

from pyxsim.embed.build_library import build_library
from pyxsim.embed.outside_network import outside_network
from pyxsim.settings import load_experiment

SIZE = 4096
MODES = ("chain", "match", "array")
CASES = (("analytical", 1024, 1000), ("analytical", 64, 5000), ("analytical", 2, 50_000), ("packet", 64, 500))


def client(folder: Path) -> list[str]:
    """Build the library and the client; return its command. Raises CalledProcessError."""
    build_library(folder)
    source, target = Path(__file__).with_name("library_client.c"), folder / "client"
    paths = [f"-I{folder}/include", f"-L{folder}/lib", f"-Wl,-rpath,{folder}/lib"]
    subprocess.run(["cc", "-O2", str(source), *paths, "-lpyxsim", "-o", str(target)], check=True)
    return [str(target)]


def of_client(command: list[str], mode: str, backend: str, npus: int, rounds: int) -> tuple[float, int]:
    """Return the CPU seconds of the client and its last cycle."""
    words = [*command, mode, backend, str(npus), str(rounds)]
    seconds, cycle = subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()
    return float(seconds), int(cycle)


def of_backend(backend: str, npus: int, rounds: int) -> tuple[float, int]:
    """Return the CPU seconds and the last cycle of the same messages without the library."""
    settings = load_experiment({"network": {"topology": "ring", "shape": [npus]}}, work=False)
    outside = outside_network(settings, Path(), (), backend, allow_deadlock=False)
    network = outside.network
    src = np.arange(npus)
    dst, size, plane = (src + 1) % npus, np.full(npus, SIZE), np.full(npus, outside.planes[0])
    begin = time.process_time()
    for _ in range(rounds):
        network.send_many(src, dst, size, plane, network.now)
        arrived = 0
        while arrived < npus:
            arrived += len(network.advance(None)[0])
    return time.process_time() - begin, network.now


def rows(command: list[str], runs: int = 3) -> list[tuple[str, int, str, float, float]]:
    """Measure all cases: backend, messages per cycle, mode, ns per message of the backend and of the library beside it.

    The least of some runs. Raises AssertionError if the client's messages take other times.
    """
    found = []
    for backend, npus, rounds in CASES:
        alone, cycle = min(of_backend(backend, npus, rounds) for _ in range(runs))
        for mode in MODES:
            seconds, end = min(of_client(command, mode, backend, npus, rounds) for _ in range(runs))
            assert end == cycle, f"{backend} {mode}: the client ends in cycle {end}, the backend in {cycle}"
            unit = 1e9 / (npus * rounds)
            found.append((backend, npus, mode, alone * unit, (seconds - alone) * unit))
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        print(f"{'backend':12}{'batch':>6}  {'mode':6}{'simulation':>12}{'library':>10}  ns per message")
        for backend, npus, mode, alone, beside in rows(client(Path(folder))):
            print(f"{backend:12}{npus:6,}  {mode:6}{alone:12,.0f}{beside:10,.0f}")


if __name__ == "__main__":
    main()
