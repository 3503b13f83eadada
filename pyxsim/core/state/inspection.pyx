"""Inspect a network and check its invariants. Slow, and never called by the cycle loop.

The debug build checks after every cycle, other builds on request (`Engine.check`).
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t

from pyxsim.core.router.buffer cimport (
    first_packet_place,
    mask_bit_of,
    masks_of,
    next_packet_place,
    packet_at,
    vc_at_mask_bit,
)
from pyxsim.core.router.crossbar cimport packet_complete
from pyxsim.core.router.route_computation cimport all_candidates, front_time
from pyxsim.core.router.vc_allocator cimport ring_slots, ring_vc
from pyxsim.core.state.bits cimport has_bit
from pyxsim.core.state.records cimport (
    ACTIVE, CREDIT, HOLDING, IDLE, KINDS, LANE_CREDIT, LAST, NONE, ROUTING, WAITING, Replay, Router,
)


cdef list calendar_entries(State* s):
    """Every entry of the calendar as (cycle, kind, index), sorted."""
    cdef int64_t place, cycle
    cdef int32_t i, kind
    entries = []
    for place in range(s.calendar.slot_mask + 1):
        cycle = s.now + ((place - s.now) & s.calendar.slot_mask)
        for kind in range(KINDS):
            for i in range(s.calendar.slots[place].count[kind]):
                entries.append((cycle, kind, s.calendar.slots[place].events[kind][i]))
    entries.sort()
    return entries


cdef list pending_messages(State* s):
    """Messages that have not joined their source queue: those in order of their start, then the others."""
    cdef int32_t i
    cdef int32_t message = s.waiting.first
    serials = []
    while message != NONE:
        serials.append(s.pools.messages[message].serial)
        message = s.pools.messages[message].next
    return serials + [s.pools.messages[s.waiting.heap[i]].serial for i in range(s.waiting.heap_count)]


cdef list packets_of(State* s, int32_t vc):
    """The packets of a VC, in order: those with flits in the buffer, on the link, or still to be sent."""
    cdef int32_t place = first_packet_place(s, vc)
    packets = []
    while place != NONE:
        packets.append(packet_at(s, vc, place))
        place = next_packet_place(s, vc, place)
    return packets


cdef list stuck_flits(State* s):
    """Every front flit in an input VC: where it is, what it requests, which message it belongs to."""
    cdef int32_t vc, link, packet, held, i, count
    entries = []
    for vc in range(s.vcs.count):
        link = s.vcs.input[vc].link
        if s.vcs.input[vc].occupancy == 0 or s.vcs.input[vc].state == IDLE:
            continue
        packet = s.vcs.input[vc].packet
        held = NONE
        if s.vcs.input[vc].state & (HOLDING | ACTIVE):
            held = s.vcs.input[vc].out_vc - s.links.link[s.vcs.input[vc].out_link].base
        asks, own = [], 0
        if s.vcs.input[vc].state == WAITING and s.vcs.input[vc].multi:
            all_candidates(s, vc, &count)
            rows = [(s.routes.candidate_link[i], s.links.link[s.routes.candidate_link[i]].range
                     + s.pools.packets[packet].vnet * s.links.link[s.routes.candidate_link[i]].classes
                     + s.routes.candidate_class[i])
                    for i in range(count)]
            asks = [(link, s.links.low[<int32_t> row], s.links.high[<int32_t> row]) for link, row in rows]
            if s.config.flow:
                own = max((min(s.pools.packets[packet].flits, s.links.link[<int32_t> out].depth) for out, *_ in asks),
                          default=0)
        elif s.vcs.input[vc].state == WAITING and s.vcs.input[vc].out_link != NONE:
            low, high = s.links.low[s.vcs.input[vc].range_row], s.links.high[s.vcs.input[vc].range_row]
            if ring_vc(s, vc) != NONE:
                low, high = ring_vc(s, vc), ring_vc(s, vc) + 1
            asks = [(s.vcs.input[vc].out_link, low, high)]
            own = ring_slots(s, vc)
        entries.append({
            "link": s.vcs.input[vc].link,
            "vc": vc - s.links.link[s.vcs.input[vc].link].base,
            "wants": s.vcs.input[vc].out_link,
            "holds": held,
            "low": s.links.low[s.vcs.input[vc].range_row],
            "high": s.links.high[s.vcs.input[vc].range_row],
            "asks": asks,
            "own": own,   # free slots that the VC must have of its own; 0: the credits for the next flit suffice
            "front": front_time(s, vc),
            "message": s.pools.messages[s.pools.packets[packet].message].serial,
            "packet": s.pools.packets[packet].number,
            "left": s.vcs.input[vc].left,
        })
    entries.sort(key=lambda entry: (entry["link"], entry["vc"]))
    return entries


cdef int prove_invariants(State* s) except -1:
    """Raise AssertionError, naming the place, if an invariant of docs/router.md is violated."""
    cdef int32_t link, number, vc, node
    cdef int64_t flying = 0
    cdef int32_t borrowed
    on_the_way = [0] * s.vcs.count
    coming_back = [0] * s.vcs.count
    for _, kind, index in calendar_entries(s):
        if kind <= LAST:
            on_the_way[index] += 1
        elif kind <= LANE_CREDIT:
            coming_back[index] += 1
    if s.config.credits:
        for vc in range(s.vcs.count):
            coming_back[vc] += s.links.vc_credits[vc].pending + s.links.vc_credits[vc].lost
    reserved = reservations(s)
    for link in range(s.links.count):
        node = s.links.link[link].queue_head
        while node != NONE:
            on_the_way[s.pools.queued[node].vc] += 1
            node = s.pools.nodes[node].next
    for link in range(s.links.count):
        for vc in unaccepted(s, link):
            on_the_way[vc] += 1
        for vc, count in carried(s, link):
            coming_back[vc] += count
    for link in range(s.links.count):
        borrowed = 0
        for number in range(s.links.link[link].vcs):
            vc = s.links.link[link].base + number
            where = f"VC {number} of link {link} in cycle {s.now}"
            total = (s.vcs.output[vc].credit + s.vcs.input[vc].occupancy + on_the_way[vc] + coming_back[vc]
                     + reserved[vc])
            require(total == s.links.link[link].depth,
                    f"{where}: {total} credits and flits for {s.links.link[link].depth} slots")
            require(0 <= s.vcs.input[vc].occupancy, f"{where}: negative count")
            borrowed += max(0, -s.vcs.output[vc].credit)
            if s.vcs.input[vc].router != NONE:
                prove_masks(s, where, vc)
            flying += s.vcs.input[vc].occupancy + on_the_way[vc]
            prove_owner(s, where, link, vc)
        where = f"link {link} in cycle {s.now}"
        left = s.links.link[link].pool_left
        require(borrowed + left == s.links.pool[link], f"{where}: {borrowed} slots of the pool are taken, {left} left")
        require(s.links.link[link].pool_left >= 0, f"{where}: more slots of the pool are taken than it has")
    require(s.latency.unexplained == 0, f"{s.latency.unexplained} packets whose latency is not the sum of its parts")
    require(flying == s.in_flight, f"{s.in_flight} flits counted in flight, {flying} found in cycle {s.now}")
    return 0


cdef list unaccepted(State* s, int32_t link):
    """The VCs of the flits in a replay buffer that the receiver has not accepted."""
    cdef int64_t number
    cdef Replay* r
    if not s.config.retry or not s.links.replay[link].slots:
        return []
    r = &s.links.replay[link]
    flits = [s.links.replay_flit[r.base + number % r.slots] for number in range(r.oldest, r.newest)]
    return [flit["vc"] for flit in flits if flit["arrival"] == INT64_MAX and flit["kind"] != CREDIT]


cdef list carried(State* s, int32_t link):
    """The VCs and numbers of the credits in a replay buffer that the receiver has not accepted."""
    cdef int64_t number, slot
    cdef int32_t i, base
    cdef Replay* r
    found = []
    if not (s.config.credits and s.config.retry and s.links.replay[link].slots):
        return found
    if s.links.credit_return[link].opposite == NONE:
        return found
    r = &s.links.replay[link]
    base = s.links.link[s.links.credit_return[link].opposite].base
    for number in range(r.oldest, r.newest):
        slot = r.base + number % r.slots
        if s.links.replay_flit[slot].arrival == INT64_MAX:
            for i in range(s.links.link[s.links.credit_return[link].opposite].vcs):
                found.append((base + i, s.links.replay_credits[slot * s.links.credit_rules.most_vcs + i]))
    return found


cdef int prove_masks(State* s, str where, int32_t vc) except -1:
    cdef Router* r = &s.routers.router[s.vcs.input[vc].router]
    cdef bint marked = (masks_of(s, vc).occupied & mask_bit_of(s, vc)) != 0
    require(vc_at_mask_bit(s, r, s.vcs.input[vc].mask_bit - 64 * r.word) == vc, f"{where}: another place in the masks")
    require(marked == (s.vcs.input[vc].occupancy > 0), f"{where}: occupied mask is wrong")
    marked = (masks_of(s, vc).heads & mask_bit_of(s, vc)) != 0
    require(marked == (s.vcs.input[vc].state in (WAITING, ROUTING)), f"{where}: mask of waiting heads is wrong")
    return 0


cdef list reservations(State* s):
    """For each VC, the slots reserved by a head for flits of its packet that are still to be sent (cut-through)."""
    cdef int32_t vc, link
    slots = [0] * s.vcs.count
    if s.config.flow == 0:
        return slots
    for vc in range(s.vcs.count):
        link = s.vcs.input[vc].link
        if link >= s.links.network and s.links.link[link].src == NONE and has_bit(
            &s.lanes.opened[s.links.link[link].word], vc - s.links.link[link].base
        ):
            if s.vcs.output[vc].send_left < s.pools.packets[s.vcs.output[vc].send_packet].flits:
                slots[vc] += s.vcs.output[vc].send_left
        if s.links.link[link].dst != NONE and s.vcs.input[vc].state == ACTIVE:
            slots[<int32_t> s.vcs.input[vc].out_vc] += s.vcs.input[vc].left
    return slots


cdef int prove_owner(State* s, str where, int32_t link, int32_t vc) except -1:
    """A VC is free exactly if no packet is being sent on it, and its packets are consistent."""
    cdef bint held = not has_bit(&s.vcs.unheld[s.links.link[link].word], vc - s.links.link[link].base)
    cdef int32_t target, out
    packets = packets_of(s, vc)
    if s.vcs.draining[vc]:
        require(held and s.config.drained, f"{where}: closing, but not held")
    if s.config.drained and not held and not s.config.credits:   # else a sender may lack those of the first exchange
        require(s.vcs.output[vc].credit == s.links.link[link].depth and not packets, f"{where}: free with credits out")
    if s.links.link[link].dst == NONE:
        return 0
    if s.vcs.input[vc].state == IDLE:
        require(s.vcs.input[vc].occupancy == 0 or not packet_complete(s, vc),
                f"{where}: idle with a packet in the buffer")
        return 0
    require(len(packets) > 0, f"{where}: a front packet without a packet")
    flits = s.pools.packets[<int32_t> packets[0]].flits
    require(0 < s.vcs.input[vc].left <= flits, f"{where}: {s.vcs.input[vc].left} of {flits} flits left")
    if s.vcs.input[vc].state in (WAITING, ROUTING):
        require(s.vcs.input[vc].left == flits and s.vcs.input[vc].occupancy > 0,
                f"{where}: a waiting head that is not there")
        return 0
    target = s.vcs.input[vc].out_vc
    out = s.vcs.input[target].link
    free = has_bit(&s.vcs.unheld[s.links.link[out].word], target - s.links.link[out].base)
    require(not free, f"{where}: holds VC {target}, which is free")
    packets_there = packets_of(s, target)
    last = packets_there[len(packets_there) - 1]
    require(last == packets[0], f"{where}: not the last packet of the VC that it holds")
    return 0


cdef int require(bint condition, str text) except -1:
    if not condition:
        raise AssertionError(text)
    return 0
