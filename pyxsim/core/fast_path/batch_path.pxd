"""VA and SA of many routers, stage by stage: what bitmask_sa.pxd does router by router, where `State.plain`.

How many flits ask at a router is what a processor cannot guess, and it waits for memory there, too. So the routers of
a word of `router_active` go through each stage together, and who asks, collides or sleeps is put into lists by
arithmetic: a wrong guess is made once per list, and does not keep the next router from being looked at.
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint64_t

from pyxsim.core.router.arbiter cimport distance
from pyxsim.core.fast_path.batch_lists cimport ROUTERS, Batch, Seen
from pyxsim.core.state.bits cimport clear_bit, lowest, seldom
from pyxsim.core.router.calendar cimport schedule
from pyxsim.core.state.network_state cimport STALL_CREDIT, STALL_SERIAL, STALL_VC, WAKE, Inputs, Router, State, Vc
from pyxsim.core.router.stall_counters cimport ARBITRATION_BITS, CREDIT_BITS, SERIAL_BITS, begin_look, fall_asleep
from pyxsim.core.fast_path.bitmask_sa cimport first_of_each, next_try, turned
from pyxsim.core.fast_path.batch_va cimport allocate


cdef inline void look_around(State* s, Batch* b, int32_t word, int64_t t, bint unit) noexcept nogil:
    """Who could go, who lacks what, and whom the input ports pick."""
    cdef uint64_t bits = s.router_active[word]
    cdef uint64_t held, early, able
    cdef uint64_t serial = 0
    cdef int32_t router
    cdef int32_t count = 0
    cdef int32_t picks = 0
    cdef int32_t heads = 0
    cdef int32_t hungry = 0
    cdef int32_t slow = 0
    cdef int32_t quiet = 0
    cdef Inputs* inputs
    cdef Seen* seen
    while bits:
        router = word * 64 + lowest(bits)
        bits &= bits - 1
        if seldom(s.stalled_ports[router]):   # all its outputs are in one word
            begin_look(s, router, t)
        seen = &b.seen[count]
        inputs = &s.inputs[router]
        held = inputs.occupied & inputs.holding
        able = held & inputs.credit
        if not unit:
            serial = able & s.blocked[router]
            able &= ~serial
            seen.serial = serial
            b.serial[slow] = count
            slow += serial != 0
        inputs.early[t & 3] = 0
        early = inputs.early[0] | inputs.early[1] | inputs.early[2] | inputs.early[3]
        seen.router = router
        seen.able = able
        seen.hungry = held & ~(able | serial)
        seen.early = early
        seen.asked = seen.no_vc = seen.lost = 0
        b.pick[picks] = first_of_each(s, able, s.turn[router])
        b.router[picks] = router
        b.heads[heads] = inputs.heads & ~early
        b.with_picks[picks] = b.with_heads[heads] = b.hungry[hungry] = b.quiet[quiet] = count
        heads += (inputs.heads & ~early) != 0
        hungry += seen.hungry != 0
        picks += able != 0
        quiet += able == 0
        count += 1
    b.pick_count, b.head_count, b.quiet_count = picks, heads, quiet
    b.hungry_count, b.serial_count = hungry, slow


cdef inline void win(State* s, Batch* b) noexcept nogil:
    """All that were picked, in one flat loop: the first one that wants an output is listed to win it, the others as its
    rivals."""
    cdef int32_t i = 0
    cdef int32_t count = s.won_count
    cdef int32_t rivals = 0
    cdef int32_t before, first
    cdef uint64_t bits, more
    cdef int32_t router, place, outlet
    b.pick[b.pick_count] = 0
    bits = b.pick[0]
    while i < b.pick_count:
        router = b.router[i]
        place = lowest(bits)
        outlet = s.bounds[router].out_start + s.out_at[64 * router + place]
        before = s.out_pick[outlet]
        first = before >> 31 & 1   # nobody before: NONE
        s.out_pick[outlet] = count if first else before
        s.won[count] = b.other[rivals] = s.bounds[router].base + s.input_at[place]
        b.other_at[rivals] = i
        count += first
        rivals += 1 - first
        bits &= bits - 1
        more = -<uint64_t> (bits != 0)
        i += bits == 0
        bits |= b.pick[i] & ~more
    s.won_count, b.other_count = count, rivals


cdef inline int32_t turn_of(State* s, Vc* v, int32_t pointer) noexcept nogil:
    """How far the input port of a VC is behind the pointer of an output."""
    return distance((v.spot & 63) >> s.shift, pointer, s.bounds[v.router].in_ports)


cdef inline void collide(State* s, Batch* b) noexcept nogil:
    """Of several that want an output it grants the one that is nearest behind its pointer."""
    cdef int32_t i, k, outlet, pointer, loser
    cdef Vc* v
    cdef Vc* other
    for i in range(b.other_count):
        v = &s.vc[b.other[i]]
        outlet = s.link[v.want].outlet
        pointer = s.out_pointer[outlet]
        k = s.out_pick[outlet]
        other = &s.vc[s.won[k]]
        loser = v.spot
        if turn_of(s, v, pointer) < turn_of(s, other, pointer):
            loser = other.spot
            s.won[k] = b.other[i]
        b.pick[b.other_at[i]] &= ~(<uint64_t> 1 << (loser & 63))


cdef inline void count_each(
    State* s, Batch* b, uint64_t* places, int32_t* seen_by, int32_t count, int32_t shift
) noexcept nogil:
    """At each of these routers a cause counts once for each output that a VC of these places wants, but for those where
    a head has lost (`Seen.lost`): it has counted for them."""
    cdef int32_t i = 0
    cdef int32_t port
    cdef uint64_t bits, counted, more
    cdef Seen* seen
    places[count] = 0
    seen_by[count] = ROUTERS
    bits = places[0]
    counted = b.seen[seen_by[0]].lost
    while i < count:
        seen = &b.seen[seen_by[i]]
        port = s.out_at[64 * seen.router + lowest(bits)]
        s.stalls[s.bounds[seen.router].out_start + port] += (~counted >> port & 1) << shift
        counted |= <uint64_t> 1 << port
        bits &= bits - 1
        more = -<uint64_t> (bits != 0)
        i += bits == 0
        bits |= places[i] & ~more
        counted = (counted & more) | (b.seen[seen_by[i]].lost & ~more)


cdef inline void count_waiting(State* s, Batch* b) noexcept nogil:
    """The same for busy links. Of these there are fewer than VCs that wait for them."""
    cdef int32_t i, outlet
    cdef uint64_t bits, more
    cdef Seen* seen
    for i in range(b.serial_count):
        b.places[i] = s.busy[b.seen[b.serial[i]].router]
    b.serial[b.serial_count] = ROUTERS
    b.places[b.serial_count] = 0
    bits = b.places[0]
    i = 0
    while i < b.serial_count:
        seen = &b.seen[b.serial[i]]
        outlet = s.bounds[seen.router].out_start + lowest(bits)
        s.stalls[outlet] += <uint64_t> ((s.wants[outlet] & seen.serial) != 0) << SERIAL_BITS
        bits &= bits - 1
        more = -<uint64_t> (bits != 0)
        i += bits == 0
        bits |= b.places[i] & ~more


cdef inline void finish(State* s, Batch* b, bint unit) noexcept nogil:
    """The pointers of the inputs go on, and stalls are counted, each cause once for each output."""
    cdef int32_t losers = 0
    cdef int32_t i, router
    cdef uint64_t left
    for i in range(b.pick_count):
        router = b.router[i]
        s.turn[router] = turned(s, s.turn[router], b.pick[i], s.places[router])
        left = b.seen[b.with_picks[i]].able & ~b.pick[i]
        b.places[losers] = left
        b.some[losers] = b.with_picks[i]
        losers += left != 0
    count_each(s, b, b.places, b.some, losers, ARBITRATION_BITS)
    for i in range(b.hungry_count):
        b.places[i] = b.seen[b.hungry[i]].hungry
        b.seen[b.hungry[i]].lost = 0
    count_each(s, b, b.places, b.hungry, b.hungry_count, CREDIT_BITS)
    if unit:
        return
    count_waiting(s, b)


cdef inline void keep_causes(State* s, Seen* seen, int64_t t, bint unit) noexcept nogil:
    """A router falls asleep: what its flits stall for now they will stall for until it wakes."""
    cdef Router* r = &s.router[seen.router]
    cdef uint64_t ports = seen.no_vc | (0 if unit else s.busy[seen.router])
    cdef uint64_t bits = seen.hungry
    cdef int32_t port
    cdef uint8_t causes
    while bits:
        ports |= <uint64_t> 1 << s.out_at[64 * seen.router + lowest(bits)]
        bits &= bits - 1
    while ports:
        port = lowest(ports)
        ports &= ports - 1
        causes = <uint8_t> ((seen.no_vc >> port & 1) * STALL_VC)
        if s.wants[r.out_start + port] & seen.hungry:
            causes |= <uint8_t> STALL_CREDIT
        if not unit and s.wants[r.out_start + port] & seen.serial:
            causes |= <uint8_t> STALL_SERIAL
        if causes:
            fall_asleep(s, seen.router, port, causes, t)


cdef inline void rest(State* s, Batch* b, int64_t t, bint unit) noexcept nogil:
    """Routers in which nothing happened, and nothing can by itself in the next cycle, fall asleep."""
    cdef int32_t sleepers = 0
    cdef int32_t i
    cdef int64_t again
    cdef Seen* seen
    for i in range(b.quiet_count):
        seen = &b.seen[b.quiet[i]]
        b.some[sleepers] = b.quiet[i]
        sleepers += (seen.asked | s.inputs[seen.router].early[(t + 1) & 3]) == 0
    for i in range(sleepers):
        seen = &b.seen[b.some[i]]
        if seen.no_vc | seen.hungry or not unit and seen.serial:
            keep_causes(s, seen, t, unit)
        clear_bit(s.router_active, seen.router)
        if seen.early:
            again = next_try(&s.inputs[seen.router], 1, t, INT64_MAX)
            if again != INT64_MAX:
                schedule(s, again, seen.router, WAKE)


cdef inline void visit_word(State* s, Batch* b, int32_t word, int64_t t, bint unit) noexcept nogil:
    """The routers of one word of `router_active` in one cycle. `unit`: the compiler makes a copy of this for either."""
    look_around(s, b, word, t, unit)
    allocate(s, b, unit)
    s.changed |= b.pick_count != 0
    win(s, b)
    collide(s, b)
    finish(s, b, unit)
    rest(s, b, t, unit)
