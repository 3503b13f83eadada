"""Dividing a network into parts, and making it whole again: what moves goes from one home to the other."""

from libc.stdint cimport INT64_MAX, int16_t, int32_t, int64_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from pyxsim.core.state.bits cimport has_bit, set_bit
from pyxsim.core.router.calendar cimport schedule
from pyxsim.core.router.interface cimport add_pending, next_pending, sooner, take_pending
from pyxsim.core.parallel.mailbox cimport take_in
from pyxsim.core.state.network_state cimport (
    CREDIT,
    KINDS,
    LANE_CREDIT,
    LAUNCH,
    NONE,
    WAKE,
    Arrival,
    Event,
    Launch,
    Link,
    Slot,
    free_node,
    grown,
    new_node,
)


# --- a team of parts ------------------------------------------------------------------------------------------------

cdef int create_team(Team* team, State* whole, int16_t* part_of, int32_t parts) except -1:
    """`part_of`: of each router. Scratch is still to be given to the states of the parts."""
    cdef int32_t number, link
    cdef Part* part
    memset(team, 0, sizeof(Team))
    team.whole = whole
    team.parts = parts
    team.part = <Part*> calloc(parts, sizeof(Part))
    team.part_of = <int16_t*> calloc(whole.routers + 1, sizeof(int16_t))
    team.sender = <int16_t*> calloc(whole.links + 1, sizeof(int16_t))
    team.receiver = <int16_t*> calloc(whole.links + 1, sizeof(int16_t))
    if team.part == NULL or team.part_of == NULL or team.sender == NULL or team.receiver == NULL:
        raise MemoryError
    memcpy(team.part_of, part_of, whole.routers * sizeof(int16_t))
    measure(team)
    for number in range(parts):
        part = &team.part[number]
        part.state = whole[0]
        if not own(team, part, number):
            raise MemoryError
    for link in range(whole.network_links, whole.network_links + whole.injection_links):
        team.part[team.sender[link]].lanes += 1
    return 0


cdef void measure(Team* team) noexcept nogil:
    """Whose each end of a link is, and how far the parts can go without each other."""
    cdef State* s = team.whole
    cdef Link* wire
    cdef int32_t link
    cdef int64_t flit
    team.across = team.ejection = INT64_MAX
    for link in range(s.links):
        wire = &s.link[link]
        team.sender[link] = team.part_of[wire.src if wire.src != NONE else wire.dst]
        team.receiver[link] = team.part_of[wire.dst if wire.dst != NONE else wire.src]
        flit = (wire.num + wire.den - 1) // wire.den + wire.delay
        if team.sender[link] != team.receiver[link]:
            team.across = min(team.across, min(flit, <int64_t> wire.credit_delay))
        if wire.dst == NONE:
            team.ejection = min(team.ejection, flit)


cdef bint own(Team* team, Part* part, int32_t number) noexcept nogil:
    """What a part does not share with the whole, but for scratch. False: there is no memory."""
    cdef State* s = &part.state
    cdef int32_t i
    s.part, s.sender, s.receiver = number, team.sender, team.receiver
    s.nobody += 64 * (1 + number)
    s.flush = INT64_MAX   # it is up to the team
    s.orbit = NULL
    s.slots = <Slot*> calloc(s.slot_mask + 1, sizeof(Slot))
    s.slot_used = <uint64_t*> calloc(s.slot_words, sizeof(uint64_t))
    s.router_active = <uint64_t*> calloc(s.router_words + 1, sizeof(uint64_t))
    s.lane_active = <uint64_t*> calloc(s.lane_words + 1, sizeof(uint64_t))
    part.boxes = <Outbox*> calloc(2 * team.parts, sizeof(Outbox))
    forget(s)
    s.nodes_pool, s.queued_pool, s.free_nodes, s.node_room, s.node_spare = NULL, NULL, NULL, 0, 0
    s.pending, s.pending_room = NULL, 0
    s.delivered, s.delivered_at, s.delivered_room = NULL, NULL, 0
    s.arrivals, s.arrival_room = NULL, 0
    s.log, s.log_room = NULL, 0
    s.requests, s.matched, s.request_room = NULL, NULL, 0
    if (s.slots == NULL or s.slot_used == NULL or s.router_active == NULL or s.lane_active == NULL
            or part.boxes == NULL):
        return False
    for i in range(2 * team.parts):
        part.boxes[i].soonest = INT64_MAX
    return True


cdef void forget(State* s) noexcept nogil:
    """A part holds nothing, and has counted nothing."""
    s.in_flight = s.joined = s.draws = 0
    s.pending_count = s.delivered_count = 0
    s.next_message = s.last_message = NONE
    s.arrival_count = s.log_count = 0
    s.packet_free = s.message_free = NONE
    s.packet_spare = 0
    s.changed = 0
    s.router_visits = s.packets_delivered = s.messages_delivered = s.flits_delivered = 0
    s.latency_sum = s.network_latency_sum = s.hops_sum = 0


cdef void destroy_team(Team* team) noexcept:
    cdef int32_t number, i
    cdef int64_t place
    cdef State* s
    for number in range(team.parts if team.part != NULL else 0):
        s = &team.part[number].state
        for place in range(s.slot_mask + 1 if s.slots != NULL else 0):
            for i in range(KINDS):
                free(s.slots[place].events[i])
        free(s.slots)
        free(s.slot_used)
        free(s.router_active)
        free(s.lane_active)
        free(s.nodes_pool)
        free(s.queued_pool)
        free(s.free_nodes)
        free(s.pending)
        free(s.delivered)
        free(s.delivered_at)
        free(s.arrivals)
        free(s.log)
        free(s.requests)
        free(s.matched)
        for i in range(2 * team.parts if team.part[number].boxes != NULL else 0):
            free(team.part[number].boxes[i].parcels)
        free(team.part[number].boxes)
    free(team.part)
    free(team.part_of)
    free(team.sender)
    free(team.receiver)
    memset(team, 0, sizeof(Team))


# --- from one home to the other -------------------------------------------------------------------------------------

cdef inline int32_t part_of_entry(Team* team, int32_t number, Event kind) noexcept nogil:
    """Whose an entry of the calendar is."""
    cdef State* s = team.whole
    if kind == WAKE:
        return part_of_place(team, number)
    if kind == LAUNCH:
        return team.part_of[s.out_router[number]]
    if kind == CREDIT or kind == LANE_CREDIT:
        return team.sender[s.vc[number].link]
    return team.receiver[s.vc[number].link]


cdef inline int32_t part_of_place(Team* team, int32_t index) noexcept nogil:
    """Of router `index`, or lane `index - routers`."""
    cdef State* s = team.whole
    if index < s.routers:
        return team.part_of[index]
    return team.sender[s.network_links + index - s.routers]


cdef void move_calendar(Team* team, State* source, State* goal) noexcept nogil:
    """All entries. `goal` NULL: each to its part."""
    cdef int64_t place, cycle
    cdef int32_t i, kind, number
    cdef Slot* slot
    for place in range(source.slot_mask + 1):
        slot = &source.slots[place]
        cycle = source.now + ((place - source.now) & source.slot_mask)
        for kind in range(KINDS):
            for i in range(slot.count[kind]):
                number = slot.events[kind][i]
                if goal == NULL:
                    schedule(&team.part[part_of_entry(team, number, <Event> kind)].state, cycle, number, <Event> kind)
                else:
                    schedule(goal, cycle, number, <Event> kind)
            slot.count[kind] = 0
    memset(source.slot_used, 0, source.slot_words * sizeof(uint64_t))


cdef int32_t move_list(State* source, State* goal, int32_t node, int32_t* tail) noexcept nogil:
    """A list of FIFO nodes is made anew in another pool. Returns its head."""
    cdef int32_t head = NONE
    cdef int32_t copy
    while node != NONE:
        copy = new_node(goal)
        if goal.failed:
            return head
        goal.nodes_pool[copy].packet = source.nodes_pool[node].packet
        if source.queues:
            goal.queued_pool[copy] = source.queued_pool[node]
        if head == NONE:
            head = copy
        else:
            goal.nodes_pool[tail[0]].next = copy
        tail[0] = copy
        node = source.nodes_pool[node].next
    return head


cdef void move_nodes(Team* team, bint apart) noexcept nogil:
    """The packets of all VCs and the flits of all output queues."""
    cdef State* s = team.whole
    cdef State* other
    cdef int32_t vc, link
    for vc in range(s.vcs):
        other = &team.part[team.receiver[s.vc[vc].link]].state
        s.vc[vc].head = move_list(
            s if apart else other, other if apart else s, s.vc[vc].head, &s.vc[vc].tail)
    for link in range(s.links):
        other = &team.part[team.sender[link]].state
        s.link[link].queue_head = move_list(
            s if apart else other, other if apart else s, s.link[link].queue_head, &s.link[link].queue_tail)


cdef void empty_nodes(State* s) noexcept nogil:
    """All nodes of a pool are free."""
    cdef int32_t node
    s.node_spare = 0
    for node in range(s.node_room - 1, -1, -1):
        free_node(s, node)


cdef void name_nobody(Team* team, bint apart) noexcept nogil:
    """Output VCs that nobody holds have a holder all the same, which credits are told to: one in each part."""
    cdef State* s = team.whole
    cdef int32_t vc
    for vc in range(s.vcs):
        if s.out[vc].holder >= s.nobody:
            s.out[vc].holder = team.part[team.sender[s.out[vc].link]].state.nobody if apart else s.nobody


cdef void refresh(Team* team) noexcept nogil:
    """What may have changed in the whole since the parts ran last: messages were sent, time was set."""
    cdef State* s = team.whole
    cdef State* p
    cdef int32_t number
    for number in range(team.parts):
        p = &team.part[number].state
        p.now, p.arrived = s.now, s.arrived
        p.messages, p.message_room = s.messages, s.message_room
        p.packets, p.packet_room = s.packets, s.packet_room
        p.tracing, p.failed = s.tracing, s.failed


cdef void divide(Team* team) noexcept nogil:
    """Give everything that moves to the parts, if they do not have it."""
    cdef State* s = team.whole
    cdef int32_t i, part
    if team.divided:
        refresh(team)
        return
    team.divided = 1
    for part in range(team.parts):
        forget(&team.part[part].state)
        memset(team.part[part].state.router_active, 0, s.router_words * sizeof(uint64_t))
        memset(team.part[part].state.lane_active, 0, s.lane_words * sizeof(uint64_t))
        empty_nodes(&team.part[part].state)
    refresh(team)
    move_calendar(team, s, NULL)
    move_nodes(team, True)
    empty_nodes(s)
    name_nobody(team, True)
    while next_pending(s) != NONE:
        add_message(team, take_pending(s))
    for i in range(s.routers + s.injection_links):
        part = part_of_place(team, i)
        if i < s.routers and has_bit(s.router_active, i):
            set_bit(team.part[part].state.router_active, i)
        elif i >= s.routers and has_bit(s.lane_active, i - s.routers):
            set_bit(team.part[part].state.lane_active, i - s.routers)
    for part in range(team.parts):   # whose masks are looked at once; who is not awake sleeps on
        team.part[part].awake = 1
    # All free records of packets to the first part: the others are given some when they meet.
    team.part[0].state.packet_free, team.part[0].state.packet_spare = s.packet_free, s.packet_spare
    s.packet_free, s.packet_spare = NONE, 0


cdef void unite(Team* team) noexcept nogil:
    """Take everything back, to look at it or to go on with one thread."""
    cdef State* s = team.whole
    cdef State* p
    cdef int32_t i, number, other, packet
    if not team.divided:
        return
    team.divided = 0
    for number in range(team.parts):
        for other in range(team.parts):
            take_in(&team.part[number].state, &team.part[other].boxes[team.parity * team.parts + number])
    memset(s.router_active, 0, s.router_words * sizeof(uint64_t))
    memset(s.lane_active, 0, s.lane_words * sizeof(uint64_t))
    for number in range(team.parts):
        p = &team.part[number].state
        move_calendar(team, p, s)
        for i in range(s.router_words):
            s.router_active[i] |= p.router_active[i]
        for i in range(s.lane_words):
            s.lane_active[i] |= p.lane_active[i]
        while p.packet_free != NONE:
            packet = p.packet_free
            p.packet_free = p.packets[packet].next
            s.packets[packet].next = s.packet_free
            s.packet_free = packet
            s.packet_spare += 1
        s.failed |= p.failed
    move_nodes(team, False)
    name_nobody(team, False)
    gather_messages(team)


cdef void gather_messages(Team* team) noexcept nogil:
    """Those that wait for their cycle, in order."""
    cdef State* s = team.whole
    cdef State* first
    cdef int32_t number, message
    while True:
        first = NULL
        for number in range(team.parts):
            message = next_pending(&team.part[number].state)
            if message != NONE and (first == NULL or sooner(s, message, next_pending(first))):
                first = &team.part[number].state
        if first == NULL:
            return
        add_pending(s, take_pending(first))


cdef void add_message(Team* team, int32_t message) noexcept nogil:
    """A message that waits for its cycle: where its lane is."""
    cdef State* p = &team.part[team.sender[team.whole.messages[message].lane]].state
    if not team.divided:
        add_pending(team.whole, message)
        return
    p.messages, p.message_room = team.whole.messages, team.whole.message_room
    add_pending(p, message)
    team.whole.failed |= p.failed


# --- what the parts have counted ------------------------------------------------------------------------------------

cdef void collect(Team* team) noexcept nogil:
    """Add it to the whole, at the end of a call."""
    cdef State* s = team.whole
    cdef State* p
    cdef int32_t number, message
    for number in range(team.parts):
        p = &team.part[number].state
        s.in_flight += p.in_flight
        s.joined += p.joined
        s.draws += p.draws
        s.router_visits += p.router_visits
        s.packets_delivered += p.packets_delivered
        s.messages_delivered += p.messages_delivered
        s.flits_delivered += p.flits_delivered
        s.latency_sum += p.latency_sum
        s.network_latency_sum += p.network_latency_sum
        s.hops_sum += p.hops_sum
        p.in_flight = p.joined = p.draws = 0
        p.router_visits = p.packets_delivered = p.messages_delivered = p.flits_delivered = 0
        p.latency_sum = p.network_latency_sum = p.hops_sum = 0
        s.changed |= p.changed
        s.failed |= p.failed
        p.changed = 0
        while p.message_free != NONE:
            message = p.message_free
            p.message_free = s.messages[message].next
            s.messages[message].next = s.message_free
            s.message_free = message
        move_records(s, p)


cdef void move_records(State* s, State* p) noexcept nogil:
    """What was delivered and what was launched."""
    cdef int64_t room
    if s.delivered_count + p.delivered_count > s.delivered_room:
        room = 2 * (s.delivered_count + p.delivered_count)
        s.delivered = <int32_t*> grown(s, s.delivered, room, sizeof(int32_t))
        s.delivered_at = <int64_t*> grown(s, s.delivered_at, room, sizeof(int64_t))
        if s.failed:
            return
        s.delivered_room = <int32_t> room
    if s.arrival_count + p.arrival_count > s.arrival_room:
        room = 2 * (s.arrival_count + p.arrival_count)
        s.arrivals = <Arrival*> grown(s, s.arrivals, room, sizeof(Arrival))
        if s.failed:
            return
        s.arrival_room = room
    if s.log_count + p.log_count > s.log_room:
        room = 2 * (s.log_count + p.log_count)
        s.log = <Launch*> grown(s, s.log, room, sizeof(Launch))
        if s.failed:
            return
        s.log_room = room
    memcpy(s.delivered + s.delivered_count, p.delivered, p.delivered_count * sizeof(int32_t))
    memcpy(s.delivered_at + s.delivered_count, p.delivered_at, p.delivered_count * sizeof(int64_t))
    memcpy(s.arrivals + s.arrival_count, p.arrivals, p.arrival_count * sizeof(Arrival))
    memcpy(s.log + s.log_count, p.log, p.log_count * sizeof(Launch))
    s.delivered_count += p.delivered_count
    s.arrival_count += p.arrival_count
    s.log_count += p.log_count
    p.delivered_count = 0
    p.arrival_count = p.log_count = 0
