"""Epochs: partitions run independently for one lookahead window, then synchronise, and one thread plans the next epoch.
With MPI each process plans it, from the same summaries.

Nothing that crosses a cut takes effect before the next epoch (`Team.across`), so within an epoch each partition is a
network of its own. A call must end in the same cycle as with one thread (cycle.pyx), so whatever could end it must be
known when the epoch before is planned. Deliveries are: their last flits are on the ejection lanes by then.
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t

from pyxsim.core.cycle cimport (
    DEADLOCK,
    DELIVERED,
    NOTHING_LEFT,
    NO_MEMORY,
    UNTIL,
    WINDOW,
    Reason,
    evaluate_cycle,
    next_window_end,
    process_arrivals,
)
from pyxsim.core.parallel.mailbox cimport receive_entries
from pyxsim.core.parallel.partition cimport LONGEST_EPOCH, Part, Summary, has_remote_parts
from pyxsim.core.router.buffer cimport first_packet_place, next_packet_place, packet_at
from pyxsim.core.router.calendar cimport last_scheduled, next_scheduled
from pyxsim.core.router.interface cimport next_start_cycle, sources_hold
from pyxsim.core.router.stall_counters cimport flush_port_stalls
from pyxsim.core.state.network_state cimport State, grow_array
from pyxsim.core.state.records cimport LAST, NONE, CalendarSlot, Message, Outbox, Packet


cdef enum:
    SPARE = 256          # packet records that a partition gets beyond its need


# --- a partition, through an epoch ----------------------------------------------------------------------------------

cdef void run_part(Team* team, int32_t number) noexcept nogil:
    """Run one partition from `now` to the end of the epoch."""
    cdef Part* part = &team.part[number]
    cdef State* s = &part.state
    cdef int32_t parity = team.parity * team.parts
    cdef int32_t other
    cdef int64_t following
    for other in range(team.first, team.beyond):
        receive_entries(s, &team.part[other].boxes[(team.parts - parity) + number])
    s.part.outboxes = &part.boxes[parity]
    while True:
        if not s.arrived:
            if s.now == team.end and not team.arrive:
                return
            if process_arrivals(s):
                part.visited = s.now
            s.arrived = 1
        if s.now == team.end:
            return
        if part.awake or next_start_cycle(s) <= s.now:
            part.visited = s.now
        part.awake = evaluate_cycle(s)
        following = s.now + 1
        if not part.awake:
            following = min(next_event_cycle(s), team.end)
        s.now = following
        s.arrived = 0


cdef inline int64_t next_event_cycle(State* s) noexcept nogil:
    """The next cycle in which a sleeping partition has something to do by itself."""
    cdef int64_t following = next_scheduled(s)
    return next_start_cycle(s) if following == NONE else min(following, next_start_cycle(s))


# --- at the barrier -------------------------------------------------------------------------------------------------

cdef void summarise_parts(Team* team) noexcept nogil:
    """Summarise the partitions of this process."""
    cdef int32_t number
    for number in range(team.first, team.beyond):
        team.part[number].summary = summary_of(team, number)


cdef Summary summary_of(Team* team, int32_t number) noexcept nogil:
    cdef Summary summary
    cdef Part* part = &team.part[number]
    cdef State* s = &part.state
    cdef int32_t other
    cdef Outbox* box
    summary.awake, summary.failed = part.awake, s.failed | s.matching.fault
    summary.changed, summary.in_flight, summary.visited = s.stats.changed, s.in_flight, part.visited
    summary.scheduled = next_scheduled(s) != NONE
    summary.following, summary.pending = next_event_cycle(s), next_start_cycle(s)
    summary.latest = last_scheduled(s)
    summary.held = s.patient and not part.awake and not summary.scheduled and sources_hold(s)
    summary.completing = first_completion(team, s)
    summary.delivered = first_delivery(team, s)
    for other in range(team.parts):
        box = &part.boxes[team.parity * team.parts + other]
        summary.scheduled |= box.soonest < INT64_MAX
        summary.following = min(summary.following, box.soonest)
        summary.latest = max(summary.latest, box.latest)
    return summary


cdef int64_t first_delivery(Team* team, State* s) noexcept nogil:
    """The first delivery of this call that can end it, or INT64_MAX."""
    cdef int32_t i
    for i in range(s.arrivals.delivered_count):
        if s.pools.messages[s.arrivals.delivered[i]].klass < team.whole.config.silent_class:
            return s.arrivals.delivered_at[i]
    return INT64_MAX


cdef int64_t first_completion(Team* team, State* s) noexcept nogil:
    """The first cycle in which a message may be delivered, by the tails on ejection lanes, or INT64_MAX."""
    cdef int64_t cycle
    cdef int32_t i
    cdef int32_t tails = 0   # a sink gets one per cycle at most
    cdef CalendarSlot* slot
    for cycle in range(s.now, s.now + team.longest_ejection + 1):
        slot = &s.calendar.slots[cycle & s.calendar.slot_mask]
        tails += slot.count[<int32_t> LAST] > 0
        for i in range(slot.count[<int32_t> LAST]):
            if may_complete(s, slot.events[<int32_t> LAST][i], tails):
                return cycle
    return INT64_MAX


cdef bint may_complete(State* s, int32_t vc, int32_t packets) noexcept nogil:
    """Can a message at a sink be complete after at most `packets` more packets?"""
    cdef int32_t place = first_packet_place(s, vc)
    cdef int32_t _packet
    cdef Message* m
    for _packet in range(packets):
        if place == NONE:
            return False
        m = &s.pools.messages[s.pools.packets[packet_at(s, vc, place)].message]
        if m.packets - m.delivered <= packets:
            return True
        place = next_packet_place(s, vc, place)
    return False


cdef Summary summary_of_all(Team* team) noexcept nogil:
    """Combine the summaries of all partitions."""
    cdef Summary all
    cdef Summary* one
    cdef int32_t number
    all.awake = all.failed = all.scheduled = all.held = 0
    all.changed, all.in_flight, all.visited, all.latest = team.whole.stats.changed, team.whole.in_flight, 0, NONE
    all.following = all.pending = all.completing = all.delivered = INT64_MAX
    if team.whole.arrivals.delivered_count:   # from an earlier call; the debug build calls in every cycle
        all.delivered = team.whole.arrivals.delivered_at[0]
    for number in range(team.parts):
        one = &team.part[number].summary
        all.awake |= one.awake
        all.failed |= one.failed
        all.changed |= one.changed
        all.scheduled |= one.scheduled
        all.held |= one.held
        all.in_flight += one.in_flight
        all.visited = max(all.visited, one.visited)
        all.following = min(all.following, one.following)
        all.latest = max(all.latest, one.latest)
        all.pending = min(all.pending, one.pending)
        all.completing = min(all.completing, one.completing)
        all.delivered = min(all.delivered, one.delivered)
    return all


cdef void begin_run(Team* team, int64_t until, int64_t slack, int64_t window) noexcept nogil:
    cdef State* s = team.whole
    cdef int32_t number
    team.start, team.until, team.stop, team.slack, team.window = s.now, until, until, slack, window
    team.boundary = next_window_end(s, window)
    for number in range(team.parts):
        team.part[number].visited = team.part[number].summary.visited = s.now


cdef void end_run(Team* team, Reason reason, int64_t now, int32_t arrived) noexcept nogil:
    team.reason, team.done = reason, 1
    set_time(team, now)
    team.whole.arrived = arrived


cdef void set_time(Team* team, int64_t now) noexcept nogil:
    cdef int32_t number
    team.whole.now = now
    for number in range(team.parts):
        team.part[number].state.now = now


cdef void decide_next_epoch(Team* team) noexcept nogil:
    """The decisions of `run_cycles` between two cycles, for all partitions: end the call, or plan the next epoch."""
    cdef int64_t now = team.part[team.first].state.now
    cdef int32_t arrived = team.part[team.first].state.arrived
    cdef Summary all = summary_of_all(team)
    team.whole.now = now
    team.done = 0   # not earlier: some threads may read the end of the last call only here
    if all.failed:
        end_run(team, NO_MEMORY, now, arrived)
        return
    if (
        now > team.start and not all.awake and not all.scheduled and all.visited < now
        and not (team.whole.patient and (all.in_flight or all.held))
    ):
        # No partition has been active since the cycle after `visited`.
        if all.in_flight:
            end_run(team, DEADLOCK, all.visited + 1, 0)
            return
        if all.pending == INT64_MAX:
            end_run(team, NOTHING_LEFT, all.visited + 1, 0)
            return
    if all.delivered != INT64_MAX:
        team.stop = min(team.stop, all.delivered + team.slack)
    if not arrived and now > team.start and not all.awake and all.following > now:
        now = min(all.following, max(team.stop, now))
        if now > team.boundary and (all.in_flight or all.changed):
            now = team.boundary
        set_time(team, now)
    if not arrived and now >= team.boundary:
        team.whole.stats.window_reported = now
        if all.changed or all.in_flight:
            clear_changed(team)
            end_run(team, WINDOW, now, 0)
            return
        team.boundary = (now // team.window + 1) * team.window
    if arrived and now >= team.stop:
        end_run(team, DELIVERED if all.delivered != INT64_MAX else UNTIL, now, 1)
        return
    plan_epoch(team, &all, now, arrived)


cdef void clear_changed(Team* team) noexcept nogil:
    cdef int32_t number
    team.whole.stats.changed = team.whole.config.retry
    for number in range(team.parts):
        team.part[number].state.stats.changed = 0


cdef void plan_epoch(Team* team, Summary* all, int64_t now, int32_t arrived) noexcept nogil:
    """Plan the next epoch: one lookahead window, unless the call could end before or within it."""
    cdef int64_t length = min(team.across, LONGEST_EPOCH)
    cdef int64_t end
    if all.delivered == INT64_MAX and team.slack < LONGEST_EPOCH:
        length = min(length, team.ejection + team.slack)
    end = now + length
    team.arrive = 0
    if all.pending < end and all.latest < end - 1:
        # If everything could stall in it and then a message start, a deadlock must be reported first: one cycle only.
        end = now + 1
    if all.delivered == INT64_MAX and all.completing < end - team.slack:
        end, team.arrive = all.completing + team.slack, 1
    if team.stop < end:
        end, team.arrive = max(team.stop, now), 1
    if team.boundary <= end:
        end, team.arrive = max(team.boundary, now + 1), 0
    if end >= team.whole.stats.flush_due:   # the counts of all routers: no thread counts now
        flush_port_stalls(team.whole)
    team.end = end
    team.parity ^= 1
    team.epochs += 1
    if not has_remote_parts(team):   # else each process has records of its own
        share_packets(team, end - now)


# --- records of packets ---------------------------------------------------------------------------------------------

cdef void share_packets(Team* team, int64_t cycles) noexcept nogil:
    """Give partitions packet records. They share one array, which grows only here, where no thread reads it.

    A lane opens at most one packet per cycle.
    """
    cdef int32_t number
    for number in range(team.parts):
        while spare_packets(team, number, cycles) < 0 and not team.part[number].state.failed:
            obtain_packets(team, number, cycles)


cdef inline int64_t spare_packets(Team* team, int32_t number, int64_t cycles) noexcept nogil:
    """Packet records of a partition beyond its need in `cycles` cycles."""
    return team.part[number].state.pools.packet_spare - team.part[number].lanes * cycles


cdef void obtain_packets(Team* team, int32_t number, int64_t cycles) noexcept nogil:
    """Take up to half of what the partition with most can spare; if that is too little, new ones."""
    cdef State* s = &team.part[number].state
    cdef State* giver
    cdef int64_t needed = team.part[number].lanes * cycles + SPARE
    cdef int32_t other, packet
    cdef int32_t most = number
    cdef int64_t count, _packet
    for other in range(team.parts):
        if spare_packets(team, other, cycles) > spare_packets(team, most, cycles):
            most = other
    count = min(spare_packets(team, most, cycles) // 2, needed)
    if count < needed // 2:
        grow_packets(team, number, needed)
        return
    giver = &team.part[most].state
    for _packet in range(count):
        packet = giver.pools.packet_free
        giver.pools.packet_free = s.pools.packets[packet].next
        s.pools.packets[packet].next = s.pools.packet_free
        s.pools.packet_free = packet
    giver.pools.packet_spare -= <int32_t> count
    s.pools.packet_spare += <int32_t> count


cdef void grow_packets(Team* team, int32_t number, int64_t needed) noexcept nogil:
    """At least double the array; the new records go to one partition."""
    cdef State* s = &team.part[number].state
    cdef State* other
    cdef int32_t i
    cdef int32_t capacity = s.pools.packet_capacity + max(s.pools.packet_capacity, <int32_t> needed)
    s.pools.packets = <Packet*> grow_array(s, s.pools.packets, capacity, sizeof(Packet))
    if s.failed:
        return
    for i in range(s.pools.packet_capacity, capacity):
        s.pools.packets[i].next = s.pools.packet_free
        s.pools.packet_free = i
    s.pools.packet_spare += capacity - s.pools.packet_capacity
    team.whole.pools.packets, team.whole.pools.packet_capacity = s.pools.packets, capacity
    for i in range(team.parts):
        other = &team.part[i].state
        other.pools.packets, other.pools.packet_capacity = s.pools.packets, capacity
