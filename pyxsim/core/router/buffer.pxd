"""Input VC buffers: how many flits are there, and whose.

A buffer needs no flits, only a count, and the packets they belong to. Flits of a VC arrive in the order in which they
were sent, and a packet holds its VC until its tail is sent. So the buffer's content follows from the list of packets
that were granted the VC, the number of flits in it (`occupancy`) and how many of the front packet have not
left (`left`). A packet joins the list when it is granted the VC, before its head arrives. The first one stands in the
VC itself (`packet`): most of the time there is no other.
"""

from libc.stdint cimport int32_t, uint64_t

from pyxsim.core.state.bits cimport lowest
from pyxsim.core.state.network_state cimport NONE, Inputs, Router, State, Vc, free_node, new_node


cdef inline uint64_t* vcs_of(uint64_t* mask, State* s, int32_t link) noexcept nogil:
    """The words of one link in a mask of its VCs."""
    return &mask[s.link[link].word]


cdef inline Inputs* inputs_of(State* s, int32_t vc) noexcept nogil:
    """The masks in which an input VC has its place."""
    return &s.inputs[s.vc[vc].spot >> 6]


cdef inline uint64_t bit_of(State* s, int32_t vc) noexcept nogil:
    """Its place in them."""
    return (<uint64_t> 1) << (s.vc[vc].spot & 63)


# --- routers with many words of input VCs, of which few have a flit ---------------------------------------------------
#
# `Router.filled` has a bit for each word with an occupied VC, so that nobody reads the others. The last bit stands for
# all words from its own on: where there are any it is always set, and each of them is looked at.

cdef enum:
    LAST_WORD = 63


cdef inline void fill_word(State* s, Vc* v) noexcept nogil:
    """A flit has come into an input VC."""
    cdef Router* r = &s.router[v.router]
    cdef int32_t word = (v.spot >> 6) - r.word
    r.filled |= <uint64_t> 1 << (word if word < LAST_WORD else LAST_WORD)


cdef inline void empty_word(State* s, Router* r, int32_t vc) noexcept nogil:
    """A flit has left an input VC."""
    cdef int32_t word = (s.vc[vc].spot >> 6) - r.word
    if word < LAST_WORD:
        r.filled &= ~(<uint64_t> (s.inputs[r.word + word].occupied == 0) << word)


cdef inline int32_t filled_word(const Router* r, int32_t word) noexcept nogil:
    """The first word of a router from `word` on that may have an occupied VC; `Router.words` or more: there is none."""
    cdef uint64_t bits
    if word >= LAST_WORD:
        return word
    bits = r.filled >> word
    return word + lowest(bits) if bits else r.words


cdef inline int32_t number_of(State* s, int32_t vc) noexcept nogil:
    """The number of an input VC on its link."""
    return vc - s.in_port[s.vc[vc].port].base


cdef inline int32_t next_input(uint64_t* mask, int32_t start, int32_t stop) noexcept nogil:
    """The first place in [start, stop) of a router that is in a mask, or -1. `mask`: of its first `Inputs`."""
    cdef int32_t stride = sizeof(Inputs) // sizeof(uint64_t)
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


cdef inline int32_t vc_at(State* s, Router* r, int32_t place) noexcept nogil:
    """The input VC at a place of the masks of a router. By masks, each port has 2^shift places, its VCs the first."""
    return r.base + (s.input_at[(64 * r.word & s.apart) + place] if s.masked else place)


# --- the list of packets of a VC: a place in it is FRONT, a node, or NONE behind the last one -------------------------

cdef enum:
    FRONT = -2


cdef inline int32_t first_place(State* s, int32_t vc) noexcept nogil:
    return FRONT if s.vc[vc].packet != NONE else NONE


cdef inline int32_t next_place(State* s, int32_t vc, int32_t place) noexcept nogil:
    return s.vc[vc].head if place == FRONT else s.nodes_pool[place].next


cdef inline int32_t packet_at(State* s, int32_t vc, int32_t place) noexcept nogil:
    return s.vc[vc].packet if place == FRONT else s.nodes_pool[place].packet


cdef inline int32_t last_packet(State* s, int32_t vc) noexcept nogil:
    """Or NONE."""
    return s.vc[vc].packet if s.vc[vc].head == NONE else s.nodes_pool[s.vc[vc].tail].packet


cdef inline void push_packet(State* s, int32_t vc, int32_t packet) noexcept nogil:
    cdef Vc* v = &s.vc[vc]
    cdef int32_t node
    if v.packet == NONE:
        v.packet = packet
        return
    node = new_node(s)
    if s.failed:
        return
    s.nodes_pool[node].packet = packet
    if v.head == NONE:
        v.head = node
    else:
        s.nodes_pool[v.tail].next = node
    v.tail = node


cdef inline int32_t pop_packet(State* s, int32_t vc) noexcept nogil:
    """The first packet leaves the list, and the next one takes its place."""
    cdef Vc* v = &s.vc[vc]
    cdef int32_t packet = v.packet
    cdef int32_t node = v.head
    if node == NONE:
        v.packet = NONE
    else:
        v.packet = s.nodes_pool[node].packet
        v.head = s.nodes_pool[node].next
        free_node(s, node)
    return packet
