"""The arrays of all streams: allocated here, filled by the planning, processed by streams.pyx."""

import numpy as np

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free

from pyxsim.heap cimport resized
from pyxsim.raw cimport loaded, saved
from pyxsim.compat.astra.system.event_queue cimport close_queue, load_queue, open_queue, queue_saved
from pyxsim.compat.astra.system.state cimport (
    FEWEST, FIFO, RG, SMALLEST, ChunkQueue, Flight, Mail, Member, Phase, Row, Stream,
)

from pyxsim.compat.astra.system.store cimport phase_of

cdef int32_t NONE = -1
INTRA = {"FIFO": FIFO, "RG": RG, "smallest-first": SMALLEST, "fewest-phases-first": FEWEST}


cdef class Store:
    def __init__(self, int npus, slots_per_queue, *, endpoint_delay, group_delay, reduction_delay, rate, scale, intra,
                 barrier, boost, rendezvous=False):
        cdef int32_t i
        self.npus, self.queues, self.intra = npus, len(slots_per_queue), INTRA[intra]
        self.endpoint_delay, self.group_delay, self.reduction_delay = endpoint_delay, group_delay, reduction_delay
        self.rate, self.scale = rate, scale
        self.barrier, self.boost, self.rendezvous = barrier, boost, rendezvous
        self.asked, self.held, self.offered = {}, {}, {}
        self.bus = None
        self.base = -1
        open_queue(&self.events, npus)
        self.slots_per_queue = <int32_t*> resized(NULL, self.queues, sizeof(int32_t))
        for i in range(self.queues):
            self.slots_per_queue[i] = slots_per_queue[i]
        self.chunk_queues = <ChunkQueue*> resized(NULL, self.queues * npus, sizeof(ChunkQueue))
        for i in range(self.queues * npus):
            self.chunk_queues[i].first = self.chunk_queues[i].last = NONE
            self.chunk_queues[i].running = 0
        self.outgoing = np.empty((5, 256), dtype=np.int64)
        self.out = self.outgoing
        self.kept = []
        self.ended = []

    def __dealloc__(self):
        cdef int64_t i
        close_queue(&self.events)
        for i in range(self.step_count):
            self.drop_mail(&self.mail[i])
        for i in range(self.stream_count):
            free(self.streams[i].waiting)
        for pointer in (<size_t> self.phases, <size_t> self.tables, <size_t> self.streams, <size_t> self.members,
                        <size_t> self.mail, <size_t> self.steps, <size_t> self.chunk_queues, <size_t> self.flights,
                        <size_t> self.slots_per_queue):
            free(<void*> <size_t> pointer)

    # -- phases and streams --

    def add_phase(self, int algorithm, int kind, int pays, int n, int stride, int direction, int queue, int plane,
                  int sends, int parallel, int others, int slots, bint fast, int64_t size, int64_t largest, table):
        cdef Phase* p
        cdef int64_t i, count = len(table)
        if self.phase_count == self.phase_capacity:
            self.phase_capacity = max(64, 2 * self.phase_capacity)
            self.phases = <Phase*> resized(self.phases, self.phase_capacity, sizeof(Phase))
        if count:
            self.tables = <int64_t*> resized(self.tables, self.table_count + count, sizeof(int64_t))
        p = &self.phases[self.phase_count]
        p.algorithm, p.kind, p.pays, p.n, p.stride, p.direction = algorithm, kind, pays, n, stride, direction
        p.queue, p.plane, p.sends, p.parallel, p.others = queue, plane, sends, parallel, others
        p.middle, p.slots, p.fast, p.size, p.largest, p.table = n - 1, slots, fast, size, largest, self.table_count
        for i in range(count):
            self.tables[self.table_count + i] = table[i]
        self.table_count += count
        self.phase_count += 1
        return self.phase_count - 1

    def add_stream(self, npus, tags, phases, int64_t priority, rows, bint at_once=False):
        cdef int64_t[:, :, ::1] counted = rows
        cdef const int32_t[::1] who = npus, tag = tags
        cdef int64_t i, count = len(phases), m = who.shape[0]
        cdef Stream* s
        cdef Member* member
        if self.stream_count == self.stream_capacity:
            self.stream_capacity = max(64, 2 * self.stream_capacity)
            self.streams = <Stream*> resized(self.streams, self.stream_capacity, sizeof(Stream))
        if self.member_count + m > self.member_capacity:
            self.member_capacity = max(self.member_count + m, 2 * self.member_capacity)
            self.members = <Member*> resized(self.members, self.member_capacity, sizeof(Member))
        if self.step_count + count > self.step_capacity:
            self.step_capacity = max(self.step_count + count, 2 * self.step_capacity)
            self.steps = <int32_t*> resized(self.steps, self.step_capacity, sizeof(int32_t))
            self.mail = <Mail*> resized(self.mail, self.step_capacity, sizeof(Mail))
        s = &self.streams[self.stream_count]
        s.waiting = <int32_t*> resized(NULL, m + 1, sizeof(int32_t)) if self.barrier else NULL
        s.first, s.members, s.phases, s.step = self.member_count, m, count, self.step_count
        s.rows, s.at_once = <Row*> &counted[0, 0, 0], at_once
        s.passes, s.finished, s.suspended, s.waiting_first = 0, 0, 0, 0
        self.kept.append(rows)
        for i in range(count):
            self.steps[self.step_count + i] = phases[i]
            self.mail[self.step_count + i].balance = NULL
            self.mail[self.step_count + i].surplus = NULL
            self.mail[self.step_count + i].first = NULL
            self.mail[self.step_count + i].last = NULL
            self.mail[self.step_count + i].left = 0
        self.step_count += count
        for i in range(m):
            member = &self.members[self.member_count + i]
            member.stream, member.rank, member.npu = <int32_t> self.stream_count, <int32_t> i, who[i]
            member.tag, member.priority = tag[i], priority
            member.phase = NONE
            member.at_work = 0
            member.enabled = 1
        self.member_count += m
        self.stream_count += 1
        return self.stream_count - 1

    def member(self, int64_t stream, int64_t rank):
        return self.streams[stream].first + rank

    cdef Mail* mail_of(self, Member* m) except NULL:
        """The mail of a member's phase, allocated on first use."""
        cdef Stream* s = &self.streams[m.stream]
        cdef Mail* mail = &self.mail[s.step + m.phase]
        cdef int64_t count
        if mail.balance == NULL:
            count = <int64_t> s.members * self.phases[self.steps[s.step + m.phase]].slots
            mail.balance = <int32_t*> calloc(count, sizeof(int32_t))
            if self.barrier:
                mail.surplus = <int32_t*> calloc(count, sizeof(int32_t))
                mail.first = <int64_t*> resized(NULL, count, sizeof(int64_t))
                mail.last = <int64_t*> resized(NULL, count, sizeof(int64_t))
            if mail.balance == NULL or (self.barrier and mail.surplus == NULL):
                raise MemoryError
        return mail

    cdef void drop_mail(self, Mail* mail) noexcept:
        free(mail.balance)
        free(mail.surplus)
        free(mail.first)
        free(mail.last)
        mail.balance = mail.surplus = NULL
        mail.first = mail.last = NULL

    # -- messages --

    cdef int64_t hand_over(self, int32_t src, int32_t dst, int64_t size, int32_t plane, int32_t tag, int32_t member,
                           int64_t slot, int64_t step) except -1:
        """Queue a message for the network, which gets all messages of a cycle at once. Returns its number, from 0."""
        cdef Flight* f
        cdef int64_t i, capacity, number = self.messages
        cdef Flight* fresh
        if number - self.oldest == self.flight_capacity:
            while self.oldest < number and self.flights[self.oldest & (self.flight_capacity - 1)].at < 0:
                self.oldest += 1
        if number - self.oldest == self.flight_capacity:
            capacity = max(1024, 2 * self.flight_capacity)
            fresh = <Flight*> resized(NULL, capacity, sizeof(Flight))
            for i in range(self.oldest, number):
                fresh[i & (capacity - 1)] = self.flights[i & (self.flight_capacity - 1)]
            free(self.flights)
            self.flights, self.flight_capacity = fresh, capacity
        if self.out_count == self.out.shape[1]:
            self.outgoing = np.concatenate((self.outgoing, np.empty_like(self.outgoing)), axis=1)
            self.out = self.outgoing
        self.out[0, self.out_count], self.out[1, self.out_count] = src, dst
        self.out[2, self.out_count], self.out[3, self.out_count] = size, plane
        self.out[4, self.out_count] = tag
        self.out_count += 1
        self.messages += 1
        self.events.order += 1
        f = &self.flights[number & (self.flight_capacity - 1)]
        f.turn, f.at, f.slot, f.step, f.member = self.events.order, self.now, slot, step, member
        f.next = NONE
        return number

    cdef int flush(self, network) except -1:
        cdef int64_t first
        if not self.out_count:
            return 0
        rows = self.outgoing[:, : self.out_count].copy()
        first = network.send_many(rows[0], rows[1], rows[2], rows[3], self.now, rows[4])
        if self.base < 0:
            self.base = first
        if first - self.base != self.flushed:
            raise RuntimeError("messages of another sender on this network")
        self.flushed += self.out_count
        self.out_count = 0
        return 0

    # -- inspection --

    def unfinished(self):
        """Return (stream, phase, rank, running, slots that miss a message) of unfinished members."""
        cdef int64_t i, j
        cdef Member* m
        cdef Stream* s
        found = []
        for i in range(self.member_count):
            m = &self.members[i]
            s = &self.streams[m.stream]
            if not 0 <= m.phase < s.phases:
                continue
            p = phase_of(self, m)
            missing = []
            mail = &self.mail[s.step + m.phase]
            if mail.balance != NULL:
                missing = [j for j in range(p.slots) if mail.balance[<int64_t> m.rank * p.slots + j] < 0]
            found.append((m.stream, m.phase, m.rank, bool(m.at_work), missing))
        return found

    # -- checkpoints --

    def __getstate__(self):
        cdef int64_t i, j, count
        cdef Stream* s
        cdef Mail* mail
        letters, waiting = [], []
        for i in range(self.stream_count):
            s = &self.streams[i]
            waiting.append(saved(s.waiting, s.members + 1, sizeof(int32_t)))
            for j in range(s.step, s.step + s.phases):
                mail = &self.mail[j]
                count = <int64_t> s.members * self.phases[self.steps[j]].slots
                letters.append((
                    saved(mail.balance, count, sizeof(int32_t)), saved(mail.surplus, count, sizeof(int32_t)),
                    saved(mail.first, count, sizeof(int64_t)), saved(mail.last, count, sizeof(int64_t)), mail.left))
        return {
            "options": (self.endpoint_delay, self.group_delay, self.reduction_delay, self.rate, self.scale, self.npus,
                        self.queues, self.intra, self.barrier, self.boost, self.rendezvous),
            "numbers": (self.oldest, self.messages, self.flushed, self.base, self.now, self.offers),
            "events": queue_saved(&self.events, self.npus),
            "slots_per_queue": saved(self.slots_per_queue, self.queues, sizeof(int32_t)),
            "chunk_queues": saved(self.chunk_queues, <int64_t> self.queues * self.npus, sizeof(ChunkQueue)),
            "phases": saved(self.phases, self.phase_count, sizeof(Phase)),
            "tables": saved(self.tables, self.table_count, sizeof(int64_t)),
            "streams": saved(self.streams, self.stream_count, sizeof(Stream)),
            "members": saved(self.members, self.member_count, sizeof(Member)),
            "steps": saved(self.steps, self.step_count, sizeof(int32_t)),
            "flights": saved(self.flights, self.flight_capacity, sizeof(Flight)),
            "mail": (letters, waiting),
            "out": (self.outgoing, self.out_count),
            "others": (self.kept, self.ended, self.bus, self.asked, self.held, self.offered),
        }

    def __setstate__(self, state):
        cdef int64_t i
        cdef int64_t[:, :, ::1] counted
        cdef Mail* mail
        (self.endpoint_delay, self.group_delay, self.reduction_delay, self.rate, self.scale, self.npus, self.queues,
         self.intra, self.barrier, self.boost, self.rendezvous) = state["options"]
        self.oldest, self.messages, self.flushed, self.base, self.now, self.offers = state["numbers"]
        self.kept, self.ended, self.bus, self.asked, self.held, self.offered = state["others"]
        load_queue(&self.events, state["events"])
        self.slots_per_queue = <int32_t*> loaded(state["slots_per_queue"])
        self.chunk_queues = <ChunkQueue*> loaded(state["chunk_queues"])
        self.phases, self.tables = <Phase*> loaded(state["phases"]), <int64_t*> loaded(state["tables"])
        self.members, self.steps = <Member*> loaded(state["members"]), <int32_t*> loaded(state["steps"])
        self.flights, self.streams = <Flight*> loaded(state["flights"]), <Stream*> loaded(state["streams"])
        self.phase_count = self.phase_capacity = len(state["phases"]) // <int64_t> sizeof(Phase)
        self.table_count = len(state["tables"]) // <int64_t> sizeof(int64_t)
        self.member_count = self.member_capacity = len(state["members"]) // <int64_t> sizeof(Member)
        self.step_count = self.step_capacity = len(state["steps"]) // <int64_t> sizeof(int32_t)
        self.flight_capacity = len(state["flights"]) // <int64_t> sizeof(Flight)
        self.stream_count = self.stream_capacity = len(state["streams"]) // <int64_t> sizeof(Stream)
        letters, waiting = state["mail"]
        self.mail = <Mail*> resized(NULL, max(self.step_count, 1), sizeof(Mail))
        for i, (balance, surplus, first, last, left) in enumerate(letters):
            mail = &self.mail[i]
            mail.balance, mail.surplus = <int32_t*> copied(balance), <int32_t*> copied(surplus)
            mail.first, mail.last, mail.left = <int64_t*> copied(first), <int64_t*> copied(last), left
        for i in range(self.stream_count):
            counted = self.kept[i]
            self.streams[i].rows = <Row*> &counted[0, 0, 0]
            self.streams[i].waiting = <int32_t*> copied(waiting[i])
        self.outgoing, self.out_count = state["out"]
        self.out = self.outgoing


cdef void* copied(bytes data) except? NULL:
    """A copy in C memory; NULL for no data."""
    return loaded(data) if data else NULL
