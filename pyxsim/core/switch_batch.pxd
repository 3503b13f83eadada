"""VA and SA of many routers, stage by stage: what switch_masks.pxd does router by router, where `State.plain`.

How many flits ask at a router is what a processor cannot guess, and it waits for memory there, too. So the routers of
a word of `router_active` go through each stage together, and who asks, collides or sleeps is put into lists by
arithmetic: a wrong guess is made once per list, and does not keep the next router from being looked at.
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint64_t

from pyxsim.core.batch cimport ROUTERS, Batch, Seen
from pyxsim.core.bits cimport clear_bit, lowest, seldom
from pyxsim.core.calendar cimport schedule
from pyxsim.core.state cimport STALL_CREDIT, STALL_VC, WAKE, Inputs, Place, Router, State
from pyxsim.core.stats cimport ARBITRATION_BITS, CREDIT_BITS, begin_look, fall_asleep
from pyxsim.core.switch_masks cimport count_cause, first_of_each, next_port, next_try, turned, winner
from pyxsim.core.vc_batch cimport allocate


cdef inline void look_around(State* s, Batch* b, int32_t word, int64_t t) noexcept nogil:
    """Who could go, who lacks what, and whom the input ports pick."""
    cdef uint64_t bits = s.router_active[word]
    cdef uint64_t held, early, able
    cdef int32_t router
    cdef int32_t count = 0
    cdef int32_t picks = 0
    cdef int32_t heads = 0
    cdef int32_t hungry = 0
    cdef int32_t quiet = 0
    cdef Inputs* inputs
    cdef Seen* seen
    while bits:
        router = word * 64 + lowest(bits)
        bits &= bits - 1
        if seldom(s.router[router].stalled):
            begin_look(s, router, t)
        seen = &b.seen[count]
        inputs = &s.inputs[router]
        held = inputs.occupied & inputs.holding
        able = held & inputs.credit
        inputs.early[t & 3] = 0
        early = inputs.early[0] | inputs.early[1] | inputs.early[2] | inputs.early[3]
        seen.router = router
        seen.able = able
        seen.hungry = held & ~able
        seen.early = early
        seen.heads = inputs.heads & ~early
        seen.asked = seen.no_vc = seen.lost = 0
        b.pick[picks] = first_of_each(s, able, s.turn[router])
        b.heads[heads] = seen.heads
        b.with_picks[picks] = b.with_heads[heads] = b.hungry[hungry] = b.quiet[quiet] = count
        heads += seen.heads != 0
        hungry += seen.hungry != 0
        picks += able != 0
        quiet += able == 0
        count += 1
    b.pick_count, b.head_count, b.hungry_count, b.quiet_count = picks, heads, hungry, quiet


cdef inline void win(State* s, Batch* b) noexcept nogil:
    """All that were picked win, as if nobody else wanted their output; where several do is found on the way."""
    cdef int32_t start = s.won_count
    cdef int32_t count = start
    cdef int32_t i = 0
    cdef int32_t place
    cdef uint64_t wanted = 0
    cdef uint64_t twice = 0
    cdef uint64_t bits, bit, more
    cdef int32_t* pointer
    cdef Seen* seen
    cdef Router* r
    cdef Place* at
    b.pick[b.pick_count] = 0
    b.with_picks[b.pick_count] = ROUTERS
    bits = b.pick[0]
    while i < b.pick_count:
        seen = &b.seen[b.with_picks[i]]
        r = &s.router[seen.router]
        place = lowest(bits)
        at = &s.place[64 * seen.router + place]
        s.won[count] = at.vc
        pointer = &s.out_pointer[r.out_start + at.out]
        b.undo[count - start].pointer = pointer
        b.undo[count - start].before = pointer[0]
        pointer[0] = next_port(r, place >> s.shift)
        count += 1
        bit = <uint64_t> 1 << at.out
        twice |= wanted & bit
        wanted |= bit
        seen.wanted = wanted
        seen.twice = twice
        seen.end = count
        bits &= bits - 1
        more = -<uint64_t> (bits != 0)
        i += bits == 0
        wanted &= more
        twice &= more
        bits |= b.pick[i] & ~more
    s.won_count = count
    collide(s, b, start)


cdef inline void collide(State* s, Batch* b, int32_t start) noexcept nogil:
    """Where several want an output it grants one. From the last router to the first: gaps in the list of winners are
    filled from its end."""
    cdef int32_t collisions = 0
    cdef int32_t i, out, place, count, gap
    cdef uint64_t wanted, bit
    cdef uint64_t* pick
    cdef Seen* seen
    cdef Router* r
    for i in range(b.pick_count):
        b.some[collisions] = i
        collisions += b.seen[b.with_picks[i]].twice != 0
    while collisions:
        collisions -= 1
        i = b.some[collisions]
        seen = &b.seen[b.with_picks[i]]
        pick = &b.pick[i]
        r = &s.router[seen.router]
        count = seen.end
        gap = start if i == 0 else b.seen[b.with_picks[i - 1]].end
        while count > gap:
            count -= 1
            b.undo[count - start].pointer[0] = b.undo[count - start].before
        wanted = seen.wanted
        seen.wanted = 0
        while wanted:
            out = r.out_start + lowest(wanted)
            wanted &= wanted - 1
            winner(&s.wants[out], pick, s.out_pointer[out] << s.shift, 1, &bit)
            place = lowest(bit)
            seen.wanted |= bit
            s.won[gap] = s.place[64 * seen.router + place].vc
            s.out_pointer[out] = next_port(r, place >> s.shift)
            gap += 1
        pick[0] = seen.wanted
        while gap < seen.end:
            s.won_count -= 1
            s.won[gap] = s.won[s.won_count]
            gap += 1


cdef inline void finish(State* s, Batch* b) noexcept nogil:
    """The pointers of the inputs go on, and stalls are counted, each cause once for each output."""
    cdef int32_t losers = 0
    cdef int32_t i
    cdef Seen* seen
    for i in range(b.pick_count):
        seen = &b.seen[b.with_picks[i]]
        s.turn[seen.router] = turned(s, s.turn[seen.router], b.pick[i], s.places[seen.router])
        seen.able &= ~b.pick[i]
        b.some[losers] = b.with_picks[i]
        losers += seen.able != 0
    for i in range(losers):
        seen = &b.seen[b.some[i]]
        count_cause(s, &s.router[seen.router], &seen.able, 1, ARBITRATION_BITS, seen.lost)
    for i in range(b.hungry_count):
        seen = &b.seen[b.hungry[i]]
        count_cause(s, &s.router[seen.router], &seen.hungry, 1, CREDIT_BITS, 0)


cdef inline void keep_causes(State* s, Seen* seen, int64_t t) noexcept nogil:
    """A router falls asleep: what its flits stall for now they will stall for until it wakes."""
    cdef Router* r = &s.router[seen.router]
    cdef int32_t port
    cdef uint8_t causes
    for port in range(r.out_end - r.out_start):
        causes = <uint8_t> ((seen.no_vc >> port & 1) * STALL_VC)
        if s.wants[r.out_start + port] & seen.hungry:
            causes |= <uint8_t> STALL_CREDIT
        if causes:
            fall_asleep(s, seen.router, port, causes, t)


cdef inline void rest(State* s, Batch* b, int64_t t) noexcept nogil:
    """Routers in which nothing happened, and nothing can by itself, fall asleep."""
    cdef int32_t i
    cdef int64_t again
    cdef Seen* seen
    for i in range(b.quiet_count):
        seen = &b.seen[b.quiet[i]]
        if seen.asked:
            continue
        again = next_try(&s.inputs[seen.router], 1, t, INT64_MAX) if seen.early else INT64_MAX
        if again <= t + 1:
            continue
        if seen.no_vc | seen.hungry:
            keep_causes(s, seen, t)
        clear_bit(s.router_active, seen.router)
        if again != INT64_MAX:
            schedule(s, again, seen.router, WAKE)


cdef inline void visit_word(State* s, Batch* b, int32_t word, int64_t t) noexcept nogil:
    """The routers of one word of `router_active` in one cycle."""
    look_around(s, b, word, t)
    allocate(s, b, t)
    s.changed |= b.pick_count != 0
    win(s, b)
    finish(s, b)
    rest(s, b, t)
