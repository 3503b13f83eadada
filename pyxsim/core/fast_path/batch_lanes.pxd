"""Injection lanes of many interfaces, stage by stage: what `visit_lane` does lane by lane, where `State.path.batch_lanes`.

As for routers (batch_path.pxd): who opens a packet, who launches a flit and who sleeps cannot be guessed, so it is
put into lists by arithmetic, and the lanes of a list go through a stage together.
"""

from libc.stdint cimport int32_t, int64_t, uint64_t

from pyxsim.core.state.bits cimport bits_from, clear_bit, lowest, set_bit
from pyxsim.core.router.interface cimport packet_starts, open_packet
from pyxsim.core.router.link cimport link_available, launch_on_link, wake_lane
from pyxsim.core.state.network_state cimport State
from pyxsim.core.state.records cimport BODY, NONE, Link, OutputVc


cdef enum:
    WORD = 64
    ENOUGH = 256              # lanes of a batch: then it is done, after the word at hand
    LANES = ENOUGH + WORD


cdef struct LaneBatch:
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
        if s.vcs.output[wire.base + number].credit > 0:
            return number
        vcs &= ~(<uint64_t> 1 << number)
    return -1


cdef inline void collect_lanes(State* s, LaneBatch* b, int32_t word, bint interleaved, bint unit) noexcept nogil:
    """Which active lanes of a word can go on with the packet of last time."""
    cdef uint64_t bits = s.lanes.active[word]
    cdef int32_t first = s.links.network + word * WORD
    cdef int32_t go = b.go_count
    cdef int32_t turn = b.turn_count
    cdef int32_t link
    cdef bint goes
    cdef OutputVc* out
    while bits:
        link = first + lowest(bits)
        bits &= bits - 1
        out = &s.vcs.output[s.links.link[link].base + s.links.link[link].launch_pointer]
        goes = (out.send_left > 0) & (out.credit > 0)
        if not unit:
            goes = goes & link_available(s, link, s.now)
        b.going[go] = b.turning[turn] = link
        go += goes
        turn += not goes
        if interleaved:
            b.asking[b.ask_count] = link
            b.ask_count += s.lanes.source_head[link - s.links.network] != NONE
    b.go_count, b.turn_count = go, turn


cdef inline int32_t open_on_free_vc(State* s, int32_t link, int64_t first) noexcept nogil:
    """The VC on which a lane with a message opens a packet of it, or -1. `first`: see `open_packet`."""
    cdef Link* wire = &s.links.link[link]
    cdef int32_t vnet = s.config.class_vnet[0]
    cdef uint64_t free = s.vcs.unheld[wire.word] & s.links.range_mask[wire.range + vnet]
    cdef int32_t number = next_with_credit(s, wire, free, s.lanes.open_pointer[(link - s.links.network) * s.config.vnets + vnet])
    if number >= 0:
        open_packet(s, link, 0, number, first, True)
    return number


cdef inline void switch_packets(State* s, LaneBatch* b, int64_t t, bint unit) noexcept nogil:
    """One packet at a time: who has none open opens the next one, and launches its first flit, if the link can."""
    cdef int32_t i, link
    for i in range(b.turn_count):
        link = b.turning[i]
        if (
            s.lanes.source_head[link - s.links.network] != NONE and not s.lanes.opened[s.links.link[link].word]
            and open_on_free_vc(s, link, t if unit else -1) >= 0 and (unit or link_available(s, link, t))
        ):
            b.going[b.go_count] = link
            b.go_count += 1
        else:
            clear_bit(s.lanes.active, link - s.links.network)


cdef inline void switch_packets_interleaved(State* s, LaneBatch* b, int64_t t, bint unit) noexcept nogil:
    """Interleaved: packets are opened; then who could not go on turns to the next packet that can go."""
    cdef int32_t i, link, number
    cdef int32_t opened = 0
    cdef Link* wire
    for i in range(b.ask_count):
        b.asking[opened] = b.asking[i]
        opened += open_on_free_vc(s, b.asking[i], -1) >= 0
    for i in range(b.turn_count):
        link = b.turning[i]
        wire = &s.links.link[link]
        number = -1
        if unit or link_available(s, link, t):
            number = next_with_credit(s, wire, s.lanes.opened[wire.word], wire.launch_pointer)
        if number >= 0:
            wire.launch_pointer = number
            b.going[b.go_count] = link
            b.go_count += 1
        else:
            clear_bit(s.lanes.active, link - s.links.network)
    if not unit:   # who opened a packet may open another one in the next cycle, busy as the link may be
        for i in range(opened):
            set_bit(s.lanes.active, b.asking[i] - s.links.network)


cdef inline void launch_flits(State* s, LaneBatch* b, bint interleaved, int64_t t, bint unit) noexcept nogil:
    """What comes first to a VC is a head, whatever it is called. Interleaved, it is now that a packet may begin."""
    cdef int32_t heads = 0
    cdef int32_t tails = 0
    cdef int32_t i, link, vc, left
    cdef int64_t free
    cdef OutputVc* out
    for i in range(b.go_count):
        link = b.going[i]
        vc = s.links.link[link].base + s.links.link[link].launch_pointer
        out = &s.vcs.output[vc]
        left = out.send_left
        if interleaved or not unit:
            b.heads[heads] = out.send_packet
            heads += left == s.pools.packets[out.send_packet].flits
        out.send_left = left - 1
        out.credit -= 1
        free = launch_on_link(s, vc, link, BODY, NONE, 0, t, False, unit)
        if not unit and free > t + 1:
            wake_lane(s, link, free)
            if left > 1 and (not interleaved or s.lanes.source_head[link - s.links.network] == NONE):
                clear_bit(s.lanes.active, link - s.links.network)
        b.tails[tails] = link
        tails += left == 1
    s.in_flight += b.go_count
    s.stats.changed |= b.go_count != 0
    for i in range(heads):
        packet_starts(s, &s.pools.packets[b.heads[i]], t)
    finish_packets(s, b, tails)


cdef inline void finish_packets(State* s, LaneBatch* b, int32_t count) noexcept nogil:
    """A lane stays with a packet until its tail is launched, then turns to the next VC. Who has no more sleeps."""
    cdef int32_t i, lane, number
    cdef uint64_t opened
    cdef bint idle
    cdef Link* wire
    for i in range(count):
        lane = b.tails[i] - s.links.network
        wire = &s.links.link[b.tails[i]]
        number = wire.launch_pointer
        opened = s.lanes.opened[wire.word] & ~(<uint64_t> 1 << number)
        s.lanes.opened[wire.word] = opened
        s.vcs.unheld[wire.word] |= <uint64_t> 1 << number
        s.lanes.open_count[lane] -= 1
        number += 1
        wire.launch_pointer = number & -<int32_t> (number < wire.vcs)
        idle = (opened == 0) & (s.lanes.source_head[lane] == NONE)
        s.lanes.active[lane >> 6] &= ~(<uint64_t> idle << (lane & 63))


cdef inline void visit_lane_batches(State* s, LaneBatch* b, bint interleaved, bint unit) noexcept nogil:
    """All active lanes in one cycle. `interleaved`, `unit_rate`: the compiler makes a copy of this for each."""
    cdef int32_t word
    b.go_count = b.turn_count = b.ask_count = 0
    for word in range(s.lanes.words):
        if s.lanes.active[word]:
            collect_lanes(s, b, word, interleaved, unit)
        if b.go_count + b.turn_count > ENOUGH or word == s.lanes.words - 1:
            if interleaved:
                switch_packets_interleaved(s, b, s.now, unit)
            else:
                switch_packets(s, b, s.now, unit)
            launch_flits(s, b, interleaved, s.now, unit)
            b.go_count = b.turn_count = b.ask_count = 0
