"""Collectives as Chakra traces, one file per rank: sizes of messages and their dependencies, without data.

Three types of nodes are used: COMM_SEND (comm_dst, comm_size, comm_tag), COMM_RECV (comm_src, comm_size, comm_tag) and
COMP, which takes its duration (default: none, or 1 ns with the semantics of ASTRA-sim 2). A node begins when all nodes
that it depends on have ended: a send when it has left, a receive when its message has arrived, a computation after its
duration. Ranks are positions in the group. The k-th receive with a tag from a rank, in the order of node numbers,
matches the k-th such send.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from pyxsim import chakra
from pyxsim.chakra import Node, NodeType
from pyxsim.collective.compiled import UNKNOWN_NS, CompiledSchedule
from pyxsim.collective.custom.program import MANY, SHOWN, Link, shorter
from pyxsim.collective.explicit_messages import Message, compile_messages
from pyxsim.errors import InputError, closest
from pyxsim.rank_files import rank_files

UNPROVED = "Chakra traces contain the sizes of messages, but not their data"


def read_traces(pattern: str) -> Callable[[str, int], CompiledSchedule]:
    """Return a function(kind, n) that returns the schedule of the traces, for any kind. Raises InputError."""
    files = rank_files(pattern)
    if not files:
        prefixes = {re.sub(r"\d+(?=\.et$)", "*", file.name) for file in Path(pattern).parent.glob("*.et")}
        raise InputError(f"no such files exist{closest(Path(pattern).name, prefixes)}", file=pattern)

    def build(kind: str, n: int) -> CompiledSchedule:
        missing = sorted(set(range(max(n, max(files) + 1))) - files.keys())
        if len(files) != n or missing:
            lacks = f"; the trace of rank {missing[0]} is missing" if missing else ""
            allowed = f"one trace for each of ranks 0 to {n - 1}; 'one-' before the path treats all NPUs as one group"
            raise InputError(f"is for {len(files)} ranks, but the group has {n}{lacks}", file=pattern, allowed=allowed)
        nodes = [_nodes(files[rank]) for rank in range(n)]
        messages = _Weaver(nodes, [str(files[rank]) for rank in range(n)]).messages()
        return compile_messages(kind, n, messages, algorithm=Path(pattern).name, unproved=UNPROVED)

    return build


def _nodes(path: Path) -> dict[int, Node]:
    """The nodes of a file by number, ascending."""
    nodes: dict[int, Node] = {}
    for node in chakra.read(path).nodes:
        if node.id in nodes:
            raise InputError(f"node {node.id} occurs twice", file=str(path))
        nodes[node.id] = node
    return dict(sorted(nodes.items()))


class _Key(NamedTuple):
    """A node: its rank and its number in that rank's file."""

    rank: int
    number: int


class _Weaver:
    """Executes the nodes in a possible order."""

    def __init__(self, nodes: Sequence[dict[int, Node]], files: Sequence[str]) -> None:
        self.files = files
        self.nodes = {_Key(rank, number): node for rank, graph in enumerate(nodes) for number, node in graph.items()}
        self.links = {key: self._link(key, node) for key, node in self.nodes.items() if node.type in _ENDS}
        self.partner = self._matched()
        self.before = {key: self._before(key) for key in self.nodes}
        self.done: dict[_Key, tuple[int, ...]] = {}  # events at its rank after which a node has ended
        self.sent: dict[_Key, int] = {}
        self.events: list[Message] = []

    def _link(self, key: _Key, node: Node) -> Link:
        """Source, destination and tag of a node that sends or receives."""
        own, other = ("comm_src", "comm_dst") if node.type == NodeType.COMM_SEND else ("comm_dst", "comm_src")
        if (me := self._whole(key, own, key.rank)) != key.rank:
            self._refuse(key, f"has {own} {me}, but is in the trace of rank {key.rank}")
        peer = self._whole(key, other, None)
        if peer == key.rank or peer >= len(self.files):
            self._refuse(key, f"has {other} {peer}", allowed=f"another rank of 0 to {len(self.files) - 1}")
        tag = self._whole(key, "comm_tag", 0)
        return (key.rank, peer, tag) if node.type == NodeType.COMM_SEND else (peer, key.rank, tag)

    def _matched(self) -> dict[_Key, _Key]:
        """The send of every receive."""
        ends: defaultdict[Link, tuple[list[_Key], list[_Key]]] = defaultdict(lambda: ([], []))
        for key, link in self.links.items():
            ends[link][self.nodes[key].type == NodeType.COMM_RECV].append(key)
        for (src, dst, tag), (sends, receptions) in ends.items():
            if len(sends) != len(receptions):
                more = sends[len(receptions) :] or receptions[len(sends) :]
                problem = f"rank {src} sends {len(sends)} messages with tag {tag} to rank {dst}"
                self._refuse(more[0], f"has no partner: {problem}, which receives {len(receptions)}")
            for send, reception in zip(sends, receptions, strict=True):
                there, here = (self._whole(key, "comm_size", None) for key in (send, reception))
                if there != here:
                    self._refuse(reception, f"receives {here} bytes, but {self._name(send)} sends {there}")
        return {r: s for sends, receptions in ends.values() for s, r in zip(sends, receptions, strict=True)}

    def _before(self, key: _Key) -> list[_Key]:
        """The nodes that must be executed before a node."""
        node = self.nodes[key]
        if node.type not in (*_ENDS, NodeType.COMP, NodeType.METADATA):
            type_name = node.type.name if isinstance(node.type, NodeType) else str(node.type)
            self._refuse(key, f"is of type {type_name}", allowed="COMM_SEND, COMM_RECV and COMP in a collective")
        before = [_Key(key.rank, number) for number in dict.fromkeys((*node.ctrl_deps, *node.data_deps))]
        for earlier in before:
            if earlier not in self.nodes:
                self._refuse(key, f"depends on node {earlier.number}, which does not exist")
        return before + ([self.partner[key]] if key in self.partner else [])

    def messages(self) -> list[Message]:
        """Return all messages and local steps. Raises InputError for nodes that wait for each other."""
        waits_left = {key: len(before) for key, before in self.before.items()}
        behind = defaultdict(list)
        for key, before in self.before.items():
            for earlier in before:
                behind[earlier].append(key)
        ready = deque(key for key, count in waits_left.items() if not count)
        while ready:
            key = ready.popleft()
            self._execute(key)
            for later in behind[key]:
                waits_left[later] -= 1
                if not waits_left[later]:
                    ready.append(later)
        if len(self.done) < len(self.nodes):
            self._cycle(next(key for key in self.nodes if key not in self.done))
        return self.events

    def _execute(self, key: _Key) -> None:
        node = self.nodes[key]
        own = [earlier for earlier in self.before[key] if earlier.rank == key.rank]
        waits = tuple(dict.fromkeys(event for earlier in own for event in self.done[earlier]))
        if node.type == NodeType.COMM_SEND:
            size = self._whole(key, "comm_size", None)
            src, dst, _ = self.links[key]
            way = shorter(src, dst, len(self.files))
            self.sent[key] = self._event(Message(src, dst, nbytes=size, waits=waits, way=way))
        elif node.type == NodeType.COMM_RECV:
            waits = (*waits, self.sent[self.partner[key]])
        elif node.type == NodeType.COMP:
            nanoseconds = 1000 * node.duration_micros or UNKNOWN_NS
            step = Message(key.rank, key.rank, nbytes=0, waits=waits, extra_ns=nanoseconds)
            waits = (self._event(step),)
        if len(waits) > MANY:
            waits = (self._event(Message(key.rank, key.rank, nbytes=0, waits=waits)),)
        self.done[key] = waits

    def _event(self, message: Message) -> int:
        self.events.append(message)
        return len(self.events) - 1

    def _cycle(self, key: _Key) -> NoReturn:
        """Report the nodes that wait for each other."""
        seen = list[_Key]()
        while key not in seen:
            seen.append(key)
            key = next(earlier for earlier in self.before[key] if earlier not in self.done)
        cycle = seen[seen.index(key) :]
        named = ", that for ".join(self._name(node) for node in cycle[1 : SHOWN + 1])
        rest = "and so on" if len(cycle) > SHOWN + 1 else "that for the first"
        problem = f"{named}, {rest}: {len(cycle)} wait for each other in a cycle"
        self._refuse(cycle[0], f"waits for {problem if named else 'itself'}")

    def _whole(self, key: _Key, name: str, default: int | None) -> int:
        """An attribute that is a whole number."""
        value = self.nodes[key].get(name, default)
        least = 1 if name == "comm_size" else 0
        if value is None:
            self._refuse(key, f"has no {name}")
        if not isinstance(value, int) or value < least:
            self._refuse(key, f"has {name} {value!r}", allowed=f"a whole number from {least}")
        return value

    def _name(self, key: _Key) -> str:
        name = self.nodes[key].name
        return f"node {key.number}{f' ({name})' if name else ''} of rank {key.rank}"

    def _refuse(self, key: _Key, problem: str, *, allowed: str | None = None) -> NoReturn:
        raise InputError(f"{self._name(key)} {problem}", file=self.files[key.rank], allowed=allowed)


_ENDS = (NodeType.COMM_SEND, NodeType.COMM_RECV)
