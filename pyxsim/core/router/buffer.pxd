"""Input VC buffers: how many flits they hold, and of which packets.

A buffer stores a count, not flits. Flits of a VC arrive in the order in which they were sent, and a packet holds its VC
until its tail is sent. So the content follows from the packets that were granted the VC, the number of flits in it
(`occupancy`) and the flits of the front packet that have not left (`left`). A packet joins the list when it is granted
the VC, before its head arrives. The first one is stored in the VC itself (`packet`), usually the only one.
"""

from libc.stdint cimport int32_t, uint8_t, uint64_t
from libc.string cimport memset

from pyxsim.core.state.bits cimport bits_of, lowest
from pyxsim.core.state.network_state cimport State, free_node, new_node
from pyxsim.core.state.records cimport NONE, InputVc, Router, VcMasks


cdef inline uint64_t* link_vc_mask(uint64_t* mask, State* s, int32_t link) noexcept nogil:
    """The words of one link in a mask of its VCs."""
    return &mask[s.links.link[link].word]


cdef inline VcMasks* masks_of(State* s, int32_t vc) noexcept nogil:
    """The mask record with the bit of an input VC."""
    return &s.masks.inputs[s.vcs.input[vc].mask_bit >> 6]


cdef inline uint64_t mask_bit_of(State* s, int32_t vc) noexcept nogil:
    """Its bit."""
    return (<uint64_t> 1) << (s.vcs.input[vc].mask_bit & 63)


# --- routers with many words of input VCs, of which few have a flit ---------------------------------------------------
#
# `Router.filled` has a bit for each word with an occupied VC, so that empty words are not read. The last bit stands for
# all words from its own on; it is always set where there are any, and each of those words is read.

cdef enum:
    CATCH_ALL_WORD = 63


cdef inline void set_filled_word(State* s, InputVc* v) noexcept nogil:
    """A flit has entered an input VC."""
    cdef Router* r = &s.routers.router[v.router]
    cdef int32_t word = (v.mask_bit >> 6) - r.word
    r.filled |= <uint64_t> 1 << (word if word < CATCH_ALL_WORD else CATCH_ALL_WORD)


cdef inline void clear_filled_word(State* s, Router* r, int32_t vc) noexcept nogil:
    """A flit has left an input VC."""
    cdef int32_t word = (s.vcs.input[vc].mask_bit >> 6) - r.word
    if word < CATCH_ALL_WORD:
        r.filled &= ~(<uint64_t> (s.masks.inputs[r.word + word].occupied == 0) << word)


cdef inline int32_t next_filled_word(const Router* r, int32_t word) noexcept nogil:
    """The first word of a router from `word` on that may have an occupied VC; at least `Router.words` if none."""
    cdef uint64_t bits
    if word >= CATCH_ALL_WORD:
        return word
    bits = r.filled >> word
    return word + lowest(bits) if bits else r.words


cdef inline int32_t vc_number(State* s, int32_t vc) noexcept nogil:
    """The number of an input VC on its link."""
    return vc - s.ports.input[s.vcs.input[vc].port].base


cdef inline int32_t next_masked_vc(uint64_t* mask, int32_t start, int32_t stop) noexcept nogil:
    """The first set bit in [start, stop) of a router's mask, or -1. `mask`: of its first `VcMasks`."""
    cdef int32_t stride = sizeof(VcMasks) // sizeof(uint64_t)
    cdef int32_t word = start >> 6
    cdef uint64_t bits
    if start >= stop:
        return -1
    bits = mask[word * stride] >> (start & 63) << (start & 63)
    while not bits:
        word += 1
        if word * 64 >= stop:
            return -1
        bits = mask[word * stride]
    start = word * 64 + lowest(bits)
    return start if start < stop else -1


cdef inline int32_t vc_at_mask_bit(State* s, Router* r, int32_t place) noexcept nogil:
    """The input VC at a mask bit of a router. With `bitmask_sa` each port has 2^port_shift bits, its VCs the first
    ones."""
    return r.base + (s.masks.vc_at_bit[(64 * r.word & s.masks.per_router) + place] if s.path.bitmask_sa else place)


# --- buffer write (BW) ------------------------------------------------------------------------------------------------

cdef inline void wake_router(State* s, int32_t router, uint8_t really) noexcept nogil:
    """In step 1: mark a router to be woken. Byte stores do not depend on each other, as bits of a shared word would;
    `collect_woken` turns them into bits."""
    s.routers.woken[router] |= really
    s.routers.woken_words[router >> 6] = 1


cdef inline void collect_woken(State* s) noexcept nogil:
    cdef int32_t word
    for word in range(s.routers.words):
        if s.routers.woken_words[word]:
            s.routers.woken_words[word] = 0
            s.routers.active[word] |= bits_of(&s.routers.woken[64 * word])
            memset(&s.routers.woken[64 * word], 0, 64)


cdef inline void write_buffer(State* s, InputVc* v) noexcept nogil:
    """Buffer write: a flit enters an input VC and wakes its router."""
    v.occupancy += 1
    v.occupancy_max = v.occupancy if v.occupancy > v.occupancy_max else v.occupancy_max
    s.masks.inputs[v.mask_bit >> 6].occupied |= <uint64_t> 1 << (v.mask_bit & 63)
    wake_router(s, v.router, 1)


# --- the list of packets of a VC: a place in it is FRONT, a node, or NONE behind the last one -------------------------

cdef enum:
    FRONT = -2


cdef inline int32_t first_packet_place(State* s, int32_t vc) noexcept nogil:
    return FRONT if s.vcs.input[vc].packet != NONE else NONE


cdef inline int32_t next_packet_place(State* s, int32_t vc, int32_t place) noexcept nogil:
    return s.vcs.input[vc].head if place == FRONT else s.pools.nodes[place].next


cdef inline int32_t packet_at(State* s, int32_t vc, int32_t place) noexcept nogil:
    return s.vcs.input[vc].packet if place == FRONT else s.pools.nodes[place].packet


cdef inline int32_t last_packet(State* s, int32_t vc) noexcept nogil:
    """Or NONE."""
    return s.vcs.input[vc].packet if s.vcs.input[vc].head == NONE else s.pools.nodes[s.vcs.input[vc].tail].packet


cdef inline void push_packet(State* s, int32_t vc, int32_t packet) noexcept nogil:
    cdef InputVc* v = &s.vcs.input[vc]
    cdef int32_t node
    if v.packet == NONE:
        v.packet = packet
        return
    node = new_node(s)
    if s.failed:
        return
    s.pools.nodes[node].packet = packet
    if v.head == NONE:
        v.head = node
    else:
        s.pools.nodes[v.tail].next = node
    v.tail = node


cdef inline int32_t pop_packet(State* s, int32_t vc) noexcept nogil:
    """Remove the first packet; the next one takes its place."""
    cdef InputVc* v = &s.vcs.input[vc]
    cdef int32_t packet = v.packet
    cdef int32_t node = v.head
    if node == NONE:
        v.packet = NONE
    else:
        v.packet = s.pools.nodes[node].packet
        v.head = s.pools.nodes[node].next
        free_node(s, node)
    return packet
