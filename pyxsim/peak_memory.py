"""The resident memory of this process, in MB of 10^6 bytes, and its limit."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from pathlib import Path

try:
    import resource
except ImportError as error:
    raise ImportError(f"pyxsim runs on Linux and macOS; Python on {sys.platform} has no module 'resource'") from error

_STATM = Path("/proc/self/statm")
_GROUP = Path("/sys/fs/cgroup/memory.max")
_STATUS = Path("/proc/self/status")
_PEAK_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes; what ru_maxrss counts


def peak_mb() -> float:
    """Return the peak of the resident memory.

    Linux reports it for the program alone (VmHWM); its `ru_maxrss` starts with the memory of the process that
    started the program, a notebook or a sweep.
    """
    if _STATUS.exists() and (peak := re.search(r"^VmHWM:\s*(\d+) kB", _STATUS.read_text(encoding="utf-8"), re.M)):
        return int(peak[1]) * 1024 / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _PEAK_UNIT / 1e6


def memory_limit() -> tuple[int, str] | None:
    """Return the smallest limit of the memory of this process, in bytes, and what sets it; None without any."""
    limits = []
    for number, name in ((resource.RLIMIT_AS, "ulimit -v"), (resource.RLIMIT_DATA, "ulimit -d")):
        most = resource.getrlimit(number)[0]
        if most != resource.RLIM_INFINITY:
            limits.append((most, name))
    with suppress(OSError, ValueError):  # "max", or no control groups
        limits.append((int(_GROUP.read_text(encoding="ascii")), "the control group"))
    return min(limits, default=None)


def resident_mb() -> float:
    """Return the resident memory; the peak where the system does not report it."""
    if not _STATM.exists():
        return peak_mb()
    return int(_STATM.read_text(encoding="ascii").split()[1]) * resource.getpagesize() / 1e6
