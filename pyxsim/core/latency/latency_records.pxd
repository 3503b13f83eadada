"""The records of attribution: what is stored to explain every cycle of a latency.

docs/attribution.md has the rules, router_waits.pyx updates the records. They only count: nothing that decides reads
them.
"""

from libc.stdint cimport int8_t, int32_t, int64_t


cdef enum:
    # Activity of the first packet of a VC in a cycle: it moves or is in the pipeline, or it waits. A lane may be
    # silent.
    MOVING = 0
    NO_VC = 1
    NO_CREDIT = 2
    LINK_BUSY = 3   # waits for the link
    LOST_ARBITRATION = 4
    CAUSES = 4      # of waiting, without LINK_FAULT
    SILENT = 5
    LINK_FAULT = 6  # waits for a link that would be available without faults and retry


cdef enum:
    # Parts of a latency, in the order of CAUSES.
    SOURCE = 0
    SERIALISATION = 1
    HOPS = 2
    FIRST_WAIT = 3   # vc, credit, link, arbitration
    LINK_WAIT = 5
    QUEUE = 7
    FAULT = 8
    PARTS = 9


cdef enum:
    WAITS = 6        # vc, credit, link, arbitration, queue, fault: causes that may lie before the tail's arrival
    BEFORE_QUEUE = 4
    BEFORE_FAULT = 5
    NO_TRAFFIC = -1
    BY_FAULT = -2    # a culprit: no traffic, but a fault or retry of a link
    MOST_TAGS = 32   # as in options.py


cdef struct VcWait:
    # --- what every flit touches: one cache line ---
    int64_t cum[CAUSES]      # cycles waited in completed waits, by cause
    int64_t since            # start of the current activity, for this culprit
    int64_t waited           # last cycle of the last completed wait with a culprit
    int32_t coming           # flits of the arriving packet that have not arrived
    int32_t place            # FIFO place of the packet that arrived last, or is arriving; NONE: it has left
    int8_t doing
    int8_t by                # current culprit (for credits: known when the wait is over)
    int8_t culprit[CAUSES]   # last culprit since `base`, by cause
    int8_t whom              # culprit of that wait
    int8_t based             # no wait since `base`
    # --- and what every packet touches: another one ---
    int64_t base[CAUSES]     # cum at the beginning of the run, or when a flit entered the empty VC, whichever was later
    int64_t begun            # when the run of its first packet began
    # when the arriving run began to arrive, or a flit entered the empty VC, whichever was later
    int64_t first
    int64_t serial           # message of the arriving run
    int32_t sequence         # and its number among the runs
    int32_t run              # number of the run at the front


cdef struct VcWaitDetail:
    # Rarely used fields.
    int64_t noted           # end of the last wait for credits
    int64_t waited          # VcWait.waited and whom, as they were before
    int64_t aimed           # cycle since which it waits for credits of `target`
    int64_t fault           # cycles in LINK_FAULT, as VcWait.cum
    int64_t fault_base      # as VcWait.base
    int64_t fault_from      # it waits for its link, from this cycle on because of a fault; INT64_MAX: not
    int32_t target          # the VC whose credits it waits for
    int32_t target_before   # and the one before
    int8_t whom
    int8_t front_by         # traffic of its first packet
    int8_t queue_by         # and of the last one before this run


cdef struct LinkWait:
    int64_t serial   # message of the flit that started last
    int64_t at       # with an output queue: when
    int32_t packet
    int32_t won      # index among the winners of the switch
    int32_t riders   # messages with flits in the output queue
    int32_t unseen   # output queue: first entry whose `own` has not been noted
    int32_t by       # traffic of that message
    # --- with faults or retry ---
    int32_t delay          # without faults
    int32_t credit_delay
    int64_t num            # as Link.num, without faults
    int64_t sound_free     # as Link.free, if the flit that started last had met no fault and is not sent again
    int64_t fault          # output queue: cycles of faults, up to the last start of a flit or message
    int64_t fault_at       # and up to `at`


cdef struct VcOwner:
    # Whose packet holds an output VC, or held it last.
    int64_t serial   # message
    int32_t by       # traffic


cdef struct Contender:
    # A flit that requests the switch in this tick or has won it, or a head that requests an output VC.
    int32_t vc
    int32_t packet
    int32_t link   # which output


cdef struct LaneWait:
    int64_t since         # all cycles before are accounted for
    int64_t busy_until    # the flit that started last is sent until then
    int64_t began         # of the wait `after` it
    int64_t no_vc         # cycles, monotone
    int64_t no_credit
    int64_t fault
    int64_t credit_over   # end of the last one for credits
    int64_t vc_over
    int32_t user          # message of the flit that started last
    int32_t target
    int8_t after          # NO_VC, NO_CREDIT, LINK_FAULT, SILENT
    int8_t by
    int8_t vc_by          # culprits of the last completed waits
    int8_t credit_by
    int8_t other_by       # traffic of the last other message sent


cdef struct MessageWait:
    int64_t parts[PARTS]   # of the packet that completed it
    int64_t first          # when it became the first of its source queue
    int64_t own            # cycles in which its lane sent a flit of it
    int64_t no_vc          # of its lane, at that time
    int64_t no_credit
    int64_t fault
    int32_t before         # traffic of the message before it in its queue


cdef struct PacketWait:
    int64_t serial          # message; a copy, as message records may not be in the cache
    int32_t by              # traffic
    int32_t sequence        # run of its head
    int32_t first           # completed stays
    int32_t last
    # --- the stay of its tail ---
    int64_t arrived
    int64_t cum[CAUSES]     # of the VC, at that time
    int64_t before[WAITS]   # waits of the flits before it, at that time
    int64_t left            # for the link: the first cycle in which it could start
    int64_t own             # cycles for which flits of its message had used the link by then
    int64_t spare           # pipeline cycles not yet spent
    int64_t queued          # wait of its message in the output queue by then
    # --- with faults or retry ---
    int64_t fault           # LINK_FAULT cycles of the VC as it arrived; then those of the link as it was queued
    int64_t queued_fault    # of its message in the output queue by then
    int64_t started         # link with retry: its first start, and when it would arrive without faults; NONE: no such
    int64_t sound_arrival


cdef struct Stay:
    int64_t parts[PARTS]
    int8_t culprit[FAULT]   # that of a fault is BY_FAULT
    int32_t link
    int32_t next


cdef struct QueuedMessage:
    # A message with flits in an output queue.
    int64_t serial
    int64_t own        # cycles in which its flits were the last to start, up to the last launch
    int64_t begun      # when a first flit entered the queue without others of it
    int64_t base       # own, at that time
    int64_t fault_base    # LinkWait.fault, at that time
    int32_t flits      # won the switch, not started
    int32_t inside     # of them, those in the queue (as far as noted)
    int32_t other_by   # last other traffic whose flit started
    int32_t next


cdef struct WaitEntry:
    # An entry of the wait table: link, victim, culprit. Key 0: free.
    int64_t key
    int64_t cycles[PARTS]
    int64_t packets[PARTS]


cdef struct StayRow:
    int64_t message
    int64_t packet
    int64_t link
    int64_t parts[PARTS]


cdef struct LatencyState:
    bint faulty             # a link has changed, or links retry
    int64_t pipeline        # cycles of a head from arrival to its link, without waits
    VcWait* vc              # [VCs]
    VcWaitDetail* margin    # [VCs]
    LinkWait* link          # [links]
    LaneWait* lane          # [lanes]
    VcOwner* owner          # [VCs] of their upstream ends
    Contender* rivals       # scratch: requests of this tick
    int32_t rival_count
    Contender* winners      # scratch: and winners of the switch
    int32_t winner_count
    int32_t* lost_to        # scratch [VCs]: lowest output VC that another input VC got
    PacketWait* packets     # as State.pools.packets
    int32_t packet_capacity
    MessageWait* messages   # as State.pools.messages
    int32_t message_capacity
    Stay* stays
    int32_t stay_capacity, stay_free
    QueuedMessage* riders
    int32_t rider_capacity, rider_free
    WaitEntry* table        # open addressing
    int64_t table_capacity, table_count
    StayRow* log
    int64_t log_capacity, log_count
    int64_t unexplained     # packets whose parts do not add up to their latency: a bug
    int64_t uneven          # waits shared in proportions that change as the message grows
