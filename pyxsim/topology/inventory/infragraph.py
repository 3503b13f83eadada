"""InfraGraph: devices of components and links, instances of devices, edges between them.

Files of both schemas are read: of the present one (`edges` with two endpoints and a scheme) and of the one before it
(`connections` such as "host.0.nic.0.eth.switch.0.port.3"), in which counts follow from the connections.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from pyxsim.errors import InputError
from pyxsim.topology.inventory.parts import MOST_PARTS, Parts
from pyxsim.units import parse_duration
from pyxsim.yaml_tree import YamlNode, read_yaml

DEVICE = "device"
NPU = "xpu"
CHOICES = ("custom", DEVICE, "cpu", NPU, "nic", "memory", "port", "switch")
SCHEMES = ("one2one", "many2many")
_WHAT = "an InfraGraph"
_ROOT = ("name", "description", "devices", "links", "instances", "edges", "connections", "infrastructure")
_DEVICE = ("name", "description", "components", "links", "edges", "connections", "instances")
_COMPONENT = ("name", "description", "count", "choice", "type", "external", *CHOICES)
_LINK = ("name", "description", "physical", "bandwidth", "latency")
_RATES = {"gigabits_per_second": Fraction(10**9, 8), "gigabytes_per_second": Fraction(10**9)}
_TRANSFERS = ("gigatransfers_per_second", "giga_transfers_per_second")
_OLD = {"giga_bits_per_second": "gigabits_per_second", "giga_bytes_per_second": "gigabytes_per_second"}
_SEGMENT = re.compile(r"(?P<name>[^\[\].]+)(?:\[(?P<slice>[^\[\]]*)\])?", re.ASCII)
_INDEX = re.compile(r"\d{1,9}", re.ASCII)
_STEP = re.compile(r"-?\d{1,9}", re.ASCII)

Path_ = tuple[tuple[str, int], ...]  # names and indices, outermost first


class _Link(NamedTuple):
    bandwidth: Fraction | None
    latency: str | None


class _Edge(NamedTuple):
    """Two endpoints, each a list of (name, slice), joined by a link."""

    ends: tuple[list[tuple[str, str | None]], list[tuple[str, str | None]]]
    scheme: str | None
    link: str
    node: YamlNode


class _Component(NamedTuple):
    choice: str
    number: int | None


class _Device:
    def __init__(self, node: YamlNode) -> None:
        self.node = node
        self.components: dict[str, _Component] = {}
        self.links: dict[str, _Link] = {}
        self.edges: list[_Edge] = []
        self.used: dict[str, int] = {}  # component -> one more than the largest index in connections


class _InfraGraph:
    """The content of the documents of a file."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.parts = Parts(file)
        self.devices: dict[str, _Device] = {}
        self.links: dict[str, _Link] = {}
        self.instances: dict[str, tuple[str, int | None, YamlNode]] = {}
        self.edges: list[_Edge] = []
        self.used: dict[str, int] = {}
        self._sizes: dict[str, int] = {}
        self._uneven: list[str] = []  # edges that join different numbers of parts one by one

    def read(self, root: YamlNode) -> None:
        """Add a document: an infrastructure, or a device of its own."""
        if isinstance(root.value, dict) and "infrastructure" in root.value:
            root = root.value["infrastructure"]
        if isinstance(root.value, dict) and "components" in root.value:
            return self._device(root)
        table = root.mapping(_ROOT)
        for node in _list(table, "devices"):
            self._device(node)
        for node in _list(table, "links"):
            self._link(self.links, node)
        for node in _list(table, "instances"):
            entry = node.mapping(("name", "description", "device", "count"))
            name = _name(entry, node)
            if name in self.instances:
                node.refuse(f"two instances are named '{name}'")
            count = entry["count"].whole(0) if "count" in entry else None
            self.instances[name] = (_need(entry, "device", node).text(), count, node)
        for node in _list(table, "edges"):
            self.edges.append(_edge(node, ("instance", "component")))
        for node in _list(table, "connections"):
            self.edges.append(_connection(node, 2))

    def _device(self, node: YamlNode) -> None:
        table = node.mapping(_DEVICE)
        name = _name(table, node)
        if name in self.devices:
            node.refuse(f"two devices are named '{name}'")
        device = self.devices[name] = _Device(node)
        if "instances" in table:
            table["instances"].refuse("instances belong to the infrastructure")
        for each in _list(table, "components"):
            entry = each.mapping((*_COMPONENT, "components"))
            if "components" in entry:
                entry["components"].refuse("a component has no components", allowed="choice: device, and a device")
            component = _name(entry, each)
            if component in device.components:
                each.refuse(f"two components are named '{component}'")
            kind = entry.get("choice", entry.get("type"))
            if kind is None:
                each.refuse("choice is missing", allowed=list(CHOICES))
            count = entry["count"].whole(0) if "count" in entry else None
            device.components[component] = _Component(kind.word(CHOICES), count)
        for each in _list(table, "links"):
            self._link(device.links, each)
        device.edges = [_edge(each, ("device", "component")) for each in _list(table, "edges")]
        device.edges += [_connection(each, 1) for each in _list(table, "connections")]

    def _link(self, links: dict[str, _Link], node: YamlNode) -> None:
        table = node.mapping(_LINK)
        name = _name(table, node)
        if name in links:
            node.refuse(f"two links are named '{name}'")
        values = table
        if "physical" in table:
            values = table["physical"].mapping(("bandwidth", "latency"))
        rate = latency = None
        if "bandwidth" in values:
            unit, number = _choice(values["bandwidth"], (*_RATES, *_OLD, *_TRANSFERS))
            if unit in _TRANSFERS:
                lanes = f"link {name} has {number} GT/s without a number of lanes, which is no bandwidth"
                self.parts.notes.append(lanes)
            elif number is not None:
                rate = Fraction(number) * _RATES[_OLD.get(unit, unit)]
                if not 0 < rate <= 2**62:
                    values["bandwidth"].refuse(f"{number} {unit} is not a bandwidth", allowed="more than 0")
        if "latency" in values:
            unit, number = _choice(values["latency"], ("ms", "us", "ns"))
            if number is not None:
                latency = f"{number} {unit}"
                try:
                    parse_duration(latency)
                except InputError as error:
                    values["latency"].refuse(error.problem)
        links[name] = _Link(rate, latency)

    def build(self) -> Parts:
        """Return the parts and links that the instances stand for."""
        if not self.instances:  # devices alone: one of each that has NPUs
            for name, device in self.devices.items():
                if any(component.choice == NPU for component in device.components.values()):
                    self.instances[name] = (name, 1, device.node)
        self._count_used()
        for name, (kind, count, node) in self.instances.items():
            if kind not in self.devices:
                node.refuse(f"no device '{kind}'", allowed=list(self.devices), given=kind)
            number = self.used.get(name, 1) if count is None else count
            self.parts.count(number * self._size(kind, ()))
            inner = list(self._inner(kind))
            joined = list(self._joined(kind))
            self.parts.spend(number * (len(inner) + len(joined)))
            for index in range(number):
                for place, choice in inner:
                    self.parts.part(_text(((name, index), *place)), choice == NPU)
                for a, b, link, values in joined:
                    self.parts.link(_text(((name, index), *a)), _text(((name, index), *b)), link, *values)
        for edge in self.edges:
            for a, b in self._pairs(edge, [list(self._outer(end, edge.node)) for end in edge.ends]):
                self.parts.link(_text(a), _text(b), edge.link, *self._values(self.links, edge))
        if self._uneven:
            more = f", and so do {len(self._uneven) - 1} more edges" if len(self._uneven) > 1 else ""
            self.parts.notes.append(f"one2one: {self._uneven[0]}{more}")
        return self.parts

    def _count_used(self) -> None:
        """Find how many of each component the connections of the older schema name."""
        for device in self.devices.values():
            for edge in device.edges:
                for end in edge.ends:
                    self._use(device.used, end[0])
        for edge in self.edges:
            for end in edge.ends:
                self._use(self.used, end[0])
                name = self.instances.get(end[0][0], ("",))[0]
                if len(end) > 1 and name in self.devices:
                    self._use(self.devices[name].used, end[1])

    @staticmethod
    def _use(used: dict[str, int], segment: tuple[str, str | None]) -> None:
        name, words = segment
        if words is not None and _INDEX.fullmatch(words):
            used[name] = max(used.get(name, 0), int(words) + 1)

    def _number(self, device: _Device, name: str) -> int:
        number = device.components[name].number
        return device.used.get(name, 1) if number is None else number

    def _size(self, name: str, above: tuple[str, ...]) -> int:
        """Count the parts of a device. Raises InputError for a device that contains itself."""
        if name in above:
            self.devices[name].node.refuse(f"the device '{name}' contains itself")
        if name not in self._sizes:
            device, total = self.devices[name], 0
            for component, (choice, _) in device.components.items():
                inside = 1
                if choice == DEVICE:
                    if component not in self.devices:
                        device.node.refuse(f"no device '{component}'", allowed=list(self.devices), given=component)
                    if len(above) > 30:
                        device.node.refuse("devices are nested too deeply", allowed="at most 30 levels")
                    inside = 1 + self._size(component, (*above, name))
                total += self._number(device, component) * inside
                self.parts.count(total)
            self._sizes[name] = total
        return self._sizes[name]

    def _inner(self, name: str) -> Iterator[tuple[Path_, str]]:
        """The components of a device and of the devices in it."""
        device = self.devices[name]
        for component, (choice, _) in device.components.items():
            number = self._number(device, component)
            inside: list[tuple[Path_, str]] = [((), choice)]
            if choice == DEVICE:
                inside = list(self._inner(component)) if number else []
            for index in range(number):
                for place, kind in inside:
                    yield ((component, index), *place), kind

    def _joined(self, name: str) -> Iterator[tuple[Path_, Path_, str, _Link]]:
        """The links of a device and of the devices in it."""
        device = self.devices[name]
        for edge in device.edges:
            values = self._values(device.links, edge)
            for a, b in self._pairs(edge, [list(self._within(name, end, edge.node)) for end in edge.ends]):
                yield a, b, edge.link, values
        for component, (choice, _) in device.components.items():
            number = self._number(device, component)
            if choice == DEVICE and number:
                inside = list(self._joined(component))
                self.parts.spend(number * len(inside))
                for index in range(number):
                    for a, b, link, values in inside:
                        yield ((component, index), *a), ((component, index), *b), link, values

    def _values(self, links: dict[str, _Link], edge: _Edge) -> _Link:
        if edge.link not in links and edge.link not in self.links:
            edge.node.refuse(f"no link '{edge.link}'", allowed=[*links, *self.links], given=edge.link)
        return links[edge.link] if edge.link in links else self.links[edge.link]

    def _within(self, name: str, end: Iterable[tuple[str, str | None]], node: YamlNode) -> Iterator[Path_]:
        """The components that an endpoint in a device stands for."""
        ranges: list[list[tuple[str, int]]] = []
        choice = DEVICE
        for component, words in end:
            if choice != DEVICE or name not in self.devices or component not in self.devices[name].components:
                known = list(self.devices[name].components) if choice == DEVICE and name in self.devices else []
                node.refuse(f"no component '{component}'", allowed=known, given=component)
            device = self.devices[name]
            ranges.append(_indices(component, words, self._number(device, component), node))
            choice, name = device.components[component].choice, component
        if choice == DEVICE:
            node.refuse(f"'{name}' is a device: an edge joins its components", allowed=f"{name}[0].component[0]")
        self.parts.spend(prod(map(len, ranges)))
        return product(*ranges)

    def _outer(self, end: list[tuple[str, str | None]], node: YamlNode) -> Iterator[Path_]:
        """The components that an endpoint of the infrastructure stands for, instance by instance."""
        (name, words), *rest = end
        if name not in self.instances:
            node.refuse(f"no instance '{name}'", allowed=list(self.instances), given=name)
        device, count, _ = self.instances[name]
        indices = _indices(name, words, self.used.get(name, 1) if count is None else count, node)
        inside = list(self._within(device, rest, node))
        self.parts.spend(len(indices) * len(inside))
        return ((first, *place) for first in indices for place in inside)

    def _pairs(self, edge: _Edge, ends: list[list[Path_]]) -> Iterator[tuple[Path_, Path_]]:
        first, second = ends
        if edge.scheme is None and len(first) * len(second) > 1:
            edge.node.refuse("scheme is missing", allowed=list(SCHEMES))
        if edge.scheme == "many2many":
            self.parts.spend(len(first) * len(second))
            return product(first, second)
        if len(first) != len(second):
            short = min(len(first), len(second))
            self._uneven.append(
                f"{edge.node.path} joins {len(first)} parts to {len(second)}, the first {short} of them"
            )
        return zip(first, second, strict=False)


def read_infragraph(path: Path) -> Parts:
    """Read an InfraGraph; several documents of a file are one infrastructure. Raises InputError."""
    found = _InfraGraph(str(path))
    documents = read_yaml(str(path), _WHAT)
    if not documents:
        raise InputError("is empty", file=str(path), allowed=_WHAT)
    for root in documents:
        found.read(root)
    return found.build()


def _list(table: dict[str, YamlNode], key: str) -> list[YamlNode]:
    return table[key].items() if key in table else []


def _need(table: dict[str, YamlNode], key: str, node: YamlNode) -> YamlNode:
    if key not in table:
        node.refuse(f"{key} is missing")
    return table[key]


def _name(table: dict[str, YamlNode], node: YamlNode) -> str:
    name = _need(table, "name", node).text()
    if not name or not name.isprintable() or set(name) & set(".[]"):
        table["name"].refuse(f"'{name}' is not a name", allowed="letters, digits, blanks, - and _")
    return name


def _choice(node: YamlNode, known: tuple[str, ...]) -> tuple[str, str | None]:
    """The unit and the number of a quantity such as {choice: ns, ns: 5}."""
    table = node.mapping(("choice", *known))
    units = [key for key in table if key != "choice"]
    unit = table["choice"].word(known) if "choice" in table else units[0] if units else ""
    return unit, table[unit].decimal() if unit in table else None


def _edge(node: YamlNode, keys: tuple[str, str]) -> _Edge:
    table = node.mapping(("ep1", "ep2", "scheme", "link", "description"))
    ends = []
    for key in ("ep1", "ep2"):
        entry = _need(table, key, node).mapping(keys)
        words = [entry[keys[0]].text()] if keys[0] in entry and entry[keys[0]].text() else []
        if not words and keys[0] == "instance":
            _need(entry, "instance", table[key])
        ends.append(_segments(".".join([*words, _need(entry, "component", table[key]).text()]), table[key]))
    scheme = table["scheme"].word(SCHEMES) if "scheme" in table else None
    return _Edge((ends[0], ends[1]), scheme, _need(table, "link", node).text(), node)


def _segments(text: str, node: YamlNode) -> list[tuple[str, str | None]]:
    found = []
    for word in text.split("."):
        match = _SEGMENT.fullmatch(word)
        if match is None:
            node.refuse(f"'{text}' is not an endpoint", allowed="names with slices such as nic[0:4] or cx5[0].port[0]")
        found.append((match["name"], match["slice"]))
    return found


def _connection(node: YamlNode, least: int) -> _Edge:
    """A connection of the older schema: names and indices, the link, names and indices."""
    words = node.text().split(".")
    link = 0
    while link + 1 < len(words) and _INDEX.fullmatch(words[link + 1]):
        link += 2
    ends = [words[:link], words[link + 1 :]]
    if link >= len(words) or any(len(end) < 2 * least or len(end) % 2 for end in ends):
        example = "host.0.nic.0.eth.switch.0.port.3" if least > 1 else "xpu.0.pcie.nic.0"
        node.refuse(f"'{node.text()}' is not a connection", allowed=f"such as {example}")
    for end in ends:
        for word in end[1::2]:
            if not _INDEX.fullmatch(word):
                node.refuse(f"'{word}' in '{node.text()}' is not an index", allowed="a whole number from 0")
    pairs: Any = [list(zip(end[::2], end[1::2], strict=True)) for end in ends]
    return _Edge((pairs[0], pairs[1]), "one2one", words[link], node)


def _indices(name: str, words: str | None, count: int, node: YamlNode) -> list[tuple[str, int]]:
    """The indices of a Python slice: "", "3", "0:4", "::2"."""
    parts = (words or "").split(":")
    if len(parts) > 3 or not all(part == "" or _STEP.fullmatch(part) for part in parts) or parts[2:] in (["0"], ["-0"]):
        node.refuse(f"'{name}[{words}]' is not a slice", allowed=f"such as {name}[0:4]")
    if len(parts) == 1 and parts[0]:
        chosen = range(int(parts[0]), int(parts[0]) + 1)
    else:
        values = [int(part) if part else None for part in parts]
        if any(value is not None and value > count for value in values[1:2]):
            node.refuse(f"'{name}[{words}]' ends after the last of {count}", allowed=f"at most {name}[0:{count}]")
        chosen = range(count)[slice(*values)] if words else range(count)
    if len(chosen) and not 0 <= min(chosen[0], chosen[-1]) <= max(chosen[0], chosen[-1]) < count:
        node.refuse(f"there is no {name}[{words}]", allowed=f"0 to {count - 1}" if count else "nothing: there are none")
    if len(chosen) > MOST_PARTS:
        node.refuse(f"'{name}' stands for {len(chosen)} parts", allowed=f"at most {MOST_PARTS}")
    return [(name, index) for index in chosen]


def _text(place: Path_) -> str:
    return ".".join(f"{name}.{index}" for name, index in place)
