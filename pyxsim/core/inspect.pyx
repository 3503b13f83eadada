"""What is where in the network, and the proof that it is consistent. Slow, and never called by the cycle loop.

Only the debug build proves every cycle; elsewhere it is asked for (`Engine.check`).
"""

from libc.stdint cimport int32_t, int64_t

from pyxsim.core.bits cimport has_bit
from pyxsim.core.state cimport ACTIVE, CREDIT, FLIT, IDLE, NONE, WAITING


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
    cdef int32_t vc, link, packet, held
    found = []
    for vc in range(s.vcs):
        link = s.vc_link[vc]
        if s.occupancy[vc] == 0 or s.vc_state[vc] == IDLE:
            continue
        packet = s.nodes_pool[s.fifo_head[vc]].packet
        held = s.hold[vc] - s.link_base[s.want[vc]] if s.vc_state[vc] == ACTIVE else NONE
        found.append({
            "link": link,
            "vc": vc - s.link_base[link],
            "wants": s.want[vc],
            "holds": held,
            "low": s.range_low[vc],
            "high": s.range_high[vc],
            "front": s.front[vc],
            "message": s.packets[packet].message,
            "packet": s.packets[packet].number,
        })
    return found


cdef int prove_invariants(State* s) except -1:
    """AssertionError names the place that breaks an invariant of docs/router.md."""
    cdef int32_t link, number, vc, node, router
    cdef int64_t flying = 0
    on_the_way = [0] * s.vcs
    coming_back = [0] * s.vcs
    waiting = [0] * s.routers
    for _, kind, index in calendar_entries(s):
        if kind == FLIT:
            on_the_way[index] += 1
        elif kind == CREDIT:
            coming_back[index] += 1
    for link in range(s.links):
        node = s.queue_head[link]
        while node != NONE:
            on_the_way[s.nodes_pool[node].vc] += 1
            node = s.nodes_pool[node].next
        for number in range(s.link_vcs[link]):
            vc = s.link_base[link] + number
            where = f"VC {number} of link {link} in cycle {s.now}"
            total = s.credit[vc] + s.occupancy[vc] + on_the_way[vc] + coming_back[vc]
            require(total == s.link_depth[link], f"{where}: {total} credits and flits for {s.link_depth[link]} slots")
            require(0 <= s.credit[vc] and 0 <= s.occupancy[vc], f"{where}: negative count")
            marked = has_bit(&s.occupied[s.link_word[link]], number)
            require(marked == (s.occupancy[vc] > 0), f"{where}: occupied mask is wrong")
            flying += s.occupancy[vc] + on_the_way[vc]
            prove_owner(s, where, link, vc)
            router = s.link_dst[link]
            if router != NONE and s.vc_state[vc] == WAITING:
                waiting[router] += 1
    for router in range(s.routers):
        counted = s.waiting[router]
        require(waiting[router] == counted, f"router {router} counts {counted} waiting heads, has {waiting[router]}")
    require(flying == s.in_flight, f"{s.in_flight} flits counted in flight, {flying} found in cycle {s.now}")
    return 0


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
        require(s.occupancy[vc] == 0, f"{where}: idle with flits in the buffer")
        return 0
    require(len(packets) > 0, f"{where}: a front packet without a packet")
    flits = s.packets[<int32_t> packets[0]].flits
    require(0 < s.left[vc] <= flits, f"{where}: {s.left[vc]} of {flits} flits left")
    if s.vc_state[vc] == WAITING:
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
