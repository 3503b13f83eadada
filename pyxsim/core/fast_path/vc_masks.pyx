"""Derived state, made anew: all that SA by masks keeps, from what it follows from; else which words have a flit."""

from libc.stdint cimport int32_t

from pyxsim.core.router.buffer cimport LAST_WORD, fill_word
from pyxsim.core.router.link cimport available_at
from pyxsim.core.state.network_state cimport ACTIVE, HOLDING, WAITING, Link


cdef void rederive(State* s) noexcept nogil:
    """Whoever moves the state in time (`now`, times of tries, of links) calls this then."""
    cdef int32_t i, vc, bucket
    cdef Link* wire
    if not s.masked:
        fill_words(s)
        return
    for i in range(s.words):
        s.inputs[i].holding = s.inputs[i].credit = s.blocked[i] = 0
        for bucket in range(4):
            s.inputs[i].early[bucket] = 0
    for i in range(s.out_ports * s.most_words):
        s.wants[i] = 0
    for i in range(s.routers):
        s.busy[i] = 0
    for i in range(s.links):
        wire = &s.link[i]
        if wire.src != NONE and not wire.queued and wire.num != wire.den:
            s.free_from[wire.outlet] = available_at(s, i)
            s.busy[wire.src] |= <uint64_t> (s.free_from[wire.outlet] > s.now) << wire.out_port
    for vc in range(s.vcs):
        s.out[vc].holder = s.nobody
    for vc in range(s.vcs):
        if s.vc[vc].router == NONE:
            continue
        if s.vc[vc].state & (HOLDING | ACTIVE):
            holds(s, vc, s.vc[vc].hold)
        elif s.vc[vc].state == WAITING:
            if not s.va and s.vc[vc].want != NONE:
                aims_at(s, vc, s.vc[vc].want)
            if s.vc[vc].ready >= s.now:
                inputs_of(s, vc).early[s.vc[vc].ready & 3] |= bit_of(s, vc)


cdef void fill_words(State* s) noexcept nogil:
    cdef int32_t i, vc
    for i in range(s.routers):
        s.router[i].filled = <uint64_t> (s.router[i].words > LAST_WORD) << LAST_WORD
    for vc in range(s.vcs):
        if s.vc[vc].occupancy and s.vc[vc].router != NONE:
            fill_word(s, &s.vc[vc])
