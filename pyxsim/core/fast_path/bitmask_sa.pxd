"""SA on bit masks: separable, input first (Dally and Towles, section 19.3), where nothing but two round robins decides.

Each input VC has a place, a bit, in the masks of its router (`Inputs`), and each output a mask of those that hold one
of its VCs (`wants`). So all that could go, and all that lacks a credit, is found by a few operations for 64 VCs at
once, each input port picks in all of them at the same time, and each output chooses among those that want it. What
happens next is guessed wrongly by the processor only where the number of winners changes, not for every VC and reason.

switch_allocator.pyx is for everything else (`masked` in engine.pyx says what): ranks, bids, parts, pools of slots.
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint64_t

from pyxsim.core.router.arbiter cimport after
from pyxsim.core.state.bits cimport clear_bit, lowest, prefetch, seldom
from pyxsim.core.router.buffer cimport bit_of, inputs_of, pop_packet
from pyxsim.core.router.calendar cimport schedule
from pyxsim.core.router.crossbar cimport follow_tail, traverse
from pyxsim.core.router.route_computation cimport come_to_fronts, find_routes
from pyxsim.core.state.network_state cimport (
    IDLE,
    NONE,
    ROTATING,
    STALL_ARBITRATION,
    STALL_CREDIT,
    STALL_SERIAL,
    STALL_VC,
    WAKE,
    InPort,
    Inputs,
    Link,
    Out,
    Range,
    Router,
    State,
    Vc,
)
from pyxsim.core.router.stall_counters cimport ARBITRATION_BITS, CREDIT_BITS, SERIAL_BITS, begin_look, fall_asleep, is_stalled, stall
from pyxsim.core.router.vc_allocator cimport allocate_vcs, ask_range, free_vc, grant, grant_ranges
from pyxsim.core.latency.router_waits cimport asks, is_hindered, lacks_vc, lose_switch


cdef enum:
    MOST_WORDS = 64    # of a router's input VCs
    MOST_OUTPUTS = 64
    WINNERS_AHEAD = 6


cdef struct Look:
    # What is found at a router in one cycle, as sets of places of its input VCs.
    uint64_t able[64]        # could go
    uint64_t hungry[64]      # lack a credit
    uint64_t serial[64]      # lack the link
    uint64_t pick[64]        # of those that could go, one for each input port
    uint64_t granted[64]
    uint64_t lost[64]
    uint64_t heads[64]       # may try for a VC


cdef inline uint64_t from_place(int32_t place) noexcept nogil:
    """All bits of a word from a place on, which may lie before it or behind."""
    return ~(<uint64_t> 0) if place <= 0 else ~(<uint64_t> 0) << place if place < 64 else 0


cdef inline int32_t vc_in(State* s, Router* r, int32_t place) noexcept nogil:
    """The input VC at a place."""
    return r.base + s.input_at[(64 * r.word & s.apart) + place]


cdef inline uint64_t ports_of(State* s, uint64_t places) noexcept nogil:
    """The last place of each port that has any of these places."""
    return (((places & ~s.port_high) + ~s.port_high) | places) & s.port_high


cdef inline uint64_t all_of(State* s, uint64_t ports) noexcept nogil:
    """All places of ports that are named by their last ones."""
    return (ports << 1) - (ports >> ((1 << s.shift) - 1))


cdef inline uint64_t first_of_each(State* s, uint64_t asking, uint64_t turn) noexcept nogil:
    """Of each port's VCs that ask the first at or after its pointer, wrapping round; `turn`: the places from there on.

    Within a port, as in any number, subtracting 1 turns the lowest bit that is set, and those below, and no others. The
    last place of each port is set before, so that nothing is borrowed from the next one.
    """
    cdef uint64_t later = asking & turn
    asking = later | (asking & ~all_of(s, ports_of(s, later)))
    return asking & ~((asking | s.port_high) - s.port_low)


cdef inline uint64_t turned(State* s, uint64_t turn, uint64_t granted, uint64_t places) noexcept nogil:
    """The places from the pointers on, when these are behind the VCs that were granted."""
    cdef uint64_t ports = ports_of(s, granted)
    return (turn & ~all_of(s, ports)) | (((ports - granted) << 1) & places)


cdef inline uint64_t stepped(State* s, uint64_t turn, uint64_t picked, uint64_t places) noexcept nogil:
    """Garnet's: the pointer of each port that picked is one further."""
    cdef uint64_t port, left
    while picked:
        port = all_of(s, ports_of(s, picked & (~picked + 1)))
        left = turn & port
        left &= left - 1
        turn = (turn & ~port) | (left if left else places & port)
        picked &= picked - 1
    return turn


cdef inline void ask_with_heads(State* s, Router* r, Look* look, int32_t word, uint64_t heads) noexcept nogil:
    """va = 0: heads whose time has come ask for the switch if there is a VC for them."""
    cdef int32_t vc, pick, cause
    cdef Vc* v
    while heads:
        vc = vc_in(s, r, word * 64 + lowest(heads))
        v = &s.vc[vc]
        if v.want != NONE:
            pick = free_vc(s, v.want, s.low[v.row], s.high[v.row], s.packets[v.packet].flits)
            if pick >= 0:
                look.able[word] |= heads & (~heads + 1)
            else:
                cause = STALL_VC if pick == -1 else STALL_CREDIT
                stall(s, v.want, cause)
                if s.attribution:
                    is_hindered(s, vc, cause)
        heads &= heads - 1


cdef inline bint grant_alone(State* s, Router* r, int32_t router, int32_t vc, int64_t t) noexcept nogil:
    """VA, rotating, where one head asks for one range, and so wins. Tells whether there is a VC for it."""
    cdef Vc* v = &s.vc[vc]
    cdef Link* link = &s.link[v.want]
    cdef Range* range_of = &s.ranges[link.base + s.low[v.row]]
    cdef uint64_t unheld = s.unheld[link.word] & from_place(s.low[v.row]) & ~from_place(s.high[v.row])
    cdef uint64_t later = unheld & from_place(range_of.next)
    cdef int32_t pick
    if not unheld:
        stall(s, v.want, STALL_VC)
        if s.attribution:
            lacks_vc(s, vc)
        return False
    pick = lowest(later if later else unheld)
    grant(s, router, vc, link.base + pick, t)
    range_of.next = pick + 1
    range_of.requester = after(vc - r.base, r.input_vcs)
    return True


cdef inline bint allocate_ranges(
    State* s, Router* r, int32_t router, uint64_t* heads, int64_t t, int32_t words
) noexcept nogil:
    """VA, rotating. Tells whether any head could ask."""
    cdef int32_t word, vc
    cdef int32_t asked = 0
    cdef uint64_t bits
    if words == 1 and not heads[0] & (heads[0] - 1):
        if not heads[0]:
            return False
        vc = vc_in(s, r, lowest(heads[0]))
        if not s.vc[vc].many and s.vc[vc].want != NONE:
            return grant_alone(s, r, router, vc, t)
    for word in range(words):
        bits = heads[word]
        while bits:
            asked = ask_range(s, router, vc_in(s, r, word * 64 + lowest(bits)), t, asked)
            bits &= bits - 1
    if asked:
        grant_ranges(s, router, t, asked)
    return asked != 0


cdef inline void keep_books(State* s, Router* r, Look* look, int32_t words) noexcept nogil:
    """Attribution: who asks for the switch, and who cannot."""
    cdef int32_t word, vc
    cdef uint64_t bits
    for word in range(words):
        bits = look.able[word] | look.hungry[word] | look.serial[word]
        while bits:
            vc = vc_in(s, r, word * 64 + lowest(bits))
            if bits & (~bits + 1) & look.able[word]:
                asks(s, vc)
            else:
                is_hindered(s, vc, STALL_CREDIT if bits & (~bits + 1) & look.hungry[word] else STALL_SERIAL)
            bits &= bits - 1


cdef inline int32_t winner(
    uint64_t* wants, uint64_t* pick, int32_t place, int32_t words, uint64_t* bit
) noexcept nogil:
    """Of the VCs that were picked and want an output, the first at or after a place, wrapping round. Returns its word;
    `bit`: its place in it."""
    cdef uint64_t mine, later
    cdef int32_t word
    cdef int32_t first = 0
    if words == 1:
        mine = wants[0] & pick[0]
        later = mine >> place << place
        mine = later if later else mine
        bit[0] = mine & (~mine + 1)
        return 0
    bit[0] = 0
    for word in range(words):
        mine = wants[word] & pick[word]
        if mine:
            later = mine & from_place(place - 64 * word)
            if later:
                bit[0] = later & (~later + 1)
                return word
            if not bit[0]:
                bit[0] = mine & (~mine + 1)
                first = word
    return first


cdef inline int32_t next_port(Router* r, int32_t number) noexcept nogil:
    """The input port behind another one, by arithmetic: behind the last one comes the first."""
    return (number + 1) & -<int32_t> (number + 1 < r.in_end - r.in_start)


cdef inline void win(State* s, Router* r, int32_t out, int32_t word, uint64_t bit) noexcept nogil:
    """An output grants the input of a VC."""
    cdef int32_t place = 64 * word + lowest(bit)
    cdef int32_t* pointer = &s.out_pointer[r.out_start + out]
    s.won[s.won_count] = vc_in(s, r, place)
    s.won_count += 1
    pointer[0] = next_port(r, pointer[0] if s.step_arbiter else place >> s.shift)


cdef inline void choose(State* s, Router* r, Look* look, int32_t words) noexcept nogil:
    """Each output that an input picked a VC for grants one of these inputs."""
    cdef uint8_t* wanted_at = &s.out_at[64 * r.word]
    cdef uint64_t* wants = &s.wants[r.out_start * s.most_words]
    cdef uint64_t wanted = 0
    cdef uint64_t bits
    cdef int32_t word, out
    for word in range(words):
        bits = look.pick[word]
        while bits:
            wanted |= <uint64_t> 1 << wanted_at[64 * word + lowest(bits)]
            bits &= bits - 1
    while wanted:
        out = lowest(wanted)
        wanted &= wanted - 1
        bits = 0
        word = winner(
            &wants[out * s.most_words], look.pick, s.out_pointer[r.out_start + out] << s.shift, words, &bits)
        look.granted[word] |= bits
        win(s, r, out, word, bits)


cdef inline void follow_tails(State* s, int32_t count, int64_t t, bint unit) noexcept nogil:
    """`follow_tail` where `State.plain`: the next packets come to the front together."""
    cdef int32_t fronts = 0
    cdef int32_t i, vc
    cdef uint64_t bit
    cdef Vc* v
    cdef Link* wire
    cdef Inputs* inputs
    for i in range(count):
        vc = s.gone[i]
        v = &s.vc[vc]
        wire = &s.link[v.want]
        inputs = &s.inputs[v.spot >> 6]
        bit = <uint64_t> 1 << (v.spot & 63)
        inputs.holding &= ~bit
        inputs.credit &= ~bit
        s.wants[wire.outlet] &= ~bit
        if not unit:
            s.blocked[v.spot >> 6] &= ~bit
        s.unheld[wire.word] |= <uint64_t> 1 << (v.hold - wire.base)
        s.out[v.hold].holder = s.nobody
        pop_packet(s, vc)
        v.state = IDLE
        s.fronts[fronts] = vc
        fronts += v.occupancy != 0
    come_to_fronts(s, s.fronts, fronts, t + 1)


cdef inline void leave(State* s, int64_t t, bint tell, bint plain, bint unit) noexcept nogil:
    """All that won leave: tails apart, as that is where it is guessed wrongly whether one is."""
    cdef int32_t i
    cdef int32_t gone = 0
    cdef int32_t count = s.won_count
    cdef int32_t vc
    cdef bint tail
    cdef Vc* v
    for i in range(count):
        if s.far:
            fetch_ahead(s, i)
        vc = s.won[i]
        v = &s.vc[vc]
        tail = traverse(
            s, &s.in_port[v.port], &s.inputs[v.spot >> 6], <uint64_t> 1 << (v.spot & 63), vc, t, t, True, tell, plain,
            unit)
        s.gone[gone] = vc
        gone += tail
    s.router_visits += count
    s.won_count = 0
    if plain:
        follow_tails(s, gone, t, unit)
        return
    for i in range(gone):
        follow_tail(s, s.gone[i], t, t, True, tell)


cdef inline void fetch_ahead(State* s, int32_t i) noexcept nogil:
    """Large networks: bring what the next flits need into the cache. Behind the last one are some of earlier cycles."""
    cdef Vc* v = &s.vc[s.won[i + WINNERS_AHEAD]]
    prefetch(&s.vc[s.won[i + 2 * WINNERS_AHEAD]])
    prefetch(&s.link[v.want])
    prefetch(&s.out[v.hold])


cdef inline void count_at(State* s, Router* r, uint64_t ports, int32_t shift) noexcept nogil:
    """A cause counts for these outputs."""
    while ports:
        s.stalls[r.out_start + lowest(ports)] += <uint64_t> 1 << shift
        ports &= ports - 1


cdef inline void count_cause(
    State* s, Router* r, uint64_t* places, int32_t words, int32_t shift, uint64_t ports
) noexcept nogil:
    """A cause counts once for each output that a VC at one of these places wants; it has counted for these ports."""
    cdef uint8_t* wanted_at = &s.out_at[64 * r.word]
    cdef uint64_t* stalls = &s.stalls[r.out_start]
    cdef uint64_t bits
    cdef int32_t word, port
    for word in range(words):
        bits = places[word]
        while bits:
            port = wanted_at[64 * word + lowest(bits)]
            stalls[port] += (~ports >> port & 1) << shift
            ports |= <uint64_t> 1 << port
            bits &= bits - 1


cdef inline void keep_causes(State* s, Router* r, int32_t router, Look* look, int32_t words, int64_t t) noexcept nogil:
    """The router falls asleep: what its flits stall for now they will stall for until it wakes."""
    cdef uint64_t* wants = &s.wants[r.out_start * s.most_words]
    cdef int32_t port, word
    cdef uint64_t lost, hungry, serial, causes
    for port in range(r.out_end - r.out_start):
        lost = s.lost >> port & 1
        hungry = s.no_credit >> port & 1
        serial = 0
        for word in range(words):
            lost |= wants[word] & look.lost[word]
            hungry |= wants[word] & look.hungry[word]
            serial |= wants[word] & look.serial[word]
        causes = (
            (s.no_vc >> port & 1) * STALL_VC | (hungry != 0) * STALL_CREDIT | (serial != 0) * STALL_SERIAL
            | (lost != 0) * STALL_ARBITRATION
        )
        if causes:
            fall_asleep(s, router, port, <uint8_t> causes, t)
        wants += s.most_words


cdef inline bint count_stalls(State* s, Router* r, Look* look, int32_t words) noexcept nogil:
    """Once for each output and cause. Tells whether there is any."""
    cdef int32_t word
    cdef uint64_t lost = s.lost
    cdef uint64_t hungry = s.no_credit
    cdef uint64_t serial = 0
    for word in range(words):
        look.lost[word] = look.able[word] & ~look.granted[word]
        lost |= look.lost[word]
        hungry |= look.hungry[word]
        serial |= look.serial[word]
    if lost:
        count_at(s, r, s.lost, ARBITRATION_BITS)
        count_cause(s, r, look.lost, words, ARBITRATION_BITS, s.lost)
    if hungry:
        count_at(s, r, s.no_credit, CREDIT_BITS)
        count_cause(s, r, look.hungry, words, CREDIT_BITS, s.no_credit)
    if serial:
        count_cause(s, r, look.serial, words, SERIAL_BITS, 0)
    count_at(s, r, s.no_vc, 0)
    return (s.no_vc | lost | hungry | serial) != 0


cdef inline void visit_by_masks(State* s, int32_t router, int64_t t, int32_t words, bint tell) noexcept nogil:
    """A router in one cycle. `words`, `tell`: the compiler makes a copy of this for each."""
    cdef Router* r = &s.router[router]
    cdef Inputs* inputs = &s.inputs[r.word]
    cdef Look look
    cdef int32_t word
    cdef uint64_t held, bits, some
    cdef uint64_t early = 0
    cdef int64_t again = INT64_MAX
    cdef int64_t va_again = INT64_MAX
    cdef bint asleep, stalled
    if seldom(is_stalled(s, r)):
        begin_look(s, router, t)
    if seldom(r.unrouted):
        find_routes(s, router, t)
    for word in range(words):
        held = inputs[word].occupied & inputs[word].holding
        look.able[word] = held & inputs[word].credit
        look.hungry[word] = held & ~inputs[word].credit
        look.granted[word] = 0
        inputs[word].early[t & 3] = 0
        bits = inputs[word].early[0] | inputs[word].early[1] | inputs[word].early[2] | inputs[word].early[3]
        look.heads[word] = inputs[word].heads & ~bits
        early |= bits
        if not s.va:
            ask_with_heads(s, r, &look, word, look.heads[word])
        look.serial[word] = look.able[word] & s.blocked[r.word + word]
        look.able[word] &= ~look.serial[word]
    # VA, after it is known who holds a VC: who gets one now may go from the next cycle on.
    if s.va and s.va_allocator == ROTATING:
        if allocate_ranges(s, r, router, look.heads, t, words):
            va_again = t + 1
    elif s.va:
        va_again = allocate_vcs(s, router, t)
    if tell and s.attribution:
        keep_books(s, r, &look, words)
    some = 0
    for word in range(words):
        some |= look.able[word]
        look.pick[word] = 0
        if words == 1 or look.able[word]:
            look.pick[word] = first_of_each(s, look.able[word], s.turn[r.word + word])
    if some:
        s.changed = 1
        choose(s, r, &look, words)
        for word in range(words):
            if words > 1 and not look.pick[word]:
                continue
            if s.step_arbiter:
                s.turn[r.word + word] = stepped(
                    s, s.turn[r.word + word], look.pick[word], s.places[r.word + word])
            else:
                s.turn[r.word + word] = turned(
                    s, s.turn[r.word + word], look.granted[word], s.places[r.word + word])
        if tell:   # in the order in which the books want it
            leave(s, t, tell, False, False)
        if tell and s.attribution:
            if s.books.rival_count > s.books.winner_count:
                lose_switch(s)
            s.books.rival_count = 0
            s.books.winner_count = 0
    elif va_again != t + 1:
        if early:
            again = next_try(inputs, words, t, again)
        again = va_again if va_again < again else again
    asleep = not some and va_again != t + 1 and again > t + 1
    stalled = count_stalls(s, r, &look, words)
    if asleep:
        if stalled:
            keep_causes(s, r, router, &look, words, t)
        clear_bit(s.router_active, router)
        if again != INT64_MAX:
            schedule(s, again, router, WAKE)
    s.no_vc = s.no_credit = s.lost = 0


cdef inline int64_t next_try(Inputs* inputs, int32_t words, int64_t t, int64_t again) noexcept nogil:
    """The first tick in which a head may try that may not yet."""
    cdef int32_t word, ticks
    for ticks in range(1, 4):
        for word in range(words):
            if inputs[word].early[(t + ticks) & 3] and t + ticks < again:
                return t + ticks
    return again
