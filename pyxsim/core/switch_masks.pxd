"""SA on bit masks: separable, input first (Dally and Towles, section 19.3), where nothing but two round robins decides.

Each input VC has a place, a bit, in the masks of its router (`Inputs`), and each output a mask of those that hold one
of its VCs (`wants`). So all that could go, and all that lacks a credit, is found by a few operations for 64 VCs at
once, each input port picks in all of them at the same time, and each output chooses among those that want it. What
happens next is guessed wrongly by the processor only where the number of winners changes, not for every VC and reason.

switch_allocator.pyx is for everything else (`masked` in engine.pyx says what): ranks, bids, parts, pools of slots.
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint64_t

from pyxsim.core.arbiter cimport after
from pyxsim.core.bits cimport clear_bit, lowest, seldom
from pyxsim.core.buffer cimport vc_at
from pyxsim.core.calendar cimport schedule
from pyxsim.core.crossbar cimport traverse
from pyxsim.core.link cimport available, available_at
from pyxsim.core.routing cimport find_routes
from pyxsim.core.state cimport (
    NONE,
    ROTATING,
    STALL_ARBITRATION,
    STALL_CREDIT,
    STALL_SERIAL,
    STALL_VC,
    WAKE,
    Inputs,
    Router,
    State,
    Vc,
)
from pyxsim.core.stats cimport begin_look, fall_asleep, one_each, stall
from pyxsim.core.vc_allocator cimport allocate_vcs, ask_range, free_vc, grant_ranges
from pyxsim.core.wait cimport asks, is_hindered, lose_switch


cdef enum:
    MOST_WORDS = 64    # of a router's input VCs
    MOST_OUTPUTS = 64


cdef struct Look:
    # What is found at a router in one cycle, as sets of places of its input VCs.
    uint64_t able[64]        # could go
    uint64_t hungry[64]      # lack a credit
    uint64_t serial[64]      # lack the link
    uint64_t pick[64]        # of those that could go, one for each input port
    uint64_t granted[64]
    uint64_t causes[64]      # of each output port: why a flit stalls (bits as in Stall)


cdef inline uint64_t ports_of(State* s, uint64_t places) noexcept nogil:
    """The last place of each port that has any of these places."""
    return (((places & ~s.port_high) + ~s.port_high) | places) & s.port_high


cdef inline uint64_t all_of(State* s, uint64_t ports) noexcept nogil:
    """All places of ports that are named by their last ones."""
    return (ports << 1) - (ports >> ((1 << s.shift) - 1))


cdef inline uint64_t first_of_each(State* s, uint64_t asking, uint64_t turn) noexcept nogil:
    """Of each port's VCs that ask the first at or after its pointer, wrapping round; `turn`: the places from there on.

    Within a port, as in any number, subtracting 1 turns the lowest bit that is set, and those below, and no others.
    """
    cdef uint64_t later = asking & turn
    cdef uint64_t none
    asking = later | (asking & ~all_of(s, ports_of(s, later)))
    none = s.port_high & ~ports_of(s, asking)   # a bit in these, too, so that nothing is borrowed from the next port
    asking |= none
    return asking & ~(asking - s.port_low) & ~none


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
        vc = vc_at(s, r, word * 64 + lowest(heads))
        v = &s.vc[vc]
        if v.want != NONE:
            pick = free_vc(s, v.want, v.low, v.high, s.packets[v.packet].flits)
            if pick >= 0:
                look.able[word] |= heads & (~heads + 1)
            else:
                cause = STALL_VC if pick == -1 else STALL_CREDIT
                stall(s, v.want, cause)
                if s.attribution:
                    is_hindered(s, vc, cause)
        heads &= heads - 1


cdef inline int64_t wait_for_links(
    State* s, Router* r, int32_t router, Look* look, int64_t t, int32_t words
) noexcept nogil:
    """Take away those whose link is busy. Returns when the first of these links is not."""
    cdef uint64_t bits = s.busy[router]
    cdef uint64_t mine
    cdef uint64_t any_of_them
    cdef int32_t port, link, word
    cdef int64_t again = INT64_MAX
    while bits:
        port = lowest(bits)
        link = s.out_links[r.out_start + port]
        if available(s, link, t):
            s.busy[router] &= ~(bits & (~bits + 1))
        else:
            any_of_them = 0
            for word in range(words):
                mine = look.able[word] & s.wants[(r.out_start + port) * s.most_words + word]
                look.able[word] &= ~mine
                look.serial[word] |= mine
                any_of_them |= mine
            if any_of_them and available_at(s, link) < again:
                again = available_at(s, link)
        bits &= bits - 1
    return again


cdef inline void keep_books(State* s, Router* r, Look* look, int32_t words) noexcept nogil:
    """Attribution: who asks for the switch, and who cannot."""
    cdef int32_t word, vc
    cdef uint64_t bits
    for word in range(words):
        bits = look.able[word] | look.hungry[word] | look.serial[word]
        while bits:
            vc = vc_at(s, r, word * 64 + lowest(bits))
            if bits & (~bits + 1) & look.able[word]:
                asks(s, vc)
            else:
                is_hindered(s, vc, STALL_CREDIT if bits & (~bits + 1) & look.hungry[word] else STALL_SERIAL)
            bits &= bits - 1


cdef inline uint64_t from_place(int32_t place) noexcept nogil:
    """All bits of a word from a place on, which may lie before it or behind."""
    return ~(<uint64_t> 0) if place <= 0 else ~(<uint64_t> 0) << place if place < 64 else 0


cdef inline void choose(State* s, Router* r, Look* look, int32_t words) noexcept nogil:
    """Each output grants one of the inputs that picked a VC for it; and what the others stall for."""
    cdef int32_t ports = r.in_end - r.in_start
    cdef int32_t outputs = r.out_end - r.out_start
    cdef int32_t* pointers = &s.out_pointer[r.out_start]
    cdef uint64_t* stalls = &s.stalls[r.out_start]
    cdef uint64_t* wants = &s.wants[r.out_start * s.most_words]
    cdef int32_t port, word, first, place, following, where
    cdef uint64_t mine, later, found, found_later, lost, hungry, serial, causes
    for port in range(outputs):
        place = pointers[port] << s.shift
        if words == 1:
            found = wants[0] & look.pick[0]
            later = found >> place << place
            found = later if later else found
            found &= ~found + 1
            look.granted[0] |= found
            lost = wants[0] & look.able[0] & ~found
            hungry = wants[0] & look.hungry[0]
            serial = wants[0] & look.serial[0]
            following = lowest(found | <uint64_t> 1 << 63) >> s.shift
        else:
            found = found_later = lost = hungry = serial = 0
            first = where = 0
            for word in range(words):
                mine = wants[word] & look.pick[word]
                hungry |= wants[word] & look.hungry[word]
                serial |= wants[word] & look.serial[word]
                if mine:   # one bit for each port, and ports may share a word
                    later = mine & from_place(place - 64 * word)
                    if later and not found_later:
                        found_later, where = later & (~later + 1), word
                    if not found:
                        found, first = mine & (~mine + 1), word
            if found_later:
                found, first = found_later, where
            look.granted[first] |= found
            for word in range(words):
                lost |= wants[word] & look.able[word] & ~(found if word == first else 0)
            following = (64 * first + lowest(found | <uint64_t> 1 << 63)) >> s.shift
        if s.step_arbiter:
            following = pointers[port]
        pointers[port] = after(following, ports) if found else pointers[port]
        causes = (
            (<uint64_t> (lost != 0)) * STALL_ARBITRATION | (<uint64_t> (serial != 0)) * STALL_SERIAL
            | (<uint64_t> (hungry != 0)) * STALL_CREDIT
        )
        look.causes[port] = causes
        stalls[port] += one_each(causes)
        wants += s.most_words


cdef inline void add_missed(State* s, Router* r, Look* look) noexcept nogil:
    """Count what heads stalled for, too: once for each cause and output."""
    cdef uint64_t bits = s.no_vc | s.no_credit | s.lost
    cdef uint64_t more
    cdef int32_t port
    while bits:
        port = lowest(bits)
        more = (
            (s.no_vc >> port & 1) * STALL_VC | (s.no_credit >> port & 1) * STALL_CREDIT
            | (s.lost >> port & 1) * STALL_ARBITRATION
        ) & ~look.causes[port]
        s.stalls[r.out_start + port] += one_each(more)
        look.causes[port] |= more
        bits &= bits - 1
    s.no_vc = s.no_credit = s.lost = 0


cdef inline void visit_by_masks(State* s, int32_t router, int64_t t, int32_t words, bint tell) noexcept nogil:
    """A router in one cycle. `words`, `tell`: the compiler makes a copy of this for each."""
    cdef Router* r = &s.router[router]
    cdef Inputs* inputs = &s.inputs[r.word]
    cdef Look look
    cdef int32_t word, vc, asked
    cdef uint64_t held, bits, some, others
    cdef uint64_t early = 0
    cdef int64_t again = INT64_MAX
    cdef int64_t va_again = INT64_MAX
    if seldom(r.stalled):
        begin_look(s, router, t)
    if seldom(r.unrouted):
        find_routes(s, router, t)
    for word in range(words):
        held = inputs[word].occupied & inputs[word].holding
        look.able[word] = held & inputs[word].credit
        look.hungry[word] = held & ~inputs[word].credit
        look.serial[word] = 0
        look.granted[word] = 0
        inputs[word].early[t & 3] = 0
        bits = inputs[word].early[0] | inputs[word].early[1] | inputs[word].early[2] | inputs[word].early[3]
        early |= bits
        if not s.va:
            ask_with_heads(s, r, &look, word, inputs[word].heads & ~bits)
    if s.busy[router]:
        again = wait_for_links(s, r, router, &look, t, words)
    # VA, after it is known who holds a VC: who gets one now may go from the next cycle on.
    if s.va and s.va_allocator == ROTATING:
        asked = 0
        for word in range(words):
            bits = inputs[word].heads & ~(
                inputs[word].early[0] | inputs[word].early[1] | inputs[word].early[2] | inputs[word].early[3]
            )
            while bits:
                asked = ask_range(s, router, vc_at(s, r, word * 64 + lowest(bits)), t, asked)
                bits &= bits - 1
        if asked:
            grant_ranges(s, router, t, asked)
            va_again = t + 1
    elif s.va and r.waiting:
        va_again = allocate_vcs(s, router, t)
    some = others = 0
    for word in range(words):
        some |= look.able[word]
        others |= look.hungry[word] | look.serial[word]
        look.pick[word] = first_of_each(s, look.able[word], s.turn[r.word + word])
    if tell and s.attribution:
        keep_books(s, r, &look, words)
    others |= s.no_vc | s.no_credit | s.lost
    if some | others:
        choose(s, r, &look, words)
        add_missed(s, r, &look)
    if some:
        s.changed = 1
        for word in range(words):
            if s.step_arbiter:
                s.turn[r.word + word] = stepped(s, s.turn[r.word + word], look.pick[word], s.places[r.word + word])
            else:
                s.turn[r.word + word] = turned(
                    s, s.turn[r.word + word], look.granted[word], s.places[r.word + word])
            bits = look.granted[word]
            while bits:
                vc = vc_at(s, r, word * 64 + lowest(bits))
                bits &= bits - 1
                s.router_visits += 1
                traverse(s, vc, t, t, True, tell)
        if tell and s.attribution:
            if s.books.rival_count > s.books.winner_count:
                lose_switch(s)
            s.books.rival_count = 0
            s.books.winner_count = 0
        return
    if va_again == t + 1:
        return
    if early:
        again = next_try(inputs, words, t, again)
    again = va_again if va_again < again else again
    if again > t + 1:
        clear_bit(s.router_active, router)
        if others:
            fall_asleep(s, router, look.causes, t)
        if again != INT64_MAX:
            schedule(s, again, router, WAKE)


cdef inline int64_t next_try(Inputs* inputs, int32_t words, int64_t t, int64_t again) noexcept nogil:
    """The first tick in which a head may try that may not yet."""
    cdef int32_t word, ticks
    for ticks in range(1, 4):
        for word in range(words):
            if inputs[word].early[(t + ticks) & 3] and t + ticks < again:
                return t + ticks
    return again
