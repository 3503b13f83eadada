"""Execution of programs message by message: arrivals enable further messages. See executor.pyi.

The hot loop of the system layer: plain C on arrays, called once per batch of arrivals. Chunks, phases and queues are
handled in Python, about a hundred times less often.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

import numpy as np

from pyxsim.raw cimport chars, ints, loaded, longs, saved
from pyxsim.system.executor_state cimport Flight, Program, Task, set_pointers, record_length
from pyxsim.heap cimport Entry, Heap, grown, heap_saved, load_heap, pop, push
from pyxsim.system.pipes cimport LEAVES, OFFLOADED, READ, TAKEN, WRITTEN, Pipes

cdef enum Kind:
    FREE      # a rank sends the messages without dependencies
    TAKEN_IN  # the receiver has taken in a message
    OUT       # a message has crossed the bus of its sender

cdef enum:
    SENT = 0  # in the log, which data_carrier.py reads
    RECEIVED = 1

cdef enum MessageState:  # of a message that is in no list
    HERE = -2
    SENDER = -3
    FLYING = -4

cdef enum:
    ABANDONED = -1  # `open` of a task that has been ended before its time


cdef class Executor:
    cdef Program* programs
    cdef int64_t program_count, program_capacity
    cdef Task* tasks
    cdef int64_t task_count, task_capacity
    cdef Heap events            # ties: in order of creation; place: a rank (FREE), or a message
    cdef int64_t event_number
    cdef Flight* flights
    cdef int64_t flight_capacity
    cdef int64_t* outgoing           # messages to send: task, message
    cdef int64_t outgoing_count, outgoing_capacity
    cdef int64_t* ended          # ranks that have sent and received everything: task, rank
    cdef int64_t ended_count, ended_capacity
    cdef int64_t* log
    cdef int64_t log_count, log_capacity
    cdef int32_t* freed         # messages that an arrival enables
    cdef int64_t freed_count, freed_capacity
    cdef list kept              # keeps the arrays of options and programs alive
    cdef readonly list sources  # the programs
    cdef int64_t* endpoint
    cdef int64_t* slow_num
    cdef int64_t* slow_den
    cdef int64_t* bus_free
    cdef int64_t bus_L, bus_o, bus_g, bus_num, bus_den
    cdef bint bus, logging
    cdef Pipes pipes            # None: memories and engines take no time
    cdef list finished_keys              # keys of moves and computations that have left a pipe

    def __init__(self, endpoint_delay, slow_num, slow_den, *, bus=None, bint log=False, Pipes pipes=None):
        self._keep(endpoint_delay, slow_num, slow_den, np.zeros(len(endpoint_delay)))
        self.sources = []
        self.bus, self.logging = bus is not None, log
        self.pipes, self.finished_keys = pipes, []
        if self.bus:
            self.bus_L, self.bus_o, self.bus_g = bus.L, bus.o, bus.g
            self.bus_num, self.bus_den = bus.G.numerator, bus.G.denominator

    cdef int _keep(self, endpoint, slow_num, slow_den, bus_free) except -1:
        self.kept = []
        self.endpoint = longs(self.kept, endpoint)
        self.slow_num, self.slow_den = longs(self.kept, slow_num), longs(self.kept, slow_den)
        self.bus_free = longs(self.kept, bus_free)
        return 0

    def __dealloc__(self):
        cdef int64_t i
        for i in range(self.task_count):
            free(self.tasks[i].members)
            self._release(&self.tasks[i])
        free(self.programs)
        free(self.tasks)
        free(self.events.items)
        free(self.flights)
        free(self.outgoing)
        free(self.ended)
        free(self.log)
        free(self.freed)

    # -- programs and tasks --

    def add_program(self, program):
        self.programs = <Program*> grown(self.programs, &self.program_capacity, self.program_count + 1, sizeof(Program))
        cdef Program* p = &self.programs[self.program_count]
        kept = self.kept
        p.n, p.count = program.n, len(program.src)
        p.gate_count, p.join_count = len(program.gate_size), len(program.join_ptr) - 1
        p.src, p.dst = ints(kept, program.src), ints(kept, program.dst)
        p.size, p.cost = longs(kept, program.size), longs(kept, program.cost)
        p.way, p.join = chars(kept, program.way), ints(kept, program.join)
        p.piped = program.traffic is not None
        if p.piped:
            p.offloaded = program.traffic.offloaded
            p.read_out, p.read_in = longs(kept, program.traffic.read_out), longs(kept, program.traffic.read_in)
            p.written = longs(kept, program.traffic.written)
        p.access, p.fused, p.fused_count = NULL, NULL, NULL
        if program.accesses is not None:
            p.access, p.fused = chars(kept, program.accesses.kind), ints(kept, program.accesses.fused)
            p.fused_count = ints(kept, program.accesses.messages)
        p.join_ptr, p.join_ids = ints(kept, program.join_ptr), ints(kept, program.join_ids)
        p.free_ptr, p.free_ids = ints(kept, program.free_ptr), ints(kept, program.free_ids)
        p.opens_ptr, p.opens_ids = ints(kept, program.opens_ptr), ints(kept, program.opens_ids)
        p.gate_size = ints(kept, program.gate_size)
        p.behind_ptr, p.behind_ids = ints(kept, program.behind_ptr), ints(kept, program.behind_ids)
        p.need = ints(kept, program.need)
        p.held_ptr, p.held_ids = ints(kept, program.held_ptr), ints(kept, program.held_ids)
        p.sends, p.receives = ints(kept, program.sends), ints(kept, program.receives)
        self.program_count += 1
        self.sources.append(program)
        return self.program_count - 1

    def add_task(self, int program, members, int plane, int back, int tag=0):
        self.tasks = <Task*> grown(self.tasks, &self.task_capacity, self.task_count + 1, sizeof(Task))
        cdef Task* t = &self.tasks[self.task_count]
        cdef int32_t n = self.programs[program].n, i
        t.program, t.plane, t.back, t.tag, t.open, t.numbers = program, plane, back, tag, n, NULL
        t.members = <int32_t*> malloc(max(n, 1) * sizeof(int32_t))
        if t.members == NULL:
            raise MemoryError
        for i in range(n):
            t.members[i] = members[i]
        self.task_count += 1
        return self.task_count - 1

    cdef int _allocate(self, Task* t) except -1:
        """Allocate the record of a task when its first rank starts."""
        cdef Program* p = &self.programs[t.program]
        cdef int64_t i, k
        t.numbers = <int32_t*> malloc(max(record_length(p), 1) * sizeof(int32_t))
        t.started = <uint8_t*> calloc(max(p.n, 1), 1)
        t.delays = <int64_t*> calloc(max(p.n, 1), sizeof(int64_t))
        if t.numbers == NULL or t.started == NULL or t.delays == NULL:
            raise MemoryError
        set_pointers(t, p)
        memcpy(t.to_send, p.sends, p.n * sizeof(int32_t))
        memcpy(t.to_receive, p.receives, p.n * sizeof(int32_t))
        memcpy(t.gates, p.gate_size, p.gate_count * sizeof(int32_t))
        for i in range(p.join_count):
            t.joins[i] = p.join_ptr[i + 1] - p.join_ptr[i]
        for i in range(p.count):
            t.after[i] = SENDER
        for i in range(p.n):
            t.received[i], t.held[i], t.early[i] = 0, -1, -1
            for k in range(p.held_ptr[i + 1] - 1, p.held_ptr[i] - 1, -1):
                t.after[p.held_ids[k]] = t.held[i]
                t.held[i] = p.held_ids[k]
        return 0

    cdef void _release(self, Task* t) noexcept:
        if t.numbers != NULL:
            free(t.numbers)
            free(t.started)
            free(t.delays)
            t.numbers = NULL

    def start(self, int64_t task, int rank, int64_t now):
        cdef Task* t = &self.tasks[task]
        cdef Program* p = &self.programs[t.program]
        cdef int32_t m, following
        if t.open == ABANDONED:
            return
        if t.numbers == NULL:
            self._allocate(t)
        t.started[rank] = 1
        if not t.to_send[rank] and not t.to_receive[rank]:
            self._check_end(task, rank)
            return
        if p.free_ptr[rank + 1] > p.free_ptr[rank]:
            self._push(now + (0 if self.bus else self.endpoint[t.members[rank]]), FREE, task, rank)
        m = t.early[rank]
        t.early[rank] = -1
        while m >= 0:
            following = t.after[m]
            self._receive(task, m, now)
            m = following

    def abandon(self, int64_t task):
        cdef Task* t = &self.tasks[task]
        cdef Program* p = &self.programs[t.program]
        cdef int64_t unsent = 0
        cdef int32_t m, following, rank
        if t.open <= 0 and p.n:  # it has ended
            return 0
        if t.numbers != NULL:
            for rank in range(p.n):
                m = t.early[rank]
                while m >= 0:
                    following = t.after[m]
                    t.after[m] = FLYING
                    m = following
        for m in range(p.count):
            if p.src[m] != p.dst[m] and (t.numbers == NULL or t.after[m] != FLYING and t.after[m] != HERE):
                unsent += p.size[m]
        self._release(t)
        t.open = ABANDONED
        return unsent

    # -- messages --

    cdef int _receive(self, int64_t task, int32_t m, int64_t now) except -1:
        """Let the receiver take in a message that has arrived; keep it if the rank has not started."""
        cdef Task* t = &self.tasks[task]
        cdef Program* p = &self.programs[t.program]
        cdef int32_t rank = p.dst[m], npu = t.members[rank], after
        if not t.started[rank]:
            t.after[m] = -1
            if t.early[rank] < 0:
                t.early[rank] = m
                return 0
            after = t.early[rank]
            while t.after[after] >= 0:
                after = t.after[after]
            t.after[after] = m
            return 0
        if self.bus and p.size[m]:
            now = self._cross_bus(npu, p.size[m], now)
        elif p.piped and self._enter_pipe(p, npu, p.read_in[m], p.written[m], now, TAKEN, task, m):
            return 0
        return self._take_in(task, m, now)

    cdef int _take_in(self, int64_t task, int32_t m, int64_t now) except -1:
        """Schedule the end of taking in a message: endpoint delay (if it came from the network) and reduction."""
        cdef Task* t = &self.tasks[task]
        cdef Program* p = &self.programs[t.program]
        cdef int32_t npu = t.members[p.dst[m]]
        if p.size[m] and p.src[m] != p.dst[m] and not self.bus:
            now += self.endpoint[npu]
        return self._push(now + self._slowed(npu, p.cost[m]), TAKEN_IN, task, m)

    cdef bint _enter_pipe(
        self, Program* p, int32_t npu, int64_t read, int64_t written, int64_t now, int32_t then, int64_t task, int32_t m
    ) except -1:
        """Put bytes into a pipe of an NPU. Returns whether that takes any time."""
        cdef Pipes pipes = self.pipes
        if p.offloaded:
            pipes.moved[OFFLOADED, npu] += read + written
            return pipes.begin(pipes.npus + npu, read + written, now, then, <int32_t> task, m)
        pipes.moved[READ, npu] += read
        pipes.moved[WRITTEN, npu] += written
        return pipes.begin(npu, read + written, now, then, <int32_t> task, m)

    cdef int64_t _slowed(self, int32_t npu, int64_t cycles) noexcept:
        if self.slow_num[npu] == self.slow_den[npu]:
            return cycles
        return (cycles * self.slow_num[npu] + self.slow_den[npu] - 1) // self.slow_den[npu]

    cdef int64_t _cross_bus(self, int32_t npu, int64_t size, int64_t now) noexcept:
        """Return when a message that reaches the shared bus of an NPU now has crossed it (LogGP)."""
        cdef int64_t begin = max(now, self.bus_free[npu])
        cdef int64_t body = self.bus_o + ((size - 1) * self.bus_num + self.bus_den - 1) // self.bus_den
        body = self._slowed(npu, body)
        self.bus_free[npu] = begin + max(self.bus_g, body)
        return begin + body + self.bus_L + self.bus_o

    cdef int _send(self, int64_t task, int32_t m, int64_t now) except -1:
        """Send a message: over the network, the bus or a pipe, or to its own rank."""
        cdef Task* t = &self.tasks[task]
        cdef Program* p = &self.programs[t.program]
        cdef int32_t rank = p.src[m]
        t.after[m] = FLYING
        if self.logging:
            self._log_event(SENT, task, m)
        if p.dst[m] == rank:
            if not (p.piped and self._enter_pipe(p, t.members[rank], p.read_in[m], p.written[m], now, TAKEN, task, m)):
                self._take_in(task, m, now)
        elif not p.size[m]:
            self._arrived(task, m, now)  # a signal without data
        elif self.bus:
            self._push(self._cross_bus(t.members[rank], p.size[m], now), OUT, task, m)
        elif not (p.piped and self._enter_pipe(p, t.members[rank], p.read_out[m], 0, now, LEAVES, task, m)):
            self._hand_over(task, m)
        t.to_send[rank] -= 1
        self._check_end(task, rank)
        return 0

    cdef int _hand_over(self, int64_t task, int32_t m) except -1:
        cdef int64_t needed = 2 * self.outgoing_count + 2
        self.outgoing = <int64_t*> grown(self.outgoing, &self.outgoing_capacity, needed, sizeof(int64_t))
        self.outgoing[2 * self.outgoing_count], self.outgoing[2 * self.outgoing_count + 1] = task, m
        self.outgoing_count += 1
        return 0

    cdef int _may_leave(self, int64_t task, int32_t m, int64_t now) except -1:
        """Send a message whose data are available, unless its window holds it back."""
        cdef Task* t = &self.tasks[task]
        cdef Program* p = &self.programs[t.program]
        cdef int32_t rank = p.src[m], before, other
        if p.need[m] <= t.received[rank]:
            return self._send(task, m, now)
        before, other = -1, t.held[rank]
        while 0 <= other < m:
            before, other = other, t.after[other]
        t.after[m] = other
        if before < 0:
            t.held[rank] = m
        else:
            t.after[before] = m
        return 0

    cdef int _taken_in(self, int64_t task, int32_t m, int64_t now) except -1:
        """Note that the receiver has taken in (and reduced) a message, and send what depended on it."""
        cdef Task* t = &self.tasks[task]
        cdef Program* p = &self.programs[t.program]
        cdef int32_t rank = p.dst[m], gate, held
        cdef int64_t i, k
        cdef bint opened
        t.after[m] = HERE
        if self.logging:
            self._log_event(RECEIVED, task, m)
        if p.src[m] != rank:
            t.received[rank] += 1
        self.freed_count = 0
        for i in range(p.opens_ptr[m], p.opens_ptr[m + 1]):
            gate = p.opens_ids[i]
            t.gates[gate] -= 1
            if not t.gates[gate]:
                for k in range(p.behind_ptr[gate], p.behind_ptr[gate + 1]):
                    self._free_next(p.behind_ids[k])
        # Messages leave in the order of the schedule, whether a gate or a window has opened.
        i = 0
        while True:
            held = t.held[rank]
            opened = held >= 0 and p.need[held] <= t.received[rank]
            if i < self.freed_count and not (opened and held < self.freed[i]):
                self._may_leave(task, self.freed[i], now)
                i += 1
            elif opened:
                t.held[rank] = t.after[held]
                self._send(task, held, now)
            else:
                break
        t.to_receive[rank] -= 1
        self._check_end(task, rank)
        return 0

    cdef int _free_next(self, int32_t m) except -1:
        """Insert a message into `freed`, in the order of the schedule."""
        self.freed = <int32_t*> grown(self.freed, &self.freed_capacity, self.freed_count + 1, sizeof(int32_t))
        cdef int64_t place = self.freed_count
        while place and self.freed[place - 1] > m:
            self.freed[place] = self.freed[place - 1]
            place -= 1
        self.freed[place] = m
        self.freed_count += 1
        return 0

    cdef int _check_end(self, int64_t task, int32_t rank) except -1:
        cdef Task* t = &self.tasks[task]
        if t.to_send[rank] or t.to_receive[rank]:
            return 0
        t.to_receive[rank] = -1  # once only
        self.ended = <int64_t*> grown(self.ended, &self.ended_capacity, 2 * self.ended_count + 2, sizeof(int64_t))
        self.ended[2 * self.ended_count], self.ended[2 * self.ended_count + 1] = task, rank
        self.ended_count += 1
        return 0

    def arrive(self, messages, cycles):
        cdef const int64_t[:] number = messages, cycle = cycles
        cdef Flight* flight
        cdef Task* t
        cdef Py_ssize_t i
        for i in range(number.shape[0]):
            flight = &self.flights[number[i]]
            t = &self.tasks[flight.task]
            if t.open == ABANDONED:
                continue
            t.delays[self.programs[t.program].dst[flight.message]] += cycle[i] - flight.at
            self._arrived(flight.task, flight.message, cycle[i])

    def task_of(self, int64_t message):
        return self.flights[message].task

    cdef int _arrived(self, int64_t task, int32_t m, int64_t now) except -1:
        cdef Task* t = &self.tasks[task]
        cdef Program* p = &self.programs[t.program]
        cdef int32_t join = p.join[m]
        cdef int64_t k
        if join < 0:
            return self._receive(task, m, now)
        t.joins[join] -= 1
        if not t.joins[join]:  # reduced in the network: all receive the result with the last message
            for k in range(p.join_ptr[join], p.join_ptr[join + 1]):
                self._receive(task, p.join_ids[k], now)
        return 0

    def run_events(self, int64_t now):
        cdef Entry event
        cdef Program* p
        cdef int32_t i
        if self.pipes is not None:
            self._finish_pipes(now)
        while self.events.count and self.events.items[0].at <= now:
            event = pop(&self.events)
            if event.kind == OUT:
                self._hand_over(<int32_t> event.item, event.place)
            elif self.tasks[event.item].open == ABANDONED:
                continue
            elif event.kind == TAKEN_IN:
                self._taken_in(<int32_t> event.item, event.place, event.at)
            else:
                p = &self.programs[self.tasks[event.item].program]
                for i in range(p.free_ptr[event.place], p.free_ptr[event.place + 1]):
                    self._send(<int32_t> event.item, p.free_ids[i], event.at)

    cdef int _finish_pipes(self, int64_t now) except -1:
        """Continue with what has left a pipe in this cycle."""
        cdef Pipes pipes = self.pipes
        cdef Entry* flow
        cdef int64_t i
        pipes.finish(now)
        for i in range(pipes.finished_count):
            flow = &pipes.finished[i]
            if flow.kind == LEAVES:
                self._hand_over(<int32_t> flow.item, flow.place)
            elif flow.kind == TAKEN:
                if self.tasks[flow.item].open != ABANDONED:
                    self._take_in(<int32_t> flow.item, flow.place, now)
            else:
                self.finished_keys.append(flow.item)
        return 0

    def take_finished_keys(self):
        keys, self.finished_keys = self.finished_keys, []
        return keys

    cdef int _push(self, int64_t at, int32_t kind, int32_t task, int32_t place) except -1:
        push(&self.events, Entry(at, self.event_number, task, kind, place))
        self.event_number += 1
        return 0

    def next_event(self):
        cdef int64_t own = self.events.items[0].at if self.events.count else -1, other
        if self.pipes is not None:
            other = self.pipes.upcoming()
            if own < 0 or 0 <= other < own:
                return other
        return own

    # -- output --

    def outbox(self):
        cdef int64_t i
        cdef Task* t
        cdef Program* p
        cdef int64_t m
        cdef int64_t[:, ::1] row
        rows = np.empty((5, self.outgoing_count), dtype=np.int64)
        row = rows
        for i in range(self.outgoing_count):
            t = &self.tasks[self.outgoing[2 * i]]
            m = self.outgoing[2 * i + 1]
            p = &self.programs[t.program]
            row[0, i], row[1, i] = t.members[p.src[m]], t.members[p.dst[m]]
            row[2, i], row[3, i] = p.size[m], t.plane if p.way[m] > 0 else t.back
            row[4, i] = t.tag
        return rows[0], rows[1], rows[2], rows[3], rows[4]

    def accesses(self):
        cdef int64_t i
        cdef int64_t m
        cdef Program* p
        cdef int64_t[:, ::1] row
        rows = np.empty((3, self.outgoing_count), dtype=np.int64)
        row = rows
        for i in range(self.outgoing_count):
            p = &self.programs[self.tasks[self.outgoing[2 * i]].program]
            m = self.outgoing[2 * i + 1]
            if p.access == NULL:
                row[0, i], row[1, i], row[2, i] = 0, -1, 1
                continue
            row[0, i], row[2, i] = p.access[m], p.fused_count[m]
            row[1, i] = (self.outgoing[2 * i] << 32) + p.fused[m] if p.fused[m] >= 0 else -1
        return rows[0], rows[1], rows[2]

    def sent(self, int64_t first, int64_t at):
        cdef int64_t i, wanted = first + self.outgoing_count
        self.flights = <Flight*> grown(self.flights, &self.flight_capacity, wanted, sizeof(Flight))
        for i in range(self.outgoing_count):
            self.flights[first + i] = Flight(<int32_t> self.outgoing[2 * i], <int32_t> self.outgoing[2 * i + 1], at)
        self.outgoing_count = 0

    def take_ended(self):
        cdef int64_t i, rank
        cdef Task* t
        ended = []
        for i in range(self.ended_count):
            t = &self.tasks[self.ended[2 * i]]
            if t.open == ABANDONED:
                continue
            rank = self.ended[2 * i + 1]
            ended.append((self.ended[2 * i], rank, t.received[rank], t.delays[rank]))
            t.open -= 1
            if not t.open:
                self._release(t)
        self.ended_count = 0
        return ended

    cdef int _log_event(self, int64_t what, int64_t task, int64_t m) except -1:
        self.log = <int64_t*> grown(self.log, &self.log_capacity, 3 * self.log_count + 3, sizeof(int64_t))
        cdef int64_t* row = &self.log[3 * self.log_count]
        row[0], row[1], row[2] = what, task, m
        self.log_count += 1
        return 0

    def take_log(self):
        rows = np.empty((self.log_count, 3), dtype=np.int64)
        cdef int64_t[:, ::1] view = rows
        if self.log_count:
            memcpy(&view[0, 0], self.log, self.log_count * 3 * sizeof(int64_t))
        self.log_count = 0
        return rows

    def missing(self, int64_t task, int rank):
        cdef Task* t = &self.tasks[task]
        cdef Program* p = &self.programs[t.program]
        cdef int32_t m
        if t.numbers == NULL:
            return []
        return [(p.src[m], t.after[m] == FLYING) for m in range(p.count) if p.dst[m] == rank and t.after[m] != HERE]

    # -- checkpoints --

    def __getstate__(self):
        cdef int64_t i
        cdef Task* t
        cdef Program* p
        cdef list members = [], opened = []
        for i in range(self.task_count):
            t = &self.tasks[i]
            p = &self.programs[t.program]
            members.append(saved(t.members, p.n, sizeof(int32_t)))
            if t.numbers != NULL:
                opened.append((saved(t.numbers, record_length(p), sizeof(int32_t)), saved(t.started, p.n, 1),
                               saved(t.delays, p.n, sizeof(int64_t))))
        return {
            "options": (self.bus, self.logging, self.bus_L, self.bus_o, self.bus_g, self.bus_num, self.bus_den),
            "kept": self.kept[:4],
            "programs": self.sources,
            "tasks": saved(self.tasks, self.task_count, sizeof(Task)),
            "members": b"".join(members),
            "opened": opened,
            "events": (heap_saved(&self.events), self.event_number),
            "flights": saved(self.flights, self.flight_capacity, sizeof(Flight)),
            "outgoing": saved(self.outgoing, 2 * self.outgoing_count, sizeof(int64_t)),
            "ended": saved(self.ended, 2 * self.ended_count, sizeof(int64_t)),
            "log": saved(self.log, 3 * self.log_count, sizeof(int64_t)),
            "others": (self.pipes, self.finished_keys),
        }

    def __setstate__(self, state):
        cdef int64_t i, at = 0
        cdef Task* t
        cdef Program* p
        cdef bytes every = state["members"]
        opened = iter(state["opened"])
        self.bus, self.logging, self.bus_L, self.bus_o, self.bus_g, self.bus_num, self.bus_den = state["options"]
        endpoint, slow_num, slow_den, bus_free = state["kept"]
        self._keep(endpoint, slow_num, slow_den, bus_free)
        self.sources = []
        for program in state["programs"]:
            self.add_program(program)
        self.tasks = <Task*> loaded(state["tasks"])
        self.task_capacity = len(state["tasks"]) // <int64_t> sizeof(Task)
        for i in range(self.task_capacity):
            t = &self.tasks[i]
            p = &self.programs[t.program]
            t.members = <int32_t*> loaded(every[at: at + p.n * <int64_t> sizeof(int32_t)])
            at += p.n * <int64_t> sizeof(int32_t)
            if t.numbers != NULL:   # the saved pointer: the task had started
                numbers, started, delays = next(opened)
                t.numbers, t.started = <int32_t*> loaded(numbers), <uint8_t*> loaded(started)
                t.delays = <int64_t*> loaded(delays)
                set_pointers(t, p)
            self.task_count += 1
        events, self.event_number = state["events"]
        load_heap(&self.events, events)
        self.flights = <Flight*> loaded(state["flights"])
        self.flight_capacity = len(state["flights"]) // <int64_t> sizeof(Flight)
        self.outgoing, self.ended = <int64_t*> loaded(state["outgoing"]), <int64_t*> loaded(state["ended"])
        self.outgoing_count = (len(state["outgoing"]) // <int64_t> sizeof(int64_t)) // 2
        self.ended_count = (len(state["ended"]) // <int64_t> sizeof(int64_t)) // 2
        self.outgoing_capacity, self.ended_capacity = 2 * self.outgoing_count, 2 * self.ended_count
        self.log, self.log_capacity = <int64_t*> loaded(state["log"]), len(state["log"]) // <int64_t> sizeof(int64_t)
        self.log_count = self.log_capacity // 3
        self.pipes, self.finished_keys = state["others"]
