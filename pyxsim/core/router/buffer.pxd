"""Input VC buffers: how many flits are there, and whose.

A buffer needs no flits, only a count, and the packets they belong to. Flits of a VC arrive in the order in which they
were sent, and a packet holds its VC until its tail is sent. So the buffer's content follows from the list of packets
that were granted the VC, the number of flits in it (`occupancy`) and how many of the front packet have not
left (`left`). A packet joins the list when it is granted the VC, before its head arrives. The first one stands in the
VC itself (`packet`): most of the time there is no other.
"""

from libc.stdint cimport int32_t, uint64_t

from pyxsim.core.state.bits cimport lowest
from pyxsim.core.state.network_state cimport State, free_node, new_node
from pyxsim.core.state.records cimport NONE, InputVc, Router, VcMasks


cdef inline uint64_t* link_vc_mask(uint64_t* mask, State* s, int32_t link) noexcept nogil:
    """The words of one link in a mask of its VCs."""
    return &mask[s.links.link[link].word]


cdef inline VcMasks* masks_of(State* s, int32_t vc) noexcept nogil:
    """The masks in which an input VC has its place."""
    return &s.masks.inputs[s.vcs.input[vc].mask_bit >> 6]


cdef inline uint64_t mask_bit_of(State* s, int32_t vc) noexcept nogil:
    """Its place in them."""
    return (<uint64_t> 1) << (s.vcs.input[vc].mask_bit & 63)


# --- routers with many words of input VCs, of which few have a flit ---------------------------------------------------
#
# `Router.filled` has a bit for each word with an occupied VC, so that nobody reads the others. The last bit stands for
# all words from its own on: where there are any it is always set, and each of them is looked at.

cdef enum:
    CATCH_ALL_WORD = 63


cdef inline void set_filled_word(State* s, InputVc* v) noexcept nogil:
    """A flit has come into an input VC."""
    cdef Router* r = &s.routers.router[v.router]
    cdef int32_t word = (v.mask_bit >> 6) - r.word
    r.filled |= <uint64_t> 1 << (word if word < CATCH_ALL_WORD else CATCH_ALL_WORD)


cdef inline void clear_filled_word(State* s, Router* r, int32_t vc) noexcept nogil:
    """A flit has left an input VC."""
    cdef int32_t word = (s.vcs.input[vc].mask_bit >> 6) - r.word
    if word < CATCH_ALL_WORD:
        r.filled &= ~(<uint64_t> (s.masks.inputs[r.word + word].occupied == 0) << word)


cdef inline int32_t next_filled_word(const Router* r, int32_t word) noexcept nogil:
    """The first word of a router from `word` on that may have an occupied VC; `Router.words` or more: there is none."""
    cdef uint64_t bits
    if word >= CATCH_ALL_WORD:
        return word
    bits = r.filled >> word
    return word + lowest(bits) if bits else r.words


cdef inline int32_t vc_number(State* s, int32_t vc) noexcept nogil:
    """The number of an input VC on its link."""
    return vc - s.ports.input[s.vcs.input[vc].port].base


cdef inline int32_t next_masked_vc(uint64_t* mask, int32_t start, int32_t stop) noexcept nogil:
    """The first place in [start, stop) of a router that is in a mask, or -1. `mask`: of its first `VcMasks`."""
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
    """The input VC at a place of the masks of a router. By masks, each port has 2^shift places, its VCs the first."""
    return r.base + (s.masks.vc_at_bit[(64 * r.word & s.masks.per_router) + place] if s.path.bitmask_sa else place)


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
    """The first packet leaves the list, and the next one takes its place."""
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
