"""VA, rotating, for the heads of many routers at once: see batch_path.pxd, of which it is a stage.

Who asks, who finds no VC and who gets one is three lists; what is done for each entry of a list has no branch in it.
Only heads that want the same range as another one in the same cycle are settled one by one.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from pyxsim.core.router.arbiter cimport distance
from pyxsim.core.fast_path.batch_lists cimport Batch, Seen
from pyxsim.core.state.bits cimport lowest, seldom
from pyxsim.core.router.buffer cimport push_packet
from pyxsim.core.parallel.mailbox cimport post
from pyxsim.core.state.network_state cimport HEAD, HOLDING, NONE, Bounds, Inputs, Link, Out, Range, State, Vc
from pyxsim.core.router.stall_counters cimport ARBITRATION_BITS


cdef inline void ask(State* s, Batch* b) noexcept nogil:
    """All heads of all routers, in one flat loop. The first one that asks for a range is listed to be granted one of
    its VCs, the others apart: they have rivals, or there is no VC for them."""
    cdef int32_t i = 0
    cdef int32_t asks = 0
    cdef int32_t others = 0
    cdef int32_t vc, before, first
    cdef Range* range_of
    cdef uint64_t bits, some, more
    cdef Seen* seen
    cdef Vc* v
    b.heads[b.head_count] = 0
    bits = b.heads[0]
    while i < b.head_count:
        seen = &b.seen[b.with_heads[i]]
        vc = s.bounds[seen.router].base + s.input_at[lowest(bits)]
        v = &s.vc[vc]
        if not seldom(v.want == NONE):
            range_of = &s.ranges[v.hold]
            some = (s.unheld[range_of.word] & range_of.mask) != 0
            seen.asked |= some
            before = range_of.pick
            first = <int32_t> some & (before >> 31)   # nobody asked before: NONE
            range_of.pick = asks if first else before
            b.ask[asks] = vc
            b.other[others] = vc
            b.other_at[others] = b.with_heads[i]
            asks += first
            others += 1 - first
        bits &= bits - 1
        more = -<uint64_t> (bits != 0)
        i += bits == 0
        bits |= b.heads[i] & ~more
    b.ask_count, b.other_count = asks, others


cdef inline void count_once(State* s, Link* wire, uint64_t* counted, int32_t shift) noexcept nogil:
    """A cause counts once for each output, however many heads it hinders."""
    s.stalls[wire.outlet] += (~counted[0] >> wire.out_port & 1) << shift
    counted[0] |= <uint64_t> 1 << wire.out_port


cdef inline void settle(State* s, Batch* b) noexcept nogil:
    """Of several heads that ask for a range the one that is nearest behind its pointer stays in the list."""
    cdef int32_t i, k, vc, pointer
    cdef Range* range_of
    cdef Vc* v
    cdef Link* wire
    cdef Seen* seen
    cdef Bounds* r
    for i in range(b.other_count):
        vc = b.other[i]
        v = &s.vc[vc]
        seen = &b.seen[b.other_at[i]]
        wire = &s.link[v.want]
        range_of = &s.ranges[v.hold]
        k = range_of.pick
        if k == NONE:
            count_once(s, wire, &seen.no_vc, 0)
            continue
        r = &s.bounds[v.router]
        pointer = range_of.requester
        if distance(vc - r.base, pointer, r.input_vcs) < distance(b.ask[k] - r.base, pointer, r.input_vcs):
            b.ask[k] = vc
        count_once(s, wire, &seen.lost, ARBITRATION_BITS)   # one of the two loses


cdef inline void grant_all(State* s, Batch* b, bint unit) noexcept nogil:
    """Each head of the list gets the next VC of its range that nobody holds: what `grant` in vc_allocator.pxd does."""
    cdef int32_t i, vc, target, number
    cdef uint64_t unheld, later, bit
    cdef Vc* v
    cdef Bounds* r
    cdef Range* range_of
    cdef Out* out
    cdef Inputs* inputs
    for i in range(b.ask_count):
        vc = b.ask[i]
        v = &s.vc[vc]
        r = &s.bounds[v.router]
        range_of = &s.ranges[v.hold]
        range_of.pick = NONE
        unheld = s.unheld[range_of.word] & range_of.mask
        later = unheld & (~(<uint64_t> 0) << (range_of.next & 63)) & -<uint64_t> (range_of.next < 64)
        number = lowest(later | (unheld & -<uint64_t> (later == 0)))
        target = range_of.base + number
        s.unheld[range_of.word] &= ~(<uint64_t> 1 << number)
        range_of.next = number + 1
        number = vc - r.base + 1
        range_of.requester = number & -<int32_t> (number < r.input_vcs)
        if s.receiver != NULL and s.receiver[v.want] != s.part:
            post(s, s.receiver[v.want], 0, target, v.packet, HEAD)
        else:
            push_packet(s, target, v.packet)
        v.hold = target
        v.state = HOLDING
        out = &s.out[target]
        out.holder = v.spot
        bit = <uint64_t> 1 << (v.spot & 63)
        inputs = &s.inputs[v.router]
        inputs.heads &= ~bit
        inputs.holding |= bit
        inputs.credit |= bit & -<uint64_t> (out.credit > 0)
        s.wants[range_of.outlet] |= bit
        s.out_at[v.spot] = <uint8_t> (range_of.outlet - r.out_start)
        if not unit:
            s.blocked[v.router] |= bit & -<uint64_t> (s.free_from[range_of.outlet] > s.now)


cdef inline void allocate(State* s, Batch* b, bint unit) noexcept nogil:
    """VA. Who gets a VC now may go from the next cycle on."""
    ask(s, b)
    settle(s, b)
    grant_all(s, b, unit)
