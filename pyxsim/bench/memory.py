"""How much memory this process has."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

_STATM = Path("/proc/self/statm")
_PEAK_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes; what ru_maxrss counts


def peak_mb() -> float:
    """The most that was ever resident, in MB of 10^6 bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _PEAK_UNIT / 1e6


def resident_mb() -> float:
    """What is resident now, in MB; where the system does not tell, the peak."""
    if not _STATM.exists():
        return peak_mb()
    return int(_STATM.read_text(encoding="ascii").split()[1]) * resource.getpagesize() / 1e6
