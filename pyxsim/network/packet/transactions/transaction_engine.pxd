"""Records and state of the transactions of all NPUs, and what they are made of. See the .pyi."""

from libc.stdint cimport int8_t, int32_t, int64_t
from libc.stdlib cimport calloc, free

from pyxsim.heap cimport Heap


cdef enum Kind:
    STORE
    LOAD
    ATOMIC
    REDUCE     # a load of the sum of all members (multimem.ld_reduce)
    MULTICAST  # a store to all members (multimem.st)
    PUSH       # an operand of a sum that all members get (SHARP)
    KINDS

cdef enum Type:
    REQUEST          # initiator -> target
    RESPONSE         # target -> initiator
    TO_SWITCH        # initiator -> switch
    TO_MEMBER        # switch -> member
    FROM_MEMBER      # member -> switch
    FROM_SWITCH      # switch -> initiator
    TYPES

cdef enum SlotState:
    EMPTY
    QUEUED
    HELD

cdef enum:
    NONE = -1
    BINS = 64 * 58   # of a histogram: 64 for each power of two

cdef struct Op:
    int32_t kind, initiator
    int32_t peer        # target, or at the switch the number of members
    int32_t group       # of the members of PUSH: their common sum; else NONE
    int32_t following   # in its queue
    int32_t members     # position of its first member in `member`, for REDUCE, MULTICAST and PUSH
    int32_t open        # transactions that have not ended
    int32_t there, back  # planes of requests and responses
    int64_t count, issued
    int64_t size, part  # bytes, of the access and of a transaction

cdef struct Member:
    int32_t npu
    int64_t message     # NONE: of the initiator
    int64_t left        # transactions whose data have not arrived

cdef struct Transaction:
    int64_t issued
    int64_t at_switch
    int32_t op, bytes
    int32_t pending     # answers of members
    int32_t following   # in a list: free records, waiting at the switch, or the operands of a sum
    int32_t younger     # the next one of its NPU, with answers in order
    int32_t index
    int8_t ended

cdef struct Queue:      # of an NPU: what it issues in order
    int32_t first, last, following, outstanding
    int8_t active

cdef struct Sum:        # operands of one transaction of a group
    int32_t first, last, state, added

cdef struct Group:
    Sum* sums
    int32_t members, open

cdef struct Packet:
    int32_t transaction, node, flits
    int8_t type, arrived

cdef struct Sending:
    int64_t at
    int32_t src, dst, flits, klass, plane, transaction, node
    int8_t type

cdef struct Server:     # it has served all until `cycle` + `rest` / num
    int64_t cycle, rest

cdef struct Statistics:
    int64_t transactions, data_bytes, carried_bytes, request_flits, response_flits, request_bytes, response_bytes
    int64_t latency_sum, latency_min, latency_max


cdef class TransactionEngine:
    cdef readonly int32_t npus
    cdef readonly int64_t lookahead
    cdef readonly int64_t flit
    cdef readonly int64_t switch_size
    cdef int64_t size, request, response, turnaround, memory_latency, switch_latency
    cdef int64_t memory_num, memory_den, adder_num, adder_den
    cdef int64_t limit, pair_limit, entries
    cdef bint in_order, acks, fetches, units
    cdef Op* ops
    cdef int64_t op_count, op_capacity
    cdef Member* member
    cdef int64_t member_count, member_capacity
    cdef Group* groups
    cdef int64_t group_count, group_capacity
    cdef Transaction* transactions
    cdef int64_t transaction_count, transaction_capacity
    cdef int32_t free_transaction
    cdef Queue* queues
    cdef int32_t per_npu
    cdef int32_t* active_first
    cdef int32_t* active_last
    cdef int32_t* oldest
    cdef int32_t* youngest
    cdef int64_t* outstanding
    cdef int64_t* most_outstanding
    cdef Server* memories
    cdef Packet* packets           # a ring by serial
    cdef int64_t ring, low, high
    cdef Sending* sending
    cdef int64_t sending_count, sending_capacity
    cdef Heap completions
    cdef int64_t completion_number
    cdef readonly int64_t open     # transactions that have not ended
    cdef readonly int64_t last_end  # cycle in which one ended last
    # The switch: entries in use, times at which they become free, requests that wait for one, the adders.
    cdef int64_t in_use, most_entries, counted_until
    cdef int64_t* releases         # ring: cycles in which entries become free, in their order
    cdef int64_t release_first, release_count, release_capacity
    cdef int64_t* waiting          # ring: transactions (REDUCE) or, negative, -1 - transaction of a sum (PUSH)
    cdef int64_t waiting_first, waiting_capacity
    cdef readonly int64_t waiting_at_switch
    cdef Server adders
    cdef readonly int64_t stalls, stall_cycles, entry_cycles, added_bytes, most_waiting
    cdef Statistics statistics[KINDS]
    cdef int64_t* histogram[KINDS]
    cdef int64_t sent_packets[TYPES]
    cdef int64_t arrived_packets[TYPES]

    cdef int32_t _new_op(self, int32_t kind, int32_t initiator, int32_t peer, int64_t size, int32_t group) except -1
    cdef int _add_member(self, int32_t op, int32_t npu, int64_t message) except -1
    cdef void _enqueue(self, int32_t op, int32_t queue) noexcept
    cdef void _activate(self, int32_t queue) noexcept
    cdef int _issue(self, int32_t npu, int64_t at) except -1
    cdef int32_t _new_transaction(self) except -1
    cdef int _send(self, int8_t type, int32_t t, int32_t src, int32_t dst, int32_t node, int64_t data,
                   int32_t klass, int64_t at) except -1
    cdef int _double_ring(self) except -1
    cdef int _arrived(self, int8_t type, int32_t t, int32_t node, int64_t now) except -1
    cdef int64_t _access_memory(self, int32_t npu, int64_t size, int64_t now) noexcept
    cdef int _to_members(self, int32_t t, int64_t at) except -1
    cdef int _at_member(self, int32_t t, int32_t npu, int64_t now) except -1
    cdef int _from_member(self, int32_t t, int64_t now) except -1
    cdef int64_t _add(self, int64_t size, int64_t now) noexcept
    cdef int _request_entry(self, int64_t item, int32_t t, int64_t now) except -1
    cdef int _begin_sum(self, int64_t item, int64_t start) except -1
    cdef int _release_at(self, int64_t at) except -1
    cpdef int release(self, int64_t now) except -1
    cdef void _use_entries(self, int32_t more, int64_t now) noexcept
    cdef int _operand(self, int32_t t, int64_t now) except -1
    cdef int _hold_sum(self, int32_t t, int64_t at) except -1
    cdef int _add_operand(self, int32_t t, int64_t now) except -1
    cdef int _data_arrived(self, int32_t op, int32_t place, int64_t now) except -1
    cdef int _all_data_arrived(self, int32_t op, int64_t now) except -1
    cdef int _end(self, int32_t t, int64_t now) except -1
    cdef void _leave(self, int32_t t) noexcept
    cdef void _leave_group(self, int32_t number) noexcept


cdef inline int32_t bin_of(int64_t value) noexcept nogil:
    """The bin of a latency: exact below 64, then 64 bins for each power of two."""
    cdef int32_t shift = 0
    while value >> shift >= 128:
        shift += 1
    return <int32_t> (64 * shift + (value >> shift))


cdef inline int32_t* _filled(int32_t count) except NULL:
    """An array of NONE."""
    cdef int32_t* array = <int32_t*> calloc(max(count, 1), sizeof(int32_t))
    cdef int32_t i
    if array == NULL:
        raise MemoryError
    for i in range(count):
        array[i] = NONE
    return array


cdef inline int64_t* _doubled(int64_t* ring, int64_t first, int64_t count, int64_t* capacity) except NULL:
    """A ring with twice the capacity, a power of two, that begins at 0; the old one is freed."""
    cdef int64_t wanted = max(2 * capacity[0], 64), i
    cdef int64_t* larger = <int64_t*> calloc(wanted, sizeof(int64_t))
    if larger == NULL:
        raise MemoryError
    for i in range(count):
        larger[i] = ring[(first + i) & (capacity[0] - 1)]
    free(ring)
    capacity[0] = wanted
    return larger


cdef inline tuple _rate(rate):
    """Bytes per cycle as a fraction; (0, 1) for no limit."""
    return (0, 1) if rate is None else (rate.numerator, rate.denominator)


cdef inline int64_t _serve(Server* server, int64_t size, int64_t num, int64_t den, int64_t now) noexcept:
    """The cycle in which a server of num / den bytes per cycle has served `size` bytes more."""
    if server.cycle < now:
        server.cycle, server.rest = now, 0
    server.rest += size * den
    server.cycle += server.rest // num
    server.rest %= num
    return server.cycle + (server.rest > 0)
