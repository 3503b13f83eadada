"""Memory of a process, against what it has just taken."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

CHILD = "from pyxsim.peak_memory import peak_mb; print(peak_mb())"


GROWTH = """
import numpy as np
from pyxsim.peak_memory import peak_mb, resident_mb
before = resident_mb()
taken = np.ones(8_000_000)
print(resident_mb() - before, peak_mb() - resident_mb())
"""


def test_what_is_taken_is_seen() -> None:
    """In a new process: this one may have freed memory that the system still counts, and takes that first."""
    found = subprocess.run([sys.executable, "-c", GROWTH], check=True, capture_output=True, text=True)
    growth, below_peak = map(float, found.stdout.split())
    assert 50 < growth < 90  # 64 MB
    assert below_peak >= -1


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the peak is what getrusage says")
def test_the_peak_of_a_program_is_not_that_of_who_started_it() -> None:
    taken = np.ones(40_000_000)  # 320 MB
    found = subprocess.run([sys.executable, "-c", CHILD], check=True, capture_output=True, text=True)
    assert 5 < float(found.stdout) < 200
    assert taken[-1] == 1


def test_a_system_without_limits_is_refused_in_a_line() -> None:
    """As on Windows, where Python has no module `resource`."""
    words = "import sys; sys.modules['resource'] = None; import pyxsim.peak_memory"
    ended = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True)
    assert ended.returncode == 1
    line = ended.stderr.splitlines()[-1]
    assert line == f"ImportError: pyxsim runs on Linux and macOS; Python on {sys.platform} has no module 'resource'"
