"""What SA by masks knows beforehand of each input VC: kept up to date by whoever grants, routes and sends.

`State.masked` tells whether it is used. All of this follows from the rest of the state: `rederive` makes it anew.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from pyxsim.core.router.buffer cimport bit_of, inputs_of
from pyxsim.core.router.calendar cimport schedule
from pyxsim.core.state.network_state cimport LAUNCH, NONE, Inputs, Out, Router, State


cdef enum:
    LATEST = 2     # cycles from the front to the first try in VA or for the switch, at most: `early` has 4 places


cdef inline uint64_t* wants_of(State* s, Router* r, int32_t vc, int32_t link) noexcept nogil:
    """The word of an output's mask in which an input VC has its place."""
    return &s.wants[s.link[link].outlet * s.most_words + (s.vc[vc].spot >> 6) - r.word]


cdef inline void aims_at(State* s, int32_t vc, int32_t link) noexcept nogil:
    """From now on an input VC asks for an output."""
    wants_of(s, &s.router[s.vc[vc].router], vc, link)[0] |= bit_of(s, vc)
    s.out_at[s.vc[vc].spot] = <uint8_t> s.link[link].out_port
    if s.free_from[s.link[link].outlet] > s.now:
        s.blocked[s.vc[vc].spot >> 6] |= bit_of(s, vc)


cdef inline void block(State* s, int32_t router, int32_t outlet, int64_t until, bint one) noexcept nogil:
    """A link that takes more than a cycle for a flit is busy: who wants its output waits until the calendar tells.

    `one`: a router has one word of places, here and below.
    """
    cdef int32_t word
    cdef int32_t first = router if one else s.router[router].word
    s.free_from[outlet] = until
    s.busy[router] |= <uint64_t> 1 << (outlet - s.bounds[router].out_start)
    for word in range(1 if one else s.router[router].words):
        s.blocked[first + word] |= s.wants[outlet if one else outlet * s.most_words + word]
    schedule(s, until, outlet, LAUNCH)


cdef inline bint unblock(State* s, int32_t router, int32_t outlet, bint one) noexcept nogil:
    """It can start a flit again. Tells whether there is any that only waited for that."""
    cdef int32_t word
    cdef int32_t first = router if one else s.router[router].word
    cdef uint64_t wants
    cdef uint64_t waiting = 0
    cdef Inputs* inputs
    s.busy[router] &= ~(<uint64_t> 1 << (outlet - s.bounds[router].out_start))
    for word in range(1 if one else s.router[router].words):
        wants = s.wants[outlet if one else outlet * s.most_words + word]
        inputs = &s.inputs[first + word]
        s.blocked[first + word] &= ~wants
        waiting |= wants & inputs.occupied & (inputs.credit | inputs.heads)
    return waiting != 0


cdef inline void is_early(State* s, int32_t vc, int64_t ready) noexcept nogil:
    """A head is routed, and may try from tick `ready` on."""
    inputs_of(s, vc).early[ready & 3] |= bit_of(s, vc)
    if not s.va and s.vc[vc].want != NONE:   # it asks for the switch without a VC
        aims_at(s, vc, s.vc[vc].want)


cdef inline void holds(State* s, int32_t vc, int32_t target) noexcept nogil:
    """The front packet of an input VC has been granted an output VC."""
    cdef Inputs* inputs = inputs_of(s, vc)
    cdef uint64_t bit = bit_of(s, vc)
    cdef Out* out = &s.out[target]
    out.holder = s.vc[vc].spot
    inputs.holding |= bit
    inputs.credit |= bit if out.credit > 0 else 0
    aims_at(s, vc, out.link)


cdef inline void lets_go(State* s, int32_t vc, int32_t target) noexcept nogil:
    """The tail has left."""
    cdef Inputs* inputs = inputs_of(s, vc)
    cdef uint64_t bit = bit_of(s, vc)
    s.out[target].holder = s.nobody
    inputs.holding &= ~bit
    inputs.credit &= ~bit
    s.blocked[s.vc[vc].spot >> 6] &= ~bit
    wants_of(s, &s.router[s.vc[vc].router], vc, s.out[target].link)[0] &= ~bit


cdef void rederive(State* s) noexcept nogil
