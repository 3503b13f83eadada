"""All injection lanes in batches, stage by stage: `visit_lane` where `State.path.lane_batch`.

As in batch_path.pxd, which lane opens a packet, launches a flit or sleeps is hard to predict for a processor, so
branch-free code sorts lanes into lists, and the lanes of a list go through a stage together.
"""

from libc.stdint cimport int32_t, int64_t, uint64_t

from pyxsim.core.router.interface cimport open_packet, packet_starts
from pyxsim.core.router.link cimport launch_on_link, link_available, wake_lane
from pyxsim.core.state.bits cimport bits_from, clear_bit, lowest, set_bit
from pyxsim.core.state.network_state cimport State
from pyxsim.core.state.records cimport BODY, NONE, Link, OutputVc


cdef enum:
    WORD = 64
    ENOUGH = 256   # lanes after which a batch ends, at a word boundary
    LANES = ENOUGH + WORD


cdef struct LaneBatch:
    # Links by their next action.
    int32_t launching[LANES]   # launch a flit of the VC at their pointer
    int32_t stalled[LANES]     # have no flit there that can go
    int32_t opening[LANES]     # interleaved: may open a packet even if others are open
    int32_t tails[LANES]       # have launched the last flit of a packet
    int32_t starts[LANES]      # packets whose first flit is launched
    int32_t launching_count, stalled_count, opening_count


cdef inline int32_t next_with_credit(State* s, Link* wire, uint64_t vcs, int32_t start) noexcept nogil:
    """Return the first of these VCs with a credit, at or after number `start`, cyclically; or -1."""
    cdef uint64_t later
    cdef int32_t number
    while vcs:
        later = vcs & bits_from(start)
        number = lowest(later | (vcs & -<uint64_t> (later == 0)))
        if s.vcs.output[wire.base + number].credit > 0:
            return number
        vcs &= ~(<uint64_t> 1 << number)
    return -1


cdef inline void collect_lanes(State* s, LaneBatch* b, int32_t word, bint interleaved, bint unit_rate) noexcept nogil:
    """Sort the active lanes of a word: those that can continue with their current packet, and the others."""
    cdef uint64_t bits = s.lanes.active[word]
    cdef int32_t first = s.links.network + word * WORD
    cdef int32_t launching = b.launching_count
    cdef int32_t stalled = b.stalled_count
    cdef int32_t link
    cdef bint can_go
    cdef OutputVc* out
    while bits:
        link = first + lowest(bits)
        bits &= bits - 1
        out = &s.vcs.output[s.links.link[link].base + s.links.link[link].launch_pointer]
        can_go = (out.send_left > 0) & (out.credit > 0)
        if not unit_rate:
            can_go = can_go & link_available(s, link, s.now)
        b.launching[launching] = b.stalled[stalled] = link
        launching += can_go
        stalled += not can_go
        if interleaved:
            b.opening[b.opening_count] = link
            b.opening_count += s.lanes.source_head[link - s.links.network] != NONE
    b.launching_count, b.stalled_count = launching, stalled


cdef inline int32_t open_on_free_vc(State* s, int32_t link, int64_t first) noexcept nogil:
    """Open the next packet of a lane on a free VC with a credit. Return the VC number, or -1. `first`: see
    `open_packet`."""
    cdef Link* wire = &s.links.link[link]
    cdef int32_t vnet = s.config.class_vnet[0]
    cdef uint64_t free = s.vcs.unheld[wire.word] & s.links.range_mask[wire.range + vnet]
    cdef int32_t number = next_with_credit(s, wire, free,
                                           s.lanes.open_pointer[(link - s.links.network) * s.config.vnets + vnet])
    if number >= 0:
        open_packet(s, link, 0, number, first, True)
    return number


cdef inline void switch_packets(State* s, LaneBatch* b, int64_t t, bint unit_rate) noexcept nogil:
    """Not interleaved: lanes without an open packet open the next one and launch its first flit if the link is
    available."""
    cdef int32_t i, link
    for i in range(b.stalled_count):
        link = b.stalled[i]
        if (
            s.lanes.source_head[link - s.links.network] != NONE and not s.lanes.opened[s.links.link[link].word]
            and open_on_free_vc(s, link, t if unit_rate else -1) >= 0 and (unit_rate or link_available(s, link, t))
        ):
            b.launching[b.launching_count] = link
            b.launching_count += 1
        else:
            clear_bit(s.lanes.active, link - s.links.network)


cdef inline void switch_packets_interleaved(State* s, LaneBatch* b, int64_t t, bint unit_rate) noexcept nogil:
    """Interleaved: open packets; then stalled lanes switch to the next open packet that can go."""
    cdef int32_t i, link, number
    cdef int32_t opened = 0
    cdef Link* wire
    for i in range(b.opening_count):
        b.opening[opened] = b.opening[i]
        opened += open_on_free_vc(s, b.opening[i], -1) >= 0
    for i in range(b.stalled_count):
        link = b.stalled[i]
        wire = &s.links.link[link]
        number = -1
        if unit_rate or link_available(s, link, t):
            number = next_with_credit(s, wire, s.lanes.opened[wire.word], wire.launch_pointer)
        if number >= 0:
            wire.launch_pointer = number
            b.launching[b.launching_count] = link
            b.launching_count += 1
        else:
            clear_bit(s.lanes.active, link - s.links.network)
    if not unit_rate:   # a lane that opened a packet may open another one in the next cycle, even if its link is busy
        for i in range(opened):
            set_bit(s.lanes.active, b.opening[i] - s.links.network)


cdef inline void launch_flits(State* s, LaneBatch* b, bint interleaved, int64_t t, bint unit_rate) noexcept nogil:
    """Launch one flit per lane. A flit into an empty VC is a head whatever its event says."""
    cdef int32_t starts = 0
    cdef int32_t tails = 0
    cdef int32_t i, link, vc, left
    cdef int64_t free
    cdef OutputVc* out
    for i in range(b.launching_count):
        link = b.launching[i]
        vc = s.links.link[link].base + s.links.link[link].launch_pointer
        out = &s.vcs.output[vc]
        left = out.send_left
        if interleaved or not unit_rate:
            b.starts[starts] = out.send_packet
            starts += left == s.pools.packets[out.send_packet].flits
        out.send_left = left - 1
        out.credit -= 1
        free = launch_on_link(s, vc, link, BODY, NONE, 0, t, False, unit_rate)
        if not unit_rate and free > t + 1:
            wake_lane(s, link, free)
            if left > 1 and (not interleaved or s.lanes.source_head[link - s.links.network] == NONE):
                clear_bit(s.lanes.active, link - s.links.network)
        b.tails[tails] = link
        tails += left == 1
    s.in_flight += b.launching_count
    s.stats.changed |= b.launching_count != 0
    for i in range(starts):
        packet_starts(s, &s.pools.packets[b.starts[i]], t)
    finish_packets(s, b, tails)


cdef inline void finish_packets(State* s, LaneBatch* b, int32_t count) noexcept nogil:
    """After a tail a lane moves on to its next VC; a lane without packets and messages sleeps."""
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


cdef inline void visit_lane_batches(State* s, LaneBatch* b, bint interleaved, bint unit_rate) noexcept nogil:
    """Visit all active lanes. The compiler specialises this for `interleaved` and `unit_rate`."""
    cdef int32_t word
    b.launching_count = b.stalled_count = b.opening_count = 0
    for word in range(s.lanes.words):
        if s.lanes.active[word]:
            collect_lanes(s, b, word, interleaved, unit_rate)
        if b.launching_count + b.stalled_count > ENOUGH or word == s.lanes.words - 1:
            if interleaved:
                switch_packets_interleaved(s, b, s.now, unit_rate)
            else:
                switch_packets(s, b, s.now, unit_rate)
            launch_flits(s, b, interleaved, s.now, unit_rate)
            b.launching_count = b.stalled_count = b.opening_count = 0
