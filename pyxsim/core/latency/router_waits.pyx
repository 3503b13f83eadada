"""Attribution in routers: what each VC does in every cycle, and what the tail of a packet waited for in it.

docs/attribution.md has every rule. A VC is only looked at when its router is; what it did in its last cycle it does in
all the cycles in which its router sleeps. So there is a state for each VC and the cycle since which it is in it, and
`turn` adds the cycles up when the state changes. A tail remembers these sums as they were when it arrived: what is more
of them when it leaves is its own wait.
"""

from libc.stdint cimport int8_t, int32_t, int64_t

from pyxsim.core.state.bits cimport next_bit
from pyxsim.core.latency.latency_records cimport (
    BUSY,
    CAUSES,
    FIRST_WAIT,
    HOPS,
    LINK_WAIT,
    LOST,
    NO_CREDIT,
    NO_VC,
    NOBODY,
    QUEUE,
    RUNS,
    SERIALISATION,
    WAITS,
    LinkBook,
    Owner,
    PacketBook,
    Rider,
    Rival,
    Stay,
    VcBook,
    VcMargin,
)
from pyxsim.core.router.buffer cimport FRONT, next_place, packet_at, vcs_of
from pyxsim.core.latency.latency_totals cimport free_rider, new_rider, new_stay
from pyxsim.core.state.network_state cimport (
    ACTIVE,
    HOLDING,
    IDLE,
    NONE,
    STALL_ARBITRATION,
    STALL_CREDIT,
    STALL_SERIAL,
    STALL_VC,
    STORE_AND_FORWARD,
    WAITING,
    Request,
    Vc,
)


cdef inline int64_t serial_of(State* s, int32_t packet) noexcept nogil:
    return s.books.packets[packet].serial


# --- the state of a VC ----------------------------------------------------------------------------------------------

cdef int8_t blamed(State* s, int32_t vc, int64_t begun, int64_t over) noexcept nogil:
    """A wait for credits of a VC lasted for cycles [begun, over): whose fault was it? As things were at its end."""
    cdef VcBook* b = &s.books.vc[vc]
    cdef int64_t waited = b.waited
    cdef int8_t whom = b.whom
    if s.vc[vc].router == NONE:
        return NOBODY
    if b.since < over and b.doing != NO_CREDIT and b.by != NOBODY:
        return b.by
    if s.books.margin[vc].noted == over:   # it could move in this cycle, and its router was visited before
        waited, whom = s.books.margin[vc].waited, s.books.margin[vc].whom
    return whom if waited >= begun - s.link[s.vc[vc].link].credit_delay else <int8_t> NOBODY


cdef void is_over(State* s, int32_t vc, int64_t t) noexcept nogil:
    """The VC waited up to the cycle before `t`."""
    cdef VcBook* b = &s.books.vc[vc]
    cdef VcMargin* m = &s.books.margin[vc]
    cdef int8_t whom = b.by
    if b.doing == NO_CREDIT:
        whom = blamed(s, m.target if m.aimed < t else m.target_before, b.since, t)
        m.waited, m.whom, m.noted = b.waited, b.whom, t
    b.cum[b.doing - NO_VC] += t - b.since
    if whom != NOBODY:
        b.culprit[b.doing - NO_VC] = whom
        b.waited, b.whom = t - 1, whom
    b.based = 0


cdef inline void turn(State* s, int32_t vc, int8_t doing, int8_t by, int64_t t) noexcept nogil:
    """From cycle `t` on the VC does this, for this culprit. A later call for the same cycle takes its place."""
    cdef VcBook* b = &s.books.vc[vc]
    if b.doing == doing and b.by == by:
        return
    if t > b.since:
        if b.doing != RUNS:
            is_over(s, vc, t)
        b.since = t
    b.doing, b.by = doing, by


cdef void runs(State* s, int32_t vc, int64_t t) noexcept nogil:
    turn(s, vc, RUNS, NOBODY, t)


cdef inline void loses(State* s, int32_t vc, int64_t serial, int32_t by) noexcept nogil:
    """A flit of this message was chosen. To one of its own nothing is lost."""
    if serial == serial_of(s, s.vc[vc].packet):
        turn(s, vc, RUNS, NOBODY, s.now)
    else:
        turn(s, vc, LOST, <int8_t> by, s.now)


cdef inline void rebase(VcBook* b) noexcept nogil:
    """What was waited for up to now is nothing to the tails that are still to come. Now it runs."""
    cdef int32_t i
    if not b.based:
        for i in range(CAUSES):
            b.base[i] = b.cum[i]
            b.culprit[i] = NOBODY
        b.based = 1


# --- arrivals -------------------------------------------------------------------------------------------------------

cdef void head_comes(State* s, int32_t vc, int64_t t) noexcept nogil:
    cdef VcBook* b = &s.books.vc[vc]
    cdef int32_t packet
    b.place = FRONT if b.place == NONE else next_place(s, vc, b.place)
    packet = packet_at(s, vc, b.place)
    b.coming = s.packets[packet].flits
    if serial_of(s, packet) != b.serial:
        b.serial, b.first = serial_of(s, packet), t
        b.sequence += 1
    s.books.packets[packet].sequence = b.sequence


cdef void finds_it_empty(State* s, int32_t vc, int64_t t) noexcept nogil:
    if s.vc[vc].state == IDLE:
        is_first(s, vc, t)
    s.books.vc[vc].first = t
    rebase(&s.books.vc[vc])


cdef void tail_comes(State* s, int32_t vc, int64_t t) noexcept nogil:
    """What the VC has waited for so far, and what of this the flits before the tail have."""
    cdef VcBook* b = &s.books.vc[vc]
    cdef PacketBook* p = &s.books.packets[packet_at(s, vc, b.place)]
    cdef int64_t until = t
    cdef int32_t i
    p.arrived = t
    for i in range(CAUSES):
        p.cum[i] = b.cum[i]
    if b.doing != RUNS:
        p.cum[b.doing - NO_VC] += t - b.since
    for i in range(WAITS):
        p.before[i] = 0
    if s.flow == STORE_AND_FORWARD:
        return
    if b.run == b.sequence and b.begun < t:
        until = b.begun
        for i in range(CAUSES):
            p.before[i] = p.cum[i] - b.base[i]
    if until > b.first:
        p.before[WAITS - 1] = until - b.first


cdef void is_first(State* s, int32_t vc, int64_t t) noexcept nogil:
    """From cycle `t` on the next packet is the first of its VC."""
    cdef VcBook* b = &s.books.vc[vc]
    cdef VcMargin* m = &s.books.margin[vc]
    cdef int32_t packet = s.vc[vc].packet
    if s.books.packets[packet].sequence != b.run:
        b.run = s.books.packets[packet].sequence
        b.begun = t
        m.queue_by = m.front_by
        m.front_by = traffic_of(s, packet)
        rebase(b)


# --- VC allocation --------------------------------------------------------------------------------------------------

cdef inline void lacks_credit(State* s, int32_t vc, int32_t target) noexcept nogil:
    """The front flit wants credits of an output VC."""
    cdef VcMargin* m = &s.books.margin[vc]
    turn(s, vc, NO_CREDIT, NOBODY, s.now)
    if target != m.target:
        if m.aimed < s.now:
            m.target_before = m.target
        m.target, m.aimed = target, s.now


cdef void lacks_vc(State* s, int32_t vc) noexcept nogil:
    """No VC of its range counts as free for a head: somebody holds them, or one that nobody holds has no room."""
    cdef Vc* v = &s.vc[vc]
    cdef int32_t unheld = next_bit(vcs_of(s.unheld, s, v.want), s.low[v.row], s.high[v.row])
    if unheld < 0:
        turn(s, vc, NO_VC, holder_of(s, v.want, s.low[v.row], s.high[v.row]), s.now)
    else:
        lacks_credit(s, vc, s.link[v.want].base + unheld)


cdef void lose_ranges(State* s) noexcept nogil:
    """Heads that asked for a VC of a range that went to another one: the pointer is behind the VC that was granted."""
    cdef int32_t i, base
    cdef Vc* v
    cdef Owner* owner
    for i in range(s.books.rival_count):
        v = &s.vc[s.books.rivals[i].vc]
        if v.state == WAITING:
            base = s.link[v.want].base
            owner = &s.books.owner[base + s.ranges[base + s.low[v.row]].next - 1]
            loses(s, s.books.rivals[i].vc, owner.serial, owner.by)
    s.books.rival_count = 0


cdef void lose_matrix(State* s, int32_t asked) noexcept nogil:
    """Heads that asked for many VCs, and were granted none: who has the lowest of them that anybody was granted?"""
    cdef int32_t i, found
    cdef int32_t* lost_to = s.books.lost_to
    cdef Request* r
    cdef Owner* owner
    for i in range(asked):
        lost_to[s.requests[i].vc] = NONE
    for i in range(asked):
        r = &s.requests[i]
        if s.match_out[r.o] != NONE and (lost_to[r.vc] == NONE or r.o < s.requests[lost_to[r.vc]].o):
            lost_to[r.vc] = i
    for i in range(asked):
        r = &s.requests[i]
        found = lost_to[r.vc]
        if s.vc[r.vc].state == WAITING:
            if found == NONE:
                turn(s, r.vc, LOST, NOBODY, s.now)
            else:
                owner = &s.books.owner[s.requests[found].target]
                loses(s, r.vc, owner.serial, owner.by)


# --- the switch -----------------------------------------------------------------------------------------------------

cdef void is_hindered(State* s, int32_t vc, int32_t cause) noexcept nogil:
    """A front flit cannot ask for the switch."""
    cdef Vc* v = &s.vc[vc]
    if cause == STALL_CREDIT:
        lacks_credit(s, vc, v.hold if v.state & (HOLDING | ACTIVE) else s.link[v.want].base + s.low[v.row])
    elif cause == STALL_SERIAL:
        if s.books.link[v.want].serial == serial_of(s, v.packet):
            turn(s, vc, RUNS, NOBODY, s.now)
        else:
            turn(s, vc, BUSY, <int8_t> s.books.link[v.want].by, s.now)
    elif cause == STALL_VC:
        lacks_vc(s, vc)
    elif cause == STALL_ARBITRATION:   # ordered: behind an older packet
        is_behind(s, vc, s.oldest[v.want])


cdef void is_behind(State* s, int32_t vc, int32_t other) noexcept nogil:
    """Ordered: the packet of another VC goes first."""
    cdef int32_t older = s.vc[other].packet
    loses(s, vc, serial_of(s, older), traffic_of(s, older))


cdef void lose_switch(State* s) noexcept nogil:
    """Flits that asked for the switch and did not win it: who won the output, or else at their input?"""
    cdef int32_t i, place, packet
    cdef Rival* rival
    cdef Rival* winner
    for i in range(s.books.rival_count):
        rival = &s.books.rivals[i]
        place = s.books.link[rival.link].won
        winner = &s.books.winners[place]
        if place < s.books.winner_count and winner.link == rival.link:
            if winner.vc == rival.vc:
                continue
            packet = winner.packet
        else:
            packet = winner_at_input(s, rival.vc)
        if packet == NONE:
            turn(s, rival.vc, LOST, NOBODY, s.now)
        else:
            loses(s, rival.vc, serial_of(s, packet), traffic_of(s, packet))


cdef int32_t winner_at_input(State* s, int32_t vc) noexcept nogil:
    """The packet that won the switch at the input of a VC, or NONE."""
    cdef int32_t i, other
    for i in range(s.books.winner_count):
        other = s.books.winners[i].vc
        if s.vc[other].port == s.vc[vc].port and (other - vc) % s.parts == 0:
            return s.books.winners[i].packet
    return NONE


cdef void tail_leaves(State* s, int32_t vc, int64_t t, int64_t u) noexcept nogil:
    """Its stay is over, but for the output queue: what did it wait for?"""
    cdef VcBook* b = &s.books.vc[vc]
    cdef int32_t packet = s.vc[vc].packet
    cdef Stay* stay = new_stay(s, packet, s.vc[vc].want)
    cdef PacketBook* p = &s.books.packets[packet]
    cdef int64_t* before = p.cum
    cdef int64_t came = p.arrived
    cdef int64_t switching = 0 if s.ticks == 1 else (u + s.st) // s.ticks - t
    cdef int64_t moved, alone
    cdef int32_t i
    if s.failed:
        return
    if b.begun > came:
        before, came = b.base, b.begun
        stay.parts[QUEUE] = came - p.arrived
    moved = t - came
    for i in range(CAUSES):
        stay.parts[FIRST_WAIT + i] = b.cum[i] - before[i]
        stay.culprit[FIRST_WAIT + i] = b.culprit[i]
        moved -= stay.parts[FIRST_WAIT + i]
    stay.culprit[QUEUE] = s.books.margin[vc].queue_by
    alone = s.books.pipeline - min(switching, s.books.pipeline)
    stay.parts[HOPS] = min(moved, alone)
    p.spare = alone - stay.parts[HOPS]
    if moved > alone:
        s.books.uneven += share(stay, p.before, moved - alone)
    # The way through the switch may take more than it would alone. A wait in the output queue may follow.
    stay.parts[SERIALISATION] += max(switching - s.books.pipeline, 0)
    stay.parts[HOPS] += min(switching, s.books.pipeline)
    p.left = t + switching
    if b.place == FRONT:
        b.place = NONE
    elif b.place == s.vc[vc].head:   # it will be the first
        b.place = FRONT


cdef bint share(Stay* stay, int64_t* before, int64_t rest) noexcept nogil:
    """Cycles that the tail stood behind flits of its own message, up to what these had waited for before it came.

    False: another multiple of `before` would have given the same.
    """
    cdef int64_t whole = 0
    cdef int64_t given = 0
    cdef int64_t part
    cdef int32_t most = 0
    cdef int32_t i
    cdef bint uneven
    for i in range(WAITS):
        whole += before[i]
        if before[i] > before[most]:
            most = i
    uneven = before[most] != whole or 0 < whole < rest
    if rest >= whole:
        stay.parts[SERIALISATION] = rest - whole
        rest = whole
    if rest == 0:
        return uneven
    for i in range(WAITS):
        part = rest * before[i] // whole
        stay.parts[FIRST_WAIT + i] += part
        given += part
    stay.parts[FIRST_WAIT + most] += rest - given
    return uneven


# --- links ----------------------------------------------------------------------------------------------------------

cdef Rider* rider_of(State* s, int32_t link, int64_t serial) noexcept nogil:
    """The entry of a message with flits in the output queue, or NULL."""
    cdef int32_t rider = s.books.link[link].riders
    while rider != NONE:
        if s.books.riders[rider].serial == serial:
            return &s.books.riders[rider]
        rider = s.books.riders[rider].next
    return NULL


cdef void is_queued(State* s, int32_t link, int32_t node) noexcept nogil:
    """A flit stands in an output queue."""
    cdef LinkBook* book = &s.books.link[link]
    cdef int32_t packet = s.nodes_pool[node].packet
    cdef int64_t serial = serial_of(s, packet)
    cdef Rider* rider = rider_of(s, link, serial)
    cdef int32_t index
    if rider == NULL:
        index = new_rider(s)
        if s.failed:
            return
        rider = &s.books.riders[index]
        rider.serial, rider.own, rider.flits, rider.inside, rider.other_by = serial, 0, 0, 0, NOBODY
        rider.next = book.riders
        book.riders = index
    rider.flits += 1
    if book.unseen == NONE:
        book.unseen = node


cdef void catch_up(State* s, int32_t link, int64_t t) noexcept nogil:
    """Before a launch from the queue: tails in it note how long their message had used the link when they came."""
    cdef LinkBook* book = &s.books.link[link]
    cdef int32_t packet
    cdef int64_t serial, at, own
    cdef Rider* rider
    while book.unseen != NONE and s.queued_pool[book.unseen].at <= t:
        packet = s.nodes_pool[book.unseen].packet
        at = s.queued_pool[book.unseen].at
        serial = serial_of(s, packet)
        rider = rider_of(s, link, serial)
        own = rider.own + (at - book.at if serial == book.serial else 0)
        if rider.inside == 0:
            rider.begun, rider.base = at, own
        rider.inside += 1
        if s.queued_pool[book.unseen].flit == s.packets[packet].flits - 1:
            s.books.packets[packet].own = own
            s.books.packets[packet].queued = at - rider.begun - (own - rider.base)
        book.unseen = s.nodes_pool[book.unseen].next


cdef void takes_link(State* s, int32_t link, int32_t packet, int64_t t) noexcept nogil:
    """A flit of another packet than the last one starts on a link, or any flit where there is an output queue."""
    cdef LinkBook* book = &s.books.link[link]
    cdef int64_t serial = serial_of(s, packet)
    cdef Rider* rider
    if book.riders != NONE:
        rider = rider_of(s, link, book.serial)
        if rider != NULL:
            rider.own += t - book.at
        if book.serial != serial:
            rider_of(s, link, serial).other_by = book.by
    book.serial, book.packet, book.at, book.by = serial, packet, t, traffic_of(s, packet)


cdef void ends_stay(State* s, int32_t link, int32_t packet, int64_t t, int64_t arrival) noexcept nogil:
    """The tail of a packet starts: its stay is over in the cycle of its arrival."""
    cdef PacketBook* p = &s.books.packets[packet]
    cdef Stay* stay
    cdef Rider* rider
    cdef int64_t own, others
    if s.failed:
        return
    stay = &s.books.stays[p.last]
    stay.parts[HOPS] += arrival - t
    if t > p.left:   # it was in an output queue
        rider = rider_of(s, link, serial_of(s, packet))
        own = rider.own - p.own
        others = t - p.left - own + min(max(own - p.spare, 0), p.queued)
        stay.parts[HOPS] += min(own, p.spare)
        stay.parts[LINK_WAIT] += others
        stay.parts[SERIALISATION] += t - p.left - min(own, p.spare) - others
        if others:
            stay.culprit[LINK_WAIT] = <int8_t> rider.other_by


cdef void leaves_queue(State* s, int32_t link, int32_t packet) noexcept nogil:
    """A flit has started from an output queue. A message without flits there is forgotten."""
    cdef int32_t* place = &s.books.link[link].riders
    cdef int32_t rider
    cdef int64_t serial = serial_of(s, packet)
    while s.books.riders[place[0]].serial != serial:
        place = &s.books.riders[place[0]].next
    rider = place[0]
    s.books.riders[rider].inside -= 1
    s.books.riders[rider].flits -= 1
    if s.books.riders[rider].flits == 0:
        place[0] = s.books.riders[rider].next
        free_rider(s, rider)
