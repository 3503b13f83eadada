"""The books of attribution: what is written down to tell what every cycle of a latency was spent on.

docs/attribution.md has the rules, router_waits.pyx keeps the books. They only count: nothing that decides ever reads them.
"""

from libc.stdint cimport int8_t, int32_t, int64_t


cdef enum:
    # What the first packet of a VC does in a cycle: it moves or is in the pipeline, or it waits. A lane may be silent.
    MOVING = 0
    NO_VC = 1
    NO_CREDIT = 2
    LINK_BUSY = 3         # the link is
    LOST_ARBITRATION = 4
    CAUSES = 4       # of waiting
    SILENT = 5


cdef enum:
    # Parts of a latency, in the order of CAUSES.
    SOURCE = 0
    SERIALISATION = 1
    HOPS = 2
    FIRST_WAIT = 3   # vc, credit, link, arbitration
    LINK_WAIT = 5
    QUEUE = 7
    PARTS = 8


cdef enum:
    WAITS = 5        # vc, credit, link, arbitration, queue: the causes that may lie before the tail's arrival
    NO_TRAFFIC = -1
    MOST_TAGS = 32   # as in options.py


cdef struct VcWait:
    # --- what every flit touches: one cache line ---
    int64_t cum[CAUSES]      # cycles waited, by cause, in waits that are over
    int64_t since            # from here on it does what it does, for this culprit
    int64_t waited           # the last cycle of its last wait that is over and was somebody's fault
    int32_t coming           # flits of the packet that is arriving that are still to come
    int32_t place            # in the list of its packets: that which arrived last, or is arriving; NONE: it has left
    int8_t doing
    int8_t by                # who makes it wait now (for credits: known when the wait is over)
    int8_t culprit[CAUSES]   # since `base`: who made it wait last, by cause
    int8_t whom              # whose
    int8_t based             # nothing was waited for since `base`
    # --- and what every packet touches: another one ---
    int64_t base[CAUSES]     # cum at the run's begin, or when a flit found it empty, whichever was later
    int64_t begun            # when the run of its first packet began
    int64_t first            # when the run that is arriving began to, or a flit found it empty, whichever was later
    int64_t serial           # the message of the run that is arriving
    int32_t sequence         # and its number among the runs
    int32_t run              # that of the run at the front


cdef struct VcWaitDetail:
    # What is seldom looked at.
    int64_t noted            # when the last wait for credits was over
    int64_t waited           # VcBook.waited and whom, as they were before
    int64_t aimed            # in which cycle it came to want credits of `target`
    int32_t target           # the VC that it wants credits of
    int32_t target_before    # and the one before
    int8_t whom
    int8_t front_by          # the traffic of its first packet
    int8_t queue_by          # and of the last one before this run


cdef struct LinkWait:
    int64_t serial           # the message whose flit started last
    int64_t at               # with an output queue: when
    int32_t packet
    int32_t won              # its place among the winners of the switch
    int32_t riders           # messages with flits in the output queue
    int32_t unseen           # output queue: its first entry whose `own` has not been noted
    int32_t by               # the traffic of that message


cdef struct VcOwner:
    # Whose packet holds an output VC, or did last.
    int64_t serial           # message
    int32_t by               # traffic


cdef struct Contender:
    # A flit that asks for the switch in this tick, or has won it; or a head that asks for an output VC.
    int32_t vc
    int32_t packet
    int32_t link             # which output


cdef struct LaneWait:
    int64_t since            # everything before is reckoned
    int64_t busy_until       # the flit that started last is being sent up to here
    int64_t began            # of the wait `after` it
    int64_t no_vc            # cycles, monotone
    int64_t no_credit
    int64_t credit_over      # when the one for credits was over
    int64_t vc_over
    int32_t user             # the message whose flit started last
    int32_t target
    int8_t after             # NO_VC, NO_CREDIT, SILENT
    int8_t by
    int8_t vc_by             # culprits of the last waits that are over and somebody's fault
    int8_t credit_by
    int8_t other_by          # the traffic of the last other message whose flits were sent


cdef struct MessageWait:
    int64_t parts[PARTS]     # of the packet that completed it
    int64_t first            # when it was the first of its source queue
    int64_t own              # cycles in which its lane sent a flit of it
    int64_t no_vc            # of its lane, when it was the first
    int64_t no_credit
    int32_t before           # the traffic of the message before it in its queue


cdef struct PacketWait:
    int64_t serial           # message; here, as the messages themselves may be far away
    int32_t by               # traffic
    int32_t sequence         # the run of its head
    int32_t first            # stays that are over
    int32_t last
    # --- the stay of its tail ---
    int64_t arrived
    int64_t cum[CAUSES]      # of the VC, then
    int64_t before[WAITS]    # what the flits before it had waited by then
    int64_t left             # for the link: the cycle in which it could start first
    int64_t own              # cycles that the message's flits had used the link by then
    int64_t spare            # pipeline that it may still have spent
    int64_t queued           # what its message had waited in the output queue by then


cdef struct Stay:
    int64_t parts[PARTS]
    int8_t culprit[PARTS]
    int32_t link
    int32_t next


cdef struct QueuedMessage:
    # A message with flits in an output queue.
    int64_t serial
    int64_t own              # cycles in which its flits were those that started last, up to the last launch
    int64_t begun            # when one of them came to be the only one in the queue
    int64_t base             # own, then
    int32_t flits            # won the switch, and did not start
    int32_t inside           # of them, those that are in the queue (as far as it has been looked at)
    int32_t other_by         # the last other traffic whose flit was that
    int32_t next


cdef struct WaitEntry:
    # An entry of the table of all waits: on a link, of a victim, for a culprit. Key 0: a free place.
    int64_t key
    int64_t cycles[PARTS]
    int64_t packets[PARTS]


cdef struct StayRow:
    int64_t message
    int64_t packet
    int64_t link
    int64_t parts[PARTS]


cdef struct LatencyState:
    int64_t pipeline         # what a head takes in a router up to its link, alone
    VcWait* vc               # [vcs]
    VcWaitDetail* margin         # [vcs]
    LinkWait* link           # [links]
    LaneWait* lane           # [lanes]
    VcOwner* owner             # [vcs] of their upstream ends
    Contender* rivals            # scratch: who asks in this tick
    int32_t rival_count
    Contender* winners           # scratch: and who won the switch
    int32_t winner_count
    int32_t* lost_to         # scratch [vcs]: the lowest output VC that another input VC got
    PacketWait* packets      # as state.packets
    int32_t packet_room
    MessageWait* messages    # as state.messages
    int32_t message_room
    Stay* stays
    int32_t stay_room, stay_free
    QueuedMessage* riders
    int32_t rider_room, rider_free
    WaitEntry* table            # open addressing
    int64_t table_room, table_count
    StayRow* log
    int64_t log_room, log_count
    int64_t unexplained      # packets whose parts are not their latency: a bug
    int64_t uneven           # waits shared out by numbers that grow with the message
