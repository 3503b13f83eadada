"""The two allocations of a router: output VCs for heads (VA), the switch for flits (SA).

SA is separable, input first (Dally and Towles, section 19.3). VA hands out the VCs of a range in turn, one per cycle;
see docs/router.md. Both functions return the first cycle after `t` in which they
could do more than in this one if nothing arrives meanwhile; INT64_MAX if only an arrival can change anything.

No request matrix is needed: while the inputs are walked, each output remembers the requester that is nearest behind
its pointer, which is the one that round robin grants.
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint64_t

from pyxsim.core.arbiter cimport after, distance, first_from
from pyxsim.core.bits cimport clear_bit, lowest, next_bit
from pyxsim.core.buffer cimport pop_packet, vcs_of
from pyxsim.core.link cimport available, available_at, hold_vc, release_vc, return_credit, send_flit
from pyxsim.core.routing cimport to_front
from pyxsim.core.state cimport (
    ACTIVE,
    IDLE,
    NONE,
    STALL_ARBITRATION,
    STALL_CREDIT,
    STALL_SERIAL,
    STALL_VC,
    WAITING,
)


# --- VA -------------------------------------------------------------------------------------------------------------

cdef int64_t allocate_vcs(State* s, int32_t router, int64_t t) noexcept nogil:
    """Heads whose time has come ask for output VCs. A range of VCs is named by its first one."""
    cdef int64_t again = INT64_MAX
    cdef int32_t asked = 0
    cdef int32_t i, link, word, vc, out, ranged, number, far
    cdef uint64_t bits
    for i in range(s.in_start[router], s.in_start[router + 1]):
        link = s.in_links[i]
        for word in range(s.link_words[link]):
            bits = s.occupied[s.link_word[link] + word]
            while bits:
                vc = s.link_base[link] + word * 64 + lowest(bits)
                bits &= bits - 1
                if s.vc_state[vc] != WAITING:
                    continue
                if s.ready[vc] > t:
                    if s.ready[vc] < again:
                        again = s.ready[vc]
                    continue
                out = s.want[vc]
                if out == NONE:
                    continue
                if next_bit(vcs_of(s.unheld, s, out), s.range_low[vc], s.range_high[vc]) < 0:
                    s.stalled[out] |= STALL_VC
                    continue
                ranged = s.link_base[out] + s.range_low[vc]
                number = s.link_vc_offset[link] + vc - s.link_base[link]
                far = distance(number, s.va_requester[ranged], s.input_vcs[router])
                if s.va_pick[ranged] == NONE:
                    s.va_touched[asked] = ranged
                    asked += 1
                else:
                    s.stalled[out] |= STALL_ARBITRATION   # one of the two loses
                    if far >= s.va_distance[ranged]:
                        continue
                s.va_pick[ranged] = vc
                s.va_distance[ranged] = far
    for i in range(asked):
        ranged = s.va_touched[i]
        grant_vc(s, router, s.va_pick[ranged], ranged, t)
        s.va_pick[ranged] = NONE
    return t + 1 if asked else again


cdef void grant_vc(State* s, int32_t router, int32_t vc, int32_t ranged, int64_t t) noexcept nogil:
    """The next free VC of a range goes to the packet at the front of an input VC."""
    cdef int32_t link = s.vc_link[vc]
    cdef int32_t out = s.want[vc]
    cdef int32_t pick = first_from(vcs_of(s.unheld, s, out), s.va_next[ranged], s.range_low[vc], s.range_high[vc])
    hold_vc(s, s.link_base[out] + pick, s.nodes_pool[s.fifo_head[vc]].packet)
    s.hold[vc] = s.link_base[out] + pick
    s.vc_state[vc] = ACTIVE
    s.ready[vc] = t + 1
    s.waiting[router] -= 1
    s.va_next[ranged] = pick + 1
    s.va_requester[ranged] = after(s.link_vc_offset[link] + vc - s.link_base[link], s.input_vcs[router])


# --- SA -------------------------------------------------------------------------------------------------------------

cdef int32_t free_vc(State* s, int32_t vc) noexcept nogil:
    """The lowest VC that a head may take together with the switch; -1: none is free, -2: no free one has a credit."""
    cdef int32_t out = s.want[vc]
    cdef uint64_t* mask = vcs_of(s.unheld, s, out)
    cdef int32_t pick = next_bit(mask, s.range_low[vc], s.range_high[vc])
    if pick < 0:
        return -1
    while pick >= 0:
        if s.credit[s.link_base[out] + pick] > 0:
            return pick
        pick = next_bit(mask, pick + 1, s.range_high[vc])
    return -2


cdef int32_t hindrance(State* s, int32_t vc, int64_t t) noexcept nogil:
    """Why a front flit cannot ask for the switch: 0 if it can, a Stall, or -1 if its time has not come."""
    cdef int32_t out = s.want[vc]
    cdef int32_t pick
    if s.ready[vc] > t:
        return -1
    if s.vc_state[vc] == ACTIVE:
        if s.credit[s.hold[vc]] == 0:
            return STALL_CREDIT
    elif s.va or out == NONE:
        return -1   # a matter of VA
    else:
        pick = free_vc(s, vc)
        if pick < 0:
            return STALL_VC if pick == -1 else STALL_CREDIT
    if not s.link_queued[out] and not available(s, out, t):
        return STALL_SERIAL
    return 0


cdef int64_t allocate_switch(State* s, int32_t router, int64_t t) noexcept nogil:
    """Front flits ask for the switch; the winners leave."""
    cdef int64_t again = INT64_MAX
    cdef int32_t asked = 0
    cdef int32_t i, link, out, far, port, pick
    cdef int32_t ports = s.in_start[router + 1] - s.in_start[router]
    for i in range(s.in_start[router], s.in_start[router + 1]):
        link = s.in_links[i]
        pick = pick_input(s, link, t, &again)
        if pick == NONE:
            continue
        if s.step_arbiter:
            s.in_pointer[link] = after(s.in_pointer[link], s.link_vcs[link])
        out = s.want[pick]
        port = s.link_port[link]
        far = distance(port, s.out_pointer[out], ports)
        if s.pick_vc[out] == NONE:
            s.touched[asked] = out
            asked += 1
        elif far >= s.pick_distance[out]:
            continue
        s.pick_vc[out] = pick
        s.pick_port[out] = port
        s.pick_distance[out] = far
    for i in range(asked):
        out = s.touched[i]
        pick = s.pick_vc[out]
        s.pick_vc[out] = NONE
        if s.step_arbiter:
            s.out_pointer[out] = after(s.out_pointer[out], ports)
        else:
            s.out_pointer[out] = after(s.pick_port[out], ports)
            link = s.vc_link[pick]
            s.in_pointer[link] = after(pick - s.link_base[link], s.link_vcs[link])
        s.eligible[out] -= 1
        traverse(s, router, pick, t)
    # Whoever was eligible and is still here lost, to another flit of its own input port or at the output.
    for i in range(s.out_start[router], s.out_start[router + 1]):
        out = s.out_links[i]
        if s.eligible[out]:
            s.stalled[out] |= STALL_ARBITRATION
            s.eligible[out] = 0
    return t + 1 if asked else again


cdef int32_t pick_input(State* s, int32_t link, int64_t t, int64_t* again) noexcept nogil:
    """One input port: its first eligible VC at or after the pointer, or NONE. Notes what hinders the others."""
    cdef int32_t base = s.link_base[link]
    cdef int32_t count = s.link_vcs[link]
    cdef int32_t pointer = s.in_pointer[link]
    cdef int32_t pick = NONE
    cdef int32_t nearest = count
    cdef int32_t word, number, vc, cause, far
    cdef int64_t when
    cdef uint64_t bits
    if s.ordered:
        find_oldest(s, link)
    for word in range(s.link_words[link]):
        bits = s.occupied[s.link_word[link] + word]
        while bits:
            number = word * 64 + lowest(bits)
            bits &= bits - 1
            vc = base + number
            cause = hindrance(s, vc, t)
            if s.ordered and cause >= 0 and s.oldest[s.want[vc]] != vc:
                cause = STALL_ARBITRATION   # behind an older packet
            if cause == 0:
                s.eligible[s.want[vc]] += 1
                far = distance(number, pointer, count)
                if far < nearest:
                    nearest = far
                    pick = vc
            elif cause > 0:
                s.stalled[s.want[vc]] |= <unsigned char> cause
                if cause == STALL_SERIAL:
                    when = available_at(s, s.want[vc])
                    if when < again[0]:
                        again[0] = when
            elif s.ready[vc] > t and s.ready[vc] < again[0]:
                again[0] = s.ready[vc]
    return pick


cdef void find_oldest(State* s, int32_t link) noexcept nogil:
    """For every output that is wanted at an input port: the VC with the earliest front time."""
    cdef int32_t word, vc, out
    cdef uint64_t bits
    for word in range(s.link_words[link]):
        bits = s.occupied[s.link_word[link] + word]
        while bits:
            out = s.want[s.link_base[link] + word * 64 + lowest(bits)]
            bits &= bits - 1
            if out != NONE:
                s.oldest[out] = NONE
    for word in range(s.link_words[link]):
        bits = s.occupied[s.link_word[link] + word]
        while bits:
            vc = s.link_base[link] + word * 64 + lowest(bits)
            bits &= bits - 1
            out = s.want[vc]
            if out != NONE and (s.oldest[out] == NONE or s.front[vc] < s.front[s.oldest[out]]):
                s.oldest[out] = vc


cdef void traverse(State* s, int32_t router, int32_t vc, int64_t t) noexcept nogil:
    """The front flit of an input VC has won the switch: it leaves, and its slot's credit starts back."""
    cdef int32_t link = s.vc_link[vc]
    cdef int32_t packet = s.nodes_pool[s.fifo_head[vc]].packet
    cdef int32_t target
    if s.vc_state[vc] == WAITING:   # va = 0: the VC is taken together with the switch
        target = s.link_base[s.want[vc]] + free_vc(s, vc)
        hold_vc(s, target, packet)
        s.hold[vc] = target
        s.vc_state[vc] = ACTIVE
        s.waiting[router] -= 1
    target = s.hold[vc]
    s.router_visits += 1
    s.left[vc] -= 1
    s.occupancy[vc] -= 1
    return_credit(s, vc, t)
    send_flit(s, target, packet, s.packets[packet].flits - s.left[vc] - 1, t)
    if s.left[vc] == 0:
        release_vc(s, target)
        pop_packet(s, vc)
        s.vc_state[vc] = IDLE
        if s.occupancy[vc]:
            to_front(s, vc, t + 1)
    if s.occupancy[vc] == 0:
        clear_bit(vcs_of(s.occupied, s, link), vc - s.link_base[link])
