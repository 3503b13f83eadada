"""Mail between processes that simulate one network with MPI: one for each process, at every barrier.

All processes number links, VCs and messages alike, so the entries of a mailbox and the records of packets travel as
they are. A process has a record of each packet with flits in its partition: the receiver makes one when a VC at its end
of a link is granted, and the sender frees its own when the tail has left. Every process has the records of all messages
that have not arrived. As all processes read the deliveries in the same order, they reuse the same records.
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t
from libc.string cimport memcpy

from pyxsim.core.parallel.mailbox cimport receive_entries
from pyxsim.core.parallel.partition cimport Part
from pyxsim.core.router.interface cimport message_arrived
from pyxsim.core.state.network_state cimport State, free_packet, grow_array, new_packet
from pyxsim.core.state.records cimport NONE, MailboxEntry, Message, Outbox, Packet


# --- the sender -----------------------------------------------------------------------------------------------------

cdef void write_mail(Team* team) noexcept nogil:
    """Write the mail for all processes, this one too, from its summary, mailboxes and deliveries."""
    cdef Part* part = &team.part[team.first]
    cdef State* s = &part.state
    cdef int32_t number, packet
    s.stats.messages_delivered = 0   # every process counts them when it reads of them
    for number in range(team.parts):
        write_to(team, part, number, &part.boxes[team.parity * team.parts + number])
    s.arrivals.delivered_count = 0
    while s.part.left != NONE:
        packet = s.part.left
        s.part.left = s.pools.packets[packet].next
        free_packet(s, packet)


cdef void write_to(Team* team, Part* part, int32_t number, Outbox* box) noexcept nogil:
    cdef State* s = &part.state
    cdef MailHeader header
    cdef char* place
    cdef int32_t i
    header.summary, header.stats = part.summary, s.stats
    header.in_flight, header.draws = s.in_flight, s.routes.draws
    header.call = team.start + 3 * team.whole.stats.messages_sent + 7 * team.until
    header.entries, header.deliveries, header.packets = box.count, s.arrivals.delivered_count, 0
    for i in range(box.count):
        header.packets += box.entries[i].packet != NONE
    header.bytes = (sizeof(MailHeader) + box.count * <int64_t> sizeof(MailboxEntry)
                    + header.packets * <int64_t> sizeof(Packet) + header.deliveries * <int64_t> sizeof(Delivery))
    place = reserve_mail(s, &team.part[number], header.bytes)
    if s.failed:
        return
    memcpy(place, &header, sizeof(MailHeader))
    place += sizeof(MailHeader)
    memcpy(place, box.entries, box.count * sizeof(MailboxEntry))
    place += box.count * sizeof(MailboxEntry)
    for i in range(box.count):
        if box.entries[i].packet != NONE:
            memcpy(place, &s.pools.packets[box.entries[i].packet], sizeof(Packet))
            place += sizeof(Packet)
    for i in range(header.deliveries):
        write_delivery(s, <Delivery*> place, i)
        place += sizeof(Delivery)
    box.count, box.soonest, box.latest = 0, INT64_MAX, 0


cdef char* reserve_mail(State* s, Part* receiver, int64_t size) noexcept nogil:
    """Room for the mail to another partition. Without memory the last mail is sent again, with the failure."""
    if size > receiver.mail_capacity:
        receiver.mail = <char*> grow_array(s, receiver.mail, 2 * size, 1)
        if s.failed:
            if receiver.mail != NULL:
                (<MailHeader*> receiver.mail).summary.failed = 1
            return receiver.mail
        receiver.mail_capacity = 2 * size
    return receiver.mail


cdef void write_delivery(State* s, Delivery* delivery, int32_t i) noexcept nogil:
    cdef Message* m = &s.pools.messages[s.arrivals.delivered[i]]
    delivery.message, delivery.last = s.arrivals.delivered[i], s.arrivals.delivered_at[i]
    delivery.first, delivery.hops = m.first, m.hops


# --- the receiver ---------------------------------------------------------------------------------------------------

cdef bint read_mail(Team* team, int32_t sender, char* mail, int64_t size) noexcept nogil:
    """Read the mail of a process. False: its system layer has not done the same as this one, or the mail is damaged."""
    cdef MailHeader* header = <MailHeader*> mail
    cdef Part* part = &team.part[sender]
    cdef State* s = &team.part[team.first].state
    cdef Outbox box
    cdef char* packets
    cdef int32_t i
    if (size < <int64_t> sizeof(MailHeader) or header.bytes != size
            or header.call != team.start + 3 * team.whole.stats.messages_sent + 7 * team.until):
        return False
    part.summary = header.summary
    if sender != team.first:   # `collect_totals` adds the counts of all partitions
        part.state.stats, part.state.in_flight, part.state.routes.draws = header.stats, header.in_flight, header.draws
    box.entries, box.count = <MailboxEntry*> (mail + sizeof(MailHeader)), header.entries
    packets = mail + sizeof(MailHeader) + header.entries * sizeof(MailboxEntry)
    for i in range(header.entries):
        if box.entries[i].packet != NONE:
            box.entries[i].packet = read_packet(s, <Packet*> packets)
            packets += sizeof(Packet)
    if s.failed:
        return True   # the next summary says so
    receive_entries(s, &box)
    for i in range(header.deliveries):
        read_delivery(team.whole, <Delivery*> (packets + i * sizeof(Delivery)))
    return True


cdef int32_t read_packet(State* s, Packet* source) noexcept nogil:
    """Make a record of a packet that is about to enter this partition."""
    cdef int32_t packet = new_packet(s)
    cdef Message* m = &s.pools.messages[source.message]
    if s.failed:
        return NONE
    memcpy(&s.pools.packets[packet], source, sizeof(Packet))
    if m.first < 0 or source.launched < m.first:
        m.first = source.launched
    return packet


cdef void read_delivery(State* s, Delivery* delivery) noexcept nogil:
    """Enter a delivered message in the records of the whole network."""
    cdef Message* m = &s.pools.messages[delivery.message]
    m.first, m.hops = delivery.first, delivery.hops
    m.opened = m.delivered = m.packets
    message_arrived(s, delivery.message, delivery.last)
