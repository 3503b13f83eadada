"""ASTRA-sim's order of events once more, slow and readable: objects, lists and dictionaries, as the original has them.

Only the plan (chunks, phases, queues) is taken from the layer under test. Nothing here counts places in a mailbox or
keeps numbers instead of things: messages are matched by their names, packets carry their ends, queues are lists.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Any

Action = Callable[[], None]
CLOCKWISE = 1


class World:
    """The clock, the agenda of all NPUs, the network, and the barrier of version 1."""

    def __init__(self, layer: Any, delay: Callable[[int, int, int], int]) -> None:
        self.layer = layer
        self.options = layer.options
        self.first = layer.options.compat == "astra-sim-1"
        self.delay = delay
        self.now = 0
        self.agenda: list[tuple[int, int, Action]] = []
        self.numbers = itertools.count()
        self.npus = [Npu(self, npu) for npu in range(layer.network.npus)]
        self.sent: dict[Any, int] = {}
        self.expected: dict[Any, int] = {}
        self.posted: dict[Any, Action] = {}
        self.arrived: dict[Any, int] = {}
        self.ready: dict[int, int] = {}
        self.passes: dict[int, int] = {}
        self.suspended: dict[int, list[Stream]] = {}
        self.seen: dict[tuple[int, int, int], list[int]] = {}
        self.begun = [0] * len(self.npus)  # collectives of each NPU
        self.to_go: dict[tuple[int, int], int] = {}  # streams of an open collective at an NPU
        self.inside: dict[int, int] = {}  # NPUs of an open collective that are not through
        self.told: dict[int, tuple[Any, Any]] = {}

    def at(self, time: int, action: Action) -> None:
        heapq.heappush(self.agenda, (time, next(self.numbers), action))

    def run(self) -> dict[tuple[int, int, int], list[int]]:
        """(stream, phase, NPU) -> when it was ready, started and ended."""
        layer = self.layer
        for start in sorted({each.start for each in layer.collectives if not each.is_open}):
            self.at(start, lambda start=start: self.issue(start))  # type: ignore[misc]
        while self.agenda:
            self.now, _, action = heapq.heappop(self.agenda)
            action()
        return self.seen

    def issue(self, start: int) -> None:
        """All collectives of this time, NPU by NPU."""
        for npu in self.npus:
            for number, chunk in enumerate(self.layer.chunks):
                collective = self.layer.collectives[chunk.collective]
                if collective.start == start and npu.id in chunk.comm.members:
                    self.passes.setdefault(number, 0)
                    self.passes[number] += 1
                    npu.proceed(Stream(npu, number, chunk, collective.priority))

    # -- the face of a layer whose NPUs go their own ways; what is cut into which streams is seen from the other one --

    def call(self, cycle: int, action: Action, npu: int | None = None) -> None:
        if npu is None:
            self.at(cycle, action)
        else:
            self.npus[npu].later(cycle - self.now, action)

    def open(self, joined: Any, done: Any) -> int:
        self.told[len(self.told)] = joined, done
        return len(self.told) - 1

    def enter(self, number: int, npu: int) -> None:
        issued = self.layer.issued[number]
        self.inside.setdefault(number, len(issued.comm.members))
        count = self.begun[npu]
        self.begun[npu] += 1
        self.to_go[number, npu] = len(issued.shared)
        for stream in issued.shared:
            self.passes[stream] = self.passes.get(stream, 0) + 1
            fresh = Stream(self.npus[npu], stream, self.layer.chunks[stream], self.options.priority(count, None))
            fresh.of = number
            self.npus[npu].proceed(fresh)
        if not issued.shared:
            self.through(number, npu)

    def through(self, number: int, npu: int) -> None:
        joined, done = self.told[number]
        joined(number, npu)
        self.inside[number] -= 1
        if not self.inside[number]:
            done(number)

    def stream_over(self, stream: Stream) -> None:
        if stream.of >= 0:
            self.to_go[stream.of, stream.npu.id] -= 1
            if not self.to_go[stream.of, stream.npu.id]:
                self.through(stream.of, stream.npu.id)

    # -- messages: the k-th that is sent is the k-th that is expected --

    def send(self, key: tuple[Any, int, int, int]) -> None:
        if self.options.rendezvous:
            stream, src, dst, _ = key
            self.await_one((("request", stream), dst, src, 8192), lambda: self.transmit(key))
        else:
            self.transmit(key)

    def expect(self, key: tuple[Any, int, int, int], action: Action) -> None:
        if self.options.rendezvous:
            stream, src, dst, _ = key
            self.transmit((("request", stream), dst, src, 8192), lambda: self.await_one(key, action))
        else:
            self.await_one(key, action)

    def transmit(self, key: tuple[Any, int, int, int], over: Action | None = None) -> None:
        """`over`: what the sender does when it has arrived."""
        number = self.sent[key] = self.sent.get(key, 0) + 1
        name = (*key, number)
        time = self.now + self.delay(*key[1:])
        if not self.first:
            self.at(time, lambda: self.arrive(name, over))
        elif name in self.posted:
            self.at(time, self.posted.pop(name))
        else:
            self.arrived[name] = time

    def arrive(self, name: Any, over: Action | None) -> None:
        if over is not None:
            over()
        if name in self.posted:
            self.posted.pop(name)()
        else:
            self.arrived[name] = self.now

    def await_one(self, key: tuple[Any, int, int, int], action: Action) -> None:
        number = self.expected[key] = self.expected.get(key, 0) + 1
        name = (*key, number)
        if name in self.arrived:
            self.at(max(self.now, self.arrived.pop(name)), action)
        else:
            self.posted[name] = action


class Npu:
    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.id = number
        self.events: dict[int, list[Action]] = {}
        self.queues: dict[tuple[int, int], list[Stream]] = {}
        self.running: dict[tuple[int, int], int] = {}

    def later(self, delay: int, action: Action) -> None:
        """Things of one time are done together, at the place of the first."""
        time = self.world.now + delay
        if time not in self.events:
            self.events[time] = []
            self.world.at(time, lambda: self.call_events(time))
        self.events[time].append(action)

    def call_events(self, time: int) -> None:
        for action in self.events[time]:  # grows meanwhile
            action()
        del self.events[time]

    def bundle(self, stream: Stream, size: int, pays: bool) -> None:
        options = self.world.options

        def over() -> None:
            if not pays:
                stream.algorithm.run("ready")
                return
            rate = float(options.reduction_bytes_per_cycle or 0)
            cost = 0
            if rate:
                cost = 3 * (int(size / rate) if self.world.first else int(size / (rate * 10**9) * 10**9))
            self.later(options.reduction_delay + cost, lambda: stream.algorithm.run("ready"))

        self.later(10 if stream.chunk.comm.group else options.endpoint_delay, over)

    def proceed(self, stream: Stream) -> None:
        world, number = self.world, stream.number
        if world.first:
            members = len(stream.chunk.comm.members)
            waiting = world.suspended.setdefault(number, [])
            if not world.passes[number]:
                waiting.append(stream)
                return
            world.passes[number] -= 1
            if len(waiting) == members - 1:
                for _ in range(members - 1):
                    other = waiting.pop(0)
                    other.npu.proceed(other)
        old = stream.queue
        last = stream.phase + 1 == len(stream.chunk.steps)
        if last:
            world.stream_over(stream)
        if old is not None:
            self.queues[old].remove(stream)
        if not last:
            new = stream.enter(stream.phase + 1)
            self.insert(self.queues.setdefault(new, []), stream)
        if old is not None:
            self.running[old] -= 1
            self.serve(old)
        if not last:
            self.serve(new)

    def insert(self, queue: list[Stream], stream: Stream) -> None:
        intra, place = self.world.options.intra_dimension, 0
        if intra == "FIFO" or stream.kind in ("all-to-all", "all-reduce"):
            while place < len(queue) and (queue[place].initialized or queue[place].priority >= stream.priority):
                place += 1
        elif intra == "smallest-first":
            while place < len(queue) and (queue[place].initialized or queue[place].largest < stream.largest):
                place += 1
            if stream.to_go == 1:
                place = len(queue)
        elif intra == "fewest-phases-first":
            while place < len(queue) and (queue[place].initialized or queue[place].to_go < stream.to_go):
                place += 1
        else:
            last = before = ""
            while place < len(queue):
                before, last = last, queue[place].kind
                if queue[place].initialized:
                    place += 1
                    if place < len(queue) and not queue[place].initialized:
                        before, last = last, queue[place].kind
                        place += 1
                elif queue[place].priority > stream.priority or {before, last} == {"reduce-scatter", "all-gather"}:
                    place += 1
                else:
                    break
        queue.insert(place, stream)

    def serve(self, key: tuple[int, int]) -> None:
        queue = self.queues.setdefault(key, [])
        self.running.setdefault(key, 0)
        slots = -(-self.world.options.active_chunks // len(self.world.options.queues[0]))
        place = self.running[key]
        while place < len(queue) and self.running[key] < slots:
            queue[place].initialized = True
            queue[place].note()
            queue[place].algorithm.run("init")
            self.running[key] += 1
            place += 1


class Stream:
    """A chunk at one NPU."""

    algorithm: Any

    def __init__(self, npu: Npu, number: int, chunk: Any, priority: int) -> None:
        self.npu = npu
        self.number = number
        self.chunk = chunk
        self.priority = priority
        self.phase = -1
        self.queue: tuple[int, int] | None = None
        self.initialized = False
        self.of = -1  # the open collective

    def enter(self, phase: int) -> tuple[int, int]:
        """The next phase; its queue."""
        step, place, comm = self.chunk.steps[phase], self.chunk.places[phase], self.chunk.comm
        self.phase = phase
        self.initialized = False
        self.queue = (comm.dims[step.axis], place.number)
        self.to_go = len(self.chunk.steps) - 1 - phase
        name = step.algorithm.removeprefix("one-").partition(":")[0]
        self.kind = "all-reduce" if name == "double-binary-tree" else step.kind
        self.largest = max(step.program.entering, step.program.leaving)
        stride, rank = 1, comm.members.index(self.npu.id)
        for n in comm.shape[: step.axis]:
            stride *= n
        index = rank // stride % comm.shape[step.axis]
        ring = [comm.members[rank + (other - index) * stride] for other in range(comm.shape[step.axis])]
        window = int(step.algorithm.partition(":")[2] or len(ring))
        self.algorithm = ALGORITHMS[name](self, step, ring, index, place.direction, window)
        self.note()
        return self.queue

    def note(self) -> None:
        """Something happened now."""
        world = self.npu.world
        world.seen.setdefault((self.number, self.phase, self.npu.id), []).append(world.now)

    def leave(self) -> None:
        world = self.npu.world
        self.note()
        if world.first:
            world.ready[self.number] = world.ready.get(self.number, 0) + 1
            if world.ready[self.number] == len(self.chunk.comm.members):
                world.passes[self.number], world.ready[self.number] = world.ready[self.number], 0
        self.npu.proceed(self)


class Ring:
    """The state machine of a ring; the others differ in parts."""

    def __init__(self, stream: Stream, step: Any, ring: list[int], index: int, direction: int, window: int) -> None:
        n = len(ring)
        self.stream, self.kind, self.ring, self.me, self.direction = stream, step.kind, ring, ring[index], direction
        self.size = step.program.entering if self.kind == "all-gather" else step.program.entering // n
        self.left = {"all-reduce": 2 * (n - 1), "all-to-all": n * (n - 1) // 2}.get(self.kind, n - 1)
        self.parallel, self.others = 1, n - 1
        self.free = self.received = self.unpaid = self.payable = 0
        self.toggle = False
        self.packets: list[tuple[int, int, int]] = []  # to, from, bytes
        self.to, self.fro = self.step_on(self.me, direction), self.step_on(self.me, -direction)
        self.prepare(index, window)

    def prepare(self, index: int, window: int) -> None: ...

    def step_on(self, npu: int, way: int) -> int:
        return self.ring[(self.ring.index(npu) + way) % len(self.ring)]

    def next_packet(self) -> None: ...

    def insert(self) -> None:
        if not self.unpaid and not self.payable:
            self.unpaid, self.payable, self.toggle = self.parallel, self.others, not self.toggle
        pays = False
        if self.unpaid:
            self.unpaid -= 1
        else:
            self.payable -= 1
            pays = self.kind == "reduce-scatter" or (self.kind == "all-reduce" and self.toggle)
        self.packets.append((self.to, self.fro, self.size))
        self.stream.npu.bundle(self.stream, self.size, pays)
        self.next_packet()

    def run(self, event: str) -> None:
        if event == "init":
            for _ in range(self.parallel):
                self.insert()
        elif event == "received":
            self.received += 1
            self.insert()
        else:
            self.free += 1
            self.hand_on()

    def hand_on(self) -> None:
        self.send()
        self.end()

    def send(self) -> None:
        if not self.packets or not self.left or not self.free:
            return
        to, fro, size = self.packets.pop(0)
        exchange(self.stream, to, fro, size)
        self.left -= 1
        self.free -= 1

    def end(self) -> None:
        if not self.left and self.free == self.parallel:
            self.stream.leave()


def exchange(stream: Stream, to: int | None, fro: int | None, size: int) -> None:
    """Send to one, and expect from another."""
    world, me = stream.npu.world, stream.npu.id
    if to is not None:
        world.send((stream.number, me, to, size))
    if fro is not None:
        algorithm = stream.algorithm
        world.expect((stream.number, fro, me, size), lambda: algorithm.run("received"))


class Direct(Ring):
    def prepare(self, index: int, window: int) -> None:
        n = len(self.ring)
        self.parallel = min(window, n - 1)
        self.others = self.parallel * (n - 1 if self.stream.chunk.comm.group else 1)
        if self.kind == "all-to-all":
            self.left = n - 1

    def next_packet(self) -> None:
        self.to, self.fro = self.step_on(self.to, self.direction), self.step_on(self.fro, -self.direction)
        if self.to == self.me:
            self.to = self.step_on(self.to, self.direction)
        if self.fro == self.me:
            self.fro = self.step_on(self.fro, -self.direction)

    def hand_on(self) -> None:
        middle = len(self.ring) - 1
        if self.kind == "all-reduce" and self.left <= middle:
            if self.received < middle:
                return
            for _ in range(self.parallel):
                self.send()
        else:
            self.send()
        self.end()


class Halving(Ring):
    def prepare(self, index: int, window: int) -> None:
        n, self.index = len(self.ring), index
        rounds = n.bit_length() - 1
        self.left = 2 * rounds if self.kind == "all-reduce" else rounds
        self.others = rounds - 1
        gathers = self.kind == "all-gather"
        self.offset, self.factor = (n // 2, 0.5) if gathers else (1, 2.0)
        entering = self.size if gathers else self.stream.chunk.steps[self.stream.phase].program.entering
        self.size = entering if gathers else entering // 2
        self.meet()

    def meet(self) -> None:
        way = 1 if not self.offset or self.index // self.offset % 2 == 0 else -1
        self.to = self.fro = self.ring[(self.index + way * self.offset) % len(self.ring)]

    def next_packet(self) -> None:
        self.offset, self.size = int(self.offset * self.factor), int(self.size / self.factor)
        if self.offset == len(self.ring) and self.kind == "all-reduce":
            self.factor = 0.5
            self.offset, self.size = int(self.offset * self.factor), int(self.size / self.factor)
        self.meet()


class Tree:
    """Up and down a tree in which the places of the ring stand from left to right."""

    def __init__(self, stream: Stream, step: Any, ring: list[int], index: int, direction: int, window: int) -> None:
        self.stream, self.size = stream, step.program.entering
        parent, left, right = step.program.table[3 * index : 3 * index + 3]
        self.parent = ring[parent] if parent >= 0 else None
        self.children = [ring[child] for child in (left, right) if child >= 0]
        self.heard = self.summed = 0
        self.down = False

    def bundle(self, pays: bool) -> None:
        self.stream.npu.bundle(self.stream, self.size, pays)

    def run(self, event: str) -> None:
        if event == "init":
            for child in self.children:
                exchange(self.stream, None, child, self.size)
            if not self.children:
                self.bundle(False)
        elif event == "received":
            self.heard += 1
            self.down = self.heard > len(self.children)
            self.bundle(bool(self.children))
        elif self.down:  # from the parent
            self.pass_down()
        else:
            self.summed += 1
            if self.summed >= len(self.children):
                if self.parent is None:
                    self.pass_down()
                else:
                    exchange(self.stream, self.parent, self.parent, self.size)

    def pass_down(self) -> None:
        for child in self.children:
            exchange(self.stream, child, None, self.size)
        self.stream.leave()


ALGORITHMS: dict[str, Any] = {"ring": Ring, "direct": Direct, "halving-doubling": Halving, "double-binary-tree": Tree}
