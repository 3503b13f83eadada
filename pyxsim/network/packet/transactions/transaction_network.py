"""The packet backend with [network.transactions]: every packet is a request or a response (docs/memory_traffic.md)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.errors import InputError, StuckError
from pyxsim.network.engine_config import MessageClass
from pyxsim.network.packet.credit_report import missing_credits
from pyxsim.network.packet.divided_network import FOREVER
from pyxsim.network.packet.packet_network import PacketNetwork
from pyxsim.network.packet.split_engine import NOTHING
from pyxsim.network.packet.still_time import StillTime
from pyxsim.network.packet.transactions.switch_ports import is_one_switch, with_ports
from pyxsim.network.packet.transactions.transaction_engine import TransactionEngine
from pyxsim.network.packet.transactions.transaction_limits import limits, sizes
from pyxsim.network.packet.transactions.transaction_tables import transaction_tables
from pyxsim.network.protocol import BackendTable
from pyxsim.network.windows import Windows
from pyxsim.settings import Experiment, Network
from pyxsim.settings.transactions import Transactions
from pyxsim.topology.topology import Topology

STORE, LOAD, ATOMIC, REDUCE, MULTICAST, PUSH = range(6)
MOST_NPUS = 1024
MOST_SUMS = 2**26  # of a message: 1 GiB
WHY_EVERY_CYCLE = "the packets of memory transactions answer each other ([network.transactions])"


class TransactionNetwork(PacketNetwork):
    """Messages as loads, stores and atomics, with a packet for each request and each response.

    Parameters
    ----------
    topology, network
        The network and its settings, with `transactions`.
    options
        As in `PacketNetwork`.

    Raises
    ------
    InputError
        If the network is too large, or its planes do not connect all pairs.
    """

    capabilities = replace(
        PacketNetwork.capabilities,
        open_traffic=False,
        background=False,
        attribution=False,
        watch_packet=False,
        threads=False,
        mpi=False,
        fast_forward=False,
        checkpoint=False,
        transactions=True,
    )

    def __init__(
        self, topology: Topology, network: Network, *, tick: Callable[[], None] | None = None, **options: Any
    ) -> None:
        asked = network.transactions
        assert asked is not None
        if topology.npus > MOST_NPUS:
            problem = f"transactions of {topology.npus} NPUs"
            raise InputError(problem, key="network.transactions", allowed=f"networks of at most {MOST_NPUS} NPUs")
        if topology.confined:
            problem = f"the planes of {topology.name} do not connect all pairs, and responses go the other way"
            raise InputError(problem, key="network.transactions", allowed="another topology or routing")
        self.reduces = is_one_switch(topology)
        self.longest = _longest(network, asked)
        wired = with_ports(topology) if self.reduces else topology
        self._npus = topology.npus
        vnets = len(network.router.networks())
        classes = (MessageClass(0), MessageClass(min(1, vnets - 1)))
        if tick is not None:
            options["tick"] = tick
        super().__init__(
            wired, network, classes=classes, packet=self.longest, recycle=True, skip=False, threads=1, **options
        )
        self.topology, self.npus = topology, topology.npus
        self._every_cycle = WHY_EVERY_CYCLE
        self.accesses = self._accesses(topology.npus, network, asked)
        self.lookahead = self.accesses.lookahead  # anything from 1 cycle to this gives the same result
        self._back = _opposite_planes(topology)
        self._inject, self._eject = self.config.inject.start[:-1], self.config.eject.start[:-1]
        self._gathered: dict[int, list[tuple[int, int, int]]] = {}
        self._now = self.messages_delivered = 0
        self._sizes: list[int] = []

    def _accesses(self, npus: int, network: Network, asked: Transactions) -> TransactionEngine:
        return TransactionEngine(*sizes(npus, network, asked), **limits(network, asked, reduces=self.reduces))

    @classmethod
    def for_experiment(cls, experiment: Experiment, topology: Topology, *, window: int) -> Self:
        _check(experiment)
        made = cls(
            topology,
            experiment.network,
            window=window,
            seed=experiment.output.seed,
            faulty=experiment,
        )
        made.still = StillTime(passes=experiment.run.skip)
        return made

    @property
    def now(self) -> int:
        return max(self._now, self.engine.now)

    # -- messages --

    def cut(self, nbytes: int) -> tuple[int, int, int]:
        asked = self.settings.transactions
        assert asked is not None
        size, flit = asked.bytes_of("size"), self.settings.flit
        packets = -(-nbytes // size)
        last = -(-(nbytes - (packets - 1) * size + asked.bytes_of("request")) // flit)
        return packets, self.longest if packets > 1 else last, last

    def send(self, src: int, dst: int, nbytes: int, *, plane: int = 0, at: int, klass: int = 0, tag: int = 0) -> int:
        row = np.array([[src], [dst], [nbytes], [plane]], np.int64)
        return self.send_many(row[0], row[1], row[2], row[3], at, tag)

    def send_many(
        self, src: IntArray, dst: IntArray, nbytes: IntArray, plane: IntArray, at: int, tag: IntArray | int = 0
    ) -> int:
        kinds = np.zeros(len(src), np.int64)
        return self.send_accesses(src, dst, nbytes, plane, at, tag, (kinds, np.full(len(src), -1), kinds))

    def send_accesses(
        self,
        src: IntArray,
        dst: IntArray,
        nbytes: IntArray,
        plane: IntArray,
        at: int,
        tag: IntArray | int,
        accesses: tuple[IntArray, IntArray, IntArray],
    ) -> int:
        first = self.messages_sent
        self.messages_sent += len(src)
        self.undelivered += len(src)
        self._sizes += nbytes.tolist()
        # The receivers of loads take turns, too: otherwise all of them would begin with the same NPU.
        order = np.argsort(np.where(accesses[0] == LOAD, (dst - src) % self.npus, 0), kind="stable")
        columns = (np.arange(first, self.messages_sent), src, dst, nbytes, plane, *accesses)
        for message, s, d, size, way, kind, fused, count in zip(*(c[order].tolist() for c in columns), strict=True):
            if kind < REDUCE:
                opposite = self._back.get(way, way)
                if kind == LOAD:
                    self.accesses.access(kind, d, s, size, message, there=opposite, back=way)
                else:
                    self.accesses.access(kind, s, d, size, message, there=way, back=opposite)
                continue
            gathered = self._gathered.setdefault(fused, [])
            gathered.append((s, d, message))
            if len(gathered) == count:
                self._at_switch(kind, self._gathered.pop(fused), size)
        self.accesses.begin(at)
        self._flush()
        return first

    def _at_switch(self, kind: int, messages: Sequence[tuple[int, int, int]], size: int) -> None:
        """Begin an access of the switch, once all messages that it stands for may begin."""
        if kind == PUSH:
            if size > MOST_SUMS * self.accesses.switch_size:
                problem = f"{size} B in {-(-size // self.accesses.switch_size)} sums, which the switch counts"
                raise InputError(problem, key="system.chunks", allowed=f"chunks of at most {MOST_SUMS} transactions")
            self.accesses.push_sum([d for _, d, _ in messages], [m for *_, m in messages], size)
            return
        initiator = messages[0][1] if kind == REDUCE else messages[0][0]
        others = [(s if kind == REDUCE else d, m) for s, d, m in messages]
        members, numbers = zip(*sorted([(initiator, -1), *others]), strict=True)
        self.accesses.at_switch(kind, initiator, members, numbers, size)

    def _flush(self) -> None:
        """Send the packets that are due."""
        at, src, dst, flits, klass, plane = self.accesses.outgoing()
        if not len(at):
            return
        if self.reduces:
            inject, eject = self._inject[src], self._eject[dst]
        else:
            inject, eject = self._lanes.many(src, dst, plane)
        first = self.engine.send_many(inject, eject, dst, plane, 1, flits, flits, at, klass, 0)
        self._next_start, self._last_start = min(self._next_start, int(at.min())), max(self._last_start, int(at.max()))
        self.accesses.sent(int(first))

    # -- time --

    def advance(self, until: int | None, *, slack: int = 0) -> tuple[IntArray, IntArray]:
        limit = FOREVER if until is None else until
        accesses = self.accesses
        while True:
            if self._next_start < FOREVER:
                self._close_before(self._next_start)
            done, release = accesses.next_completion(), accesses.next_release()
            if 0 <= done <= self.now:
                return self._completed()
            due = min((cycle for cycle in (done, release) if cycle >= 0), default=-1)
            expected = until is not None or due >= 0
            stop = self._run(min(limit, due) if due >= 0 else limit, self.lookahead, expected=expected)
            arrived = self.engine.deliveries()
            if len(arrived["serial"]):
                accesses.arrive(arrived["serial"], arrived["last"])
                self._flush()
                continue
            if stop.reason == "idle":
                if due < 0 and until is None and accesses.open:
                    raise self._stuck()
                if due < 0 or due > limit:
                    return NOTHING
                self._now = due
            if 0 <= release <= self.now:
                accesses.release(release)
                self._flush()
            elif stop.reason in ("until", "delivered") and self.engine.now >= limit:
                done = accesses.next_completion()
                return self._completed() if 0 <= done <= self.now else NOTHING

    def _completed(self) -> tuple[IntArray, IntArray]:
        messages, cycles = self.accesses.completed(self.now)
        self.bytes_delivered += sum(map(self._sizes.__getitem__, messages.tolist()))
        self.undelivered -= len(messages)
        self.messages_delivered += len(messages)
        order = np.lexsort((messages, cycles))
        return messages[order], cycles[order]

    def _stuck(self) -> StuckError:
        waiting = self.accesses.waiting_at_switch
        why = f"{self.accesses.open} transactions have not ended, and no packet is under way"
        if waiting:
            why = f"{waiting} operands wait for entries of the reduction buffer, whose sums wait for other operands"
        return StuckError(f"{why}; network.transactions.switch.buffers is too small, or packets were lost", [])

    # -- results --

    def fault_report(self) -> list[str]:
        if self.faults is None:
            return []
        lines = [] if self.faults.epochs is None else self.faults.epochs.report()
        if down := self.faults.down(self.engine.now):
            names = ", ".join(self.link_name(link) for link in down[:8])
            lines.append(f"down: {names}" + (f" and {len(down) - 8} more" if len(down) > 8 else ""))
        if self._credit_messages:
            lines += missing_credits(self.engine, self.config.links, self.link_name)
        if not lines:
            return []
        return [
            *lines,
            f"{self.accesses.open} transactions have not ended; only retry at the link retransmits",
        ]

    def _packet_flits(self, message: int, packet: int) -> int:
        return self.accesses.packet(message)[0]

    def _ends_of(self, message: int) -> tuple[int, int]:
        return self.accesses.packet(message)[1:]

    def message_split(self, message: int) -> list[int] | None:
        return None

    def windows_table(self) -> Windows:
        return super().windows_table().until(self.end)  # acknowledgments may be on the way when the run ends

    def counts(self) -> dict[str, Any]:
        return super().counts() | {"messages": self.messages_delivered}

    def tables(self) -> dict[str, BackendTable]:
        end = max(self.end, self.accesses.last_end)  # the last acknowledgments may arrive after the run
        return super().tables() | transaction_tables(self.accesses, end, reduces=self.reduces)


def _check(experiment: Experiment) -> None:
    """Raise InputError for settings of a run that exclude transactions."""
    if experiment.output.level:
        raise InputError("attribution does not know transactions", key="output.attribution", allowed="'off'")
    if experiment.run.mpi:
        raise InputError("one process simulates all transactions", key="run.mpi", allowed="false")
    for number, fault in enumerate(experiment.faults):
        if fault.loses and experiment.network.retry is None:
            problem = "a transaction whose packet is lost never ends"
            raise InputError(problem, key=f"faults[{number}]", allowed="with [network.retry]")


def _longest(network: Network, asked: Transactions) -> int:
    """Flits of the longest packet."""
    header = max(asked.bytes_of("request"), asked.bytes_of("response"))
    return -(-(max(asked.bytes_of("size"), asked.size_at_switch) + header) // network.flit)


def _opposite_planes(topology: Topology) -> dict[int, int]:
    """The plane of responses for each plane of requests: that of the opposite direction."""
    back = {}
    for queues in topology.queues:
        for queue in queues:
            other = [each.plane for each in queues if each.direction == -queue.direction]
            back[queue.plane] = other[0] if other else queue.plane
    return back
