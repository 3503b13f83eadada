"""Load balancing: which entropy, and so which path, each packet of a flow has.

oblivious: all paths in turn, in an order that changes with each round. bitmap: the same, without paths that have a
penalty. mixed: entropies of unmarked acknowledgments again, else bitmap. reps: REPS (Bonato et al., "REPS: Recycled
entropy packet spraying", 2024), with a ring of eight entropies that freezes after a timeout. reps_legacy: recycles
entropies in the order of the acknowledgments.
"""

from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t
from libc.string cimport memset

from pyxsim.network.ethernet.uec.uec_pools cimport draw, new_block, pop, push
from pyxsim.network.ethernet.uec.uec_records cimport REPS_SLOTS, Entropy, Fabric, Flow

cdef enum:
    MIXED = 0
    BITMAP = 1
    OBLIVIOUS = 2
    REPS = 3
    REPS_LEGACY = 4
    MOST_PENALTY = 15
    EXPLORE = 16                 # packets at random after REPS has thawed
cdef int64_t FREEZE = 10**10     # ps


cdef void begin_entropy(Fabric *fabric, Flow *flow) noexcept nogil:
    """Start the sequence of a flow."""
    cdef Entropy *entropy = &flow.entropy
    cdef int32_t cls = 0
    if fabric.rules.balance >= REPS:
        return
    entropy.upper = draw(fabric) % 65535
    entropy.order = draw(fabric) % <uint32_t> fabric.rules.paths
    if fabric.rules.balance != OBLIVIOUS:
        while <int64_t> 1 << cls < fabric.rules.paths:
            cls += 1
        entropy.penalty = new_block(fabric, cls)


cdef inline void _advance(Fabric *fabric, Entropy *entropy, uint32_t paths) noexcept nogil:
    entropy.index += 1
    if entropy.index == paths:
        entropy.index = 0
        entropy.order = draw(fabric) & (paths - 1)


cdef uint16_t next_entropy(Fabric *fabric, Flow *flow) noexcept nogil:
    """Return the entropy of the next packet of a flow."""
    cdef Entropy *entropy = &flow.entropy
    cdef uint32_t paths = <uint32_t> fabric.rules.paths, chosen, tried = 0
    cdef int64_t *penalty
    if fabric.rules.balance == REPS:
        return _next_reps(fabric, entropy)
    if fabric.rules.balance == REPS_LEGACY:
        if flow.next < min(flow.window // (fabric.rules.mtu - fabric.rules.header), <int64_t> paths):
            entropy.current = (entropy.current + 1) % <int32_t> paths
        elif entropy.good.count:
            entropy.current = <int32_t> pop(fabric, &entropy.good)
        else:
            entropy.current = <int32_t> (draw(fabric) % paths)
        return <uint16_t> entropy.current
    if fabric.rules.balance == MIXED and entropy.good.count:
        return <uint16_t> pop(fabric, &entropy.good)
    chosen = (entropy.index ^ entropy.order) & (paths - 1)
    if fabric.rules.balance != OBLIVIOUS:
        penalty = &fabric.word[entropy.penalty]
        while penalty[chosen] > 0:
            if tried == 0:
                penalty[chosen] -= 1
            tried += 1
            if tried > paths:
                break
            _advance(fabric, entropy, paths)
            chosen = (entropy.index ^ entropy.order) & (paths - 1)
    _advance(fabric, entropy, paths)
    return <uint16_t> (chosen | (entropy.upper & ~(paths - 1)))


cdef uint16_t _next_reps(Fabric *fabric, Entropy *entropy) noexcept nogil:
    cdef uint32_t paths = <uint32_t> fabric.rules.paths
    cdef int32_t place
    if entropy.explore > 0:
        entropy.explore -= 1
        return <uint16_t> (draw(fabric) % paths)
    if not entropy.known or (not entropy.frozen and not entropy.fresh):
        return <uint16_t> (draw(fabric) % paths)
    if entropy.frozen:
        place = entropy.frozen_head
        if entropy.valid[place]:
            entropy.fresh -= 1
        entropy.frozen_head = (place + 1) % entropy.known
    else:
        place = (entropy.head - entropy.fresh + REPS_SLOTS) % REPS_SLOTS
        entropy.fresh -= 1
    entropy.valid[place] = False
    return entropy.slot[place]


cdef void feed_back(Fabric *fabric, Flow *flow, uint16_t value, int32_t feedback) noexcept nogil:
    """Learn what has become of a packet with this entropy."""
    cdef Entropy *entropy = &flow.entropy
    cdef int64_t *penalty
    if fabric.rules.balance == REPS:
        _feed_back_reps(fabric, entropy, value, feedback)
        return
    if fabric.rules.balance <= BITMAP and feedback:
        penalty = &fabric.word[entropy.penalty + (value & (fabric.rules.paths - 1))]
        penalty[0] = min(penalty[0] + feedback, <int64_t> MOST_PENALTY)
    if (fabric.rules.balance == MIXED or fabric.rules.balance == REPS_LEGACY) and not feedback:
        push(fabric, &entropy.good, value)


cdef void _feed_back_reps(Fabric *fabric, Entropy *entropy, uint16_t value, int32_t feedback) noexcept nogil:
    if feedback == MOST_PENALTY and not entropy.frozen and not entropy.explore:
        entropy.frozen, entropy.thaw = True, fabric.now + FREEZE
    if entropy.frozen and fabric.now > entropy.thaw:
        entropy.frozen = False
        memset(entropy.valid, 0, sizeof(entropy.valid))
        entropy.head = entropy.known = entropy.fresh = entropy.frozen_head = 0
        entropy.explore = EXPLORE
    if not feedback:
        if not entropy.valid[entropy.head]:
            entropy.fresh = min(entropy.fresh + 1, REPS_SLOTS)
        entropy.slot[entropy.head], entropy.valid[entropy.head] = value, True
        entropy.head = (entropy.head + 1) % REPS_SLOTS
        entropy.known = min(entropy.known + 1, REPS_SLOTS)
