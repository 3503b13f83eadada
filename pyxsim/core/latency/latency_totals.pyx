"""Attribution: the stays of packets, and the tables to which they are added when the packet is consumed.

As a stay is added only then, the table of waits always sums up to the latency of the packets delivered.
"""

from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport calloc, free

from pyxsim.core.latency.latency_records cimport (
    BY_FAULT,
    FAULT,
    HOPS,
    MOST_TAGS,
    NO_TRAFFIC,
    PARTS,
    SERIALISATION,
    MessageWait,
    PacketWait,
    QueuedMessage,
    Stay,
    StayRow,
    WaitEntry,
)
from pyxsim.core.latency.link_faults cimport tail_is_accepted
from pyxsim.core.router.random_draws cimport mix
from pyxsim.core.state.network_state cimport grow_array, grow_list
from pyxsim.core.state.records cimport NONE, Message


cdef bint grow_wait_records(State* s) noexcept nogil:
    """Make room for a wait record of every packet and message record."""
    if s.latency.packet_capacity < s.pools.packet_capacity:
        s.latency.packets = <PacketWait*> grow_array(s, s.latency.packets, s.pools.packet_capacity, sizeof(PacketWait))
        if s.failed:
            return False
        s.latency.packet_capacity = s.pools.packet_capacity
    if s.latency.message_capacity < s.pools.message_capacity:
        s.latency.messages = <MessageWait*> grow_array(
            s, s.latency.messages, s.pools.message_capacity, sizeof(MessageWait))
        if s.failed:
            return False
        s.latency.message_capacity = s.pools.message_capacity
    return True


cdef void open_packet_record(State* s, int32_t packet, int32_t message) noexcept nogil:
    """Initialise the record of a new packet of a message."""
    cdef PacketWait* p
    if grow_wait_records(s):
        p = &s.latency.packets[packet]
        p.serial, p.by = s.pools.messages[message].serial, s.pools.messages[message].tag
        p.first, p.last, p.sound_arrival, p.fault = NONE, NONE, NONE, 0


cdef Stay* new_stay(State* s, int32_t packet, int32_t link) noexcept nogil:
    """Append a stay to a packet, with empty parts; NULL and `failed`: out of memory."""
    cdef PacketWait* p = &s.latency.packets[packet]
    cdef int32_t index, capacity
    cdef int32_t i
    cdef Stay* stay
    if s.latency.stay_free == NONE:
        capacity = s.latency.stay_capacity * 2 + 1024
        s.latency.stays = <Stay*> grow_array(s, s.latency.stays, capacity, sizeof(Stay))
        if s.failed:
            return NULL
        for index in range(s.latency.stay_capacity, capacity):
            s.latency.stays[index].next = index + 1
        s.latency.stays[capacity - 1].next = NONE
        s.latency.stay_free = s.latency.stay_capacity
        s.latency.stay_capacity = capacity
    index = s.latency.stay_free
    stay = &s.latency.stays[index]
    s.latency.stay_free = stay.next
    for i in range(PARTS):
        stay.parts[i] = 0
    for i in range(FAULT):
        stay.culprit[i] = NO_TRAFFIC
    stay.link, stay.next = link, NONE
    if p.last == NONE:
        p.first = index
    else:
        s.latency.stays[p.last].next = index
    p.last = index
    return stay


cdef int32_t new_queued_message(State* s) noexcept nogil:
    cdef int32_t rider, capacity
    if s.latency.rider_free == NONE:
        capacity = s.latency.rider_capacity * 2 + 64
        s.latency.riders = <QueuedMessage*> grow_array(s, s.latency.riders, capacity, sizeof(QueuedMessage))
        if s.failed:
            return NONE
        for rider in range(s.latency.rider_capacity, capacity):
            s.latency.riders[rider].next = rider + 1
        s.latency.riders[capacity - 1].next = NONE
        s.latency.rider_free = s.latency.rider_capacity
        s.latency.rider_capacity = capacity
    rider = s.latency.rider_free
    s.latency.rider_free = s.latency.riders[rider].next
    return rider


cdef void free_queued_message(State* s, int32_t rider) noexcept nogil:
    s.latency.riders[rider].next = s.latency.rider_free
    s.latency.rider_free = rider


# --- the table of waits ---------------------------------------------------------------------------------------------

cdef inline WaitEntry* table_slot(WaitEntry* table, int64_t capacity, int64_t key) noexcept nogil:
    """The slot of a key, or its free slot."""
    cdef int64_t place = <int64_t> (mix(<uint64_t> key) & <uint64_t> (capacity - 1))
    while table[place].key and table[place].key != key:
        place = (place + 1) & (capacity - 1)
    return &table[place]


cdef bint enlarge_table(State* s) noexcept nogil:
    cdef int64_t capacity = s.latency.table_capacity * 2 if s.latency.table_capacity else 1024
    cdef WaitEntry* table = <WaitEntry*> calloc(capacity, sizeof(WaitEntry))
    cdef int64_t i
    if table == NULL:
        s.failed = 1
        return False
    for i in range(s.latency.table_capacity):
        if s.latency.table[i].key:
            table_slot(table, capacity, s.latency.table[i].key)[0] = s.latency.table[i]
    free(s.latency.table)
    s.latency.table, s.latency.table_capacity = table, capacity
    return True


cdef inline WaitEntry* table_entry_of(State* s, int32_t link, int32_t victim, int32_t culprit) noexcept nogil:
    """The entry of the table, new or old; NULL and `failed`: out of memory."""
    cdef int64_t key = 1 + culprit - BY_FAULT + (MOST_TAGS + 2) * (victim + <int64_t> MOST_TAGS * link)
    cdef WaitEntry* entry
    if 2 * s.latency.table_count >= s.latency.table_capacity and not enlarge_table(s):
        return NULL
    entry = table_slot(s.latency.table, s.latency.table_capacity, key)
    if entry.key == 0:
        entry.key = key
        s.latency.table_count += 1
    return entry


cdef void add_stay(State* s, Stay* stay, int32_t victim, int64_t* parts) noexcept nogil:
    """Add a stay to the table, and to the parts of its packet."""
    cdef int32_t culprit = BY_FAULT - 1
    cdef int32_t i, culprit_class
    cdef WaitEntry* entry = NULL
    for i in range(PARTS):
        if not stay.parts[i]:
            continue
        if i == FAULT:
            culprit_class = BY_FAULT
        else:
            culprit_class = victim if i == SERIALISATION or i == HOPS else stay.culprit[i]
        if culprit_class != culprit:
            entry = table_entry_of(s, stay.link, victim, culprit_class)
            if s.failed:
                return
            culprit = culprit_class
        entry.cycles[i] += stay.parts[i]
        entry.packets[i] += 1
        parts[i] += stay.parts[i]


cdef void log_stay(State* s, int32_t packet, Stay* stay) noexcept nogil:
    """Append a row of `Engine.stays`."""
    cdef StayRow* row
    cdef int32_t i
    if s.latency.log_count == s.latency.log_capacity:
        s.latency.log_capacity = grow_list(s, <void**> &s.latency.log, s.latency.log_capacity, 256, sizeof(StayRow))
        if s.failed:
            return
    row = &s.latency.log[s.latency.log_count]
    s.latency.log_count += 1
    row.message = s.pools.messages[s.pools.packets[packet].message].serial
    row.packet = s.pools.packets[packet].number
    row.link = stay.link
    for i in range(PARTS):
        row.parts[i] = stay.parts[i]


cdef void book_packet(State* s, int32_t packet, int64_t t) noexcept nogil:
    """A packet has been consumed: add its stays. The last packet determines the parts of its message."""
    cdef Message* message = &s.pools.messages[s.pools.packets[packet].message]
    cdef PacketWait* p = &s.latency.packets[packet]
    cdef MessageWait* m = &s.latency.messages[s.pools.packets[packet].message]
    cdef bint logged = s.config.attribution > 1 or message.serial == s.trace.watch_serial
    cdef int64_t accounted = 0
    cdef int32_t i, index
    cdef int64_t parts[PARTS]
    cdef Stay* stay
    if s.latency.faulty and p.sound_arrival != NONE:
        tail_is_accepted(s, packet, t)
    for i in range(PARTS):
        parts[i] = 0
    index = p.first
    while index != NONE:
        stay = &s.latency.stays[index]
        add_stay(s, stay, message.tag, parts)
        if logged:
            log_stay(s, packet, stay)
        if s.failed:
            return
        index = stay.next
    forget_packet(s, packet)
    for i in range(PARTS):
        accounted += parts[i]
    if accounted != t - message.at:
        s.latency.unexplained += 1
    if message.delivered == message.packets:
        for i in range(PARTS):
            m.parts[i] = parts[i]


cdef void forget_packet(State* s, int32_t packet) noexcept nogil:
    """A packet has been consumed or dropped: free its stays."""
    cdef PacketWait* p = &s.latency.packets[packet]
    if p.last != NONE:
        s.latency.stays[p.last].next = s.latency.stay_free
        s.latency.stay_free = p.first


cdef void free_latency_records(State* s) noexcept:
    free(s.latency.packets)
    free(s.latency.messages)
    free(s.latency.stays)
    free(s.latency.riders)
    free(s.latency.table)
    free(s.latency.log)
