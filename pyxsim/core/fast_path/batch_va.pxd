"""VA, rotating, for the heads of up to 64 routers: one stage of batch_path.pxd.

Heads are sorted into three lists (requests, conflicts, no free VC) by branch-free code. Only heads that compete for the
same range in the same cycle are resolved one by one.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from pyxsim.core.fast_path.batch_lists cimport RouterBatch, RouterRequests
from pyxsim.core.parallel.mailbox cimport post
from pyxsim.core.router.arbiter cimport distance
from pyxsim.core.router.buffer cimport push_packet
from pyxsim.core.router.stall_counters cimport ARBITRATION_BITS
from pyxsim.core.state.bits cimport lowest, seldom
from pyxsim.core.state.network_state cimport State
from pyxsim.core.state.records cimport HEAD, HOLDING, NONE, InputVc, Link, OutputVc, RouterBounds, VcMasks, VcRange


cdef inline void collect_vc_requests(State* s, RouterBatch* b) noexcept nogil:
    """Collect the requests of all heads in one flat loop: the first request for each range with a free VC is listed to
    be granted, every head that competes or finds no free VC is listed as a contender."""
    cdef int32_t i = 0
    cdef int32_t requested = 0
    cdef int32_t contenders = 0
    cdef int32_t vc, before, first
    cdef VcRange* vc_range
    cdef uint64_t bits, has_free, more
    cdef RouterRequests* requests
    cdef InputVc* v
    b.heads[b.head_count] = 0
    bits = b.heads[0]
    while i < b.head_count:
        requests = &b.requests[b.with_heads[i]]
        vc = s.routers.bounds[requests.router].base + s.masks.vc_at_bit[lowest(bits)]
        v = &s.vcs.input[vc]
        if not seldom(v.out_link == NONE):
            vc_range = &s.vcs.ranges[v.out_vc]
            has_free = (s.vcs.unheld[vc_range.word] & vc_range.mask) != 0
            requests.has_request |= has_free
            before = vc_range.pick
            first = <int32_t> has_free & (before >> 31)   # 1 if there was no request before (NONE)
            vc_range.pick = requested if first else before
            b.request[requested] = vc
            b.contender[contenders] = vc
            b.contender_at[contenders] = b.with_heads[i]
            requested += first
            contenders += 1 - first
        bits &= bits - 1
        more = -<uint64_t> (bits != 0)
        i += bits == 0
        bits |= b.heads[i] & ~more
    b.request_count, b.contender_count = requested, contenders


cdef inline void count_once(State* s, Link* wire, uint64_t* counted, int32_t shift) noexcept nogil:
    """Count a cause once per output, however many heads it stalls."""
    s.stats.port_stalls[wire.outlet] += (~counted[0] >> wire.out_port & 1) << shift
    counted[0] |= <uint64_t> 1 << wire.out_port


cdef inline void resolve_va_conflicts(State* s, RouterBatch* b) noexcept nogil:
    """Of several heads that request a range, keep the one nearest behind its pointer."""
    cdef int32_t i, k, vc, pointer
    cdef VcRange* vc_range
    cdef InputVc* v
    cdef Link* wire
    cdef RouterRequests* requests
    cdef RouterBounds* r
    for i in range(b.contender_count):
        vc = b.contender[i]
        v = &s.vcs.input[vc]
        requests = &b.requests[b.contender_at[i]]
        wire = &s.links.link[v.out_link]
        vc_range = &s.vcs.ranges[v.out_vc]
        k = vc_range.pick
        if k == NONE:
            count_once(s, wire, &requests.no_vc, 0)
            continue
        r = &s.routers.bounds[v.router]
        pointer = vc_range.requester
        if distance(vc - r.base, pointer, r.input_vcs) < distance(b.request[k] - r.base, pointer, r.input_vcs):
            b.request[k] = vc
        count_once(s, wire, &requests.lost, ARBITRATION_BITS)   # one of the two loses


cdef inline void grant_vcs(State* s, RouterBatch* b, bint unit_rate) noexcept nogil:
    """Grant each listed head the next free VC of its range; the batch form of `grant_vc` in vc_allocator.pxd."""
    cdef int32_t i, vc, target, number
    cdef uint64_t unheld, later, bit
    cdef InputVc* v
    cdef RouterBounds* r
    cdef VcRange* vc_range
    cdef OutputVc* out
    cdef VcMasks* inputs
    for i in range(b.request_count):
        vc = b.request[i]
        v = &s.vcs.input[vc]
        r = &s.routers.bounds[v.router]
        vc_range = &s.vcs.ranges[v.out_vc]
        vc_range.pick = NONE
        unheld = s.vcs.unheld[vc_range.word] & vc_range.mask
        later = unheld & (~(<uint64_t> 0) << (vc_range.next & 63)) & -<uint64_t> (vc_range.next < 64)
        number = lowest(later | (unheld & -<uint64_t> (later == 0)))
        target = vc_range.base + number
        s.vcs.unheld[vc_range.word] &= ~(<uint64_t> 1 << number)
        vc_range.next = number + 1
        number = vc - r.base + 1
        vc_range.requester = number & -<int32_t> (number < r.input_vcs)
        if s.part.receiver != NULL and s.part.receiver[v.out_link] != s.part.number:
            post(s, s.part.receiver[v.out_link], 0, target, v.packet, HEAD)
        else:
            push_packet(s, target, v.packet)
        v.out_vc = target
        v.state = HOLDING
        out = &s.vcs.output[target]
        out.holder = v.mask_bit
        bit = <uint64_t> 1 << (v.mask_bit & 63)
        inputs = &s.masks.inputs[v.router]
        inputs.heads &= ~bit
        inputs.holding |= bit
        inputs.credit |= bit & -<uint64_t> (out.credit > 0)
        s.masks.requests[vc_range.outlet] |= bit
        s.masks.out_at[v.mask_bit] = <uint8_t> (vc_range.outlet - r.out_start)
        if not unit_rate:
            s.masks.blocked[v.router] |= bit & -<uint64_t> (s.masks.free_from[vc_range.outlet] > s.now)


cdef inline void allocate_vcs_batch(State* s, RouterBatch* b, bint unit_rate) noexcept nogil:
    """VA. A head that gets a VC requests the switch from the next cycle on."""
    collect_vc_requests(s, b)
    resolve_va_conflicts(s, b)
    grant_vcs(s, b, unit_rate)
