"""The XML of hwloc (`lstopo node.xml`): packages, PCI bridges, GPUs, NICs, and the bandwidth of NVLinks."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import combinations
from pathlib import Path

from pyxsim.topology.inventory.parts import Parts
from pyxsim.topology.inventory.rates import GB, SYS, SYS_OTHER
from pyxsim.xml_elements import Element

ROOT = "topology"
_SPEED = re.compile(r"\d{1,4}(?:\.\d{1,9})?", re.ASCII)
_GPU = re.compile(r"(nvml|rsmi|cuda|ze|opencl)\d.{0,40}", re.ASCII)
_GPU_CLASSES = ("0302", "1200")  # 3D controllers, processing accelerators
_NIC_CLASSES = ("0200", "0207")  # Ethernet, InfiniBand
_FABRIC = ("3", "16")  # osdev_type of OpenFabrics: hwloc 2, hwloc 3
_MATRICES = {"NVLinkBandwidth": "nvlink", "XGMIBandwidth": "xgmi"}
_VALUE = re.compile(r"\d{1,12}", re.ASCII)
_MOST_OBJECTS = 4096  # of a matrix


class _Device:
    """A PCI device or bridge: its name, what is above it, the bandwidth of its link."""

    def __init__(self, name: str, above: str, rate: Fraction | None) -> None:
        self.name, self.above, self.rate = name, above, rate


class _Hwloc:
    def __init__(self, path: str) -> None:
        self.parts = Parts(path)
        self._devices: dict[str, _Device] = {}
        self._packages: dict[str, str] = {}  # name -> vendor
        self._gpus: list[str] = []
        self._nics: dict[str, bool] = {}  # name -> whether it is of a fabric
        self._objects: dict[str, str] = {}  # gp_index of a device, or of an OS device on it -> name of the device

    def read(self, root: Element) -> Parts:
        stack = [(element, "machine") for element in reversed(root.elements)]
        while stack:
            element, above = stack.pop()
            if element.tag == "object":
                inside = self._object(element, above)
                stack += [(inner, inside) for inner in reversed(element.elements)]
        for name in self._gpus:
            self.parts.part(name, npu=True)
        used = dict.fromkeys(self._packages)
        for name in (*self._gpus, *self._nics):
            while name in self._devices:
                used[name] = None
                name = self._devices[name].above
            used[name] = None
        for name in used:
            if not self.parts.has(name):
                self.parts.part(name)
        for name in used:
            if name in self._devices:
                device = self._devices[name]
                self.parts.link(name, device.above, "pcie", device.rate)
        self._join_packages("machine" in used)
        for element in root.elements:
            if element.tag in ("distances2", "distances2hetero"):
                self._matrix(element)
        groups = self.parts.groups_of(self._gpus, tuple(_MATRICES.values()))
        if 1 < groups < len(self._gpus):
            self.parts.notes.append(f"its NVLinks join the GPUs in {groups} groups; between these is PCI Express only")
        fabric = any(self._nics.values())
        self.parts.ports += [(name, None) for name, is_fabric in self._nics.items() if is_fabric or not fabric]
        return self.parts

    def _object(self, element: Element, above: str) -> str:
        """Take an object; return what its children are below."""
        kind = element.text("type")
        if kind == "Package":
            name = f"package.{element.number('os_index', 0, len(self._packages))}"
            if name in self._packages:
                element.refuse(f"two packages have the os_index {name.partition('.')[2]}")
            self._packages[name] = _info(element, "CPUVendor")
            return name
        if kind not in ("PCIDev", "Bridge") or not element.has("pci_busid"):
            return above
        bus, pci_class = element.text("pci_busid"), element.text("pci_type", "")[:4]
        on_it = [inner for inner in element.elements if inner.tag == "object" and inner.text("type") == "OSDev"]
        names = [inner.text("name", "") for inner in on_it]
        name = f"bridge.{bus}" if kind == "Bridge" else f"pci.{bus}"
        gpus = [word for word in names if _GPU.fullmatch(word)]
        if kind == "PCIDev" and (gpus or pci_class in _GPU_CLASSES):
            gpus.sort(key=lambda word: word.startswith("opencl"))
            name = gpus[0] if gpus else f"gpu.{bus}"
            self._gpus.append(name)
        elif kind == "PCIDev" and pci_class in _NIC_CLASSES:
            fabric = [word for inner, word in zip(on_it, names, strict=True) if inner.text("osdev_type") in _FABRIC]
            name = next((word for word in (*fabric, *names) if word), f"nic.{bus}")
            self._nics[name] = bool(fabric)
        if name in self._devices or name in self._packages or name == "machine":
            element.refuse(f"two devices are named '{name}'")
        self._devices[name] = _Device(name, above, self._rate(element))
        prefix = "PCIDev" if kind == "PCIDev" else "Bridge"
        self._objects[f"{prefix}:{element.text('gp_index', '')}"] = name
        for inner in on_it:
            self._objects[f"OSDev:{inner.text('gp_index', '')}"] = name
        return name

    @staticmethod
    def _rate(element: Element) -> Fraction | None:
        text = element.text("pci_link_speed", "0")
        if not _SPEED.fullmatch(text):
            element.refuse(f"pci_link_speed is '{text}'", allowed="GB/s, such as 15.753846")
        mega = round(Fraction(text) * 1000)
        return Fraction(mega * 10**6) if mega else None

    def _join_packages(self, machine: bool) -> None:
        self.parts.spend(len(self._packages) ** 2)
        for (a, vendor), (b, _) in combinations(self._packages.items(), 2):
            self.parts.link(a, b, "sys", SYS.get(vendor, SYS_OTHER))
        if machine:  # devices that are near to all packages
            for name, vendor in self._packages.items():
                self.parts.link("machine", name, "sys", SYS.get(vendor, SYS_OTHER))

    def _matrix(self, element: Element) -> None:
        """Join devices by a matrix of bandwidths in MB/s."""
        kind = _MATRICES.get(element.text("name", ""))
        if kind is None:
            return
        default = element.text("type", "")
        words = _words(element, "indexes")
        ends = [word if ":" in word else f"{default}:{word}" for word in words]
        values = _words(element, "u64values")
        if len(ends) > _MOST_OBJECTS or len(values) != len(ends) ** 2:
            problem = f"{len(values)} values for {len(ends)} objects"
            element.refuse(problem, allowed=f"a square of them, for at most {_MOST_OBJECTS}")
        for a, first in enumerate(ends):
            for b, second in enumerate(ends[:a]):
                there, back = (values[row * len(ends) + column] for row, column in ((a, b), (b, a)))
                if not _VALUE.fullmatch(there) or not _VALUE.fullmatch(back):
                    element.refuse(f"'{there}' is not a bandwidth", allowed="a whole number of MB/s")
                if a != b and max(int(there), int(back)):
                    rate = Fraction(max(int(there), int(back)) * 10**6)
                    if rate > 10**6 * GB:
                        element.refuse(f"{there} MB/s is not a bandwidth", allowed="less than 1 PB/s")
                    self.parts.link(self._end(element, first), self._end(element, second), kind, rate)

    def _end(self, element: Element, word: str) -> str:
        if word not in self._objects:
            element.refuse(f"no object {word}")
        name = self._objects[word]
        if name not in self._gpus:  # an NVSwitch: its PCI link carries no data of GPUs
            name = f"nvswitch.{name.partition('.')[2]}"
            if not self.parts.has(name):
                self.parts.part(name)
        return name


def read_hwloc(path: Path, root: Element) -> Parts:
    """Read the <topology> of hwloc 2 or 3. Raises InputError."""
    return _Hwloc(str(path)).read(root)


def _info(element: Element, name: str) -> str:
    infos = (inner for inner in element.elements if inner.tag == "info")
    return next((info.text("value", "") for info in infos if info.text("name", "") == name), "")


def _words(element: Element, tag: str) -> list[str]:
    return [word for inner in element.elements if inner.tag == tag for word in inner.content.split()]
