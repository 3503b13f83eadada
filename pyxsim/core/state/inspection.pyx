"""What is where in the network, and the proof that it is consistent. Slow, and never called by the cycle loop.

Only the debug build proves every cycle; elsewhere it is asked for (`Engine.check`).
"""

from libc.stdint cimport int32_t, int64_t

from pyxsim.core.state.bits cimport has_bit
from pyxsim.core.router.buffer cimport bit_of, first_place, inputs_of, next_place, packet_at, vc_at
from pyxsim.core.router.crossbar cimport complete
from pyxsim.core.state.network_state cimport ACTIVE, HOLDING, IDLE, KINDS, LANE_CREDIT, LAST, NONE, ROUTING, WAITING, Router
from pyxsim.core.router.route_computation cimport front_time, offers


cdef list calendar_entries(State* s):
    """Every entry of the calendar as (cycle, kind, index), sorted."""
    cdef int64_t place, cycle
    cdef int32_t i, kind
    entries = []
    for place in range(s.slot_mask + 1):
        cycle = s.now + ((place - s.now) & s.slot_mask)
        for kind in range(KINDS):
            for i in range(s.slots[place].count[kind]):
                entries.append((cycle, kind, s.slots[place].events[kind][i]))
    entries.sort()
    return entries


cdef list pending_messages(State* s):
    """Messages that have not joined their source queue: those in order of their time, then the others."""
    cdef int32_t i
    cdef int32_t message = s.next_message
    found = []
    while message != NONE:
        found.append(s.messages[message].serial)
        message = s.messages[message].next
    return found + [s.messages[s.pending[i]].serial for i in range(s.pending_count)]


cdef list packets_of(State* s, int32_t vc):
    """The packets of a VC, in order: those with flits in the buffer, on the link, or still to be sent."""
    cdef int32_t place = first_place(s, vc)
    found = []
    while place != NONE:
        found.append(packet_at(s, vc, place))
        place = next_place(s, vc, place)
    return found


cdef list stuck_flits(State* s):
    """Every front flit in an input VC: where it is, what it wants, which message it belongs to."""
    cdef int32_t vc, link, packet, held, i, count
    found = []
    for vc in range(s.vcs):
        link = s.vc[vc].link
        if s.vc[vc].occupancy == 0 or s.vc[vc].state == IDLE:
            continue
        packet = s.vc[vc].packet
        held = s.vc[vc].hold - s.link[s.vc[vc].want].base if s.vc[vc].state & (HOLDING | ACTIVE) else NONE
        asks = []
        if s.vc[vc].state == WAITING and s.vc[vc].many:
            offers(s, vc, &count)
            rows = [(s.found_link[i], s.link[s.found_link[i]].range
                     + s.packets[packet].vnet * s.link[s.found_link[i]].classes + s.found_class[i])
                    for i in range(count)]
            asks = [(link, s.low[<int32_t> row], s.high[<int32_t> row]) for link, row in rows]
        elif s.vc[vc].state == WAITING and s.vc[vc].want != NONE:
            asks = [(s.vc[vc].want, s.low[s.vc[vc].row], s.high[s.vc[vc].row])]
        found.append({
            "link": s.vc[vc].link,
            "vc": vc - s.link[s.vc[vc].link].base,
            "wants": s.vc[vc].want,
            "holds": held,
            "low": s.low[s.vc[vc].row],
            "high": s.high[s.vc[vc].row],
            "asks": asks,
            "own": bool(asks and s.flow and s.vc[vc].many),   # and only slots of their own count
            "front": front_time(s, vc),
            "message": s.messages[s.packets[packet].message].serial,
            "packet": s.packets[packet].number,
            "left": s.vc[vc].left,
        })
    found.sort(key=lambda entry: (entry["link"], entry["vc"]))
    return found


cdef int prove_invariants(State* s) except -1:
    """AssertionError names the place that breaks an invariant of docs/router.md."""
    cdef int32_t link, number, vc, node
    cdef int64_t flying = 0
    cdef int32_t borrowed
    on_the_way = [0] * s.vcs
    coming_back = [0] * s.vcs
    for _, kind, index in calendar_entries(s):
        if kind <= LAST:
            on_the_way[index] += 1
        elif kind <= LANE_CREDIT:
            coming_back[index] += 1
    reserved = reservations(s)
    for link in range(s.links):
        borrowed = 0
        node = s.link[link].queue_head
        while node != NONE:
            on_the_way[s.queued_pool[node].vc] += 1
            node = s.nodes_pool[node].next
        for number in range(s.link[link].vcs):
            vc = s.link[link].base + number
            where = f"VC {number} of link {link} in cycle {s.now}"
            total = s.out[vc].credit + s.vc[vc].occupancy + on_the_way[vc] + coming_back[vc] + reserved[vc]
            require(total == s.link[link].depth, f"{where}: {total} credits and flits for {s.link[link].depth} slots")
            require(0 <= s.vc[vc].occupancy, f"{where}: negative count")
            borrowed += max(0, -s.out[vc].credit)
            if s.vc[vc].router != NONE:
                prove_masks(s, where, vc)
            flying += s.vc[vc].occupancy + on_the_way[vc]
            prove_owner(s, where, link, vc)
        where = f"link {link} in cycle {s.now}"
        left = s.link[link].pool_left
        require(borrowed + left == s.pool[link], f"{where}: {borrowed} slots of the pool are taken, {left} left")
        require(s.link[link].pool_left >= 0, f"{where}: more slots of the pool are taken than it has")
    require(s.books.unexplained == 0, f"{s.books.unexplained} packets whose latency is not the sum of its parts")
    require(flying == s.in_flight, f"{s.in_flight} flits counted in flight, {flying} found in cycle {s.now}")
    return 0


cdef int prove_masks(State* s, str where, int32_t vc) except -1:
    cdef Router* r = &s.router[s.vc[vc].router]
    cdef bint marked = (inputs_of(s, vc).occupied & bit_of(s, vc)) != 0
    require(vc_at(s, r, s.vc[vc].spot - 64 * r.word) == vc, f"{where}: another place in the masks")
    require(marked == (s.vc[vc].occupancy > 0), f"{where}: occupied mask is wrong")
    marked = (inputs_of(s, vc).heads & bit_of(s, vc)) != 0
    require(marked == (s.vc[vc].state in (WAITING, ROUTING)), f"{where}: mask of waiting heads is wrong")
    return 0


cdef list reservations(State* s):
    """For each VC, the slots taken by a head for flits of its packet that are still to be sent (cut-through)."""
    cdef int32_t vc, link
    found = [0] * s.vcs
    if s.flow == 0:
        return found
    for vc in range(s.vcs):
        link = s.vc[vc].link
        if link >= s.network_links and s.link[link].src == NONE and has_bit(
            &s.opened[s.link[link].word], vc - s.link[link].base
        ):
            if s.out[vc].send_left < s.packets[s.out[vc].send_packet].flits:
                found[vc] += s.out[vc].send_left
        if s.link[link].dst != NONE and s.vc[vc].state == ACTIVE:
            found[<int32_t> s.vc[vc].hold] += s.vc[vc].left
    return found


cdef int prove_owner(State* s, str where, int32_t link, int32_t vc) except -1:
    """Owner states: a VC is free exactly if no packet is being sent on it, and its own packet is where it says."""
    cdef bint held = not has_bit(&s.unheld[s.link[link].word], vc - s.link[link].base)
    cdef int32_t target, out
    packets = packets_of(s, vc)
    if s.closing[vc]:
        require(held and s.drained, f"{where}: closing, but not held")
    if s.drained and not held:
        require(s.out[vc].credit == s.link[link].depth and not packets, f"{where}: free with credits out")
    if s.link[link].dst == NONE:
        return 0
    if s.vc[vc].state == IDLE:
        require(s.vc[vc].occupancy == 0 or not complete(s, vc), f"{where}: idle with a packet in the buffer")
        return 0
    require(len(packets) > 0, f"{where}: a front packet without a packet")
    flits = s.packets[<int32_t> packets[0]].flits
    require(0 < s.vc[vc].left <= flits, f"{where}: {s.vc[vc].left} of {flits} flits left")
    if s.vc[vc].state in (WAITING, ROUTING):
        require(s.vc[vc].left == flits and s.vc[vc].occupancy > 0, f"{where}: a waiting head that is not there")
        return 0
    target = s.vc[vc].hold
    out = s.vc[target].link
    free = has_bit(&s.unheld[s.link[out].word], target - s.link[out].base)
    require(not free, f"{where}: holds VC {target}, which is free")
    packets_there = packets_of(s, target)
    last = packets_there[len(packets_there) - 1]
    require(last == packets[0], f"{where}: not the last packet of the VC that it holds")
    return 0


cdef int require(bint condition, str text) except -1:
    if not condition:
        raise AssertionError(text)
    return 0
