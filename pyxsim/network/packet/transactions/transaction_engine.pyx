"""The transactions of all NPUs, as state machines between the packets that the network carries. See the .pyi.

Every packet is one request or one response of one transaction. What a packet causes happens at least `lookahead` cycles
after its arrival, so arrivals may be handed over in batches that are no longer than that, and the result is exact.
"""

from libc.stdint cimport int8_t, int32_t, int64_t
from libc.stdlib cimport calloc, free

from fractions import Fraction

import numpy as np

from pyxsim.heap cimport Entry, grown, pop, push


cdef class TransactionEngine:
    def __cinit__(self):
        cdef int32_t kind
        for kind in range(KINDS):
            self.histogram[kind] = <int64_t*> calloc(BINS, sizeof(int64_t))
            if self.histogram[kind] == NULL:
                raise MemoryError

    def __init__(self, int32_t npus, int64_t flit, int64_t size, int64_t switch_size, int64_t request,
                 int64_t response, *,
                 int64_t turnaround, int64_t memory_latency, int64_t switch_latency, memory_rate=None,
                 adder_rate=None, int64_t outstanding, int64_t per_destination=0, int64_t entries=0,
                 bint in_order=False, bint acks=True, bint fetches=False, bint units=False):
        cdef int64_t i
        self.npus, self.flit, self.size, self.switch_size = npus, flit, size, switch_size
        self.request, self.response = request, response
        self.turnaround, self.memory_latency, self.switch_latency = turnaround, memory_latency, switch_latency
        self.memory_num, self.memory_den = _rate(memory_rate)
        self.adder_num, self.adder_den = _rate(adder_rate)
        self.limit, self.pair_limit, self.entries = outstanding, per_destination, entries
        self.in_order, self.acks, self.fetches, self.units = in_order, acks, fetches, units
        self.lookahead = min(turnaround, memory_latency)
        if units:
            self.lookahead = min(self.lookahead, switch_latency)
        self.per_npu = 2 * npus + 3   # stores to each, loads from each, and three kinds at the switch
        self.queues = <Queue*> calloc(max(npus, 1) * self.per_npu, sizeof(Queue))
        self.active_first, self.active_last = _filled(npus), _filled(npus)
        self.oldest, self.youngest = _filled(npus), _filled(npus)
        self.outstanding = <int64_t*> calloc(npus, sizeof(int64_t))
        self.most_outstanding = <int64_t*> calloc(npus, sizeof(int64_t))
        self.memories = <Server*> calloc(npus, sizeof(Server))
        self.ring = 1024
        self.packets = <Packet*> calloc(self.ring, sizeof(Packet))
        if (self.queues == NULL or self.outstanding == NULL or self.most_outstanding == NULL
                or self.memories == NULL or self.packets == NULL):
            raise MemoryError
        for i in range(npus * self.per_npu):
            self.queues[i].first = self.queues[i].last = self.queues[i].following = NONE
        self.free_transaction = NONE
        for i in range(KINDS):
            self.statistics[i].latency_min = -1

    def __dealloc__(self):
        cdef int64_t i
        for i in range(self.group_count):
            free(self.groups[i].sums)
        for i in range(KINDS):
            free(self.histogram[i])
        for memory in (<size_t> self.ops, <size_t> self.member, <size_t> self.groups, <size_t> self.transactions,
                       <size_t> self.queues, <size_t> self.active_first, <size_t> self.active_last,
                       <size_t> self.oldest, <size_t> self.youngest, <size_t> self.outstanding,
                       <size_t> self.most_outstanding, <size_t> self.memories, <size_t> self.packets,
                       <size_t> self.sending, <size_t> self.completions.items, <size_t> self.waiting,
                       <size_t> self.releases):
            free(<void*> <size_t> memory)

    # -- work --

    def access(self, int32_t kind, int32_t initiator, int32_t peer, int64_t size, int64_t message, *,
               int32_t there=0, int32_t back=0):
        cdef int32_t op = self._new_op(kind, initiator, peer, size, NONE)
        self.ops[op].there, self.ops[op].back = there, back
        self._add_member(op, peer if kind != LOAD else initiator, message)
        self._enqueue(op, initiator * self.per_npu + (self.npus if kind == LOAD else 0) + peer)

    def at_switch(self, int32_t kind, int32_t initiator, members, messages, int64_t size):
        cdef int32_t op = self._new_op(kind, initiator, NONE, size, NONE)
        for npu, message in zip(members, messages, strict=True):
            self._add_member(op, npu, message)
        self.ops[op].peer = <int32_t> len(members)
        self._enqueue(op, initiator * self.per_npu + 2 * self.npus + (kind - REDUCE))

    def push_sum(self, members, messages, int64_t size):
        self.groups = <Group*> grown(self.groups, &self.group_capacity, self.group_count + 1, sizeof(Group))
        cdef Group* group = &self.groups[self.group_count]
        cdef int64_t count = (size + self.switch_size - 1) // self.switch_size
        cdef int32_t number = <int32_t> self.group_count, op
        group.sums = <Sum*> calloc(count, sizeof(Sum))
        if group.sums == NULL:
            raise MemoryError
        group.members = group.open = <int32_t> len(members)
        self.group_count += 1
        cdef int64_t i
        for i in range(count):
            group.sums[i].first = NONE
        for npu, message in zip(members, messages, strict=True):
            op = self._new_op(PUSH, npu, NONE, size, number)
            self._add_member(op, npu, message)
            self._enqueue(op, npu * self.per_npu + 2 * self.npus + 2)

    def begin(self, int64_t at):
        cdef int32_t npu
        for npu in range(self.npus):
            self._issue(npu, at)

    cdef int32_t _new_op(self, int32_t kind, int32_t initiator, int32_t peer, int64_t size, int32_t group) except -1:
        self.ops = <Op*> grown(self.ops, &self.op_capacity, self.op_count + 1, sizeof(Op))
        cdef Op* op = &self.ops[self.op_count]
        op.kind, op.initiator, op.peer, op.group, op.following = kind, initiator, peer, group, NONE
        op.members, op.open, op.there, op.back = <int32_t> self.member_count, 0, 0, 0
        op.part = self.size if kind <= ATOMIC else self.switch_size
        op.size, op.count, op.issued = size, (size + op.part - 1) // op.part, 0
        self.op_count += 1
        self.open += op.count
        return <int32_t> (self.op_count - 1)

    cdef int _add_member(self, int32_t op, int32_t npu, int64_t message) except -1:
        self.member = <Member*> grown(self.member, &self.member_capacity, self.member_count + 1, sizeof(Member))
        self.member[self.member_count] = Member(npu, message, self.ops[op].count)
        self.member_count += 1
        return 0

    cdef void _enqueue(self, int32_t op, int32_t queue) noexcept:
        cdef Queue* q = &self.queues[queue]
        if q.first == NONE:
            q.first = op
        else:
            self.ops[q.last].following = op
        q.last = op
        self._activate(queue)

    cdef void _activate(self, int32_t queue) noexcept:
        """Let a queue take its turn, unless it is empty or at its limit."""
        cdef Queue* q = &self.queues[queue]
        cdef int32_t npu = queue // self.per_npu
        if q.active or q.first == NONE or (self.pair_limit and q.outstanding >= self.pair_limit):
            return
        q.active, q.following = True, NONE
        if self.active_first[npu] == NONE:
            self.active_first[npu] = queue
        else:
            self.queues[self.active_last[npu]].following = queue
        self.active_last[npu] = queue

    cdef int _issue(self, int32_t npu, int64_t at) except -1:
        """Issue requests of an NPU, of its queues in turn, while it may have more of them outstanding."""
        cdef int32_t queue, t
        cdef Queue* q
        cdef Op* op
        cdef Transaction* x
        cdef int64_t data
        while self.outstanding[npu] < self.limit and self.active_first[npu] != NONE:
            queue = self.active_first[npu]
            q = &self.queues[queue]
            self.active_first[npu] = q.following
            q.active = False
            t = self._new_transaction()
            x = &self.transactions[t]
            op = &self.ops[q.first]
            x.op, x.issued, x.index, x.ended, x.pending, x.younger = q.first, at, <int32_t> op.issued, False, 0, NONE
            x.bytes = <int32_t> min(op.part, op.size - op.issued * op.part)
            op.issued += 1
            op.open += 1
            q.outstanding += 1
            self.outstanding[npu] += 1
            self.most_outstanding[npu] = max(self.most_outstanding[npu], self.outstanding[npu])
            if self.in_order:
                if self.youngest[npu] == NONE:
                    self.oldest[npu] = t
                else:
                    self.transactions[self.youngest[npu]].younger = t
                self.youngest[npu] = t
            self.statistics[op.kind].transactions += 1
            self.statistics[op.kind].data_bytes += x.bytes
            data = 0 if op.kind == LOAD or op.kind == REDUCE else x.bytes
            if op.kind <= ATOMIC:
                self._send(REQUEST, t, npu, op.peer, op.peer, data, 0, at)
            else:
                self._send(TO_SWITCH, t, npu, self.npus + npu, npu, data, 0, at)
            if op.issued == op.count:
                q.first = op.following
            self._activate(queue)
        return 0

    cdef int32_t _new_transaction(self) except -1:
        cdef int32_t t = self.free_transaction
        if t != NONE:
            self.free_transaction = self.transactions[t].following
            return t
        self.transactions = <Transaction*> grown(
            self.transactions, &self.transaction_capacity, self.transaction_count + 1, sizeof(Transaction))
        self.transaction_count += 1
        return <int32_t> (self.transaction_count - 1)

    cdef int _send(self, int8_t type, int32_t t, int32_t src, int32_t dst, int32_t node, int64_t data, int32_t klass,
                   int64_t at) except -1:
        """Send a packet with `data` bytes of data, or none. `klass`: 0 for requests, 1 for responses."""
        cdef int64_t header = self.response if klass else self.request
        cdef int64_t flits = (header + data + self.flit - 1) // self.flit
        cdef Op* op = &self.ops[self.transactions[t].op]
        cdef Statistics* s = &self.statistics[op.kind]
        if klass:
            s.response_flits += flits
            s.response_bytes += header + data
        else:
            s.request_flits += flits
            s.request_bytes += header + data
        s.carried_bytes += data
        self.sent_packets[type] += 1
        self.sending = <Sending*> grown(self.sending, &self.sending_capacity, self.sending_count + 1, sizeof(Sending))
        self.sending[self.sending_count] = Sending(
            at, src, dst, <int32_t> flits, klass, op.back if klass else op.there, t, node, type)
        self.sending_count += 1
        return 0

    # -- packets --

    def outgoing(self):
        cdef int64_t i
        cdef int64_t[:, ::1] row
        rows = np.empty((6, self.sending_count), np.int64)
        row = rows
        for i in range(self.sending_count):
            row[0, i], row[1, i], row[2, i] = self.sending[i].at, self.sending[i].src, self.sending[i].dst
            row[3, i], row[4, i], row[5, i] = self.sending[i].flits, self.sending[i].klass, self.sending[i].plane
        return rows

    def sent(self, int64_t first):
        cdef int64_t i, serial
        cdef Sending* one
        assert first == self.high
        while self.high + self.sending_count - self.low > self.ring:
            while self.low < self.high and self.packets[self.low & (self.ring - 1)].arrived:
                self.low += 1
            if self.high + self.sending_count - self.low > self.ring:
                self._double_ring()
        for i in range(self.sending_count):
            one = &self.sending[i]
            serial = first + i
            self.packets[serial & (self.ring - 1)] = Packet(one.transaction, one.node, one.flits, one.type, False)
        self.high += self.sending_count
        self.sending_count = 0

    cdef int _double_ring(self) except -1:
        cdef Packet* larger = <Packet*> calloc(2 * self.ring, sizeof(Packet))
        cdef int64_t serial
        if larger == NULL:
            raise MemoryError
        for serial in range(self.low, self.high):
            larger[serial & (2 * self.ring - 1)] = self.packets[serial & (self.ring - 1)]
        free(self.packets)
        self.packets = larger
        self.ring *= 2
        return 0

    def packet(self, int64_t serial):
        cdef Packet* p = &self.packets[serial & (self.ring - 1)]
        return p.flits, self.ops[self.transactions[p.transaction].op].initiator, p.node

    def arrive(self, serials, cycles):
        cdef const int64_t[:] serial = serials, cycle = cycles
        cdef Py_ssize_t i
        cdef Packet* p
        for i in range(serial.shape[0]):
            self.release(cycle[i])
            p = &self.packets[serial[i] & (self.ring - 1)]
            p.arrived = True
            self.arrived_packets[p.type] += 1
            self._arrived(p.type, p.transaction, p.node, cycle[i])

    cdef int _arrived(self, int8_t type, int32_t t, int32_t node, int64_t now) except -1:
        cdef Transaction* x = &self.transactions[t]
        cdef Op* op = &self.ops[x.op]
        cdef int64_t at
        if type == REQUEST:
            if op.kind != LOAD:
                self._data_arrived(x.op, 0, now)
            at = self._access_memory(node, x.bytes * (2 if op.kind == ATOMIC else 1), now)
            if op.kind == LOAD or (op.kind == ATOMIC and self.fetches):
                self._send(RESPONSE, t, node, op.initiator, op.initiator, x.bytes, 1, at)
            elif self.acks:
                self._send(RESPONSE, t, node, op.initiator, op.initiator, 0, 1, at)
            else:
                self._end(t, now)
        elif type == RESPONSE:
            if op.kind == LOAD:
                self._data_arrived(x.op, 0, now)
            self._end(t, now)
        elif type == TO_SWITCH:
            x.at_switch = now
            if op.kind == MULTICAST:
                self._to_members(t, now + self.switch_latency)
            elif op.kind == REDUCE:
                self._request_entry(t, t, now)
            else:
                self._operand(t, now)
        elif type == TO_MEMBER:
            self._at_member(t, node, now)
        elif type == FROM_MEMBER:
            self._from_member(t, now)
        else:
            if op.kind == REDUCE:
                self._all_data_arrived(x.op, now)
            elif op.kind == PUSH:
                self._data_arrived(x.op, 0, now)
            self._end(t, now)
        return 0

    cdef int64_t _access_memory(self, int32_t npu, int64_t size, int64_t now) noexcept:
        """The cycle in which the memory of an NPU answers."""
        if self.memory_num:
            now = _serve(&self.memories[npu], size, self.memory_num, self.memory_den, now)
        return now + self.memory_latency

    # -- the switch --

    cdef int _to_members(self, int32_t t, int64_t at) except -1:
        """Send a request of the switch to every member: a read, or a copy of the data."""
        cdef Op* op = &self.ops[self.transactions[t].op]
        cdef int64_t data = self.transactions[t].bytes if op.kind == MULTICAST else 0
        cdef int32_t i, npu
        self.transactions[t].pending = op.peer
        for i in range(op.peer):
            npu = self.member[op.members + i].npu
            self._send(TO_MEMBER, t, self.npus + npu, npu, npu, data, 0, at)
        return 0

    cdef int _at_member(self, int32_t t, int32_t npu, int64_t now) except -1:
        cdef Transaction* x = &self.transactions[t]
        cdef Op* op = &self.ops[x.op]
        cdef int32_t low = 0, high = op.peer - 1, middle
        cdef int64_t at = self._access_memory(npu, x.bytes, now)
        if op.kind == REDUCE:
            self._send(FROM_MEMBER, t, npu, self.npus + npu, npu, x.bytes, 1, at)
            return 0
        while low < high:   # members are in the order of their numbers
            middle = (low + high) // 2
            if self.member[op.members + middle].npu < npu:
                low = middle + 1
            else:
                high = middle
        self._data_arrived(x.op, low, now)
        if self.acks:
            self._send(FROM_MEMBER, t, npu, self.npus + npu, npu, 0, 1, at)
        else:
            x.pending -= 1
            if not x.pending:
                self._end(t, now)
        return 0

    cdef int _from_member(self, int32_t t, int64_t now) except -1:
        cdef Transaction* x = &self.transactions[t]
        cdef Op* op = &self.ops[x.op]
        cdef int64_t at = now
        if op.kind == REDUCE:
            at = self._add(x.bytes, now)
        x.pending -= 1
        if x.pending:
            return 0
        at += self.switch_latency
        if op.kind == REDUCE:
            self._send(FROM_SWITCH, t, self.npus + op.initiator, op.initiator, op.initiator, x.bytes, 1, at)
            self._release_at(at)
        else:
            self._send(FROM_SWITCH, t, self.npus + op.initiator, op.initiator, op.initiator, 0, 1, at)
        return 0

    cdef int64_t _add(self, int64_t size, int64_t now) noexcept:
        """The cycle in which the adder has taken in an operand."""
        cdef int64_t done
        if not self.adder_num:
            return now
        done = _serve(&self.adders, size, self.adder_num, self.adder_den, now)
        self.added_bytes += size
        return done

    cdef int _request_entry(self, int64_t item, int32_t t, int64_t now) except -1:
        """Let a request of a sum begin as soon as an entry of the reduction buffer is free."""
        if self.entries and self.in_use >= self.entries:
            if self.waiting_at_switch == self.waiting_capacity:
                self.waiting = _doubled(
                    self.waiting, self.waiting_first, self.waiting_at_switch, &self.waiting_capacity)
                self.waiting_first = 0
            self.waiting[(self.waiting_first + self.waiting_at_switch) & (self.waiting_capacity - 1)] = item
            self.waiting_at_switch += 1
            self.most_waiting = max(self.most_waiting, self.waiting_at_switch)
            return 0
        return self._begin_sum(item, now)

    cdef int _begin_sum(self, int64_t item, int64_t start) except -1:
        """Let a sum take an entry, and read from the members, or take in the operands that are there."""
        cdef int32_t t = <int32_t> (item if item >= 0 else -1 - item)
        cdef int64_t arrived = self.transactions[t].at_switch
        if start > arrived:
            self.stalls += 1
            self.stall_cycles += start - arrived
        self._use_entries(1, start)
        self.most_entries = max(self.most_entries, self.in_use)
        if item >= 0:
            return self._to_members(t, max(start, arrived + self.switch_latency))
        return self._hold_sum(t, start)

    cdef void _use_entries(self, int32_t more, int64_t now) noexcept:
        """Change the number of entries in use."""
        self.entry_cycles += self.in_use * (now - self.counted_until)
        self.counted_until = now
        self.in_use += more

    cdef int _release_at(self, int64_t at) except -1:
        """Note that an entry will be free in cycle `at`, which is at least that of the one noted before."""
        if self.release_count == self.release_capacity:
            self.releases = _doubled(self.releases, self.release_first, self.release_count, &self.release_capacity)
            self.release_first = 0
        self.releases[(self.release_first + self.release_count) & (self.release_capacity - 1)] = at
        self.release_count += 1
        return 0

    def next_release(self):
        return self.releases[self.release_first] if self.waiting_at_switch and self.release_count else -1

    cpdef int release(self, int64_t now) except -1:
        """Free the entries that are free by cycle `now`, and let sums that wait take them."""
        cdef int64_t at, item
        while self.release_count and self.releases[self.release_first] <= now:
            at = self.releases[self.release_first]
            self.release_first = (self.release_first + 1) & (self.release_capacity - 1)
            self.release_count -= 1
            self._use_entries(-1, at)
            if self.waiting_at_switch:
                item = self.waiting[self.waiting_first]
                self.waiting_first = (self.waiting_first + 1) & (self.waiting_capacity - 1)
                self.waiting_at_switch -= 1
                self._begin_sum(item, at)
        return 0

    cdef int _operand(self, int32_t t, int64_t now) except -1:
        """Take in an operand of a sum, whose entry the first one requests."""
        cdef Transaction* x = &self.transactions[t]
        cdef Group* group = &self.groups[self.ops[x.op].group]
        cdef Sum* s = &group.sums[x.index]
        x.following = NONE
        if s.first == NONE:
            s.first = t
        else:
            self.transactions[s.last].following = t
        s.last = t
        if s.state == EMPTY:
            s.state = QUEUED
            self._request_entry(-1 - <int64_t> t, t, now)
        elif s.state == HELD:
            self._add_operand(t, now)
        return 0

    cdef int _hold_sum(self, int32_t t, int64_t at) except -1:
        """The entry of a sum is free: add the operands that wait for it."""
        cdef Sum* s = &self.groups[self.ops[self.transactions[t].op].group].sums[self.transactions[t].index]
        cdef int32_t other = s.first, following
        s.state = HELD
        while other != NONE:
            following = self.transactions[other].following
            self._add_operand(other, at)
            other = following
        return 0

    cdef int _add_operand(self, int32_t t, int64_t now) except -1:
        cdef Transaction* x = &self.transactions[t]
        cdef Op* op = &self.ops[x.op]
        cdef Group* group = &self.groups[op.group]
        cdef Sum* s = &group.sums[x.index]
        cdef int64_t at = self._add(x.bytes, now)
        cdef int32_t other, npu
        s.added += 1
        if s.added < group.members:
            return 0
        at += self.switch_latency
        other = s.first
        while other != NONE:
            npu = self.ops[self.transactions[other].op].initiator
            self._send(FROM_SWITCH, other, self.npus + npu, npu, npu, x.bytes, 1, at)
            other = self.transactions[other].following
        self._release_at(at)
        return 0

    # -- ends --

    cdef int _data_arrived(self, int32_t op, int32_t place, int64_t now) except -1:
        """Data of a transaction have arrived at a member; the message is complete with the last of them."""
        cdef Member* m = &self.member[self.ops[op].members + place]
        m.left -= 1
        if not m.left and m.message != NONE:
            push(&self.completions, Entry(now + self.turnaround, self.completion_number, m.message, 0, 0))
            self.completion_number += 1
        return 0

    cdef int _all_data_arrived(self, int32_t op, int64_t now) except -1:
        """A sum has arrived: with the last one, the messages of all members are complete."""
        cdef int32_t i
        for i in range(self.ops[op].peer):
            self._data_arrived(op, i, now)
        return 0

    cdef int _end(self, int32_t t, int64_t now) except -1:
        """End a transaction; what has waited for it is issued after the turnaround."""
        cdef Transaction* x = &self.transactions[t]
        cdef Op* op = &self.ops[x.op]
        cdef int32_t npu = op.initiator, oldest
        cdef Statistics* s = &self.statistics[op.kind]
        cdef int64_t latency = now - x.issued
        s.latency_sum += latency
        s.latency_max = max(s.latency_max, latency)
        s.latency_min = latency if s.latency_min < 0 else min(s.latency_min, latency)
        self.histogram[op.kind][bin_of(latency)] += 1
        op.open -= 1
        self.open -= 1
        self.last_end = max(self.last_end, now)
        if op.group != NONE and op.issued == op.count and not op.open:
            self._leave_group(op.group)
        if not self.in_order:
            self._leave(t)
        else:
            x.ended = True
            while self.oldest[npu] != NONE and self.transactions[self.oldest[npu]].ended:
                oldest = self.oldest[npu]
                self.oldest[npu] = self.transactions[oldest].younger
                self._leave(oldest)
            if self.oldest[npu] == NONE:
                self.youngest[npu] = NONE
        return self._issue(npu, now + self.turnaround)

    cdef void _leave(self, int32_t t) noexcept:
        """Free the place of a transaction, and its record."""
        cdef Op* op = &self.ops[self.transactions[t].op]
        cdef int32_t queue = op.initiator * self.per_npu
        if op.kind <= ATOMIC:
            queue += (self.npus if op.kind == LOAD else 0) + op.peer
        else:
            queue += 2 * self.npus + (op.kind - REDUCE)
        self.outstanding[op.initiator] -= 1
        self.queues[queue].outstanding -= 1
        self._activate(queue)
        self.transactions[t].following = self.free_transaction
        self.free_transaction = t

    cdef void _leave_group(self, int32_t number) noexcept:
        cdef Group* group = &self.groups[number]
        group.open -= 1
        if not group.open:
            free(group.sums)
            group.sums = NULL

    def next_completion(self):
        return self.completions.items[0].at if self.completions.count else -1

    def completed(self, int64_t now):
        cdef Entry entry
        messages, cycles = [], []
        while self.completions.count and self.completions.items[0].at <= now:
            entry = pop(&self.completions)
            messages.append(entry.item)
            cycles.append(entry.at)
        return np.array(messages, np.int64), np.array(cycles, np.int64)

    # -- results --

    def packet_counts(self):
        cdef int32_t i
        return np.array([[self.sent_packets[i] for i in range(TYPES)], [self.arrived_packets[i] for i in range(TYPES)]])

    def kinds(self):
        cdef int32_t kind
        cdef int64_t[:, ::1] row
        counts = np.zeros((KINDS, BINS), np.int64)
        row = counts
        for kind in range(KINDS):
            for i in range(BINS):
                row[kind, i] = self.histogram[kind][i]
        return [self.statistics[kind] for kind in range(KINDS)], counts

    def outstanding_most(self):
        cdef int32_t i
        return np.array([self.most_outstanding[i] for i in range(self.npus)], np.int64)

    def switch(self, int64_t end):
        self.release(end)
        return {
            "stalls": self.stalls,
            "stall_cycles": self.stall_cycles,
            "entry_cycles": self.entry_cycles + self.in_use * max(0, end - self.counted_until),
            "entries_max": self.most_entries,
            "waiting_max": self.most_waiting,
            "adder_busy": float(Fraction(<object> self.added_bytes * <object> self.adder_den, <object> self.adder_num))
            if self.adder_num else 0.0,
        }
