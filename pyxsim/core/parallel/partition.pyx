"""Partition a network, and gather it again: move the moving state between the whole and the partitions."""

from libc.stdint cimport INT32_MAX, INT64_MAX, int16_t, int32_t, int64_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from pyxsim.core.parallel.mailbox cimport receive_entries
from pyxsim.core.router.calendar cimport schedule
from pyxsim.core.router.interface cimport add_waiting, next_waiting, pop_waiting, starts_before
from pyxsim.core.state.bits cimport has_bit, set_bit
from pyxsim.core.state.blocks cimport copy_block
from pyxsim.core.state.network_state cimport free_node, grow_array, new_node
from pyxsim.core.state.records cimport (
    CREDIT,
    KINDS,
    LANE_CREDIT,
    LAUNCH,
    NONE,
    WAKE,
    Arrival,
    CalendarSlot,
    Event,
    Launch,
    Link,
)


# --- setup ----------------------------------------------------------------------------------------------------------

cdef int create_team(Team* team, State* whole, int16_t* part_of, int32_t parts, int32_t rank) except -1:
    """`part_of`: partition of each router. `rank`: the only partition of this process; NONE: it has all.

    The caller allocates the scratch arrays of the partitions.
    """
    cdef int32_t number, link
    cdef Part* part
    memset(team, 0, sizeof(Team))
    team.whole = whole
    team.parts = parts
    team.first = 0 if rank == NONE else rank
    team.beyond = parts if rank == NONE else rank + 1
    team.part = <Part*> calloc(parts, sizeof(Part))
    team.part_of = <int16_t*> calloc(whole.routers.count + 1, sizeof(int16_t))
    team.sender = <int16_t*> calloc(whole.links.count + 1, sizeof(int16_t))
    team.receiver = <int16_t*> calloc(whole.links.count + 1, sizeof(int16_t))
    if team.part == NULL or team.part_of == NULL or team.sender == NULL or team.receiver == NULL:
        raise MemoryError
    memcpy(team.part_of, part_of, whole.routers.count * sizeof(int16_t))
    measure_cuts(team)
    for number in range(parts):
        team.part[number].state.pools.message_free = NONE
    for number in range(team.first, team.beyond):
        part = &team.part[number]
        part.state = whole[0]
        if not allocate_part(team, part, number):
            raise MemoryError
    for link in range(whole.links.network, whole.links.network + whole.links.injection):
        team.part[team.sender[link]].lanes += 1
    return 0


cdef void measure_cuts(Team* team) noexcept nogil:
    """Assign the ends of each link to partitions, and determine the lookahead."""
    cdef State* s = team.whole
    cdef Link* wire
    cdef int32_t link
    cdef int64_t flit
    team.across = team.ejection = INT64_MAX
    for link in range(s.links.count):
        wire = &s.links.link[link]
        team.sender[link] = team.part_of[wire.src if wire.src != NONE else wire.dst]
        team.receiver[link] = team.part_of[wire.dst if wire.dst != NONE else wire.src]
        flit = (wire.num + wire.den - 1) // wire.den + wire.delay
        if team.sender[link] != team.receiver[link]:
            team.across = min(team.across, min(flit, <int64_t> wire.credit_delay))
        if wire.dst == NONE:
            team.ejection = min(team.ejection, flit)
            team.longest_ejection = max(team.longest_ejection, flit)


cdef bint allocate_part(Team* team, Part* part, int32_t number) noexcept nogil:
    """Allocate what a partition does not share, except scratch. False: out of memory."""
    cdef State* s = &part.state
    cdef int32_t i
    s.part.number, s.part.sender, s.part.receiver = number, team.sender, team.receiver
    s.masks.no_holder_bit += 64 * (1 + number)
    s.stats.flush_due = INT64_MAX   # the team flushes
    s.detector = NULL
    s.part.left = NONE
    s.part.remote = has_remote_parts(team)
    if s.part.remote:   # arrivals are recorded, and records of messages freed, in all processes in the same order
        s.config.silent_class, s.config.recycling = INT32_MAX, 0
    s.calendar.slots = <CalendarSlot*> calloc(s.calendar.slot_mask + 1, sizeof(CalendarSlot))
    s.calendar.used = <uint64_t*> calloc(s.calendar.words, sizeof(uint64_t))
    s.routers.active = <uint64_t*> calloc(s.routers.words + 1, sizeof(uint64_t))
    s.lanes.active = <uint64_t*> calloc(s.lanes.words + 1, sizeof(uint64_t))
    part.boxes = <Outbox*> calloc(2 * team.parts, sizeof(Outbox))
    clear_part(s)
    s.pools.nodes, s.pools.queued, s.pools.free_nodes = NULL, NULL, NULL
    s.pools.node_capacity = s.pools.node_spare = 0
    s.waiting.heap, s.waiting.heap_capacity = NULL, 0
    s.arrivals.delivered, s.arrivals.delivered_at, s.arrivals.delivered_capacity = NULL, NULL, 0
    s.arrivals.records, s.arrivals.record_capacity = NULL, 0
    s.trace.launches, s.trace.launch_capacity = NULL, 0
    s.matching.requests, s.matching.granted, s.matching.request_capacity = NULL, NULL, 0
    if (s.calendar.slots == NULL or s.calendar.used == NULL or s.routers.active == NULL or s.lanes.active == NULL
            or part.boxes == NULL):
        return False
    for i in range(2 * team.parts):
        part.boxes[i].soonest = INT64_MAX
    return True


cdef void clear_part(State* s) noexcept nogil:
    """Reset a partition: no contents, no counts."""
    s.in_flight = s.stats.messages_joined = s.routes.draws = 0
    s.waiting.heap_count = s.arrivals.delivered_count = 0
    s.waiting.first = s.waiting.last = NONE
    s.arrivals.record_count = s.trace.launch_count = 0
    s.pools.packet_free = s.pools.message_free = NONE
    s.pools.packet_spare = 0
    s.stats.changed = s.scratch.credit_link_count = 0
    s.stats.router_visits = s.stats.packets_delivered = s.stats.messages_delivered = s.stats.flits_delivered = 0
    s.stats.latency_sum = s.stats.network_latency_sum = s.stats.hops_sum = 0
    s.stats.packets_lost = s.stats.flits_lost = 0


cdef void destroy_team(Team* team) noexcept:
    cdef int32_t number, i
    cdef int64_t place
    cdef State* s
    cdef bint remote = has_remote_parts(team)
    for number in range(team.parts if team.part != NULL else 0):
        s = &team.part[number].state
        for place in range(s.calendar.slot_mask + 1 if s.calendar.slots != NULL else 0):
            for i in range(KINDS):
                free(s.calendar.slots[place].events[i])
        free(s.calendar.slots)
        free(s.calendar.used)
        free(s.routers.active)
        free(s.lanes.active)
        free(s.pools.nodes)
        free(s.pools.queued)
        free(s.pools.free_nodes)
        free(s.waiting.heap)
        free(s.arrivals.delivered)
        free(s.arrivals.delivered_at)
        free(s.arrivals.records)
        free(s.trace.launches)
        free(s.matching.requests)
        free(s.matching.granted)
        if remote:
            free(s.pools.packets)
        free(team.part[number].mail)
        for i in range(2 * team.parts if team.part[number].boxes != NULL else 0):
            free(team.part[number].boxes[i].entries)
        free(team.part[number].boxes)
    free(team.part)
    free(team.part_of)
    free(team.sender)
    free(team.receiver)
    memset(team, 0, sizeof(Team))


# --- moving state ---------------------------------------------------------------------------------------------------

cdef inline int32_t part_of_entry(Team* team, int32_t number, Event kind) noexcept nogil:
    """The partition of a calendar entry."""
    cdef State* s = team.whole
    if kind == WAKE:
        return part_of_place(team, number)
    if kind == LAUNCH:
        return team.part_of[s.ports.out_router[number]]
    if kind == CREDIT or kind == LANE_CREDIT:
        return team.sender[s.vcs.input[number].link]
    return team.receiver[s.vcs.input[number].link]


cdef inline int32_t part_of_place(Team* team, int32_t index) noexcept nogil:
    """The partition of router `index`, of lane `index - routers`, or of the end of link `index - routers - lanes`."""
    cdef State* s = team.whole
    if index < s.routers.count:
        return team.part_of[index]
    if index >= s.routers.count + s.links.injection:
        return team.receiver[index - s.routers.count - s.links.injection]
    return team.sender[s.links.network + index - s.routers.count]


cdef void move_calendar(Team* team, State* source, State* goal) noexcept nogil:
    """Move all entries to `goal`; NULL: each to its partition."""
    cdef int64_t place, cycle
    cdef int32_t i, kind, number
    cdef CalendarSlot* slot
    for place in range(source.calendar.slot_mask + 1):
        slot = &source.calendar.slots[place]
        cycle = source.now + ((place - source.now) & source.calendar.slot_mask)
        for kind in range(KINDS):
            for i in range(slot.count[kind]):
                number = slot.events[kind][i]
                if goal == NULL:
                    schedule(&team.part[part_of_entry(team, number, <Event> kind)].state, cycle, number, <Event> kind)
                else:
                    schedule(goal, cycle, number, <Event> kind)
            slot.count[kind] = 0
    memset(source.calendar.used, 0, source.calendar.words * sizeof(uint64_t))


cdef int32_t move_list(State* source, State* goal, int32_t node, int32_t* tail) noexcept nogil:
    """Copy a list of FIFO nodes into another pool. Return its head."""
    cdef int32_t head = NONE
    cdef int32_t copy
    while node != NONE:
        copy = new_node(goal)
        if goal.failed:
            return head
        goal.pools.nodes[copy].packet = source.pools.nodes[node].packet
        if source.links.any_queued:
            goal.pools.queued[copy] = source.pools.queued[node]
        if head == NONE:
            head = copy
        else:
            goal.pools.nodes[tail[0]].next = copy
        tail[0] = copy
        node = source.pools.nodes[node].next
    return head


cdef void move_nodes(Team* team, bint apart) noexcept nogil:
    """Move the packets of all VCs and the flits of all output queues."""
    cdef State* s = team.whole
    cdef State* other
    cdef int32_t vc, link
    for vc in range(s.vcs.count):
        other = &team.part[team.receiver[s.vcs.input[vc].link]].state
        s.vcs.input[vc].head = move_list(
            s if apart else other, other if apart else s, s.vcs.input[vc].head, &s.vcs.input[vc].tail)
    for link in range(s.links.count):
        other = &team.part[team.sender[link]].state
        s.links.link[link].queue_head = move_list(
            s if apart else other, other if apart else s, s.links.link[link].queue_head, &s.links.link[link].queue_tail)


cdef void free_all_nodes(State* s) noexcept nogil:
    """Free all nodes of a pool."""
    cdef int32_t node
    s.pools.node_spare = 0
    for node in range(s.pools.node_capacity - 1, -1, -1):
        free_node(s, node)


cdef void assign_no_holder_bits(Team* team, bint apart) noexcept nogil:
    """Output VCs without a holder point to a dummy mask word, one per partition, that receives their credits."""
    cdef State* s = team.whole
    cdef Part* part
    cdef int32_t vc
    for vc in range(s.vcs.count):
        if s.vcs.output[vc].holder >= s.masks.no_holder_bit:
            part = &team.part[team.sender[s.vcs.output[vc].link]]
            s.vcs.output[vc].holder = part.state.masks.no_holder_bit if apart else s.masks.no_holder_bit


cdef void refresh_parts(Team* team) noexcept nogil:
    """Refresh what may have changed since the partitions ran last: messages, time."""
    cdef State* s = team.whole
    cdef State* p
    cdef int32_t number
    for number in range(team.first, team.beyond):
        p = &team.part[number].state
        p.now, p.arrived = s.now, s.arrived
        p.pools.messages, p.pools.message_capacity = s.pools.messages, s.pools.message_capacity
        if not has_remote_parts(team):   # else a process has its own, which grow at any time
            p.pools.packets, p.pools.packet_capacity = s.pools.packets, s.pools.packet_capacity
        p.config.tracing, p.failed, p.patient, p.paused = s.config.tracing, s.failed, s.patient, s.paused


cdef void add_credit_link(State* s, int32_t link) noexcept nogil:
    """A link whose credits are looked at in this cycle."""
    s.scratch.credit_links[s.scratch.credit_link_count] = link
    s.scratch.credit_link_count += 1


cdef void distribute_state(Team* team) noexcept nogil:
    """Move the moving state to the partitions, unless they have it."""
    cdef State* s = team.whole
    cdef int32_t i, part
    if team.divided:
        refresh_parts(team)
        return
    team.divided = 1
    for part in range(team.first, team.beyond):
        clear_part(&team.part[part].state)
        memset(team.part[part].state.routers.active, 0, s.routers.words * sizeof(uint64_t))
        memset(team.part[part].state.lanes.active, 0, s.lanes.words * sizeof(uint64_t))
        free_all_nodes(&team.part[part].state)
    refresh_parts(team)
    move_calendar(team, s, NULL)
    move_nodes(team, True)
    free_all_nodes(s)
    assign_no_holder_bits(team, True)
    while next_waiting(s) != NONE:
        add_message(team, pop_waiting(s))
    for i in range(s.routers.count + s.links.injection):
        part = part_of_place(team, i)
        if i < s.routers.count and has_bit(s.routers.active, i):
            set_bit(team.part[part].state.routers.active, i)
        elif i >= s.routers.count and has_bit(s.lanes.active, i - s.routers.count):
            set_bit(team.part[part].state.lanes.active, i - s.routers.count)
    for i in range(s.scratch.credit_link_count):
        if team.first <= team.receiver[s.scratch.credit_links[i]] < team.beyond:
            add_credit_link(&team.part[team.receiver[s.scratch.credit_links[i]]].state, s.scratch.credit_links[i])
    s.scratch.credit_link_count = 0
    for part in range(team.first, team.beyond):   # visit their masks once; sleeping routers stay asleep
        team.part[part].awake = 1
    # All free packet records go to the first partition; `share_packets` distributes them.
    team.part[team.first].state.pools.packet_free = s.pools.packet_free
    team.part[team.first].state.pools.packet_spare = s.pools.packet_spare
    s.pools.packet_free, s.pools.packet_spare = NONE, 0


cdef void gather_state(Team* team) noexcept nogil:
    """Move everything back, for inspection or to continue with one thread."""
    cdef State* s = team.whole
    cdef State* p
    cdef int32_t i, number, other, packet
    if not team.divided:
        return
    team.divided = 0
    for number in range(team.parts):
        for other in range(team.parts):
            receive_entries(&team.part[number].state, &team.part[other].boxes[team.parity * team.parts + number])
    memset(s.routers.active, 0, s.routers.words * sizeof(uint64_t))
    memset(s.lanes.active, 0, s.lanes.words * sizeof(uint64_t))
    for number in range(team.parts):
        p = &team.part[number].state
        move_calendar(team, p, s)
        for i in range(s.routers.words):
            s.routers.active[i] |= p.routers.active[i]
        for i in range(s.lanes.words):
            s.lanes.active[i] |= p.lanes.active[i]
        while p.pools.packet_free != NONE:
            packet = p.pools.packet_free
            p.pools.packet_free = p.pools.packets[packet].next
            s.pools.packets[packet].next = s.pools.packet_free
            s.pools.packet_free = packet
            s.pools.packet_spare += 1
        for i in range(p.scratch.credit_link_count):
            add_credit_link(s, p.scratch.credit_links[i])
        p.scratch.credit_link_count = 0
        s.failed |= p.failed
    move_nodes(team, False)
    assign_no_holder_bits(team, False)
    gather_messages(team)


cdef void gather_messages(Team* team) noexcept nogil:
    """Merge the waiting messages in order."""
    cdef State* s = team.whole
    cdef State* first
    cdef int32_t number, message
    while True:
        first = NULL
        for number in range(team.parts):
            message = next_waiting(&team.part[number].state)
            if message != NONE and (first == NULL or starts_before(s, message, next_waiting(first))):
                first = &team.part[number].state
        if first == NULL:
            return
        add_waiting(s, pop_waiting(first))


cdef void add_message(Team* team, int32_t message) noexcept nogil:
    """Add a waiting message to the partition of its lane, if that is in this process, and to its summary."""
    cdef int32_t number = team.sender[team.whole.pools.messages[message].lane]
    cdef State* p = &team.part[number].state
    cdef Summary* summary = &team.part[number].summary
    summary.pending = min(summary.pending, team.whole.pools.messages[message].at)
    summary.following = min(summary.following, summary.pending)
    if not team.divided:
        add_waiting(team.whole, message)
        return
    if not team.first <= number < team.beyond:
        return
    p.pools.messages, p.pools.message_capacity = team.whole.pools.messages, team.whole.pools.message_capacity
    add_waiting(p, message)
    team.whole.failed |= p.failed


# --- totals of the partitions ---------------------------------------------------------------------------------------

cdef void collect_totals(Team* team) noexcept nogil:
    """Add the counts of the partitions to the whole, at the end of a call."""
    cdef State* s = team.whole
    cdef State* p
    cdef int32_t number, message
    for number in range(team.parts):
        p = &team.part[number].state
        s.in_flight += p.in_flight
        s.stats.messages_joined += p.stats.messages_joined
        s.routes.draws += p.routes.draws
        s.stats.router_visits += p.stats.router_visits
        s.stats.packets_delivered += p.stats.packets_delivered
        s.stats.messages_delivered += p.stats.messages_delivered
        s.stats.flits_delivered += p.stats.flits_delivered
        s.stats.latency_sum += p.stats.latency_sum
        s.stats.network_latency_sum += p.stats.network_latency_sum
        s.stats.hops_sum += p.stats.hops_sum
        s.stats.packets_lost += p.stats.packets_lost
        s.stats.flits_lost += p.stats.flits_lost
        p.in_flight = p.stats.messages_joined = p.routes.draws = 0
        team.part[number].summary.in_flight = 0
        team.part[number].summary.delivered = INT64_MAX
        p.stats.router_visits = p.stats.packets_delivered = p.stats.messages_delivered = p.stats.flits_delivered = 0
        p.stats.latency_sum = p.stats.network_latency_sum = p.stats.hops_sum = 0
        p.stats.packets_lost = p.stats.flits_lost = 0
        s.stats.changed |= p.stats.changed
        s.failed |= p.failed
        p.stats.changed = team.part[number].summary.changed = 0
        while p.pools.message_free != NONE:
            message = p.pools.message_free
            p.pools.message_free = s.pools.messages[message].next
            s.pools.messages[message].next = s.pools.message_free
            s.pools.message_free = message
        move_records(s, p)


cdef void move_records(State* s, State* p) noexcept nogil:
    """Move deliveries and launches."""
    cdef int64_t capacity
    if s.arrivals.delivered_count + p.arrivals.delivered_count > s.arrivals.delivered_capacity:
        capacity = 2 * (s.arrivals.delivered_count + p.arrivals.delivered_count)
        s.arrivals.delivered = <int32_t*> grow_array(s, s.arrivals.delivered, capacity, sizeof(int32_t))
        s.arrivals.delivered_at = <int64_t*> grow_array(s, s.arrivals.delivered_at, capacity, sizeof(int64_t))
        if s.failed:
            return
        s.arrivals.delivered_capacity = <int32_t> capacity
    if s.arrivals.record_count + p.arrivals.record_count > s.arrivals.record_capacity:
        capacity = 2 * (s.arrivals.record_count + p.arrivals.record_count)
        s.arrivals.records = <Arrival*> grow_array(s, s.arrivals.records, capacity, sizeof(Arrival))
        if s.failed:
            return
        s.arrivals.record_capacity = capacity
    if s.trace.launch_count + p.trace.launch_count > s.trace.launch_capacity:
        capacity = 2 * (s.trace.launch_count + p.trace.launch_count)
        s.trace.launches = <Launch*> grow_array(s, s.trace.launches, capacity, sizeof(Launch))
        if s.failed:
            return
        s.trace.launch_capacity = capacity
    copy_block(s.arrivals.delivered + s.arrivals.delivered_count, p.arrivals.delivered,
               p.arrivals.delivered_count * sizeof(int32_t))
    copy_block(s.arrivals.delivered_at + s.arrivals.delivered_count, p.arrivals.delivered_at,
               p.arrivals.delivered_count * sizeof(int64_t))
    copy_block(s.arrivals.records + s.arrivals.record_count, p.arrivals.records,
               p.arrivals.record_count * sizeof(Arrival))
    copy_block(s.trace.launches + s.trace.launch_count, p.trace.launches, p.trace.launch_count * sizeof(Launch))
    s.arrivals.delivered_count += p.arrivals.delivered_count
    s.arrivals.record_count += p.arrivals.record_count
    s.trace.launch_count += p.trace.launch_count
    p.arrivals.delivered_count = 0
    p.arrivals.record_count = p.trace.launch_count = 0
