"""The matrix that `nvidia-smi topo -m` prints: how each pair of GPUs and NICs of a node is joined."""

from __future__ import annotations

import re
from collections import defaultdict
from fractions import Fraction
from itertools import combinations
from pathlib import Path

from pyxsim.errors import InputError
from pyxsim.topology.inventory.parts import Parts
from pyxsim.topology.inventory.rates import GB, SYS, pcie

_ESCAPE = re.compile(r"\x1b\[[\d;]{0,20}m")
_DIAGONAL = re.compile(r"\s*GPU0\s+X(\s.*)?", re.ASCII)
_NVLINK = re.compile(r"NV(\d{1,3})", re.ASCII)
_NIC = re.compile(r"\s*(NIC\d{1,4}): +(\S{1,64})\s*", re.ASCII)
_PCI = ("PIX", "PXB", "PHB", "NODE", "SYS")  # by distance: one bridge, several, the host bridge, its NUMA node, others
_NEAR = {"PIX": 0, "PXB": 1, "PHB": 2, "NODE": 2, "SYS": 3}
_MOST_NVLINKS = 18  # of a GPU; pairs with more in sum share switches
_MOST_DEVICES = 1024
_ALLOWED = "X, NV and a number, " + ", ".join(_PCI)
_RATES = {"nvlink": Fraction(25 * GB), "pcie": pcie(Fraction(16), 16), "sys": SYS["AuthenticAMD"]}


def is_matrix(text: str) -> bool:
    """Return whether a text is a matrix of nvidia-smi: some line says that GPU0 is X to itself."""
    return any(_DIAGONAL.fullmatch(_ESCAPE.sub("", line)) for line in text[:100_000].splitlines())


class _Matrix:
    """Devices, the class of each pair, and the CPUs that each device is near."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.cells: list[list[str]] = []
        self.affinity: list[str] = []
        self._lines: list[int] = []
        self.names: list[str] = []
        legend: dict[str, str] = {}
        for number, line in enumerate(_ESCAPE.sub("", text).splitlines(), 1):
            words = line.split()
            if not self.names and words and words[0] == "GPU0":
                end = next((i for i, word in enumerate(words) if word in ("CPU", "NUMA")), len(words))
                self.names = words[:end]
                self._check_names(number)
            elif len(self.cells) < len(self.names) and words:
                self._row(words, number)
            elif match := _NIC.fullmatch(line):
                legend[match[1]] = match[2]
        if not self.names:
            raise InputError("has no line of names before the rows", file=path, allowed="GPU0, GPU1, ...")
        if len(self.cells) < len(self.names):
            problem = f"has {len(self.cells)} rows for {len(self.names)} devices"
            raise InputError(problem, file=path, allowed="as many rows as columns")
        for a, b in combinations(range(len(self.names)), 2):
            if self.cells[a][b] != self.cells[b][a]:
                pair = f"{self.names[a]} to {self.names[b]}"
                problem = f"{pair} is {self.cells[a][b]} and {self.cells[b][a]} in the other direction"
                raise InputError(problem, file=f"{path}:{self._lines[b]}", allowed="the same in both directions")
        self.names = [legend.get(name, name) for name in self.names]
        if len(set(self.names)) < len(self.names):
            raise InputError("names two devices alike", file=path)

    def _check_names(self, number: int) -> None:
        place = f"{self.path}:{number}"
        if len(self.names) > _MOST_DEVICES:
            raise InputError(f"has {len(self.names)} devices", file=place, allowed=f"at most {_MOST_DEVICES}")
        if len(set(self.names)) < len(self.names):
            raise InputError("names two devices alike", file=place)

    def _row(self, words: list[str], number: int) -> None:
        place, count = f"{self.path}:{number}", len(self.names)
        expected = self.names[len(self.cells)]
        if words[0] != expected:
            raise InputError(f"'{words[0]}' is not the next device", file=place, allowed=expected)
        cells = words[1 : count + 1]
        for name, cell in zip(self.names, cells, strict=False):
            if (cell == "X") != (name == expected) or not (cell == "X" or cell in _PCI or _NVLINK.fullmatch(cell)):
                raise InputError(f"{expected} to {name} is '{cell}'", file=place, allowed=_ALLOWED)
        if len(cells) < count:
            raise InputError(f"has {len(cells)} cells for {count} devices", file=place)
        self.cells.append(cells)
        self._lines.append(number)
        rest = words[count + 1 :]
        self.affinity.append(" ".join(rest[:2]))  # CPUs and NUMA node

    def groups(self, most: int) -> list[int]:
        """Return a group for each device: those at distance `most` or nearer share one."""
        group = list(range(len(self.names)))

        def root(a: int) -> int:
            while group[a] != a:
                group[a] = group[group[a]]
                a = group[a]
            return a

        first: dict[str, int] = {}
        for a in range(len(self.names)):
            for b in range(a):
                if _NEAR.get(self.cells[a][b], 3) <= most:
                    group[root(a)] = root(b)
            if most == _NEAR["NODE"] and self.affinity[a] not in ("", "N/A", "N/A N/A"):
                group[root(a)] = root(first.setdefault(self.affinity[a], a))
        return [root(a) for a in range(len(self.names))]

    def nvlinks(self, a: int) -> dict[int, int]:
        """Return the NVLinks of a device to each other device."""
        found = {b: _NVLINK.fullmatch(cell) for b, cell in enumerate(self.cells[a])}
        return {b: int(match[1]) for b, match in found.items() if match is not None and int(match[1])}


def read_matrix(path: Path, text: str) -> Parts:
    """Read a matrix of nvidia-smi. Raises InputError.

    Devices with PIX share a PCIe switch, those with PXB a tree of switches, those with PHB or NODE a CPU; CPUs are
    joined in pairs (SYS).
    """
    matrix = _Matrix(str(path), text)
    parts = Parts(str(path))
    gpus = [device for device, cells in enumerate(matrix.cells) if matrix.names[device].startswith("GPU")]
    for device in gpus:
        parts.part(matrix.names[device], npu=True)
    for device, name in enumerate(matrix.names):
        if device not in gpus:
            parts.part(name)
            parts.ports.append((name, None))
    _join_nvlinks(matrix, parts)
    _join_pcie(matrix, parts)
    used = [f"{kind} {float(rate / GB):g} GB/s" for kind, rate in _RATES.items() if kind in parts.kinds]
    parts.notes.append(f"the matrix has no rates; for one link: {', '.join(used)} (options.rates)")
    return parts


def _join_nvlinks(matrix: _Matrix, parts: Parts) -> None:
    of = {a: matrix.nvlinks(a) for a in range(len(matrix.names))}
    switches: dict[frozenset[int], str] = {}
    for a, links in of.items():
        members = frozenset([a, *links])
        counts = set(links.values())
        switched = sum(links.values()) > _MOST_NVLINKS and len(counts) == 1
        if switched and all(frozenset([b, *of[b]]) == members for b in links):
            if members not in switches:
                switches[members] = f"nvswitch.{len(switches)}"
                parts.part(switches[members])
            parts.link(matrix.names[a], switches[members], "nvlink", _RATES["nvlink"], bonded=counts.pop())
            continue
        for b, count in links.items():
            parts.link(matrix.names[a], matrix.names[b], "nvlink", _RATES["nvlink"], bonded=count)


def _join_pcie(matrix: _Matrix, parts: Parts) -> None:
    """Make a tree: devices, switches of PIX, roots of PXB, CPUs. A switch with one device below is left out."""
    ends = list(matrix.names)  # the top of the tree above each device so far
    for near, word in enumerate(("switch", "bridge", "cpu")):
        members: dict[int, list[int]] = defaultdict(list)
        for device, group in enumerate(matrix.groups(near)):
            members[group].append(device)
        number = 0
        for devices in members.values():
            below = dict.fromkeys(ends[device] for device in devices)
            if len(below) == 1 and word != "cpu":
                continue
            name = f"{word}.{number}"
            number += 1
            parts.part(name)
            for end in below:
                parts.link(end, name, "pcie", _RATES["pcie"])
            for device in devices:
                ends[device] = name
    cpus = list(dict.fromkeys(ends))
    for a, b in combinations(cpus, 2):
        parts.link(a, b, "sys", _RATES["sys"])
