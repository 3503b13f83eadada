"""Bit errors of links, and retry at the link: a replay buffer at the sender, and go-back-N (docs/router.md, "Retry").

The fate of a flit is known when it is launched: its draw depends only on the link and the number of the launch, and the
receiver answers after a fixed time. So the receiver needs no state, and acknowledgments need no events.
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint64_t

from pyxsim.core.latency.router_waits cimport flit_starts
from pyxsim.core.parallel.mailbox cimport post
from pyxsim.core.router.calendar cimport schedule
from pyxsim.core.router.credit_return cimport clear_carried, credits_arrive_again, note_launch
from pyxsim.core.state.network_state cimport log_launch
from pyxsim.core.state.records cimport CREDIT, LAUNCH, NONE, WAKE, CreditReturn, Link, Replay, ReplayFlit


cdef inline ReplayFlit* flit_at(State* s, Replay* r, int64_t number) noexcept nogil:
    return &s.links.replay_flit[r.base + number % r.slots]


cdef inline bint is_down(Link* wire) noexcept nogil:
    return wire.free == INT64_MAX


cdef inline int64_t available_at(Link* wire) noexcept nogil:
    return wire.free // wire.den


cdef void wake_sender(State* s, int32_t link, int64_t when) noexcept nogil:
    """Schedule a visit of the link in cycle `when` (`send_again`)."""
    if s.links.link[link].src == NONE:
        schedule(s, when, s.routers.count + link - s.links.network, WAKE)
    else:
        schedule(s, when, s.links.link[link].outlet, LAUNCH)


# --- without retry --------------------------------------------------------------------------------------------------

cdef void after_launch(State* s, int32_t link, int32_t packet, int64_t t) noexcept nogil:
    """A flit was just launched: its packet is lost if one of its bits is corrupted, and it may carry credits."""
    cdef uint64_t bound = s.links.error_bound[link] if s.config.lossy else 0
    cdef bint wrong = bound != 0 and error_draw(s, link, s.links.link[link].flits - 1, FLIT_ERROR) < bound
    if wrong:
        s.links.errors[link] += 1
        s.pools.packets[packet].lost = 1
    if s.config.credits:
        note_launch(s, link, t, wrong)


# --- the replay buffer ----------------------------------------------------------------------------------------------

cdef void drop_acknowledged(State* s, Replay* r, int64_t t) noexcept nogil:
    cdef ReplayFlit* flit
    while r.oldest < r.newest:
        flit = flit_at(s, r, r.oldest)
        if flit.acked > t:
            return
        r.held += flit.acked - flit.entered
        r.oldest += 1


cdef bint replay_accepts(State* s, int32_t link, int64_t t) noexcept nogil:
    """May a new flit start on an available link? Not while flits wait for retransmission, nor without a free slot."""
    cdef Replay* r = &s.links.replay[link]
    if r.slots == 0:
        return True
    drop_acknowledged(s, r, t)
    return r.next == r.newest and r.newest - r.oldest < r.slots


cdef void count_full_buffer(State* s, int32_t link, int64_t t) noexcept nogil:
    """A flit cannot request an available link: count the cycle if the replay buffer is full."""
    cdef Replay* r = &s.links.replay[link]
    if r.slots and r.next == r.newest and r.newest - r.oldest == r.slots and r.full_at != t:
        r.full_at = t
        r.full += 1


cdef int64_t held_until(State* s, int32_t link, int64_t cycle) noexcept nogil:
    """Total of the cycles that flits have spent in the replay buffer up to a cycle."""
    cdef Replay* r = &s.links.replay[link]
    cdef ReplayFlit* flit
    cdef int64_t total = r.held
    cdef int64_t number
    for number in range(r.oldest, r.newest):
        flit = flit_at(s, r, number)
        total += min(flit.acked, cycle) - flit.entered
    return total


cdef bint steady_replays(State* s) noexcept nogil:
    """Has every acknowledgement on its way arrived? No event of the calendar announces them."""
    cdef int32_t link
    cdef int64_t number
    cdef Replay* r
    for link in range(s.links.count if s.config.retry else 0):
        r = &s.links.replay[link]
        for number in range(r.oldest if r.slots else 0, r.newest if r.slots else 0):
            if s.now < flit_at(s, r, number).acked < INT64_MAX:
                return False
    return True


cdef void send_with_retry(State* s, int32_t vc, Event kind, int32_t packet, int32_t flit, int64_t t) noexcept nogil:
    """A new flit enters the replay buffer and starts."""
    cdef int32_t link = s.vcs.output[vc].link
    transmit(s, link, enter_replay(s, link, vc, kind, packet, flit, t), t)
    if s.config.attribution:
        flit_starts(s, link, packet, flit, t, 0)
    if s.config.credits:
        note_launch(s, link, t, False)


cdef int64_t enter_replay(
    State* s, int32_t link, int32_t vc, Event kind, int32_t packet, int32_t flit, int64_t t
) noexcept nogil:
    """A new flit, or a message with credits (`kind` CREDIT), enters the replay buffer. Return its number."""
    cdef Replay* r = &s.links.replay[link]
    cdef ReplayFlit* slot = flit_at(s, r, r.newest)
    slot.vc, slot.kind, slot.packet, slot.flit, slot.entered = vc, kind, packet, flit, t
    if s.config.credits:
        clear_carried(s, link, r.newest)
    r.newest += 1
    r.next = r.newest
    if r.newest - r.oldest > r.count_most:
        r.count_most = <int32_t> (r.newest - r.oldest)
    return r.newest - 1


cdef void transmit(State* s, int32_t link, int64_t number, int64_t t) noexcept nogil:
    """Launch an entry of the replay buffer, as `launch_on_link` does, and determine whether it is accepted."""
    cdef Link* wire = &s.links.link[link]
    cdef Replay* r = &s.links.replay[link]
    cdef ReplayFlit* flit = flit_at(s, r, number)
    cdef bint message = flit.kind == CREDIT
    cdef CreditReturn* credits = NULL   # of the link whose credits this one carries
    cdef int64_t start = t * wire.den
    cdef int64_t end, arrival
    cdef int64_t launch = wire.flits
    cdef uint64_t bound = s.links.error_bound[link] if s.config.lossy else 0
    if s.config.credits and s.links.credit_return[link].opposite != NONE:
        credits = &s.links.credit_return[s.links.credit_return[link].opposite]
        launch += credits.launched
    if wire.free > start:
        start = wire.free
    wire.free = start + (credits.num if message else wire.num)
    end = (wire.free + wire.den - 1) // wire.den
    arrival = end + wire.delay
    if message:
        arrival = end + s.links.link[s.links.credit_return[link].opposite].credit_delay - 1
        credits.launched += 1
        credits.busy += credits.num
        bound = s.links.credit_bound[link] if s.config.lossy else 0
    else:
        wire.flits += 1
    flit.arrival = flit.acked = INT64_MAX
    if s.config.tracing and not message:
        log_launch(s, t, flit.vc, flit.packet, flit.flit)
    if wire.src == NONE:
        wake_sender(s, link, max(t + 1, available_at(wire)))
    if r.rewind_at != INT64_MAX:   # the receiver waits for an earlier flit, and discards this one
        return
    if s.config.lossy and error_draw(s, link, launch, FLIT_ERROR) < bound:
        if message:
            credits.destroyed += 1
        else:
            s.links.errors[link] += 1
        r.rewind_to = number
        r.rewind_at = arrival + wire.credit_delay + r.ack
        if error_draw(s, link, launch, NACK_ERROR) < s.links.nack_bound[link]:
            r.rewind_at = end + r.timeout
            r.timeouts += 1
        wake_sender(s, link, r.rewind_at)
        return
    flit.arrival, flit.acked = arrival, arrival + wire.credit_delay + r.ack
    if credits != NULL:
        credits_arrive_again(s, link, number, arrival)
    if message:
        return
    if s.part.receiver != NULL and s.part.receiver[link] != s.part.number:
        post(s, s.part.receiver[link], arrival, flit.vc, NONE, <Event> flit.kind)
    else:
        schedule(s, arrival, flit.vc, <Event> flit.kind)


cdef void send_again(State* s, int32_t link, int64_t t) noexcept nogil:
    """Step 1: the sender goes back, if that is due, and launches the next flit to retransmit."""
    cdef Link* wire = &s.links.link[link]
    cdef Replay* r = &s.links.replay[link]
    if r.rewind_at <= t:
        r.rewind_at = INT64_MAX
        r.next = r.rewind_to
    if r.next == r.newest or is_down(wire):
        r.due = INT64_MAX
        return
    if t < r.due < INT64_MAX:
        return   # a later entry of the calendar is for it
    if wire.free < (t + 1) * wire.den:
        r.resent += flit_at(s, r, r.next).kind != CREDIT
        r.next += 1
        s.stats.changed = 1
        transmit(s, link, r.next - 1, t)
    if r.next == r.newest:
        r.due = INT64_MAX
        return
    r.due = max(t + 1, available_at(wire))
    wake_sender(s, link, r.due)


cdef void resume_sending(State* s, int32_t link) noexcept nogil:
    """The link is up again, or has changed: retransmission continues in the next cycle."""
    cdef Replay* r = &s.links.replay[link]
    if r.next != r.newest and not is_down(&s.links.link[link]):
        r.due = s.now + 1
        wake_sender(s, link, r.due)


cdef void lose_unaccepted(State* s, int32_t link) noexcept nogil:
    """All flits on the wire are lost: the sender goes back to the first one."""
    cdef Replay* r = &s.links.replay[link]
    cdef ReplayFlit* flit
    cdef int64_t number
    r.rewind_at = INT64_MAX
    r.next = r.newest
    for number in range(r.newest - 1, r.oldest - 1, -1):
        flit = flit_at(s, r, number)
        if flit.arrival > s.now:
            flit.arrival = flit.acked = INT64_MAX
            r.next = number
