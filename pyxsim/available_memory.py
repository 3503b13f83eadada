"""How much memory this process may have in all: what the machine, its control groups and `ulimit -v` leave."""

from __future__ import annotations

import re
import resource
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pyxsim.peak_memory import resident_mb

_PROC = Path("/proc")
_GROUPS = Path("/sys/fs/cgroup")
_NO_LIMIT = 1 << 60  # version 1 of control groups writes a number near 2^63 for none


@dataclass(frozen=True, order=True)
class Available:
    """Bytes that this process may have in all, with those that it has, and what sets the limit."""

    bytes: int
    why: str


def available(proc: Path = _PROC, groups: Path = _GROUPS) -> Available | None:
    """Return the smallest of the free memory, the limits of control groups and RLIMIT_AS; None where none is known.

    Parameters
    ----------
    proc, groups
        Where the system describes processes and control groups.
    """
    resident = int(resident_mb() * 1e6)
    limits = [Available(resident + left, why) for left, why in _left(proc, groups)]
    most = resource.getrlimit(resource.RLIMIT_AS)[0]
    if most != resource.RLIM_INFINITY:
        limits.append(Available(resident + max(0, most - _address_space(proc, resident)), "ulimit -v"))
    return min(limits, default=None)


def _left(proc: Path, groups: Path) -> Iterator[tuple[int, str]]:
    """Yield (bytes left, what limits them)."""
    with suppress(OSError):
        if found := re.search(r"^MemAvailable:\s*(\d+) kB", (proc / "meminfo").read_text(encoding="ascii"), re.M):
            yield int(found[1]) * 1024, "free memory"
    for folder, limit, used in _folders(proc, groups):
        with suppress(OSError, ValueError):  # no such group, or "max"
            most = int((folder / limit).read_text(encoding="ascii"))
            if most < _NO_LIMIT:
                now = int((folder / used).read_text(encoding="ascii"))
                yield max(0, most - now + _file_cache(folder)), "the control group"


def _folders(proc: Path, groups: Path) -> Iterator[tuple[Path, str, str]]:
    """Yield each control group of this process from the inside out, and its files of the limit and of the use."""
    lines = ["0::/"]
    with suppress(OSError):
        lines += (proc / "self" / "cgroup").read_text(encoding="utf-8").splitlines()
    seen = set()
    for line in lines:
        controllers, path = [*line.split(":", 2), "", ""][1:3]
        if controllers == "":
            top, names = groups, ("memory.max", "memory.current")
        elif "memory" in controllers.split(","):
            top, names = groups / "memory", ("memory.limit_in_bytes", "memory.usage_in_bytes")
        else:
            continue
        folder = top / path.strip("/")
        for inner in (folder, *folder.parents):  # a limit of an outer group holds, too
            if inner not in seen and inner.is_relative_to(top):
                seen.add(inner)
                yield inner, *names


def _file_cache(folder: Path) -> int:
    """Bytes of files that the system gives up when a group needs memory."""
    with suppress(OSError):
        text = (folder / "memory.stat").read_text(encoding="ascii")
        if found := re.search(r"^(?:total_)?inactive_file (\d+)", text, re.M):
            return int(found[1])
    return 0


def _address_space(proc: Path, resident: int) -> int:
    """Bytes of the address space, of which `ulimit -v` counts all; the resident memory where it is not known."""
    with suppress(OSError, ValueError, IndexError):
        return int((proc / "self" / "statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    return resident
