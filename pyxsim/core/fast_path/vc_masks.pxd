"""Masks that switch allocation reads, updated on every grant, route and departure (where `State.path.bitmask_sa`).

All of them follow from the rest of the state; `rebuild_masks` recomputes them.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from pyxsim.core.router.buffer cimport mask_bit_of, masks_of
from pyxsim.core.router.calendar cimport schedule
from pyxsim.core.state.network_state cimport State
from pyxsim.core.state.records cimport LAUNCH, NONE, OutputVc, Router, VcMasks


cdef inline uint64_t* request_word(State* s, Router* r, int32_t vc, int32_t link) noexcept nogil:
    """The word of an output's request mask in which an input VC has its bit."""
    return &s.masks.requests[s.links.link[link].outlet * s.masks.most_words + (s.vcs.input[vc].mask_bit >> 6) - r.word]


cdef inline void request_output(State* s, int32_t vc, int32_t link) noexcept nogil:
    """An input VC requests an output from now on."""
    request_word(s, &s.routers.router[s.vcs.input[vc].router], vc, link)[0] |= mask_bit_of(s, vc)
    s.masks.out_at[s.vcs.input[vc].mask_bit] = <uint8_t> s.links.link[link].out_port
    if s.masks.free_from[s.links.link[link].outlet] > s.now:
        s.masks.blocked[s.vcs.input[vc].mask_bit >> 6] |= mask_bit_of(s, vc)


cdef inline void block_output(State* s, int32_t router, int32_t outlet, int64_t until, bint one) noexcept nogil:
    """The link of an output is busy beyond the next cycle: block its requests until the calendar unblocks them.

    `one`: each router has one word of mask bits, here and below.
    """
    cdef int32_t word
    cdef int32_t first = router if one else s.routers.router[router].word
    s.masks.free_from[outlet] = until
    s.masks.busy_outputs[router] |= <uint64_t> 1 << (outlet - s.routers.bounds[router].out_start)
    for word in range(1 if one else s.routers.router[router].words):
        s.masks.blocked[first + word] |= s.masks.requests[outlet if one else outlet * s.masks.most_words + word]
    schedule(s, until, outlet, LAUNCH)


cdef inline bint unblock_output(State* s, int32_t router, int32_t outlet, bint one) noexcept nogil:
    """The link of an output is available again. Return whether any flit waited only for that."""
    cdef int32_t word
    cdef int32_t first = router if one else s.routers.router[router].word
    cdef uint64_t requests
    cdef uint64_t waiting = 0
    cdef VcMasks* inputs
    s.masks.busy_outputs[router] &= ~(<uint64_t> 1 << (outlet - s.routers.bounds[router].out_start))
    for word in range(1 if one else s.routers.router[router].words):
        requests = s.masks.requests[outlet if one else outlet * s.masks.most_words + word]
        inputs = &s.masks.inputs[first + word]
        s.masks.blocked[first + word] &= ~requests
        waiting |= requests & inputs.occupied & (inputs.credit | inputs.heads)
    return waiting != 0


cdef inline void delay_first_try(State* s, int32_t vc, int64_t ready) noexcept nogil:
    """A head is routed and may try VA from tick `ready` on."""
    masks_of(s, vc).early[ready & 3] |= mask_bit_of(s, vc)
    if not s.config.va and s.vcs.input[vc].out_link != NONE:   # it requests the switch without a VC
        request_output(s, vc, s.vcs.input[vc].out_link)


cdef inline void assign_output_vc(State* s, int32_t vc, int32_t target) noexcept nogil:
    """The front packet of an input VC gets an output VC."""
    cdef VcMasks* inputs = masks_of(s, vc)
    cdef uint64_t bit = mask_bit_of(s, vc)
    cdef OutputVc* out = &s.vcs.output[target]
    out.holder = s.vcs.input[vc].mask_bit
    inputs.holding |= bit
    inputs.credit |= bit if out.credit > 0 else 0
    request_output(s, vc, out.link)


cdef inline void release_output_vc(State* s, int32_t vc, int32_t target) noexcept nogil:
    """The tail has left: the output VC has no holder."""
    cdef VcMasks* inputs = masks_of(s, vc)
    cdef uint64_t bit = mask_bit_of(s, vc)
    s.vcs.output[target].holder = s.masks.no_holder_bit
    inputs.holding &= ~bit
    inputs.credit &= ~bit
    s.masks.blocked[s.vcs.input[vc].mask_bit >> 6] &= ~bit
    request_word(s, &s.routers.router[s.vcs.input[vc].router], vc, s.vcs.output[target].link)[0] &= ~bit


cdef void rebuild_masks(State* s) noexcept nogil
