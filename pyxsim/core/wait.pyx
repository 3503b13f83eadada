"""Attribution in routers: what each VC does in every cycle, and what the tail of a packet waited for in it.

docs/attribution.md has every rule. A VC is only looked at when its router is; what it did in its last cycle it does in
all the cycles in which its router sleeps. So there is a state for each VC and the cycle since which it is in it, and
`turn` adds the cycles up when the state changes. A tail remembers these sums as they were when it arrived: what is more
of them when it leaves is its own wait.
"""

from libc.stdint cimport int8_t, int32_t, int64_t

from pyxsim.core.books cimport (
    BUSY,
    FIRST_WAIT,
    HOPS,
    LINK_WAIT,
    LOST,
    MOVING,
    NO_CREDIT,
    NO_VC,
    NOBODY,
    PIPELINE,
    QUEUE,
    SERIALISATION,
    STATES,
    WAITS,
    LinkBook,
    PacketBook,
    Rider,
    Stay,
    VcBook,
    Winner,
)
from pyxsim.core.ledger cimport free_rider, new_rider, new_stay

from pyxsim.core.state cimport (
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


# --- the state of a VC ----------------------------------------------------------------------------------------------

cdef int8_t blamed(State* s, int32_t vc, int64_t begun, int64_t over) noexcept nogil:
    """A wait for credits of a VC lasted for cycles [begun, over): whose fault was it? As things were at its end."""
    cdef VcBook* b = &s.books.vc[vc]
    cdef int64_t waited = b.waited
    cdef int8_t whom = b.whom
    if s.vc[vc].router == NONE:
        return NOBODY
    if b.since < over and b.doing >= NO_VC and b.doing != NO_CREDIT:
        return b.by
    if b.noted == over:   # it could move in this cycle, and its router was visited before
        waited, whom = b.waited_before, b.whom_before
    return whom if waited >= begun - s.vc[vc].credit_delay else <int8_t> NOBODY


cdef void is_over(State* s, VcBook* b, int64_t t) noexcept nogil:
    """The VC waited up to the cycle before `t`."""
    cdef int8_t whom = b.by
    if b.doing == NO_CREDIT:
        whom = blamed(s, b.target, b.since, t)
        b.waited_before, b.whom_before, b.noted = b.waited, b.whom, t
    b.culprit[b.doing - NO_VC] = whom
    b.waited, b.whom = t - 1, whom


cdef inline void turn(State* s, int32_t vc, int8_t doing, int8_t by, int64_t t) noexcept nogil:
    """From cycle `t` on the VC is in this state, for this culprit. A later call for the same cycle takes its place."""
    cdef VcBook* b = &s.books.vc[vc]
    if b.doing == doing and b.by == by:
        return
    if t > b.since:
        b.cum[b.doing] += t - b.since
        if b.doing >= NO_VC:
            is_over(s, b, t)
        b.since = t
    b.doing, b.by = doing, by


cdef inline void loses(State* s, int32_t vc, Winner* winner) noexcept nogil:
    """Another flit was chosen. To one of the same message nothing is lost. NULL: nobody was."""
    if winner == NULL:
        turn(s, vc, LOST, NOBODY, s.now)
    elif winner.serial == s.messages[s.packets[s.vc[vc].packet].message].serial:
        turn(s, vc, MOVING, NOBODY, s.now)
    else:
        turn(s, vc, LOST, <int8_t> winner.by, s.now)


cdef inline void sums(VcBook* b, int64_t t, int64_t* cum) noexcept nogil:
    """The cycles before `t`, by state."""
    cdef int32_t i
    for i in range(STATES):
        cum[i] = b.cum[i]
    cum[b.doing] += t - b.since


cdef inline void rebase(VcBook* b, int64_t t) noexcept nogil:
    """What was before cycle `t` is nothing to the tails that are still to come."""
    cdef int32_t i
    sums(b, t, b.base)
    for i in range(4):
        b.culprit[i] = NOBODY


# --- arrivals -------------------------------------------------------------------------------------------------------

cdef void comes(State* s, int32_t vc, int64_t t) noexcept nogil:
    """A flit is about to enter an input VC. Flits have no names, but they come in order: how many are still to come?"""
    cdef VcBook* b = &s.books.vc[vc]
    cdef int32_t packet
    cdef int64_t serial
    if b.coming == 0:
        b.node = s.vc[vc].head if b.node == NONE else s.nodes_pool[b.node].next
        packet = s.nodes_pool[b.node].packet
        b.coming = s.packets[packet].flits
        serial = s.messages[s.packets[packet].message].serial
        if serial != b.serial:
            b.serial, b.first = serial, t
            b.sequence += 1
        s.books.packets[packet].sequence = b.sequence
    if s.vc[vc].occupancy == 0:
        if s.vc[vc].state == IDLE:
            is_first(s, vc, t)
        b.found_empty = t
        rebase(b, t)
    b.coming -= 1
    if b.coming == 0:
        tail_comes(s, b, t)


cdef void tail_comes(State* s, VcBook* b, int64_t t) noexcept nogil:
    """What the flits before it have waited for so far, and what the VC did in all."""
    cdef PacketBook* p = &s.books.packets[s.nodes_pool[b.node].packet]
    cdef int64_t since = b.found_empty if b.found_empty > b.first else b.first
    cdef int64_t until = t
    cdef int32_t i
    p.arrived = t
    sums(b, t, p.cum)
    for i in range(WAITS):
        p.before[i] = 0
    if s.flow == STORE_AND_FORWARD:
        return
    if b.run == b.sequence and b.begun < t:
        until = b.begun
        for i in range(4):
            p.before[i] = p.cum[NO_VC + i] - b.base[NO_VC + i]
    if until > since:
        p.before[WAITS - 1] = until - since


cdef void is_first(State* s, int32_t vc, int64_t t) noexcept nogil:
    """From cycle `t` on the next packet is the first of its VC."""
    cdef VcBook* b = &s.books.vc[vc]
    cdef int32_t packet = s.nodes_pool[s.vc[vc].head].packet
    turn(s, vc, PIPELINE, NOBODY, t)
    if s.books.packets[packet].sequence != b.run:
        b.run = s.books.packets[packet].sequence
        b.begun = t
        b.queue_by = b.front_by
        b.front_by = traffic_of(s, packet)
        rebase(b, t)


# --- VC allocation --------------------------------------------------------------------------------------------------

cdef void lacks_vc(State* s, int32_t vc) noexcept nogil:
    """No VC of its range is free."""
    cdef Vc* v = &s.vc[vc]
    turn(s, vc, NO_VC, holder_of(s, v.want, v.low, v.high), s.now)


cdef void asks_for_vc(State* s, int32_t vc) noexcept nogil:
    s.books.rivals[s.books.rival_count] = vc
    s.books.rival_count += 1


cdef void is_granted(State* s, int32_t vc) noexcept nogil:
    turn(s, vc, PIPELINE, NOBODY, s.now)


cdef void lose_ranges(State* s) noexcept nogil:
    """Heads that asked for a VC of a range that went to another one: the pointer is behind the VC that was granted."""
    cdef int32_t i, base
    cdef Vc* v
    for i in range(s.books.rival_count):
        v = &s.vc[s.books.rivals[i]]
        if v.state == WAITING:
            base = s.link[v.want].base
            loses(s, s.books.rivals[i], &s.books.holder[base + s.out[base + v.low].va_next - 1])
    s.books.rival_count = 0


cdef void lose_matrix(State* s, int32_t asked) noexcept nogil:
    """Heads that asked for many VCs, and were granted none: who has the first of them that anybody was granted?"""
    cdef int32_t i
    cdef int32_t i_lost
    cdef int32_t* lost_to = s.books.lost_to
    cdef Request* r
    for i in range(asked):
        lost_to[s.requests[i].vc] = NONE
    for i in range(asked):
        r = &s.requests[i]
        if s.match_out[r.o] != NONE and (lost_to[r.vc] == NONE or r.o < s.requests[lost_to[r.vc]].o):
            lost_to[r.vc] = i
    for i in range(asked):
        r = &s.requests[i]
        if s.vc[r.vc].state == WAITING:
            i_lost = lost_to[r.vc]
            loses(s, r.vc, NULL if i_lost == NONE else &s.books.holder[s.requests[i_lost].target])


# --- the switch -----------------------------------------------------------------------------------------------------

cdef void is_hindered(State* s, int32_t vc, int32_t cause) noexcept nogil:
    """Why a front flit cannot ask for the switch; 0: it asks."""
    cdef Vc* v = &s.vc[vc]
    cdef Winner older
    if cause == 0:
        s.books.rivals[s.books.rival_count] = vc
        s.books.rival_count += 1
    elif cause == STALL_CREDIT:
        turn(s, vc, NO_CREDIT, NOBODY, s.now)
        s.books.vc[vc].target = v.hold if v.state & (HOLDING | ACTIVE) else s.link[v.want].base + v.low
    elif cause == STALL_SERIAL:
        if s.books.link[v.want].serial == s.messages[s.packets[v.packet].message].serial:
            turn(s, vc, MOVING, NOBODY, s.now)
        else:
            turn(s, vc, BUSY, <int8_t> s.books.link[v.want].by, s.now)
    elif cause == STALL_VC:
        lacks_vc(s, vc)
    elif cause == STALL_ARBITRATION:   # ordered: behind an older packet
        older.serial = s.messages[s.packets[s.vc[s.oldest[v.want]].packet].message].serial
        older.by = traffic_of(s, s.vc[s.oldest[v.want]].packet)
        loses(s, vc, &older)


cdef inline Winner* input_of(State* s, int32_t router, int32_t vc) noexcept nogil:
    """The input of the switch that serves an input VC."""
    cdef int32_t part = s.vc[vc].number % s.parts if s.parts > 1 else 0
    return &s.books.input_won[(s.router[router].in_start + s.vc[vc].port) * s.parts + part]


cdef void wins(State* s, int32_t router, int32_t vc, int64_t t, int64_t u) noexcept nogil:
    """The front flit is about to leave for the link that it wants."""
    cdef Vc* v = &s.vc[vc]
    cdef Winner* at_input = input_of(s, router, vc)
    turn(s, vc, MOVING, NOBODY, t)
    at_input.tick, at_input.vc, at_input.by = u, vc, traffic_of(s, v.packet)
    at_input.serial = s.messages[s.packets[v.packet].message].serial
    s.books.output_won[v.want] = at_input[0]
    if v.left == 1:
        tail_leaves(s, vc, t, u)


cdef void lose_switch(State* s, int32_t router, int64_t u) noexcept nogil:
    """Flits that asked for the switch and did not win it."""
    cdef int32_t i, vc
    cdef Winner* at_input
    cdef Winner* at_output
    for i in range(s.books.rival_count):
        vc = s.books.rivals[i]
        at_input = input_of(s, router, vc)
        if at_input.tick == u and at_input.vc == vc:
            continue
        at_output = &s.books.output_won[s.vc[vc].want]
        if at_output.tick == u:
            loses(s, vc, at_output)
        else:
            loses(s, vc, at_input if at_input.tick == u else NULL)
    s.books.rival_count = 0


cdef void tail_leaves(State* s, int32_t vc, int64_t t, int64_t u) noexcept nogil:
    """Its stay is over, but for the output queue: what did it wait for?"""
    cdef VcBook* b = &s.books.vc[vc]
    cdef int32_t packet = s.vc[vc].packet
    cdef Stay* stay = new_stay(s, packet, s.vc[vc].want)
    cdef PacketBook* p = &s.books.packets[packet]
    cdef int64_t cum[STATES]
    cdef int64_t* before = p.cum
    cdef int64_t entered = t if s.ticks == 1 else (u + s.st) // s.ticks
    cdef int64_t moved, alone
    cdef int32_t i
    if s.failed:
        return
    sums(b, t, cum)
    if b.begun > p.arrived:
        before = b.base
        stay.parts[QUEUE] = b.begun - p.arrived
    for i in range(4):
        stay.parts[FIRST_WAIT + i] = cum[NO_VC + i] - before[NO_VC + i]
        stay.culprit[FIRST_WAIT + i] = b.culprit[i]
    stay.culprit[QUEUE] = b.queue_by
    moved = cum[MOVING] - before[MOVING] + cum[PIPELINE] - before[PIPELINE]
    alone = s.books.pipeline - min(entered - t, s.books.pipeline)
    stay.parts[HOPS] = min(moved, alone)
    p.spare = alone - stay.parts[HOPS]
    share(stay, p.before, moved - stay.parts[HOPS])
    # Of the way through the switch what was more than alone; then the wait in the output queue, if there will be one.
    stay.parts[SERIALISATION] += max(entered - t - s.books.pipeline, 0)
    stay.parts[HOPS] += min(entered - t, s.books.pipeline)
    p.left = entered
    if b.node == s.vc[vc].head:
        b.node = NONE


cdef void share(Stay* stay, int64_t* before, int64_t rest) noexcept nogil:
    """Cycles that the tail stood behind flits of its own message, up to what these had waited for before it came."""
    cdef int64_t whole = 0
    cdef int64_t given = 0
    cdef int64_t part
    cdef int32_t most = 0
    cdef int32_t i
    for i in range(WAITS):
        whole += before[i]
        if before[i] > before[most]:
            most = i
    if rest >= whole:
        stay.parts[SERIALISATION] = rest - whole
        rest = whole
    if rest == 0:
        return
    for i in range(WAITS):
        part = rest * before[i] // whole
        stay.parts[FIRST_WAIT + i] += part
        given += part
    stay.parts[FIRST_WAIT + most] += rest - given


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
    cdef int64_t serial = s.messages[s.packets[packet].message].serial
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
    while book.unseen != NONE and s.nodes_pool[book.unseen].at <= t:
        packet = s.nodes_pool[book.unseen].packet
        at = s.nodes_pool[book.unseen].at
        serial = s.messages[s.packets[packet].message].serial
        rider = rider_of(s, link, serial)
        own = rider.own + (at - book.at if serial == book.serial else 0)
        if rider.inside == 0:
            rider.begun, rider.base = at, own
        rider.inside += 1
        if s.nodes_pool[book.unseen].flit == s.packets[packet].flits - 1:
            s.books.packets[packet].own = own
            s.books.packets[packet].queued = at - rider.begun - (own - rider.base)
        book.unseen = s.nodes_pool[book.unseen].next


cdef void starts(State* s, int32_t link, int32_t packet, int32_t flit, int64_t t, int64_t arrival) noexcept nogil:
    """A flit starts on a link. With its tail a stay is over, in the cycle of the arrival."""
    cdef LinkBook* book = &s.books.link[link]
    cdef PacketBook* p = &s.books.packets[packet]
    cdef Stay* stay
    cdef Rider* rider = NULL
    cdef int64_t own, others
    cdef int64_t serial = s.messages[s.packets[packet].message].serial
    if s.failed:
        return
    if book.riders != NONE:
        rider = rider_of(s, link, book.serial)
        if rider != NULL:
            rider.own += t - book.at
        rider = rider_of(s, link, serial)
        if book.serial != serial:
            rider.other_by = book.by
    if flit == s.packets[packet].flits - 1:
        stay = &s.books.stays[p.last]
        stay.parts[HOPS] += arrival - t
        if t > p.left:   # it was in an output queue
            own = rider.own - p.own
            stay.parts[HOPS] += min(own, p.spare)
            others = t - p.left - own + min(max(own - p.spare, 0), p.queued)
            stay.parts[LINK_WAIT] += others
            stay.parts[SERIALISATION] += t - p.left - min(own, p.spare) - others
            if others:
                stay.culprit[LINK_WAIT] = <int8_t> rider.other_by
    if rider != NULL:
        rider.flits -= 1
        rider.inside -= 1
        if rider.flits == 0:
            drop_rider(s, book, serial)
    book.serial, book.at, book.by = serial, t, traffic_of(s, packet)


cdef void drop_rider(State* s, LinkBook* book, int64_t serial) noexcept nogil:
    cdef int32_t* place = &book.riders
    cdef int32_t rider
    while s.books.riders[place[0]].serial != serial:
        place = &s.books.riders[place[0]].next
    rider = place[0]
    place[0] = s.books.riders[rider].next
    free_rider(s, rider)
