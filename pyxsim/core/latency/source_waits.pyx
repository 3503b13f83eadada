"""Attribution at the sources: what each injection lane does in every cycle, and what messages waited for it.

docs/attribution.md, "At the source". A lane is only looked at when something may have changed. What it does from there
on is known: it sends the flit that started last up to `busy_until`, then it waits `after`, until the next look.
"""

from libc.stdint cimport int8_t, int32_t, int64_t

from pyxsim.core.router.arbiter cimport first_from
from pyxsim.core.state.bits cimport next_bit
from pyxsim.core.latency.latency_records cimport (
    FIRST_WAIT,
    NO_CREDIT,
    NO_VC,
    NOBODY,
    SERIALISATION,
    SILENT,
    SOURCE,
    LaneBook,
    MessageBook,
    PacketBook,
    Stay,
)
from pyxsim.core.router.buffer cimport vcs_of
from pyxsim.core.latency.latency_totals cimport books_fit, new_stay
from pyxsim.core.router.link cimport available_at
from pyxsim.core.state.network_state cimport NONE, Message
from pyxsim.core.latency.router_waits cimport blamed, holder_of


cdef void reckon(State* s, LaneBook* lane, int32_t link, int64_t t) noexcept nogil:
    """Add up the cycles before `t`."""
    cdef int64_t cycles = t - lane.since
    cdef int64_t busy = min(lane.busy_until, t) - lane.since
    if cycles <= 0:
        return
    if busy > 0:
        if s.messages[lane.user].serial == s.books.link[link].serial:   # else it is long gone, and needs them no more
            s.books.messages[lane.user].own += busy
        cycles -= busy
    if lane.after == NO_VC:
        lane.no_vc += cycles
    elif lane.after == NO_CREDIT:
        lane.no_credit += cycles
    lane.since = t


cdef void end_wait(State* s, LaneBook* lane, int64_t t) noexcept nogil:
    """The lane waited up to the cycle before `t`: for whom?"""
    cdef int8_t by
    if t > lane.began:
        if lane.after == NO_CREDIT:
            by = blamed(s, lane.target, lane.began, t)
            if by != NOBODY:
                lane.credit_by, lane.credit_over = by, t
        elif lane.after == NO_VC and lane.by != NOBODY:
            lane.vc_by, lane.vc_over = lane.by, t
    lane.after = SILENT


cdef void leads(State* s, int32_t message, LaneBook* lane, int32_t link, int64_t t) noexcept nogil:
    """From cycle `t` on a message is the first of its source queue."""
    cdef MessageBook* m = &s.books.messages[message]
    reckon(s, lane, link, t)
    m.first, m.no_vc, m.no_credit = t, lane.no_vc, lane.no_credit


cdef void joins(State* s, int32_t message, int32_t before) noexcept nogil:
    """A message joins its source queue, behind another one or (NONE) as the first."""
    cdef int32_t link = s.messages[message].lane
    cdef MessageBook* m
    if not books_fit(s):
        return
    m = &s.books.messages[message]
    m.first, m.own, m.before = NONE, 0, NOBODY
    if before != NONE:
        m.before = s.messages[before].tag
    else:
        leads(s, message, &s.books.lane[link - s.network_links], link, s.now)


cdef void sends(State* s, int32_t link, int32_t packet, bint tail, int64_t t) noexcept nogil:
    """A flit is about to be launched on the lane. With the tail the packet's stay at the source is over."""
    cdef LaneBook* lane = &s.books.lane[link - s.network_links]
    cdef int32_t index = s.packets[packet].message
    cdef Message* message = &s.messages[index]
    reckon(s, lane, link, t)
    end_wait(s, lane, t)
    if tail:
        tell(s, link, packet, t)
    if message.serial != s.books.link[link].serial:
        lane.other_by = <int8_t> s.books.link[link].by
    lane.user = index


cdef void tell(State* s, int32_t link, int32_t packet, int64_t t) noexcept nogil:
    """What the tail of a packet waited for, from the start of its message to cycle `t`."""
    cdef LaneBook* lane = &s.books.lane[link - s.network_links]
    cdef Message* message = &s.messages[s.packets[packet].message]
    cdef MessageBook* m = &s.books.messages[s.packets[packet].message]
    cdef Stay* stay = new_stay(s, packet, link)
    cdef PacketBook* p = &s.books.packets[packet]
    cdef int64_t no_vc = lane.no_vc - m.no_vc
    cdef int64_t no_credit = lane.no_credit - m.no_credit
    if s.failed:
        return
    stay.parts[SERIALISATION] = m.own
    stay.parts[FIRST_WAIT] = no_vc
    stay.parts[FIRST_WAIT + 1] = no_credit
    stay.parts[SOURCE] = t - message.at - m.own - no_vc - no_credit
    if lane.vc_over > m.first:
        stay.culprit[FIRST_WAIT] = lane.vc_by
    if lane.credit_over > m.first:
        stay.culprit[FIRST_WAIT + 1] = lane.credit_by
    if m.before != NOBODY:
        stay.culprit[SOURCE] = <int8_t> m.before
    elif message.serial == s.books.link[link].serial:
        stay.culprit[SOURCE] = lane.other_by
    else:
        stay.culprit[SOURCE] = <int8_t> s.books.link[link].by
    p.left, p.spare = t, 0


cdef void rests(State* s, int32_t link, int32_t opened, int64_t t) noexcept nogil:
    """A lane has done what it can in cycle `t`, and opened a packet of class `opened` (or NONE)."""
    cdef LaneBook* lane = &s.books.lane[link - s.network_links]
    cdef int32_t base = s.link[link].base
    cdef int32_t queue = (link - s.network_links) * s.classes
    cdef int32_t target = first_from(vcs_of(s.opened, s, link), s.link[link].launch_pointer, 0, s.link[link].vcs)
    cdef int32_t klass, row
    cdef int8_t after = NO_CREDIT
    cdef int8_t by = NOBODY
    reckon(s, lane, link, t)
    if target < 0:
        after = SILENT
        for klass in range(s.classes):   # the first message that waits
            if s.source_head[queue + klass] != NONE:
                row = s.link[link].range + s.class_vnet[klass]
                target = next_bit(vcs_of(s.unheld, s, link), s.low[row], s.high[row])
                after = NO_VC if target < 0 else NO_CREDIT
                by = holder_of(s, link, s.low[row], s.high[row])
                break
    lane.busy_until = available_at(s, link)
    if after != lane.after:
        end_wait(s, lane, t)
        lane.after, lane.began = after, max(t, lane.busy_until)
    lane.target, lane.by = base + target, by
    if opened != NONE and s.source_head[queue + opened] != NONE:
        if s.books.messages[s.source_head[queue + opened]].first == NONE:
            leads(s, s.source_head[queue + opened], lane, link, t + 1)
