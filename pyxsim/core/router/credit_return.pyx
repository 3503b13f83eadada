"""Credits as messages: collected at the receiving end of a link, and returned on the opposite one (docs/router.md).

Whether a message arrives is known when it is launched, as with flits (retry.pyx). So its credits are entries of the
calendar like those that return ideally, and need no other state on their way.
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t

from pyxsim.core.latency.link_faults cimport message_takes_link
from pyxsim.core.router.calendar cimport count_entries, remove_entries, schedule
from pyxsim.core.router.link cimport link_available_at, return_credit
from pyxsim.core.router.retry cimport FLIT_ERROR, enter_replay, error_draw, replay_accepts, replay_slot, transmit
from pyxsim.core.state.network_state cimport State
from pyxsim.core.state.records cimport CREDIT, LANE_CREDIT, NONE, WAKE, CreditReturn, Link, ReplayFlit, VcCredits


# --- the cycle ------------------------------------------------------------------------------------------------------

cdef void list_link(State* s, int32_t link) noexcept nogil:
    """List a link, so that step 5 of this cycle checks its credits."""
    if s.links.credit_return[link].listed_at != s.now:
        s.links.credit_return[link].listed_at = s.now
        s.scratch.credit_links[s.scratch.credit_link_count] = link
        s.scratch.credit_link_count += 1


cdef void collect_credit(State* s, int32_t link, int32_t vc, int64_t t) noexcept nogil:
    """A slot behind the link is emptied in cycle `t`."""
    cdef VcCredits* c = &s.links.vc_credits[vc]
    if s.links.credit_return[link].opposite == NONE:
        return_credit(s, link, vc, t + s.links.link[link].credit_delay)
        return
    if c.pending == 0:
        c.since = t
    c.pending += 1
    list_link(s, link)


cdef void note_launch(State* s, int32_t link, int64_t t, bint wrong) noexcept nogil:
    """A new flit was just launched on a link: it may carry credits. `wrong`: it is corrupted."""
    cdef CreditReturn* r = &s.links.credit_return[link]
    cdef Link* wire = &s.links.link[link]
    r.flit_at, r.flit_wrong = t, wrong
    r.flit_arrival = (wire.free + wire.den - 1) // wire.den + wire.delay
    if r.opposite != NONE and s.links.credit_rules.wait >= 0:
        list_link(s, r.opposite)


cdef void return_credits(State* s) noexcept nogil:
    """Step 5 of a cycle."""
    cdef int32_t i
    for i in range(s.scratch.credit_link_count):
        send_due_credits(s, s.scratch.credit_links[i], s.now)
    s.scratch.credit_link_count = 0


cdef void send_due_credits(State* s, int32_t link, int64_t t) noexcept nogil:
    """Step 5 of a link: piggyback credits on the flit that the opposite link has launched, or launch messages."""
    cdef CreditReturn* r = &s.links.credit_return[link]
    cdef int64_t resync = s.links.credit_rules.resync
    cdef int64_t wait = s.links.credit_rules.wait
    cdef int64_t when
    if resync and t % resync == 0:
        send_lost_again(s, link, t)
    if wait >= 0 and s.links.credit_return[r.opposite].flit_at == t and first_due(s, link, t) <= t:
        ride(s, link, t)
        r.due_at = INT64_MAX
    while True:
        when = first_due(s, link, t)
        if when > t:
            r.due_at = INT64_MAX
            break
        if r.due_at == INT64_MAX:
            r.due_at = t
        if wait > 0 and t < r.due_at + wait:
            when = r.due_at + wait
            break
        when = first_start(s, link, t)
        if when > t:
            break
        send_message(s, link, t)
        r.due_at = INT64_MAX
    if resync and lost_credits(s, link):
        when = min(when, (t // resync + 1) * resync)
    look_again(s, link, when)


cdef void look_again(State* s, int32_t link, int64_t when) noexcept nogil:
    """Schedule a check of a link in cycle `when`, or earlier if that is beyond the calendar; INT64_MAX: none."""
    cdef CreditReturn* r = &s.links.credit_return[link]
    if when == INT64_MAX:
        return
    when = min(when, s.now + s.calendar.slot_mask)
    if s.now < r.wake_at <= when:
        return
    r.wake_at = when
    schedule(s, when, s.routers.count + s.links.injection + link, WAKE)


# --- what is due ----------------------------------------------------------------------------------------------------

cdef inline int64_t vc_due(State* s, int32_t link, int32_t vc, int64_t t) noexcept nogil:
    """The cycle in which credits of a VC are due; at most `t`: now; INT64_MAX: there are none."""
    cdef VcCredits* c = &s.links.vc_credits[vc]
    if c.pending == 0:
        return INT64_MAX
    if c.forced or c.pending >= s.links.credit_rules.batch:
        return t
    return c.since + s.links.credit_return[link].timeout


cdef int64_t first_due(State* s, int32_t link, int64_t t) noexcept nogil:
    """The first cycle in which credits of any VC are due."""
    cdef int32_t vc
    cdef int64_t first = INT64_MAX
    for vc in range(s.links.link[link].base, s.links.link[link].base + s.links.link[link].vcs):
        first = min(first, vc_due(s, link, vc, t))
    return first


cdef int64_t first_start(State* s, int32_t link, int64_t t) noexcept nogil:
    """The first cycle at whose end a message of a link may be launched; `t`: now; INT64_MAX: its link is down."""
    cdef int32_t out = s.links.credit_return[link].opposite
    cdef Link* wire = &s.links.link[out]
    cdef int64_t ahead = 0 if s.links.credit_rules.data_first else 1
    if s.links.credit_return[link].num == 0:
        return t
    if wire.free == INT64_MAX:
        return INT64_MAX
    if wire.free >= (t + 1 + ahead) * wire.den:
        return link_available_at(s, out) - ahead
    if s.config.retry and not replay_accepts(s, out, t):
        return t + 1
    return t


cdef bint lost_credits(State* s, int32_t link) noexcept nogil:
    """Are any credits of a link lost?"""
    cdef int32_t vc
    for vc in range(s.links.link[link].base, s.links.link[link].base + s.links.link[link].vcs):
        if s.links.vc_credits[vc].lost:
            return True
    return False


cdef void send_lost_again(State* s, int32_t link, int64_t t) noexcept nogil:
    """Make all lost credits of a link due."""
    cdef VcCredits* c
    cdef int32_t vc
    for vc in range(s.links.link[link].base, s.links.link[link].base + s.links.link[link].vcs):
        c = &s.links.vc_credits[vc]
        if c.lost:
            if c.pending == 0:
                c.since = t
            c.pending += c.lost
            c.restored += c.lost
            c.lost = 0
            c.forced = 1


# --- messages -------------------------------------------------------------------------------------------------------

cdef int32_t take_credits(State* s, int32_t vc) noexcept nogil:
    """Take the credits of a VC into a message; return how many."""
    cdef VcCredits* c = &s.links.vc_credits[vc]
    cdef int32_t count = c.pending
    if s.links.credit_rules.cumulative:
        count += c.lost
        c.restored += c.lost
        c.lost = 0
    if count:
        c.pending = c.forced = 0
        c.returned += count
        c.carried += 1
    return count


cdef void fill_message(State* s, int32_t link, int64_t t, bint arrives, int64_t arrival, int64_t slot) noexcept nogil:
    """Take the credits of a message, which arrive in cycle `arrival` if `arrives`.

    `slot`: the slot of their flit in the replay buffers, with whose retransmission they otherwise arrive; NONE: without
    retry.
    """
    cdef CreditReturn* r = &s.links.credit_return[link]
    cdef Link* wire = &s.links.link[link]
    cdef int32_t turn, number
    if s.links.credit_rules.all_vcs:
        for number in range(wire.vcs):
            send_credits(s, link, wire.base + number, arrives, arrival, slot)
        return
    for turn in range(wire.vcs):
        number = (r.pointer + turn) % wire.vcs
        if vc_due(s, link, wire.base + number, t) <= t:
            r.pointer = number + 1
            send_credits(s, link, wire.base + number, arrives, arrival, slot)
            return


cdef void send_credits(
    State* s, int32_t link, int32_t vc, bint arrives, int64_t arrival, int64_t slot
) noexcept nogil:
    """The credits of one VC, as in `fill_message`."""
    cdef int32_t count = take_credits(s, vc)
    if slot != NONE:
        s.links.replay_credits[slot * s.links.credit_rules.most_vcs + vc - s.links.link[link].base] = count
    if arrives:
        credits_arrive(s, link, vc, count, arrival)
    elif slot == NONE:
        s.links.vc_credits[vc].lost += count
        s.links.vc_credits[vc].destroyed += count


cdef void credits_arrive(State* s, int32_t link, int32_t vc, int32_t count, int64_t arrival) noexcept nogil:
    cdef int32_t _credit
    for _credit in range(count):
        return_credit(s, link, vc, arrival)


cdef void ride(State* s, int32_t link, int64_t t) noexcept nogil:
    """Piggyback credits on the flit that the opposite link has launched in this cycle; they arrive with it."""
    cdef int32_t out = s.links.credit_return[link].opposite
    cdef ReplayFlit* flit
    cdef bint arrives = not s.links.credit_return[out].flit_wrong
    cdef int64_t slot = NONE
    cdef int64_t arrival = s.links.credit_return[out].flit_arrival
    if s.config.retry and s.links.replay[out].slots:
        slot = replay_slot(s, out, s.links.replay[out].newest - 1)
        flit = &s.links.replay_flit[slot]
        arrives, arrival = flit.arrival != INT64_MAX, flit.arrival
    else:
        s.links.credit_return[link].destroyed += not arrives
    s.links.credit_return[link].riding += 1
    fill_message(s, link, t, arrives, arrival, slot)


cdef void send_message(State* s, int32_t link, int64_t t) noexcept nogil:
    """Launch a message on the opposite link."""
    cdef CreditReturn* r = &s.links.credit_return[link]
    cdef Link* wire = &s.links.link[r.opposite]
    cdef int64_t number, start, end
    cdef bint arrives = True
    r.messages += 1
    s.stats.changed = 1
    if r.num == 0:
        fill_message(s, link, t, True, t + s.links.link[link].credit_delay, NONE)
        return
    if s.config.retry and s.links.replay[r.opposite].slots:
        number = enter_replay(s, r.opposite, NONE, CREDIT, NONE, 0, t)
        fill_message(s, link, t, False, 0, replay_slot(s, r.opposite, number))
        transmit(s, r.opposite, number, t)
        if s.config.attribution:
            message_takes_link(s, r.opposite, t)
        return
    start = max(t * wire.den, wire.free)
    wire.free = start + r.num
    r.busy += r.num
    if s.config.attribution:
        message_takes_link(s, r.opposite, t)
    end = (wire.free + wire.den - 1) // wire.den
    if s.config.lossy:
        arrives = (error_draw(s, s.links.count + link, r.launched, FLIT_ERROR) >= s.links.credit_bound[r.opposite])
        r.destroyed += not arrives
    r.launched += 1
    fill_message(s, link, t, arrives, end + s.links.link[link].credit_delay - 1, NONE)
    if wire.src == NONE:
        schedule(s, max(t + 1, link_available_at(s, r.opposite)),
                 s.routers.count + r.opposite - s.links.network, WAKE)


# --- retry ----------------------------------------------------------------------------------------------------------

cdef void credits_arrive_again(State* s, int32_t link, int64_t number, int64_t arrival) noexcept nogil:
    """A flit or message in the replay buffer of a link is accepted: its credits arrive."""
    cdef int32_t other = s.links.credit_return[link].opposite
    cdef int64_t first = replay_slot(s, link, number) * s.links.credit_rules.most_vcs
    cdef int32_t i
    for i in range(s.links.link[other].vcs if other != NONE else 0):
        credits_arrive(s, other, s.links.link[other].base + i, s.links.replay_credits[first + i], arrival)


cdef void clear_carried(State* s, int32_t link, int64_t number) noexcept nogil:
    """A new flit or message in the replay buffer of a link carries nothing."""
    cdef int64_t first = replay_slot(s, link, number) * s.links.credit_rules.most_vcs
    cdef int32_t i
    for i in range(s.links.credit_rules.most_vcs):
        s.links.replay_credits[first + i] = 0


# --- links that change ----------------------------------------------------------------------------------------------

cdef void change_credit_return(State* s, int32_t link, bint lost, bint came_up) noexcept nogil:
    """A link has changed: the messages on it, which carry credits of the opposite link, take its new rate.

    `lost`: it has gone down, and flits on the wire are lost; `came_up`: it has come up again.
    """
    cdef CreditReturn* r = &s.links.credit_return[link]
    cdef int32_t other = r.opposite
    cdef bint retries = s.config.retry and s.links.replay[link].slots
    if other == NONE:
        return
    if s.links.link[link].free == INT64_MAX:
        r.flit_at = NONE   # no credits are piggybacked on a flit launched earlier in this cycle
    s.links.credit_return[other].num = (
        s.links.link[link].num * s.links.credit_rules.share_num // s.links.credit_rules.share_den)
    if lost and s.links.credit_return[other].num:
        lose_credits(s, other, retries)
    if lost and s.links.credit_rules.advertise and not retries:
        r.reset = 1
    if came_up and r.reset:
        r.reset = 0
        advertise_again(s, link)
        send_lost_again(s, other, s.now)
    if s.part.receiver == NULL or s.part.receiver[other] == s.part.number:
        list_link(s, other)
    if s.part.receiver == NULL or s.part.receiver[link] == s.part.number:
        list_link(s, link)


cdef void advertise_again(State* s, int32_t link) noexcept nogil:
    """The sender of a link drops its credits, and its receiver sends all of them again."""
    cdef int32_t vc
    cdef VcCredits* c
    for vc in range(s.links.link[link].base, s.links.link[link].base + s.links.link[link].vcs):
        c = &s.links.vc_credits[vc]
        if s.vcs.output[vc].credit > 0:
            if c.pending == 0:
                c.since = s.now
            c.pending += s.vcs.output[vc].credit
            c.forced = 1
            c.empty_since = s.now
            s.vcs.output[vc].credit = 0
    send_lost_again(s, link, s.now)


cdef void lose_credits(State* s, int32_t link, bint retries) noexcept nogil:
    """The credits of a link on their way back are lost; with retry, the flits that carried them are retransmitted."""
    cdef int32_t first = s.links.link[link].base
    cdef int32_t beyond = first + s.links.link[link].vcs
    cdef int32_t kind = LANE_CREDIT if s.links.link[link].src == NONE else CREDIT
    cdef int32_t vc, count
    for vc in range(first, beyond if not retries else first):
        count = <int32_t> count_entries(s, kind, kind, vc)
        s.links.vc_credits[vc].lost += count
        s.links.vc_credits[vc].destroyed += count
    remove_entries(s, kind, first, beyond)
