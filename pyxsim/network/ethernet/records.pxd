"""The state of the Ethernet engine as C records: packets, ports, switches, flows (docs/ethernet.md).

Times are picoseconds, sizes are bytes on the wire unless a name says payload. Records refer to each other by index.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from pyxsim.network.ethernet.event_queue cimport EventQueue
from pyxsim.network.ethernet.libc_random cimport LibcRandom
from pyxsim.network.ethernet.ns3_random cimport Streams

cdef enum:
    NONE = -1
    CLASSES = 8   # traffic classes of a port; class 0 is for control and served first
    DATA_CLASS = 1
    HOPS = 8      # switches whose telemetry a packet can carry
    STATE = 20    # words of a flow that belong to its transport

cdef enum Kind:
    DATA = 0
    ACK = 1
    NACK = 2
    CNP = 3       # congestion notification packet
    PULL = 4      # of a receiver: the sender may send further packets
    PAUSE = 5
    RESUME = 6

cdef enum Flag:
    CE = 1        # congestion experienced: marked by a switch; in an acknowledgement: the echo
    RESENT = 2
    TRIMMED = 4   # the payload was cut off
    ACK_NOW = 8   # the window is full: the receiver does not wait for `ack_every` packets (BTH.AckReq)
    SOLICIT = 16  # sent after a timeout without a pull: the receiver pulls anew

cdef enum Trait:  # of a port
    TO_SWITCH = 1
    LOSSY = 2     # packets may be lost on the link

cdef enum Wait:    # what the next packet of a flow waits for
    FOR_PORT = 0  # others use the port, or it is paused
    FOR_WINDOW = 1  # or for credit
    FOR_RATE = 2
    FOR_NOTHING = 3  # there is none

cdef enum:         # where the time of a flow has gone
    SENDING = 0
    RESENDING = 1
    AT_PORT = 2
    AT_PAUSE = 3
    AT_WINDOW = 4
    AT_RATE = 5
    SPENT = 6

cdef enum Failure:
    NO_MEMORY = 1
    GAVE_UP = 2   # a flow has used up its retries

cdef enum:         # what switches write into data packets
    IN_BAND = 1    # telemetry of each hop
    PINT = 2       # one digest

cdef enum What:   # kinds of events
    IDLE = 0      # a port has transmitted its packet
    ARRIVE = 1    # a packet has arrived
    WAKE = 2      # a flow may send its next packet (pacing)
    TIMER = 3     # the retransmission timeout of a flow
    START = 4     # a flow starts
    TURN = 5      # a receiver may send its next pull
    PORT_WAKE = 6  # the timer of a NIC port has expired
    DUE = 7       # a timer of the transport of a flow


cdef struct Packet:     # 64 bytes
    int32_t next       # in its queue, or in the list of unused packets
    int32_t flow
    int32_t size
    int32_t port       # the port that sent it last
    int32_t src, dst   # NPUs
    int32_t number     # of the data packet in its flow; in a reply: of the packet that caused it
    int32_t cumulative  # in a reply: all packets below have arrived
    int32_t telemetry  # record with the telemetry of its hops; NONE
    uint32_t entropy   # selects one of several routes
    uint8_t kind
    uint8_t cls        # traffic class
    uint8_t flags
    uint8_t hops
    uint16_t digest    # of PINT: the code of the highest utilization on the way
    int64_t sent       # when the data packet left its source; replies echo it
    int64_t last       # when its last byte arrives at the present node


cdef struct Hop:       # what a switch writes into a packet
    int64_t at
    int64_t sent_bytes
    int64_t depth
    int64_t rate       # bits per second


cdef struct Telemetry:
    Hop hop[HOPS]
    uint32_t path      # hash of the ports on the way
    int32_t next


cdef struct Queue:      # 32 bytes
    int32_t head, tail
    int64_t depth          # bytes
    int64_t peak           # most bytes since the end of the last window
    int32_t ingress        # bytes of the buffer at the peer that packets of this port and class occupy
    int32_t headroom_used


cdef struct Port:       # 512 bytes; whatever every packet needs is in the first 128
    int32_t sending        # packet in transmission; NONE
    uint8_t waiting        # bit c: class c has packets
    uint8_t paused         # bit c: class c is paused by the receiver
    uint8_t pausing        # bit c: this port has been asked to pause class c
    uint8_t traits
    int32_t ready_count    # flows of this NIC that may send
    int32_t node, peer     # from, to
    int32_t reverse        # the port of the opposite direction
    int32_t known_size[2]  # sizes with known times of transmission
    int32_t known_time[2]
    int64_t delay          # propagation, and the latency of the switch behind it
    int64_t sent_bytes, sent_packets
    Queue queue[CLASSES]
    # ECN
    int64_t kmin, kmax
    double pmax
    double alpha           # dynamic threshold of packets that came in here (PFC), or that leave here
    int64_t rate           # bits per second
    int64_t picoseconds, per_bytes  # time of a byte as a fraction
    int64_t headroom
    int32_t turn           # class that was served last
    int32_t root           # the end of the chain of causes when this port was paused
    # flows that leave by this port, if its node has an NPU
    int32_t slots, slot_capacity, live, last_slot
    int32_t *slot          # flow of each slot; NONE: ended
    uint64_t *ready        # bit per slot
    int32_t deficit[CLASSES]
    int64_t marked, dropped, trimmed
    int32_t pauses
    int32_t cause          # the port of the next switch that the last pause is due to
    int64_t paused_since, paused_time
    int64_t deepest        # most bytes of one class until the end of the last window
    int64_t caused_time    # of pauses whose root is this port
    int64_t wake_at        # pending PORT_WAKE; 0


cdef struct Medium:     # the link of a port
    double survival[2]     # logarithms of the probability that a packet, and a byte of it, is not lost
    uint64_t random
    int64_t errors         # lost packets


cdef struct NicClasses:  # the flows at a NIC port by class
    int32_t ready[CLASSES]  # flows that may send
    int32_t last_slot[CLASSES]
    int32_t deficit[CLASSES]
    int32_t turn           # class that was served last


cdef struct PintPort:   # of PINT
    double utilization     # average of a round trip
    int64_t at             # when the last packet left, in ns
    int64_t size           # its bytes; 0: none


cdef struct Puller:     # of a port: the receiver behind it, and turns of control packets and data
    int32_t first, last    # flows that it wants packets of; NONE
    int64_t next_turn      # no pull before
    int32_t controls       # control packets in a row that the port has sent while data waited
    uint8_t scheduled      # whether a TURN is pending


cdef struct Node:
    int32_t npu            # NONE: a switch without an NPU
    int32_t uplink         # the only port of an NPU with a host link; else NONE
    int32_t group          # destinations that are here, or one host link away; else NONE
    int64_t used           # bytes in the buffer
    int64_t shared         # of these, bytes in its shared part
    int64_t pool           # bytes of the shared part
    uint64_t random


cdef struct Flowlet:    # an entry of a switch's table
    int64_t last           # when its last packet was forwarded; 0: unused
    uint32_t choice        # of one of several routes, modulo their number


cdef struct Flow:
    # sender
    int32_t src, dst
    int32_t port, slot     # NIC port and slot there; NONE before the start and after the end
    int32_t packets        # data packets of the message
    int32_t next           # first packet that was never sent, or that go-back-N sends next
    int32_t una            # all packets below are acknowledged
    int32_t lost           # packets to send again (selective)
    int32_t last_payload
    uint32_t entropy
    int64_t nbytes
    int64_t flight         # payload bytes that are sent and not acknowledged
    double window          # payload bytes; 0: no limit
    double rate            # bits per second
    int64_t line           # bits per second of the NIC
    int64_t base_rtt       # picoseconds
    int64_t bdp            # payload bytes: base window
    int32_t last_size      # bytes of the packet that was sent last
    int64_t next_send      # pacing: no packet before
    int64_t wake_at        # pending WAKE; 0
    int64_t timer_at       # pending TIMER; 0
    int64_t retry_at       # when the retransmission timeout expires; 0
    int64_t rto            # retransmission timeout; 0: none
    int64_t due            # timer of a user's transport; 0
    int64_t rtt            # of the packet that the last reply names; 0
    int64_t start, end     # picoseconds
    uint8_t ready, active, finished, received_all
    uint8_t cls
    int32_t timeouts, expiries  # in all, in a row
    int32_t pull_window    # most packets on the way, with pulls
    int32_t credit         # packets that it may send
    int32_t pulled         # the highest number of a pull that has arrived
    int32_t solicits       # packets that it may send without credit
    # receiver
    int32_t expected       # all packets below have arrived
    int32_t arrived        # different packets that have arrived
    int32_t unacknowledged  # data packets since the last acknowledgement
    int32_t nack_of
    int64_t nack_after, cnp_after
    int32_t requested      # packets that may be on the way or trimmed, as far as the receiver knows
    int32_t pulls          # that it has sent
    int32_t next_pulled    # behind it in the queue of its puller
    uint8_t queued         # whether it is in that queue
    int64_t bits           # first word of its bitmaps
    int64_t received_at
    # counters
    int32_t sent, resent, marked, trimmed, dropped, errors, out_of_order, duplicates
    int32_t delivered      # whole data packets that have arrived, with those that the receiver discards
    int64_t state[STATE]


cdef struct FlowTimes:  # of a flow, with `attribution`
    int64_t since          # up to when its time is in `spent`
    int64_t paused_before  # time of pauses of its port until then
    int64_t spent[SPENT]
    uint8_t waits          # a Wait


cdef struct Rules:
    int64_t mtu            # payload
    int64_t header, ack, pause_size
    int64_t telemetry_header
    int64_t step           # picoseconds: times of transmission are rounded to multiples
    int64_t queue          # bytes of an output queue; 0: as the buffer permits
    int64_t reserve        # bytes of each port and class outside the shared part
    int64_t resume_offset
    int64_t trim           # bytes of a trimmed packet; 0: drop
    int64_t retry          # retransmission timeout of a flow at its start; 0: none
    int64_t retries        # timeouts in a row; 0: no limit
    int64_t nack_interval, cnp_interval
    int64_t ack_every      # packets
    int64_t cut_bytes      # bytes after which a packet is forwarded; 0: all
    int32_t balance        # how one of several routes is chosen
    int64_t flowlet_gap
    int64_t flowlets       # entries of the table of each node; 0: none
    uint8_t pfc, ecn       # bit c: class c pauses senders, is marked
    uint8_t mark_at_dequeue, telemetry, selective, ack_ends, ack_class, schedule
    uint8_t tail_order     # an arrival is ordered by the end of its transmission, not by the start
    uint8_t ns3_random     # marks take the random numbers of ns-3
    uint8_t port_timer     # the paced flows of a NIC port share a timer: see next_by_timer
    int32_t control_turns  # control packets that a port sends in a row while data waits; 0: as many as there are
    uint8_t attribution    # whether the time of flows is divided
    uint8_t pulls          # receivers pull packets: see pulls.pyx
    int64_t pint_trip      # the longest round trip, in ns
    double pint_base       # of the logarithm that packets carry
    int64_t pint_seed
    uint8_t deaf           # PFC frames have no effect where they arrive
    uint8_t log_frames     # whether PFC frames are recorded
    uint8_t classes        # of data
    int64_t weight[CLASSES]


cdef struct Fabric:
    Rules rules
    Streams streams        # with `ns3_random`
    int64_t now
    EventQueue events
    Port *port
    Medium *medium         # of each port
    NicClasses *nic        # of each port; NULL: one class of data
    Puller *puller         # of each port; NULL: no pulls
    PintPort *pint         # of each port; NULL: without PINT
    LibcRandom libc_random  # of PINT
    Node *node
    Packet *packet
    Flow *flow
    FlowTimes *times       # of each flow; NULL: no attribution
    Telemetry *telemetry
    Flowlet *flowlet       # [nodes, rules.flowlets]
    uint64_t *bits
    int64_t ports, nodes, flows, flow_capacity
    int64_t packets, packet_capacity, unused_packet
    int64_t telemetries, telemetry_capacity, unused_telemetry
    int64_t bit_words, bit_capacity
    # routes: from each router towards each group of destinations, one of a set of ports
    const int32_t *route   # [routers, groups]: number of the set
    const int32_t *set_start
    const int32_t *set_port
    const int32_t *group   # of each NPU
    const int32_t *down    # the host link to each NPU; NONE without
    int64_t groups
    # messages that have ended
    int64_t *done
    int64_t done_count, done_capacity
    # PFC frames that have arrived: time, port, whether it is a pause
    int64_t *frame
    int64_t frames, frame_capacity
    # conservation, in packets
    int64_t made, delivered, dropped, errored, in_network
    int64_t hops, delivered_bytes
    int64_t gave_up        # the flow
    int32_t failed         # a Failure; 0
