"""Attribution at the sources: the activity of each injection lane, and what messages wait for there.

docs/attribution.md, "At the source". A lane is only visited when something may change. Until the next visit it sends
the flit that started last up to `busy_until`, then waits as `after` says.
"""

from libc.stdint cimport int8_t, int32_t, int64_t

from pyxsim.core.latency.latency_records cimport (
    FAULT,
    FIRST_WAIT,
    LINK_FAULT,
    NO_CREDIT,
    NO_TRAFFIC,
    NO_VC,
    SERIALISATION,
    SILENT,
    SOURCE,
    LaneWait,
    MessageWait,
    PacketWait,
    Stay,
)
from pyxsim.core.latency.latency_totals cimport grow_wait_records, new_stay
from pyxsim.core.latency.router_waits cimport credit_culprit, range_holder
from pyxsim.core.router.arbiter cimport first_from
from pyxsim.core.router.buffer cimport link_vc_mask
from pyxsim.core.router.interface cimport next_to_launch
from pyxsim.core.router.link cimport link_available_at
from pyxsim.core.state.bits cimport next_bit
from pyxsim.core.state.records cimport NONE, Message


cdef void account_lane_cycles(State* s, LaneWait* lane, int32_t link, int64_t t) noexcept nogil:
    """Account for the cycles before `t`."""
    cdef int64_t cycles = t - lane.since
    cdef int64_t busy = min(lane.busy_until, t) - lane.since
    if cycles <= 0:
        return
    if busy > 0:
        # otherwise the message is gone and needs no counts
        if s.pools.messages[lane.user].serial == s.latency.link[link].serial:
            s.latency.messages[lane.user].own += busy
        cycles -= busy
    if lane.after == NO_VC:
        lane.no_vc += cycles
    elif lane.after == NO_CREDIT:
        lane.no_credit += cycles
    elif lane.after == LINK_FAULT:
        lane.fault += cycles
    lane.since = t


cdef void end_lane_wait(State* s, LaneWait* lane, int64_t t) noexcept nogil:
    """The lane waited up to the cycle before `t`: determine the culprit."""
    cdef int8_t by
    if t > lane.began:
        if lane.after == NO_CREDIT:
            by = credit_culprit(s, lane.target, lane.began, t)
            if by != NO_TRAFFIC:
                lane.credit_by, lane.credit_over = by, t
        elif lane.after == NO_VC and lane.by != NO_TRAFFIC:
            lane.vc_by, lane.vc_over = lane.by, t
    lane.after = SILENT


cdef void message_leads_queue(State* s, int32_t message, LaneWait* lane, int32_t link, int64_t t) noexcept nogil:
    """From cycle `t` on a message is the first of its source queue."""
    cdef MessageWait* m = &s.latency.messages[message]
    account_lane_cycles(s, lane, link, t)
    m.first, m.no_vc, m.no_credit, m.fault = t, lane.no_vc, lane.no_credit, lane.fault


cdef void message_joins(State* s, int32_t message, int32_t before) noexcept nogil:
    """A message joins its source queue, behind message `before`, or as the first (NONE)."""
    cdef int32_t link = s.pools.messages[message].lane
    cdef MessageWait* m
    if not grow_wait_records(s):
        return
    m = &s.latency.messages[message]
    m.first, m.own, m.before = NONE, 0, NO_TRAFFIC
    if before != NONE:
        m.before = s.pools.messages[before].tag
    else:
        message_leads_queue(s, message, &s.latency.lane[link - s.links.network], link, s.now)


cdef void flit_launches(State* s, int32_t link, int32_t packet, bint tail, int64_t t) noexcept nogil:
    """A flit is about to be launched. With the tail the packet's stay at the source is complete."""
    cdef LaneWait* lane = &s.latency.lane[link - s.links.network]
    cdef int32_t index = s.pools.packets[packet].message
    cdef Message* message = &s.pools.messages[index]
    account_lane_cycles(s, lane, link, t)
    end_lane_wait(s, lane, t)
    if tail:
        book_source_stay(s, link, packet, t)
    if message.serial != s.latency.link[link].serial:
        lane.other_by = <int8_t> s.latency.link[link].by
    lane.user = index


cdef void book_source_stay(State* s, int32_t link, int32_t packet, int64_t t) noexcept nogil:
    """Split the wait of a packet's tail, from the start of its message to cycle `t`, into parts."""
    cdef LaneWait* lane = &s.latency.lane[link - s.links.network]
    cdef Message* message = &s.pools.messages[s.pools.packets[packet].message]
    cdef MessageWait* m = &s.latency.messages[s.pools.packets[packet].message]
    cdef Stay* stay = new_stay(s, packet, link)
    cdef PacketWait* p = &s.latency.packets[packet]
    cdef int64_t no_vc = lane.no_vc - m.no_vc
    cdef int64_t no_credit = lane.no_credit - m.no_credit
    cdef int64_t fault = lane.fault - m.fault
    if s.failed:
        return
    stay.parts[SERIALISATION] = m.own
    stay.parts[FIRST_WAIT] = no_vc
    stay.parts[FIRST_WAIT + 1] = no_credit
    stay.parts[FAULT] = fault
    stay.parts[SOURCE] = t - message.at - m.own - no_vc - no_credit - fault
    if lane.vc_over > m.first:
        stay.culprit[FIRST_WAIT] = lane.vc_by
    if lane.credit_over > m.first:
        stay.culprit[FIRST_WAIT + 1] = lane.credit_by
    if m.before != NO_TRAFFIC:
        stay.culprit[SOURCE] = <int8_t> m.before
    elif message.serial == s.latency.link[link].serial:
        stay.culprit[SOURCE] = lane.other_by
    else:
        stay.culprit[SOURCE] = <int8_t> s.latency.link[link].by
    p.left, p.spare = t, 0


cdef inline int64_t transmits_until(State* s, int32_t link) noexcept nogil:
    """The first cycle in which the lane is available or would be without faults and retry."""
    if s.latency.faulty:
        return s.latency.link[link].sound_free // s.links.link[link].den
    return link_available_at(s, link)


cdef void message_interrupts_lane(State* s, int32_t link, int64_t t) noexcept nogil:
    """A message with credits has started on the lane in step 5 of cycle `t`."""
    cdef LaneWait* lane = &s.latency.lane[link - s.links.network]
    cdef int8_t after = lane.after
    account_lane_cycles(s, lane, link, t + 1)
    end_lane_wait(s, lane, t + 1)
    lane.busy_until = transmits_until(s, link)
    lane.after, lane.began = after, max(t + 1, lane.busy_until)


cdef bint waits_at(State* s, int32_t queue) noexcept nogil:
    """Does a message of any class wait in the source queues of a lane?"""
    cdef int32_t klass
    for klass in range(s.config.classes):
        if s.lanes.source_head[queue + klass] != NONE:
            return True
    return False


cdef void lane_visited(State* s, int32_t link, int32_t opened, int64_t t) noexcept nogil:
    """A lane has been visited in cycle `t`, and opened a packet of class `opened` (or NONE)."""
    cdef LaneWait* lane = &s.latency.lane[link - s.links.network]
    cdef int32_t base = s.links.link[link].base
    cdef int32_t queue = (link - s.links.network) * s.config.classes
    cdef int32_t target = first_from(link_vc_mask(s.lanes.opened, s, link), s.links.link[link].launch_pointer, 0,
                                     s.links.link[link].vcs)
    cdef int32_t klass, row
    cdef int8_t after = NO_CREDIT
    cdef int8_t by = NO_TRAFFIC
    account_lane_cycles(s, lane, link, t)
    if s.latency.faulty and target >= 0 and next_to_launch(s, link) >= 0:
        after = LINK_FAULT   # once it does not transmit, it lacks only its link
    elif s.latency.faulty and target < 0 and (s.paused or (s.config.lossy and s.links.drops[link])):
        after = LINK_FAULT if waits_at(s, queue) else SILENT
    elif target < 0:
        after = SILENT
        for klass in range(s.config.classes):   # the first message that waits
            if s.lanes.source_head[queue + klass] != NONE:
                row = s.links.link[link].range + s.config.class_vnet[klass]
                target = next_bit(link_vc_mask(s.vcs.unheld, s, link), s.links.low[row], s.links.high[row])
                after = NO_VC if target < 0 else NO_CREDIT
                by = range_holder(s, link, s.links.low[row], s.links.high[row])
                break
    lane.busy_until = transmits_until(s, link)
    if after != lane.after:
        end_lane_wait(s, lane, t)
        lane.after, lane.began = after, max(t, lane.busy_until)
    lane.target, lane.by = base + target, by
    if opened != NONE and s.lanes.source_head[queue + opened] != NONE:
        if s.latency.messages[s.lanes.source_head[queue + opened]].first == NONE:
            message_leads_queue(s, s.lanes.source_head[queue + opened], lane, link, t + 1)
