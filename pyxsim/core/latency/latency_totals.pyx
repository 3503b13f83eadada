"""Attribution: the stays of packets, and the tables that they end up in when the packet is consumed.

A stay is booked only then, so at any moment the table of waits makes the summed latency of the packets delivered.
"""

from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport calloc, free

from pyxsim.core.latency.latency_records cimport (
    HOPS,
    MOST_TAGS,
    NOBODY,
    PARTS,
    SERIALISATION,
    MessageBook,
    PacketBook,
    Rider,
    Stay,
    StayRow,
    Waited,
)
from pyxsim.core.router.random_draws cimport mix
from pyxsim.core.state.network_state cimport NONE, Message, grown


cdef bint books_fit(State* s) noexcept nogil:
    """There is a book for every packet and every message that there is a record of."""
    if s.books.packet_room < s.packet_room:
        s.books.packets = <PacketBook*> grown(s, s.books.packets, s.packet_room, sizeof(PacketBook))
        if s.failed:
            return False
        s.books.packet_room = s.packet_room
    if s.books.message_room < s.message_room:
        s.books.messages = <MessageBook*> grown(s, s.books.messages, s.message_room, sizeof(MessageBook))
        if s.failed:
            return False
        s.books.message_room = s.message_room
    return True


cdef void open_books(State* s, int32_t packet, int32_t message) noexcept nogil:
    """A packet of a message has just been made."""
    cdef PacketBook* p
    if books_fit(s):
        p = &s.books.packets[packet]
        p.serial, p.by = s.messages[message].serial, s.messages[message].tag
        p.first, p.last = NONE, NONE


cdef Stay* new_stay(State* s, int32_t packet, int32_t link) noexcept nogil:
    """The next stay of a packet, all of it still to be told; NULL and `failed`: no memory."""
    cdef PacketBook* p = &s.books.packets[packet]
    cdef int32_t index, room
    cdef int32_t i
    cdef Stay* stay
    if s.books.stay_free == NONE:
        room = s.books.stay_room * 2 + 1024
        s.books.stays = <Stay*> grown(s, s.books.stays, room, sizeof(Stay))
        if s.failed:
            return NULL
        for index in range(s.books.stay_room, room):
            s.books.stays[index].next = index + 1
        s.books.stays[room - 1].next = NONE
        s.books.stay_free = s.books.stay_room
        s.books.stay_room = room
    index = s.books.stay_free
    stay = &s.books.stays[index]
    s.books.stay_free = stay.next
    for i in range(PARTS):
        stay.parts[i] = 0
        stay.culprit[i] = NOBODY
    stay.link, stay.next = link, NONE
    if p.last == NONE:
        p.first = index
    else:
        s.books.stays[p.last].next = index
    p.last = index
    return stay


cdef int32_t new_rider(State* s) noexcept nogil:
    cdef int32_t rider, room
    if s.books.rider_free == NONE:
        room = s.books.rider_room * 2 + 64
        s.books.riders = <Rider*> grown(s, s.books.riders, room, sizeof(Rider))
        if s.failed:
            return NONE
        for rider in range(s.books.rider_room, room):
            s.books.riders[rider].next = rider + 1
        s.books.riders[room - 1].next = NONE
        s.books.rider_free = s.books.rider_room
        s.books.rider_room = room
    rider = s.books.rider_free
    s.books.rider_free = s.books.riders[rider].next
    return rider


cdef void free_rider(State* s, int32_t rider) noexcept nogil:
    s.books.riders[rider].next = s.books.rider_free
    s.books.rider_free = rider


# --- the table of waits ---------------------------------------------------------------------------------------------

cdef inline Waited* place_of(Waited* table, int64_t room, int64_t key) noexcept nogil:
    """Where a key is, or belongs."""
    cdef int64_t place = <int64_t> (mix(<uint64_t> key) & <uint64_t> (room - 1))
    while table[place].key and table[place].key != key:
        place = (place + 1) & (room - 1)
    return &table[place]


cdef bint enlarge(State* s) noexcept nogil:
    cdef int64_t room = s.books.table_room * 2 if s.books.table_room else 1024
    cdef Waited* table = <Waited*> calloc(room, sizeof(Waited))
    cdef int64_t i
    if table == NULL:
        s.failed = 1
        return False
    for i in range(s.books.table_room):
        if s.books.table[i].key:
            place_of(table, room, s.books.table[i].key)[0] = s.books.table[i]
    free(s.books.table)
    s.books.table, s.books.table_room = table, room
    return True


cdef inline Waited* entry_of(State* s, int32_t link, int32_t victim, int32_t culprit) noexcept nogil:
    """Its entry in the table, new or old; NULL and `failed`: no memory."""
    cdef int64_t key = 1 + culprit + 1 + (MOST_TAGS + 1) * (victim + <int64_t> MOST_TAGS * link)
    cdef Waited* entry
    if 2 * s.books.table_count >= s.books.table_room and not enlarge(s):
        return NULL
    entry = place_of(s.books.table, s.books.table_room, key)
    if entry.key == 0:
        entry.key = key
        s.books.table_count += 1
    return entry


cdef void book(State* s, Stay* stay, int32_t victim, int64_t* parts) noexcept nogil:
    """Add a stay to the table, and to the parts of its packet."""
    cdef int32_t culprit = NOBODY - 1
    cdef int32_t i, by
    cdef Waited* entry = NULL
    for i in range(PARTS):
        if not stay.parts[i]:
            continue
        by = victim if i == SERIALISATION or i == HOPS else stay.culprit[i]
        if by != culprit:
            entry = entry_of(s, stay.link, victim, by)
            if s.failed:
                return
            culprit = by
        entry.cycles[i] += stay.parts[i]
        entry.packets[i] += 1
        parts[i] += stay.parts[i]


cdef void keep(State* s, int32_t packet, Stay* stay) noexcept nogil:
    """A row of `stays()`."""
    cdef int64_t room
    cdef StayRow* row
    cdef int32_t i
    if s.books.log_count == s.books.log_room:
        room = s.books.log_room * 2 + 256
        s.books.log = <StayRow*> grown(s, s.books.log, room, sizeof(StayRow))
        if s.failed:
            return
        s.books.log_room = room
    row = &s.books.log[s.books.log_count]
    s.books.log_count += 1
    row.message = s.messages[s.packets[packet].message].serial
    row.packet = s.packets[packet].number
    row.link = stay.link
    for i in range(PARTS):
        row.parts[i] = stay.parts[i]


cdef void settle_packet(State* s, int32_t packet, int64_t t) noexcept nogil:
    """A packet has been consumed: its stays are booked. The last packet tells of its message."""
    cdef Message* message = &s.messages[s.packets[packet].message]
    cdef PacketBook* p = &s.books.packets[packet]
    cdef MessageBook* m = &s.books.messages[s.packets[packet].message]
    cdef bint kept = s.attribution > 1 or message.serial == s.watch_serial
    cdef int64_t told = 0
    cdef int32_t i, index
    cdef int64_t parts[PARTS]
    cdef Stay* stay
    for i in range(PARTS):
        parts[i] = 0
    index = p.first
    while index != NONE:
        stay = &s.books.stays[index]
        book(s, stay, message.tag, parts)
        if kept:
            keep(s, packet, stay)
        if s.failed:
            return
        index = stay.next
    s.books.stays[p.last].next = s.books.stay_free
    s.books.stay_free = p.first
    for i in range(PARTS):
        told += parts[i]
    if told != t - message.at:
        s.books.unexplained += 1
    if message.delivered == message.packets:
        for i in range(PARTS):
            m.parts[i] = parts[i]


cdef void free_books(State* s) noexcept:
    free(s.books.packets)
    free(s.books.messages)
    free(s.books.stays)
    free(s.books.riders)
    free(s.books.table)
    free(s.books.log)
