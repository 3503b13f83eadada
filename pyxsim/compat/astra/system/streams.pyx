"""The streams of all NPUs, carried out event by event as in ASTRA-sim (docs/compat.md). streams.pyi has the interface.

A *stream* is one chunk of a collective. Each participating NPU has a *member* of it, which passes the phases by itself
(in ASTRA-sim 1 together with all others). In a phase it is in a queue of its NPU, whose first members run: a state
machine per algorithm sends messages and expects those of the others.
"""

import numpy as np

from libc.stdint cimport int32_t, int64_t

from pyxsim.compat.astra.system.event_queue cimport Event, EventQueue, schedule, take, top_bucket
from pyxsim.compat.astra.system.state cimport (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    ALWAYS,
    BEGIN,
    BUS,
    CALL,
    DIRECT,
    END,
    FEWEST,
    FIFO,
    FROM_ONE,
    FROM_PARENT,
    FROM_TWO,
    HALVING,
    NEVER,
    OFFERED,
    READY,
    RECEIVED,
    REDUCE_SCATTER,
    RG,
    SENDING_DOWN,
    SENDING_UP,
    SMALLEST,
    TAKEN_IN,
    TREE,
    Flight,
    ChunkQueue,
    Mail,
    Member,
    Phase,
    Row,
    Stream,
)
from pyxsim.compat.astra.system.store cimport Store, flight_of, phase_of, row_of

REQUEST_BYTES = 8192  # of the request for a message with `rendezvous`

cdef int32_t NONE = -1
cdef int32_t REQUEST = -2  # as the receiver: the message is a request


cdef class Streams(Store):
    def begin(self, const int64_t[::1] members):
        """Let members enter their first phases, in this order."""
        cdef int64_t i
        for i in range(members.shape[0]):
            self.streams[self.members[members[i]].stream].passes += 1
            self.advance(members[i])

    def enter(self, const int64_t[::1] members, int64_t priority):
        """The same for members of one NPU, with a priority of its own."""
        cdef int64_t i
        for i in range(members.shape[0]):
            self.members[members[i]].priority = priority
        self.begin(members)

    def call_at(self, int64_t time, int64_t number, int32_t npu=NONE):
        schedule(&self.events, npu, time, CALL, number, 0)

    def post(self, int32_t src, int32_t dst, int64_t size, int32_t plane, int64_t number, int32_t tag=0):
        """Send a point-to-point message now."""
        self.hand_over(src, dst, size, plane, tag, NONE, number, NONE)

    # -- time --

    def run(self, network, call, ended, arrived):
        """Run until nothing is left to do; return the cycle of the last event."""
        cdef const int64_t[::1] messages, cycles
        cdef int64_t i, until, count
        cdef bint in_order = network.capabilities.in_order
        self.through = ended
        self.flush(network)
        while True:
            while self.events.heap.count and top_bucket(&self.events).first == NONE:
                take(&self.events)
            until = self.events.heap.items[0].at if self.events.heap.count else NONE
            found, times = network.advance(until if until >= 0 else None)
            messages, cycles = found, times
            count = messages.shape[0]
            if not count and until < 0:
                return self.now
            if not count:
                self.now = until
                self.cycle(messages, 0, 0, in_order, call, ended, arrived)
            i = 0
            while i < count:
                first = i
                self.now = cycles[i]
                while i < count and cycles[i] == self.now:
                    i += 1
                self.cycle(messages, first, i, in_order, call, ended, arrived)
            self.flush(network)

    cdef int cycle(
        self, const int64_t[::1] messages, int64_t i, int64_t last, bint in_order, call, ended, arrived
    ) except -1:
        """Process this cycle: arrivals and events in the order in which they were scheduled."""
        cdef EventQueue* q = &self.events
        cdef Event event
        cdef int64_t m
        cdef int64_t known = self.events.order
        cdef bint mine
        cdef list order, late = []
        for m in range(i + 1, last):
            if not in_order and flight_of(self, messages[m]).turn < flight_of(self, messages[m - 1]).turn:
                # A message that is expected late is ordered late: not always in the order of the messages.
                order = sorted([(flight_of(self, messages[m]).turn, messages[m]) for m in range(i, last)])
                messages = np.array([message for _, message in order], dtype=np.int64)
                last -= i
                i = 0
                break
        while True:
            mine = q.heap.count > 0 and q.heap.items[0].at <= self.now
            if i < last and flight_of(self, messages[i]).turn > known:
                late.append((flight_of(self, messages[i]).turn, messages[i]))  # expected in this very cycle
                i += 1
                continue
            if i == last and late:
                messages = np.array([message for _, message in sorted(late)], dtype=np.int64)
                i, last, late, known = 0, len(late), [], self.events.order
            if i < last and not (mine and q.heap.items[0].number < flight_of(self, messages[i]).turn):
                self.arrival(messages[i], arrived)
                i += 1
                continue
            if not mine:
                return 0
            event = take(q)
            while event.kind != NONE:
                self.act(event, call)
                if self.ended:
                    ended_now, self.ended = self.ended, []
                    for stream, rank in ended_now:
                        ended(stream, rank, self.now)
                event = take(q)

    cdef int act(self, Event event, call) except -1:
        if event.kind == TAKEN_IN:
            return self.taken_in(event.item, event.size)
        if event.kind == READY:
            return self.ready(&self.members[event.item])
        if event.kind == RECEIVED:
            return self.received(&self.members[event.item])
        if event.kind == OFFERED:
            return self.release(self.offered.pop(event.item))
        if event.kind == BUS:
            self.bus.event(event.item, self.now)
        else:
            call(event.item, self.now)
        return 0

    # -- messages --

    cdef int arrival(self, int64_t message, arrived) except -1:
        cdef Flight* f = flight_of(self, message)
        cdef Mail* mail
        cdef Member* m
        cdef Row* row
        cdef int64_t at = f.at
        f.at = NONE
        if f.member == NONE:
            arrived(f.slot, self.now)
            return 0
        if f.member == REQUEST:
            return self.requested(f.step, f.slot)
        m = &self.members[f.member]
        row = row_of(self, m, <int32_t> (f.step - self.streams[m.stream].step))
        row.messages += 1
        row.network += self.now - at
        mail = &self.mail[f.step]
        if self.barrier and mail.balance[f.slot] >= 0 and mail.first[f.slot] == message - self.base:
            mail.first[f.slot] = f.next
        mail.balance[f.slot] += 1
        if mail.balance[f.slot] <= 0:
            return self.received(m)
        return 0

    cdef int send(self, Member* m, Phase* p, int32_t rank, int64_t slot, int64_t size) except -1:
        """A message to the member of a rank, into a slot of its mail."""
        cdef Stream* s = &self.streams[m.stream]
        cdef Mail* mail = self.mail_of(m)
        cdef int64_t number
        slot += <int64_t> rank * p.slots
        if self.rendezvous:
            way = (m.npu, self.members[s.first + rank].npu, size, p.plane, m.tag, s.first + rank, slot,
                   s.step + m.phase)
            return self.offer(s.step + m.phase, slot, way)
        number = self.hand_over(m.npu, self.members[s.first + rank].npu, size, p.plane, m.tag,
                                <int32_t> (s.first + rank), slot, s.step + m.phase)
        if self.barrier:
            if mail.surplus[slot] <= max(mail.balance[slot], 0):
                mail.first[slot] = number
            else:
                self.flights[mail.last[slot] & (self.flight_capacity - 1)].next = number
            mail.surplus[slot] += 1
            mail.last[slot] = number
        return 0

    # -- rendezvous: the receiver requests a message, which leaves when it is ready and requested --

    cdef int offer(self, int64_t step, int64_t slot, tuple way) except -1:
        """Offer a message that is ready. If it was requested, it leaves in this cycle, after the earlier events."""
        cdef object key = (step, slot)
        if not self.asked.get(key, 0):
            self.held.setdefault(key, []).append(way)
            return 0
        self.asked[key] -= 1
        self.offered[self.offers] = way
        self.offers += 1
        return schedule(&self.events, NONE, self.now, OFFERED, self.offers - 1, 0)

    cdef int requested(self, int64_t step, int64_t slot) except -1:
        """Process a request for a message into a slot."""
        cdef object key = (step, slot), held = self.held.get(key)
        if held:
            return self.release(held.pop(0))
        self.asked[key] = self.asked.get(key, 0) + 1
        return 0

    cdef int release(self, tuple way) except -1:
        src, dst, size, plane, tag, member, slot, step = way
        self.hand_over(src, dst, size, plane, tag, member, slot, step)
        return 0

    cdef int expect(self, Member* m, Phase* p, int64_t slot, int32_t whose) except -1:
        """Expect a message of the member of a rank; if it has arrived, it is processed in this cycle, after the earlier
        events. With rendezvous it is requested.

        ASTRA-sim 1 schedules the arrival when the message has been both sent and expected.
        """
        cdef Stream* s = &self.streams[m.stream]
        cdef Mail* mail = self.mail_of(m)
        cdef Flight* f
        slot += <int64_t> m.rank * p.slots
        row_of(self, m, m.phase).awaited -= self.now
        if self.rendezvous:
            self.hand_over(m.npu, self.members[s.first + whose].npu, REQUEST_BYTES, p.plane, m.tag, REQUEST, slot,
                           s.step + m.phase)
        if self.barrier:
            if mail.surplus[slot] > 0 and mail.balance[slot] <= 0 and mail.first[slot] != NONE:
                self.events.order += 1
                f = &self.flights[mail.first[slot] & (self.flight_capacity - 1)]
                f.turn = self.events.order
                mail.first[slot] = f.next
            mail.surplus[slot] -= 1
        mail.balance[slot] -= 1
        if mail.balance[slot] >= 0:
            schedule(&self.events, NONE, self.now, RECEIVED, m - self.members, 0)
        return 0

    # -- the endpoint --

    cdef int bundle(self, Member* m, Phase* p, int64_t size, bint pays, bint back, bint outward) except -1:
        """Let a message cross the endpoint; then the algorithm can use it."""
        cdef int64_t who = m - self.members
        if self.bus is not None and not p.fast:
            self.bus.request(m.npu, who, size, pays, back, outward, self.now)
            return 0
        cdef int64_t delay = self.group_delay if p.fast else self.endpoint_delay
        return schedule(&self.events, m.npu, self.now + delay, TAKEN_IN, who, size if pays else NONE)

    def on_bus(self, int32_t npu, int64_t delay, int64_t number):
        """Schedule event `number` of the bus."""
        schedule(&self.events, npu, self.now + delay, BUS, number, 0)

    def across(self, int64_t who, int64_t size):
        """Note that a message of a member has crossed the bus."""
        self.taken_in(who, size)

    cdef int taken_in(self, int64_t who, int64_t size) except -1:
        cdef int64_t cost
        if size < 0:
            return self.ready(&self.members[who])
        cost = self.reduction_delay
        if self.rate > 0:
            cost += 3 * <int64_t> (<double> size / self.rate * self.scale)
        return schedule(&self.events, self.members[who].npu, self.now + cost, READY, who, 0)

    # -- algorithms --

    cdef int start(self, Member* m) except -1:
        """Start a member at the front of its queue."""
        cdef Phase* p = phase_of(self, m)
        cdef int32_t _turn
        m.at_work = 1
        row_of(self, m, m.phase).start = self.now
        if p.algorithm == TREE:
            return self.tree(m, p, False)
        for _turn in range(p.parallel):
            self.insert(m, p)
        return 0

    cdef int received(self, Member* m) except -1:
        cdef Phase* p = phase_of(self, m)
        m.received += 1
        row_of(self, m, m.phase).awaited += self.now
        if p.algorithm == TREE:
            return self.tree(m, p, True)
        return self.insert(m, p)

    cdef int insert(self, Member* m, Phase* p) except -1:
        """Let one more message cross the endpoint.

        Messages come in rounds: the first ones cost no reduction; the others do, in an all-reduce in every second
        round only.
        """
        cdef bint pays = False, outward = m.unpaid > 0 or m.payable == 0
        cdef bint back = False
        cdef int64_t size = p.size
        if not m.unpaid and not m.payable:
            m.unpaid, m.payable = p.parallel, p.others
            m.toggle = not m.toggle
        if m.unpaid > 0:
            m.unpaid -= 1
        else:
            pays = p.pays == ALWAYS or (p.pays != NEVER and m.toggle)
            back = m.payable > p.parallel
            m.payable -= 1
        if p.algorithm == HALVING:
            size = self.tables[p.table + 2 * m.inserted]
        m.inserted += 1
        return self.bundle(m, p, size, pays, back, outward)

    cdef int ready(self, Member* m) except -1:
        cdef Phase* p = phase_of(self, m)
        cdef int32_t _turn
        if p.algorithm == TREE:
            return self.tree(m, p, False)
        m.free += 1
        if p.algorithm == DIRECT and p.kind == ALL_REDUCE and m.left <= p.middle:
            if m.received < p.middle:
                return 0
            for _turn in range(p.parallel):
                self.step(m, p)
        else:
            self.step(m, p)
        if not m.left and m.free == p.parallel:
            return self.leave(m)
        return 0

    cdef int step(self, Member* m, Phase* p) except -1:
        """Send the next message and expect its counterpart, if one has crossed the endpoint."""
        cdef int32_t place = (m.rank // p.stride) % p.n, ahead, to, fro
        cdef int32_t origin = m.rank - place * p.stride
        cdef int64_t bit
        if not m.left or not m.free:
            return 0
        if p.algorithm == HALVING:
            bit = self.tables[p.table + 2 * m.sent + 1]
            to = place ^ (1 << bit)
            self.send(m, p, origin + to * p.stride, bit, self.tables[p.table + 2 * m.sent])
            self.expect(m, p, bit, origin + to * p.stride)
        else:
            ahead = p.direction * (1 + m.sent % (p.n - 1) if p.algorithm == DIRECT else 1)
            to = (place + ahead + p.n) % p.n
            fro = (place - ahead + p.n) % p.n
            self.send(m, p, origin + to * p.stride, place if p.algorithm == DIRECT else 0, p.size)
            self.expect(m, p, fro if p.algorithm == DIRECT else 0, origin + fro * p.stride)
        m.left -= 1
        m.free -= 1
        m.sent += 1
        return 0

    cdef int tree(self, Member* m, Phase* p, bint message) except -1:
        """The double binary tree. `message`: one has arrived; otherwise it starts or one has crossed the endpoint.

        Slots: 0 from the left child, 1 from the right one, 2 from the parent.
        """
        cdef int32_t place = (m.rank // p.stride) % p.n
        cdef int32_t origin = m.rank - place * p.stride
        cdef int64_t* family = &self.tables[p.table + 3 * place]
        cdef int64_t parent = family[0], left = family[1], right = family[2]
        cdef bint leaf = left < 0 and right < 0, root = parent < 0
        cdef int64_t only = left if left >= 0 else right
        if m.state == BEGIN:
            if root:
                m.state = FROM_ONE
                return self.expect(m, p, 0 if left >= 0 else 1, origin + <int32_t> only * p.stride)
            if leaf:
                m.state = SENDING_UP
                return self.bundle(m, p, p.size, False, False, True)
            m.state = FROM_TWO
            self.expect(m, p, 0, origin + <int32_t> left * p.stride)
            return self.expect(m, p, 1, origin + <int32_t> right * p.stride)
        if m.state == FROM_TWO and message:
            m.state = FROM_ONE
            return self.bundle(m, p, p.size, True, False, False)
        if m.state == FROM_ONE and message:
            m.state = SENDING_DOWN if root else SENDING_UP
            return self.bundle(m, p, p.size, True, True, False)
        if m.state == FROM_PARENT:
            m.state = END if leaf else SENDING_DOWN
            return self.bundle(m, p, p.size, not leaf, not leaf, False)
        if not leaf and not root and not m.free and not message:
            m.free = 1  # the first of two children: the other one is still being reduced
            return 0
        if m.state == SENDING_UP:
            m.state = FROM_PARENT
            family = &self.tables[p.table + 3 * parent]
            self.send(m, p, origin + <int32_t> parent * p.stride, 0 if family[1] == place else 1, p.size)
            return self.expect(m, p, 2, origin + <int32_t> parent * p.stride)
        if m.state == SENDING_DOWN:
            if root:
                self.send(m, p, origin + <int32_t> only * p.stride, 2, p.size)
            else:
                self.send(m, p, origin + <int32_t> left * p.stride, 2, p.size)
                self.send(m, p, origin + <int32_t> right * p.stride, 2, p.size)
            return self.leave(m)
        if m.state == END:
            return self.leave(m)
        return 0

    # -- phases and queues --

    cdef int leave(self, Member* m) except -1:
        """End a member's part of a phase."""
        cdef Stream* s = &self.streams[m.stream]
        cdef Mail* mail = &self.mail[s.step + m.phase]
        row_of(self, m, m.phase).end = self.now
        mail.left += 1
        if mail.left == s.members:
            self.drop_mail(mail)
        if self.barrier:
            self.finish(s)
        return self.advance(m - self.members)

    cdef void finish(self, Stream* s) noexcept:
        s.finished += 1
        if s.finished == s.members:
            s.passes, s.finished = s.members, 0

    cdef void suspend(self, Stream* s, int64_t who) noexcept:
        s.waiting[(s.waiting_first + s.suspended) % (s.members + 1)] = <int32_t> who
        s.suspended += 1

    cdef int advance(self, int64_t who) except -1:
        """Let a member enter its next phase or end; with the barrier, when all of its stream may."""
        cdef Member* m = &self.members[who]
        cdef Stream* s = &self.streams[m.stream]
        cdef int32_t _turn, other
        if self.barrier:
            if not s.passes:
                self.suspend(s, who)
                return 0
            s.passes -= 1
            if s.suspended == s.members - 1:
                for _turn in range(s.members - 1):
                    other = s.waiting[s.waiting_first]
                    s.waiting_first = (s.waiting_first + 1) % (s.members + 1)
                    s.suspended -= 1
                    self.advance(other)
                    s = &self.streams[self.members[who].stream]  # `move` may have called Python
        return self.move(who)

    cdef int move(self, int64_t who) except -1:
        cdef Member* m = &self.members[who]
        cdef Stream* s = &self.streams[m.stream]
        cdef Phase* old
        cdef Phase* p = NULL
        cdef bint last = m.phase + 1 == s.phases, enabled = True
        if last and s.at_once:
            # ASTRA-sim calls the workload here, which may begin others: arrays may have moved.
            self.through(m.stream, m.rank, self.now)
            m = &self.members[who]
            s = &self.streams[m.stream]
        elif last:
            self.ended.append((m.stream, m.rank))
        old = phase_of(self, m) if m.phase >= 0 else NULL
        if old != NULL and m.enabled:
            self.unlink(m, old)
        if not last:
            m.phase += 1
            p = phase_of(self, m)
            m.at_work = m.toggle = m.state = BEGIN
            m.left, m.free, m.unpaid, m.payable = p.sends, 0, 0, 0
            m.inserted = m.sent = m.received = 0
            row_of(self, m, m.phase).ready = self.now
            enabled = not self.boost or self.on_axis(m, p, s)
            if enabled:
                self.link(m, p)
            else:
                self.finish(s)
                self.suspend(s, m - self.members)
        if old != NULL and m.enabled:
            self.queue_of(m, old).running -= 1
            self.serve(m, old)
        if last:
            m.phase = s.phases
            return 0
        m.enabled = enabled
        if enabled:
            self.serve(m, p)
        return 0

    cdef bint on_axis(self, Member* m, Phase* p, Stream* s) noexcept:
        """Whether NPU 0 is in the member's group: boost simulates only those."""
        cdef int32_t place = (m.rank // p.stride) % p.n
        if p.algorithm == TREE:
            return m.npu % p.stride == 0
        return self.members[s.first + m.rank - place * p.stride].npu == 0

    cdef inline ChunkQueue* queue_of(self, Member* m, Phase* p) noexcept:
        return &self.chunk_queues[<int64_t> m.npu * self.queues + p.queue]

    cdef int serve(self, Member* m, Phase* p) except -1:
        """Start the first members of a queue while slots are free."""
        cdef ChunkQueue* queue = self.queue_of(m, p)
        cdef int32_t _turn, at = queue.first
        for _turn in range(queue.running):
            if at != NONE:
                at = self.members[at].next
        while at != NONE and queue.running < self.slots_per_queue[p.queue]:
            self.start(&self.members[at])
            queue.running += 1
            at = self.members[at].next
        return 0

    cdef void unlink(self, Member* m, Phase* p) noexcept:
        cdef ChunkQueue* queue = self.queue_of(m, p)
        if m.previous == NONE:
            queue.first = m.next
        else:
            self.members[m.previous].next = m.next
        if m.next == NONE:
            queue.last = m.previous
        else:
            self.members[m.next].previous = m.previous

    cdef void link(self, Member* m, Phase* p) noexcept:
        cdef ChunkQueue* queue = self.queue_of(m, p)
        cdef int32_t before = self.place(m, p, queue.first)
        m.next = before
        m.previous = queue.last if before == NONE else self.members[before].previous
        if m.previous == NONE:
            queue.first = <int32_t> (m - self.members)
        else:
            self.members[m.previous].next = <int32_t> (m - self.members)
        if before == NONE:
            queue.last = <int32_t> (m - self.members)
        else:
            self.members[before].previous = <int32_t> (m - self.members)

    cdef int32_t place(self, Member* m, Phase* p, int32_t at) noexcept:
        """Return the member of a queue before which this one is inserted, searching from member `at` on."""
        cdef Member* other
        cdef int64_t priority = m.priority, other_priority
        cdef int32_t to_go = self.streams[m.stream].phases - 1 - m.phase
        cdef int32_t last = NONE, before_last = NONE
        if self.intra == FIFO or p.kind == ALL_TO_ALL or p.kind == ALL_REDUCE:
            while at != NONE:
                other = &self.members[at]
                if not other.at_work and other.priority < priority:
                    break
                at = other.next
            return at
        if self.intra == SMALLEST and to_go == 1:
            return NONE
        while at != NONE:
            other = &self.members[at]
            if self.intra == RG:
                before_last, last = last, phase_of(self, other).kind
                other_priority = other.priority
                if other.at_work:
                    at = other.next
                    if at != NONE and not self.members[at].at_work:
                        before_last, last = last, phase_of(self, &self.members[at]).kind
                        at = self.members[at].next
                    continue
                if other_priority <= priority and not (
                    (last == REDUCE_SCATTER and before_last == ALL_GATHER)
                    or (last == ALL_GATHER and before_last == REDUCE_SCATTER)
                ):
                    break
            elif not other.at_work:
                if self.intra == SMALLEST and phase_of(self, other).largest >= p.largest:
                    break
                if self.intra == FEWEST and self.streams[other.stream].phases - 1 - other.phase >= to_go:
                    break
            at = other.next
        return at
