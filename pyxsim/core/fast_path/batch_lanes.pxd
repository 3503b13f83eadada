"""Injection lanes of many interfaces, stage by stage: what `visit_lane` does lane by lane, where `State.plain_lanes`.

As for routers (batch_path.pxd): who opens a packet, who launches a flit and who sleeps cannot be guessed, so it is
put into lists by arithmetic, and the lanes of a list go through a stage together.
"""

from libc.stdint cimport int32_t, int64_t, uint64_t

from pyxsim.core.state.bits cimport bits_from, clear_bit, lowest, set_bit
from pyxsim.core.router.interface cimport begins, open_packet
from pyxsim.core.router.link cimport available, launch, wake_lane
from pyxsim.core.state.network_state cimport BODY, NONE, Link, Out, State


cdef enum:
    WORD = 64
    ENOUGH = 256              # lanes of a batch: then it is done, after the word at hand
    LANES = ENOUGH + WORD


cdef struct Lanes:
    # Links by what they are to do.
    int32_t going[LANES]      # launch a flit of the VC at their pointer
    int32_t turning[LANES]    # have none there that could go
    int32_t asking[LANES]     # interleaved: may open a packet whether or not others are open
    int32_t tails[LANES]      # have launched the last flit of a packet
    int32_t heads[LANES]      # packets whose first flit was launched
    int32_t go_count, turn_count, ask_count


cdef inline int32_t next_with_credit(State* s, Link* wire, uint64_t vcs, int32_t start) noexcept nogil:
    """Of these VCs the first with a credit, at or after a number, wrapping round; or -1."""
    cdef uint64_t later
    cdef int32_t number
    while vcs:
        later = vcs & bits_from(start)
        number = lowest(later | (vcs & -<uint64_t> (later == 0)))
        if s.out[wire.base + number].credit > 0:
            return number
        vcs &= ~(<uint64_t> 1 << number)
    return -1


cdef inline void look_at_lanes(State* s, Lanes* b, int32_t word, bint interleaved, bint unit) noexcept nogil:
    """Which active lanes of a word can go on with the packet of last time."""
    cdef uint64_t bits = s.lane_active[word]
    cdef int32_t first = s.network_links + word * WORD
    cdef int32_t go = b.go_count
    cdef int32_t turn = b.turn_count
    cdef int32_t link
    cdef bint goes
    cdef Out* out
    while bits:
        link = first + lowest(bits)
        bits &= bits - 1
        out = &s.out[s.link[link].base + s.link[link].launch_pointer]
        goes = (out.send_left > 0) & (out.credit > 0)
        if not unit:
            goes = goes & available(s, link, s.now)
        b.going[go] = b.turning[turn] = link
        go += goes
        turn += not goes
        if interleaved:
            b.asking[b.ask_count] = link
            b.ask_count += s.source_head[link - s.network_links] != NONE
    b.go_count, b.turn_count = go, turn


cdef inline int32_t opened_now(State* s, int32_t link, int64_t first) noexcept nogil:
    """The VC on which a lane with a message opens a packet of it, or -1. `first`: see `open_packet`."""
    cdef Link* wire = &s.link[link]
    cdef int32_t vnet = s.class_vnet[0]
    cdef uint64_t free = s.unheld[wire.word] & s.range_mask[wire.range + vnet]
    cdef int32_t number = next_with_credit(s, wire, free, s.open_pointer[(link - s.network_links) * s.vnets + vnet])
    if number >= 0:
        open_packet(s, link, 0, number, first, True)
    return number


cdef inline void turn_to_new(State* s, Lanes* b, int64_t t, bint unit) noexcept nogil:
    """One packet at a time: who has none open opens the next one, and launches its first flit, if the link can."""
    cdef int32_t i, link
    for i in range(b.turn_count):
        link = b.turning[i]
        if (
            s.source_head[link - s.network_links] != NONE and not s.opened[s.link[link].word]
            and opened_now(s, link, t if unit else -1) >= 0 and (unit or available(s, link, t))
        ):
            b.going[b.go_count] = link
            b.go_count += 1
        else:
            clear_bit(s.lane_active, link - s.network_links)


cdef inline void turn_to_any(State* s, Lanes* b, int64_t t, bint unit) noexcept nogil:
    """Interleaved: packets are opened; then who could not go on turns to the next packet that can go."""
    cdef int32_t i, link, number
    cdef int32_t opened = 0
    cdef Link* wire
    for i in range(b.ask_count):
        b.asking[opened] = b.asking[i]
        opened += opened_now(s, b.asking[i], -1) >= 0
    for i in range(b.turn_count):
        link = b.turning[i]
        wire = &s.link[link]
        number = -1
        if unit or available(s, link, t):
            number = next_with_credit(s, wire, s.opened[wire.word], wire.launch_pointer)
        if number >= 0:
            wire.launch_pointer = number
            b.going[b.go_count] = link
            b.go_count += 1
        else:
            clear_bit(s.lane_active, link - s.network_links)
    if not unit:   # who opened a packet may open another one in the next cycle, busy as the link may be
        for i in range(opened):
            set_bit(s.lane_active, b.asking[i] - s.network_links)


cdef inline void launch_flits(State* s, Lanes* b, bint interleaved, int64_t t, bint unit) noexcept nogil:
    """What comes first to a VC is a head, whatever it is called. Interleaved, it is now that a packet may begin."""
    cdef int32_t heads = 0
    cdef int32_t tails = 0
    cdef int32_t i, link, vc, left
    cdef int64_t free
    cdef Out* out
    for i in range(b.go_count):
        link = b.going[i]
        vc = s.link[link].base + s.link[link].launch_pointer
        out = &s.out[vc]
        left = out.send_left
        if interleaved or not unit:
            b.heads[heads] = out.send_packet
            heads += left == s.packets[out.send_packet].flits
        out.send_left = left - 1
        out.credit -= 1
        free = launch(s, vc, link, BODY, NONE, 0, t, False, unit)
        if not unit and free > t + 1:
            wake_lane(s, link, free)
            if left > 1 and (not interleaved or s.source_head[link - s.network_links] == NONE):
                clear_bit(s.lane_active, link - s.network_links)
        b.tails[tails] = link
        tails += left == 1
    s.in_flight += b.go_count
    s.changed |= b.go_count != 0
    for i in range(heads):
        begins(s, &s.packets[b.heads[i]], t)
    follow_tails(s, b, tails)


cdef inline void follow_tails(State* s, Lanes* b, int32_t count) noexcept nogil:
    """A lane stays with a packet until its tail is launched, then turns to the next VC. Who has no more sleeps."""
    cdef int32_t i, lane, number
    cdef uint64_t opened
    cdef bint idle
    cdef Link* wire
    for i in range(count):
        lane = b.tails[i] - s.network_links
        wire = &s.link[b.tails[i]]
        number = wire.launch_pointer
        opened = s.opened[wire.word] & ~(<uint64_t> 1 << number)
        s.opened[wire.word] = opened
        s.unheld[wire.word] |= <uint64_t> 1 << number
        s.open_count[lane] -= 1
        number += 1
        wire.launch_pointer = number & -<int32_t> (number < wire.vcs)
        idle = (opened == 0) & (s.source_head[lane] == NONE)
        s.lane_active[lane >> 6] &= ~(<uint64_t> idle << (lane & 63))


cdef inline void visit_lanes(State* s, Lanes* b, bint interleaved, bint unit) noexcept nogil:
    """All active lanes in one cycle. `interleaved`, `unit`: the compiler makes a copy of this for each."""
    cdef int32_t word
    b.go_count = b.turn_count = b.ask_count = 0
    for word in range(s.lane_words):
        if s.lane_active[word]:
            look_at_lanes(s, b, word, interleaved, unit)
        if b.go_count + b.turn_count > ENOUGH or word == s.lane_words - 1:
            if interleaved:
                turn_to_any(s, b, s.now, unit)
            else:
                turn_to_new(s, b, s.now, unit)
            launch_flits(s, b, interleaved, s.now, unit)
            b.go_count = b.turn_count = b.ask_count = 0
