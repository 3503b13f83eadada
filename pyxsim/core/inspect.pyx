"""What is where in the network, and the proof that it is consistent. Slow, and never called by the cycle loop.

Only the debug build proves every cycle; elsewhere it is asked for (`Engine.check`).
"""

from libc.stdint cimport int32_t, int64_t

from pyxsim.core.bits cimport has_bit
from pyxsim.core.crossbar cimport complete
from pyxsim.core.state cimport ACTIVE, CREDIT, FLIT, IDLE, NONE, ROUTING, WAITING
from pyxsim.core.vc_allocator cimport own_candidates


cdef list calendar_entries(State* s):
    """Every entry of the calendar as (cycle, kind, index), sorted."""
    cdef int64_t place, cycle
    cdef int32_t i
    entries = []
    for place in range(s.slot_mask + 1):
        cycle = s.now + ((place - s.now) & s.slot_mask)
        for i in range(s.slots[place].count):
            entries.append((cycle, s.slots[place].events[i] & 3, s.slots[place].events[i] >> 2))
    entries.sort()
    return entries


cdef list packets_of(State* s, int32_t vc):
    """The packets of a VC, in order: those with flits in the buffer, on the link, or still to be sent."""
    cdef int32_t node = s.fifo_head[vc]
    found = []
    while node != NONE:
        found.append(s.nodes_pool[node].packet)
        node = s.nodes_pool[node].next
    return found


cdef list stuck_flits(State* s):
    """Every front flit in an input VC: where it is, what it wants, which message it belongs to."""
    cdef int32_t vc, link, packet, held, i, count
    found = []
    for vc in range(s.vcs):
        link = s.vc_link[vc]
        if s.occupancy[vc] == 0 or s.vc_state[vc] == IDLE:
            continue
        packet = s.nodes_pool[s.fifo_head[vc]].packet
        held = s.hold[vc] - s.link_base[s.want[vc]] if s.vc_state[vc] == ACTIVE else NONE
        asks = []
        if s.vc_state[vc] == WAITING and s.many[vc]:
            own_candidates(s, vc, &count)
            rows = [(s.found_link[i], s.link_range[s.found_link[i]]
                     + s.packets[packet].vnet * s.link_classes[s.found_link[i]] + s.found_class[i])
                    for i in range(count)]
            asks = [(link, s.low[<int32_t> row], s.high[<int32_t> row]) for link, row in rows]
        elif s.vc_state[vc] == WAITING and s.want[vc] != NONE:
            asks = [(s.want[vc], s.range_low[vc], s.range_high[vc])]
        found.append({
            "link": s.vc_link[vc],
            "vc": vc - s.link_base[s.vc_link[vc]],
            "wants": s.want[vc],
            "holds": held,
            "low": s.range_low[vc],
            "high": s.range_high[vc],
            "asks": asks,
            "front": s.front[vc],
            "message": s.messages[s.packets[packet].message].serial,
            "packet": s.packets[packet].number,
            "left": s.left[vc],
        })
    return found


cdef int prove_invariants(State* s) except -1:
    """AssertionError names the place that breaks an invariant of docs/router.md."""
    cdef int32_t link, number, vc, node, router
    cdef int64_t flying = 0
    cdef int32_t borrowed
    on_the_way = [0] * s.vcs
    coming_back = [0] * s.vcs
    waiting = [0] * s.routers
    for _, kind, index in calendar_entries(s):
        if kind == FLIT:
            on_the_way[index] += 1
        elif kind == CREDIT:
            coming_back[index] += 1
    reserved = reservations(s)
    for link in range(s.links):
        borrowed = 0
        node = s.queue_head[link]
        while node != NONE:
            on_the_way[s.nodes_pool[node].vc] += 1
            node = s.nodes_pool[node].next
        for number in range(s.link_vcs[link]):
            vc = s.link_base[link] + number
            where = f"VC {number} of link {link} in cycle {s.now}"
            total = s.credit[vc] + s.occupancy[vc] + on_the_way[vc] + coming_back[vc] + reserved[vc]
            require(total == s.link_depth[link], f"{where}: {total} credits and flits for {s.link_depth[link]} slots")
            require(0 <= s.occupancy[vc], f"{where}: negative count")
            borrowed += max(0, -s.credit[vc])
            marked = has_bit(&s.occupied[s.link_word[link]], number)
            require(marked == (s.occupancy[vc] > 0), f"{where}: occupied mask is wrong")
            flying += s.occupancy[vc] + on_the_way[vc]
            prove_owner(s, where, link, vc)
            router = s.link_dst[link]
            if router != NONE and s.vc_state[vc] == WAITING:
                waiting[router] += 1
        where = f"link {link} in cycle {s.now}"
        require(borrowed + s.pool_left[link] == s.link_pool[link], f"{where}: {borrowed} slots of the pool are taken")
        require(s.pool_left[link] >= 0, f"{where}: more slots of the pool are taken than it has")
    for router in range(s.routers):
        counted = s.waiting[router]
        require(waiting[router] == counted, f"router {router} counts {counted} waiting heads, has {waiting[router]}")
    require(flying == s.in_flight, f"{s.in_flight} flits counted in flight, {flying} found in cycle {s.now}")
    return 0


cdef list reservations(State* s):
    """For each VC, the slots taken by a head for flits of its packet that are still to be sent (cut-through)."""
    cdef int32_t vc, link
    found = [0] * s.vcs
    if s.flow == 0:
        return found
    for vc in range(s.vcs):
        link = s.vc_link[vc]
        if link >= s.network_links and s.link_src[link] == NONE and has_bit(
            &s.opened[s.link_word[link]], vc - s.link_base[link]
        ):
            if s.send_left[vc] < s.packets[s.send_packet[vc]].flits:
                found[vc] += s.send_left[vc]
        if s.link_dst[link] != NONE and s.vc_state[vc] == ACTIVE:
            if s.left[vc] < s.packets[s.nodes_pool[s.fifo_head[vc]].packet].flits:
                found[<int32_t> s.hold[vc]] += s.left[vc]
    return found


cdef int prove_owner(State* s, str where, int32_t link, int32_t vc) except -1:
    """Owner states: a VC is free exactly if no packet is being sent on it, and its own packet is where it says."""
    cdef bint held = not has_bit(&s.unheld[s.link_word[link]], vc - s.link_base[link])
    cdef int32_t target, out
    packets = packets_of(s, vc)
    if s.closing[vc]:
        require(held and s.drained, f"{where}: closing, but not held")
    if s.drained and not held:
        require(s.credit[vc] == s.link_depth[link] and not packets, f"{where}: free with credits out")
    if s.link_dst[link] == NONE:
        return 0
    if s.vc_state[vc] == IDLE:
        require(s.occupancy[vc] == 0 or not complete(s, vc), f"{where}: idle with a packet in the buffer")
        return 0
    require(len(packets) > 0, f"{where}: a front packet without a packet")
    flits = s.packets[<int32_t> packets[0]].flits
    require(0 < s.left[vc] <= flits, f"{where}: {s.left[vc]} of {flits} flits left")
    if s.vc_state[vc] in (WAITING, ROUTING):
        require(s.left[vc] == flits and s.occupancy[vc] > 0, f"{where}: a waiting head that is not there")
        return 0
    target = s.hold[vc]
    out = s.vc_link[target]
    free = has_bit(&s.unheld[s.link_word[out]], target - s.link_base[out])
    require(not free, f"{where}: holds VC {target}, which is free")
    packets_there = packets_of(s, target)
    last = packets_there[len(packets_there) - 1]
    require(last == packets[0], f"{where}: not the last packet of the VC that it holds")
    return 0


cdef int require(bint condition, str text) except -1:
    if not condition:
        raise AssertionError(text)
    return 0
