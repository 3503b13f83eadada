"""Networks as InfraGraph: names of the form "host.0.nic.3" become instances and components again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from pyxsim.topology.inventory.plain import PlainLink, PlainNetwork, lost
from pyxsim.units import nine_places

FORM = "infragraph"
_PART = re.compile(r"([^.\[\]]+)\.(0|[1-9]\d{0,8})", re.ASCII)

Place = tuple[tuple[str, int], ...]
Tree = dict[str, dict[int, "Tree | bool"]]  # component -> index -> what is in it, or whether it is an NPU


def infragraph_text(network: PlainNetwork) -> str:
    """Return the YAML. A network with names of another form gets instances `npu` and `switch`, with a warning."""
    places = _places(network)
    if places is None:
        lost(FORM, "the names of this network: its parts are npu.0.xpu.0, switch.0.asic.0 and so on")
        number = {part: i for i, part in enumerate(network.npus)}
        others = [part for part in range(len(network.names)) if part not in number]
        number |= {part: i for i, part in enumerate(others)}
        kinds = [("npu", "xpu") if part in set(network.npus) else ("switch", "asic") for part in number]
        named = {part: ((kind, number[part]), (inner, 0)) for part, (kind, inner) in zip(number, kinds, strict=True)}
        places = [named[part] for part in range(len(network.names))]
    return "\n".join(_lines(network, places)) + "\n"


def _places(network: PlainNetwork) -> list[Place] | None:
    """The instance and components of each part; None if the names do not say them, or not in the order of the NPUs."""
    places = []
    for name in network.names:
        words = _PART.findall(name)
        if len(words) < 2 or ".".join(map(".".join, words)) != name or not name.isprintable():
            return None
        places.append(tuple((word, int(index)) for word, index in words))
    try:
        tree, devices = _tree(network, places)
        order = [place for place, npu in _all(tree, devices) if npu]
    except _Unlike:
        return None
    return places if order == [places[part] for part in network.npus] else None


class _Unlike(Exception):
    """Instances of one name differ, or their numbers have gaps."""


def _tree(network: PlainNetwork, places: list[Place]) -> tuple[Tree, dict[str, Tree]]:
    """The instances, and the components of each device. Raises _Unlike."""
    root: Tree = {}
    npus = set(network.npus)
    for part, place in enumerate(places):
        level = root
        for name, index in place[:-1]:
            inside = level.setdefault(name, {}).setdefault(index, {})
            if isinstance(inside, bool):
                raise _Unlike
            level = inside
        name, index = place[-1]
        if index in level.setdefault(name, {}):
            raise _Unlike
        level[name][index] = part in npus
    devices: dict[str, Tree] = {}
    stack = list(root.items())
    while stack:
        name, members = stack.pop()
        first = members.get(0)
        if list(members) != list(range(len(members))) or any(inner != first for inner in members.values()):
            raise _Unlike
        if isinstance(first, dict):
            if devices.setdefault(name, first) != first:
                raise _Unlike
            stack += first.items()
    return root, devices


def _all(tree: Tree, devices: dict[str, Tree]) -> Iterator[tuple[Place, bool]]:
    for name, members in tree.items():
        for index, inside in members.items():
            if isinstance(inside, bool):
                yield ((name, index),), inside
            else:
                yield from ((((name, index), *place), npu) for place, npu in _all(inside, devices))


def _lines(network: PlainNetwork, places: list[Place]) -> Iterator[str]:
    root, devices = _tree(network, places)
    links, edges = _links(network)
    yield 'name: "pyxsim"'
    yield "devices:"
    for name, components in devices.items():
        yield f"  - name: {_quoted(name)}"
        yield "    components:"
        for component, members in components.items():
            inside = members[0]
            choice = "device" if isinstance(inside, dict) else "xpu" if inside else "switch"
            yield f"      - {{ name: {_quoted(component)}, choice: {choice}, count: {len(members)} }}"
    yield "links:" if links else "links: []"
    for name, link in links.items():
        yield f"  - name: {_quoted(name)}"
        yield "    physical:"
        unit = "gigabytes_per_second"
        yield f"      bandwidth: {{ choice: {unit}, {unit}: {nine_places(link.rate / 10**9)} }}"
        yield f"      latency: {{ choice: ns, ns: {nine_places(link.latency * 10**9)} }}"
    yield "instances:"
    for name, members in root.items():
        yield f"  - {{ name: {_quoted(name)}, device: {_quoted(name)}, count: {len(members)} }}"
    yield "edges:" if edges else "edges: []"
    for name, link in edges:
        yield f"  - ep1: {_endpoint(places[link.a])}"
        yield f"    ep2: {_endpoint(places[link.b])}"
        yield "    scheme: one2one"
        yield f"    link: {_quoted(name)}"


def _links(network: PlainNetwork) -> tuple[dict[str, PlainLink], list[tuple[str, PlainLink]]]:
    """The kinds of links by name, and the name of each link; parallel ones need different names."""
    kinds: dict[str, PlainLink] = {}
    edges = []
    used: set[tuple[frozenset[int], str]] = set()
    for link in network.links:
        ends, kind = frozenset((link.a, link.b)), re.sub(r"[.\[\]]", "-", link.kind) or "link"
        number, name = 1, kind
        while (ends, name) in used or (name in kinds and kinds[name][3:] != link[3:]):
            number += 1
            name = f"{kind}-{number}"
        kinds.setdefault(name, link)
        used.add((ends, name))
        edges.append((name, link))
    if any(name != link.kind for name, link in edges):
        lost(FORM, "parallel links, or links of one kind with several rates: they get names such as link-2")
    return kinds, edges


def _endpoint(place: Place) -> str:
    (instance, index), *rest = place
    components = ".".join(f"{name}[{number}]" for name, number in rest)
    return f"{{ instance: {_quoted(f'{instance}[{index}]')}, component: {_quoted(components)} }}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
