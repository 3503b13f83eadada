"""The topology of one node as NCCL writes it (NCCL_TOPO_DUMP_FILE): CPUs, PCI devices, GPUs with NVLinks, NICs."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import combinations
from pathlib import Path

from pyxsim.topology.inventory.parts import Parts
from pyxsim.topology.inventory.rates import GB, GEN3, SYS, SYS_OTHER, nvlink, pcie
from pyxsim.xml_elements import Element, read_xml

ROOT = "system"
GPU_LINKS = ("nvlink", "xgmi")
_WHAT = "a topology of NCCL"
_SPEED = re.compile(r"(\d{1,4}(?:\.\d{1,3})?) ?GT/s.*", re.ASCII)
_BUS = re.compile(r"[0-9A-Za-z:.]{1,40}", re.ASCII)
_SWITCH, _POWER = "0x068000", "0x068001"  # PCI classes of NVSwitches, and of NVLinks to a POWER processor
_GPU_CLASS = "0x0302"
_DEVICES = (_GPU_CLASS, "0x0200", "0x0207")
_LOCAL = Fraction(5000 * GB)  # a NIC that is no PCI device; as in NCCL
_MOST_BONDED = 1024


class _Gpu:
    def __init__(self, element: Element, bus: str, cpu: str, number: int) -> None:
        self.element, self.bus, self.cpu = element, bus, cpu
        self.dev = element.number("dev", 0, number)
        self.rank = element.number("rank", -1, -1)
        self.sm = element.number("sm", 0, 0)


class _Nccl:
    def __init__(self, path: str) -> None:
        self.parts = Parts(path)
        self._gpus: list[_Gpu] = []
        self._links: list[tuple[str, str, str, Fraction | None]] = []
        self._buses: dict[str, str] = {}  # bus of a GPU -> its name
        self._unknown = 0  # PCI links without a speed

    def read(self, root: Element) -> Parts:
        cpus: dict[str, list[tuple[str, str]]] = {}
        others: list[str] = []
        hosts = list(dict.fromkeys(cpu.text("host_hash", "") for cpu in root.elements if cpu.tag == "cpu"))
        for cpu in root.elements:
            if cpu.tag != "cpu":
                cpu.refuse(f"no such element in <{ROOT}>", allowed=["cpu"], given=cpu.tag)
            host = cpu.text("host_hash", "")
            prefix = f"host.{hosts.index(host)}." if len(hosts) > 1 else ""
            name = f"{prefix}cpu.{cpu.number('numaid', -1)}"
            cpus.setdefault(host, []).append((name, cpu.text("vendor", "")))
            others.append(name)
            others += self._below(cpu, name, prefix)
        ranks = sorted(gpu.rank for gpu in self._gpus)
        if ranks == list(range(len(ranks))):
            self._gpus.sort(key=lambda gpu: gpu.rank)
        for gpu in self._gpus:
            self.parts.part(self._buses[gpu.bus], npu=True)
        for name in others:
            self.parts.part(name)
        for gpu in self._gpus:
            self._gpu_links(gpu)
        for a, b, kind, rate in self._links:
            self.parts.link(a, b, kind, rate)
        for group in cpus.values():
            self.parts.spend(len(group) ** 2)
            for (a, vendor), (b, _) in combinations(group, 2):
                self.parts.link(a, b, "sys", SYS.get(vendor, SYS_OTHER))
        bare = sum(gpu.element.tag == "pci" for gpu in self._gpus)
        if bare:
            self.parts.notes.append(
                f"of {bare} GPUs it has only the PCI device: NVLinks between them are not in the file"
            )
        if self._unknown:
            self.parts.notes.append(f"{self._unknown} PCI links have no speed: they count as PCI Express 3.0 x16")
        return self.parts

    def _below(self, cpu: Element, cpu_name: str, prefix: str) -> list[str]:
        """Walk through the devices of a CPU; return the names of those that are not GPUs."""
        names: list[str] = []
        stack = [(element, cpu_name, ("local", _LOCAL), "") for element in reversed(cpu.elements)]
        while stack:
            element, above, (kind, rate), bus = stack.pop()
            if element.tag == "pci":
                bus = element.text("busid")
                if not _BUS.fullmatch(bus):
                    element.refuse(f"busid is '{bus}'", allowed="such as 0000:07:00.0")
                line = ("pcie", self._pcie(element))
                pci_class = element.text("class", "")
                if not element.elements and pci_class.startswith(_DEVICES):
                    self._bare(element, pci_class, above, line, prefix, cpu_name)
                    names += [] if bus in self._buses else [f"{prefix}nic.{bus}"]
                    continue
                ends = [inner for inner in element.elements if inner.tag in ("gpu", "nic")]
                if not ends or len(ends) < len(element.elements):
                    name = f"{prefix}pci.{bus}"
                    names.append(name)
                    self._links.append((above, name, *line))
                    above = name
                stack += [(inner, above, line, bus) for inner in reversed(element.elements)]
            elif element.tag == "gpu":
                self._gpu(element, bus, prefix, cpu_name)
                self._links.append((above, self._buses[bus], kind, rate))
            elif element.tag == "nic":
                name = f"{prefix}nic.{bus or len(names)}"
                names.append(name)
                self._links.append((above, name, kind, rate))
                names += self._nets(element, name, prefix)
            else:
                element.refuse("no such element here", allowed=["pci", "gpu", "nic"], given=element.tag)
        return names

    def _bare(
        self, element: Element, pci_class: str, above: str, line: tuple[str, Fraction], prefix: str, cpu: str
    ) -> None:
        """Take a device of which the file only says the PCI class, as files for virtual machines do."""
        bus = element.text("busid")
        if pci_class.startswith(_GPU_CLASS):
            self._gpu(element, bus, prefix, cpu)
            self._links.append((above, self._buses[bus], *line))
            return
        self._links.append((above, f"{prefix}nic.{bus}", *line))
        self.parts.ports.append((f"{prefix}nic.{bus}", None))

    def _pcie(self, element: Element) -> Fraction:
        match = _SPEED.fullmatch(element.text("link_speed", ""))
        lanes = element.number("link_width", 0, 0)
        speed = Fraction(match[1]) if match is not None else Fraction(0)
        if not speed or not lanes:
            self._unknown += 1
        if lanes > 64:
            element.refuse(f"link_width is {lanes}", allowed="at most 64")
        return pcie(speed or GEN3, lanes or 16)

    def _gpu(self, element: Element, bus: str, prefix: str, cpu: str) -> None:
        if not bus or bus in self._buses:
            element.refuse("no PCI device of its own" if not bus else f"two GPUs have the busid {bus}")
        gpu = _Gpu(element, bus, cpu, len(self._gpus))
        self._buses[bus] = f"{prefix}gpu.{gpu.dev}"
        self._gpus.append(gpu)

    def _nets(self, nic: Element, name: str, prefix: str) -> list[str]:
        names = []
        for net in nic.elements:
            if net.tag != "net":
                continue  # collnet, gin and others of later versions: not links
            port = f"{prefix}net.{net.text('name')}"
            speed = net.number("speed", 0, 0)
            rate = Fraction(speed * 10**6, 8) if speed else None
            names.append(port)
            self._links.append((name, port, "net", rate))
            self.parts.ports.append((port, rate))
        return names

    def _gpu_links(self, gpu: _Gpu) -> None:
        name = self._buses[gpu.bus]
        for link in gpu.element.elements:
            if link.tag == "c2c":
                bonded = self._bonded(link)
                self.parts.link(name, gpu.cpu, "c2c", Fraction(link.number("bw", 1) * 10**6), bonded=bonded)
                continue
            if link.tag not in GPU_LINKS:
                link.refuse("no such element in <gpu>", allowed=[*GPU_LINKS, "c2c"], given=link.tag)
            target, kind = link.text("target"), link.text("tclass", "")
            if target in self._buses:
                end = self._buses[target]
            elif kind == _POWER:
                end = gpu.cpu
            elif kind == _SWITCH:
                end = f"nvswitch.{target}"
                if not self.parts.has(end):
                    self.parts.part(end)
            else:
                link.refuse(
                    f"target is {target}, which is no GPU of this file", allowed=list(self._buses), given=target
                )
            rate = nvlink(gpu.sm) if link.tag == "nvlink" and gpu.sm else None
            self.parts.link(name, end, link.tag, rate, bonded=self._bonded(link))

    @staticmethod
    def _bonded(link: Element) -> int:
        count = link.number("count", 1)
        if count > _MOST_BONDED:
            link.refuse(f"count is {count}", allowed=f"1 to {_MOST_BONDED}")
        return count


def read_nccl(path: Path, root: Element | None = None) -> Parts:
    """Read a topology of NCCL. `root`: its <system>, if it is already parsed. Raises InputError."""
    root = root or read_xml(str(path), _WHAT)
    if root.tag != ROOT:
        root.refuse(f"is not {_WHAT}", allowed=[ROOT], given=root.tag)
    return _Nccl(str(path)).read(root)
