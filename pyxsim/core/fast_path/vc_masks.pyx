"""Recompute derived state from the rest: the masks of switch allocation or, without them, the non-empty words."""

from libc.stdint cimport int32_t

from pyxsim.core.router.buffer cimport CATCH_ALL_WORD, set_filled_word
from pyxsim.core.router.link cimport link_available_at
from pyxsim.core.state.records cimport ACTIVE, HOLDING, WAITING, Link


cdef void rebuild_masks(State* s) noexcept nogil:
    """Call this after moving the state in time (`now`, try and link times)."""
    cdef int32_t i, vc, bucket
    cdef Link* wire
    if not s.path.bitmask_sa:
        rebuild_filled_words(s)
        return
    for i in range(s.masks.words):
        s.masks.inputs[i].holding = s.masks.inputs[i].credit = s.masks.blocked[i] = 0
        for bucket in range(4):
            s.masks.inputs[i].early[bucket] = 0
    for i in range(s.ports.outputs * s.masks.most_words):
        s.masks.requests[i] = 0
    for i in range(s.routers.count):
        s.masks.busy_outputs[i] = 0
    for i in range(s.links.count):
        wire = &s.links.link[i]
        if wire.src != NONE and not wire.queued and (wire.num != wire.den or s.links.up_free != NULL):
            s.masks.free_from[wire.outlet] = link_available_at(s, i)
            s.masks.busy_outputs[wire.src] |= <uint64_t> (s.masks.free_from[wire.outlet] > s.now) << wire.out_port
    for vc in range(s.vcs.count):
        s.vcs.output[vc].holder = s.masks.no_holder_bit
    for vc in range(s.vcs.count):
        if s.vcs.input[vc].router == NONE:
            continue
        if s.vcs.input[vc].state & (HOLDING | ACTIVE):
            assign_output_vc(s, vc, s.vcs.input[vc].out_vc)
        elif s.vcs.input[vc].state == WAITING:
            if not s.config.va and s.vcs.input[vc].out_link != NONE:
                request_output(s, vc, s.vcs.input[vc].out_link)
            if s.vcs.input[vc].ready >= s.now:
                masks_of(s, vc).early[s.vcs.input[vc].ready & 3] |= mask_bit_of(s, vc)


cdef void rebuild_filled_words(State* s) noexcept nogil:
    cdef int32_t i, vc
    for i in range(s.routers.count):
        s.routers.router[i].filled = <uint64_t> (s.routers.router[i].words > CATCH_ALL_WORD) << CATCH_ALL_WORD
    for vc in range(s.vcs.count):
        if s.vcs.input[vc].occupancy and s.vcs.input[vc].router != NONE:
            set_filled_word(s, &s.vcs.input[vc])
