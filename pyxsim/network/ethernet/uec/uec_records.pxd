"""The state of the Ultra Ethernet engine as C records (docs/uec.md).

Times are picoseconds, sizes are bytes on the wire. Records refer to each other by index; memory that grows with a flow
or a NIC is in one array of words, `Fabric.word` (uec_pools.pxd).
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from pyxsim.network.ethernet.event_queue cimport EventQueue

cdef enum:
    NONE = -1
    CLASSES = 49         # of blocks of words: 1 << class words
    QUANTUM = 256        # bytes of credit
    FIRST_PULL = 100000000  # credit counters start here, so that differences are never negative
    CONTROL_TURNS = 100000  # control packets a switch sends while data waits, before one data packet
    NIC_TURNS = 10       # the same at a NIC
    REPS_SLOTS = 8

cdef enum Kind:
    DATA = 0
    ACK = 1
    NACK = 2
    PULL = 3
    RTS = 4              # request to send: a header with a packet number of its own

cdef enum Flag:
    CE = 1               # congestion experienced; in a reply: the echo
    RESENT = 2           # in a reply: the packet that it answers was sent again
    WANTS_ACK = 4
    TRIMMED = 8
    LAST_HOP = 16        # trimmed at the port to its destination
    OF_RTS = 32          # acknowledges a request to send
    SPECULATIVE = 64     # sent without credit
    PROBE = 128          # SLEEK's question for an acknowledgment; in a reply: the answer

cdef enum What:          # kinds of events
    PORT = 0             # a port has transmitted its packet
    LINK = 1             # a packet has arrived at the end of a link
    SWITCH = 2           # a switch has found the output port of a packet
    NIC = 3              # a NIC may send its next packet
    START = 4            # a flow starts
    TIMEOUT = 5          # of a flow
    PACE = 6             # a receiver may send its next pull
    OTHER = 7            # item = 4 x number + one of the following

cdef enum Other:
    SEND_PROBE = 0       # of a flow
    ADAPT = 1            # a receiver adapts the rate of its pulls
    ENTER_MESSAGE = 2    # a further message of a connection
    PULL_STALLED = 3     # a receiver pulls flows that may have lost a pull

cdef enum Outstanding:   # state of a packet of a flow
    FREE = 0             # not sent, or acknowledged
    SENT = 1
    LOST = 2             # it waits to be sent again


cdef enum Failure:
    NO_MEMORY = 1
    GAVE_UP = 2          # a flow has got no reply for too long


cdef struct Packet:      # 64 bytes
    int32_t next         # in its queue, or in the list of unused packets
    int32_t flow
    int32_t size
    int32_t number       # of the packet in its flow; in a reply: of the packet that caused it
    uint8_t kind
    uint8_t flags
    uint16_t entropy
    uint32_t id          # of its direction of the flow, for the hash
    int32_t place        # in a switch: the output port; in a data queue: the packet before it
    int32_t dst          # host
    uint32_t gap         # time between its arrival and that of the packet before it on the same link
    int32_t disordered   # acknowledgment: packets that have arrived out of order
    int64_t received     # acknowledgment: bytes of all data packets that have arrived
    int64_t extra        # data, pull: credit in quanta; acknowledgment: bit i: packet `base` + i has arrived
    int32_t base
    int32_t cumulative   # acknowledgment: all packets below have arrived


cdef struct Pipe:        # packets in flight on a link or through a switch, in order, with the same delay
    int32_t head, tail
    int64_t last         # when the last one arrives
    int64_t delay


cdef struct Ring:        # a queue of words
    int64_t at           # its block
    int32_t head, count
    int32_t cls          # of its block; 0: none yet


cdef struct Port:        # 320 bytes; whatever every packet needs is in the first 128
    int32_t data_head, data_tail
    int32_t control_head, control_tail
    Pipe link
    int32_t peer
    uint8_t serving      # switch: 0 idle, 1 data, 2 control; host: 1 if a packet is in transmission
    uint8_t to_host, from_host, lossy
    int64_t data_bytes
    int64_t picoseconds, per_bytes  # time of a byte as a fraction
    int64_t capacity     # bytes of the data queue
    int64_t control_bytes
    int64_t ecn_low, ecn_high  # bytes; ecn_high < 0: no marks
    int64_t sent_bytes, sent_packets
    int64_t peak         # most bytes of data since the end of the last window
    int32_t turns        # control packets that were sent while data waited
    int32_t node
    int32_t sending      # host: the packet in transmission
    int32_t spec_head, spec_tail  # host: speculative packets, behind the others
    uint32_t turn[3]     # host: id from which on the next flow is served: control, data, speculative
    int64_t marked, dropped, trimmed, errors
    int64_t deepest      # most bytes of data until the end of the last window
    double survival[2]   # logarithms of the probability that a packet, and a byte of it, is not lost on the link
    uint8_t last         # whether it leads from the last switch to a host
    uint8_t slower       # host: whether its rate is below that of the NIC, so that flows wait here
    Ring known[3]        # such a host: ids of all flows that had packets here, in their order
    int64_t padding[2]


cdef struct Switch:
    Pipe pipe
    uint32_t salt        # of its hash
    int64_t shuffled     # block: the order of the set for each host (`_order` in uec_links.pyx); 0: none yet


cdef struct Host:
    uint8_t busy
    uint8_t pacing       # a PACE event is pending
    int32_t turns
    int32_t control_head, control_tail  # packets that wait for the NIC
    Ring waiting         # flows that wait for the NIC
    Ring active, idle    # flows that this host pulls: with requests, without
    Ring stalled         # flows that have credit for everything they may send at once, and have not sent it
    uint8_t watching     # a PULL_STALLED event is pending
    int64_t quantum_time, least_quantum_time
    # arrivals since the rate of pulls was adapted: all, marked, trimmed at the last hop, trimmed elsewhere
    int64_t arrivals, arrivals_marked, trimmed_last, trimmed_before
    double rate, congestion
    int32_t increases


cdef struct Sent:        # a packet of a flow that is not acknowledged: 32 bytes
    int64_t at           # when it was sent last
    int32_t size
    int32_t before, after  # in the order of sending
    int32_t times        # sent, less one; NONE: never
    uint8_t state        # Outstanding
    uint8_t listed       # whether it is in the order of sending
    uint8_t counted      # its bytes are acknowledged
    uint8_t rts


cdef struct Entropy:     # what load balancing knows of the paths of a flow
    uint32_t upper, order, index  # path = order xor index
    int64_t penalty      # block: a word per path
    Ring good            # entropies of packets that were not marked
    int32_t current
    # REPS
    uint16_t slot[REPS_SLOTS]
    uint8_t valid[REPS_SLOTS]
    int32_t head, known, fresh, frozen_head, explore
    uint8_t frozen
    int64_t thaw


cdef struct Flow:
    int32_t src, dst
    uint32_t source_id, sink_id
    int64_t nbytes
    int64_t start, end
    uint8_t started, finished, blocked, speculating, connection
    # sender
    int64_t backlog      # bytes that were never sent
    int64_t lost_bytes   # that wait to be sent again
    int64_t in_flight, window, most_window, base_rtt, bandwidth_delay
    int64_t last_rtt     # of the packet that the last reply names; 0: none yet
    int64_t credit, pulled, requested  # bytes; quanta
    int32_t next         # number of the next new packet
    int32_t una          # all packets below are acknowledged
    int32_t lost, first_lost  # packets to send again; none of them is below `first_lost`
    int64_t records      # block of `Sent`, by packet number modulo its length
    int32_t records_cls
    int32_t oldest, newest  # first and last in the order of sending
    int64_t timeout_at, timeout_sent  # when the timer expires, and when the packet was sent that it guards
    uint8_t timer
    int64_t last_rts, last_received
    int64_t last_reply   # when a reply has arrived
    Entropy entropy
    Ring messages        # of a connection: payload bytes left of each that may be sent
    Ring later           # of a connection: time and payload bytes of each further message
    int64_t eligible, acknowledged  # of a connection: wire bytes
    # congestion control
    int64_t average_delay, achieved, received
    uint32_t ignored, to_ignore
    uint32_t increase    # bytes x window
    uint8_t adapt_soon, increasing
    int64_t adapt_at, fast_count, last_adjust, last_decrease
    int64_t fair, proportional  # parts of `increase`
    # SLEEK
    uint8_t recovering, probing
    int32_t recovery_end, recovered
    int64_t probe_at, probe_sent
    int32_t probes
    # receiver
    int32_t expected     # all packets below have arrived
    int32_t disordered   # packets beyond that have arrived
    int64_t arrived      # block: a bit per packet, by number modulo its length
    int32_t arrived_cls
    uint16_t unreported  # bytes since the last acknowledgment
    uint8_t ack_wanted
    uint8_t in_pull, idle  # its place in the turns of pulls
    uint8_t pull_entropy
    int64_t received_bytes, received_payload
    int64_t granted, highest  # credit in quanta
    # counters
    int32_t sent_new, sent_again, sent_rts, acks, nacks, pulls, recovered_packets
    int32_t marked, trimmed, dropped, errors, out_of_order, duplicates, delivered, timeouts
    int32_t final_cumulative
    int64_t final_in_flight, received_at
    int64_t increased_fair, increased_proportional, increased_fast, increased_eta
    int64_t decreased_window, decreased_quick, decreased_nack


cdef struct Rules:
    int64_t mtu, header, control, trim
    int64_t line         # bits per second of a NIC
    int64_t network_rtt, min_rto, end
    int64_t window, target, qa_gate, paths, balance, sack_threshold
    int64_t sender_cc, receiver_cc, algorithm, sleek, update_rtt_on_nack
    int64_t oversubscribed_cc
    int64_t trim_sending  # whether the packet in transmission may be trimmed, as in htsim: the next one takes its place
    int64_t pull_finished  # whether receivers pull all flows alike, as in htsim: also those that have sent everything
    int64_t patience     # time without a reply after which a timeout ends the run; 0: no limit
    int64_t ack_ends     # whether a flow ends when its sender knows that all has arrived
    double oversub_min_rate, oversub_ai, oversub_md, oversub_alpha
    # of NSCC, made from the others
    double alpha, fair, eta, fast


cdef struct Random:      # numpy's bitgen_t
    void *state
    uint64_t (*next_uint64)(void *state) noexcept nogil
    uint32_t (*next_uint32)(void *state) noexcept nogil


cdef struct Fabric:
    Rules rules
    int64_t now
    EventQueue events
    Random *random
    Port *port
    Switch *node         # switches
    Host *host
    Packet *packet
    Flow *flow
    int64_t *word
    int64_t ports, switches, hosts, flows, flow_capacity
    int64_t packets, packet_capacity, unused_packet
    int64_t words, word_capacity
    int64_t unused_words[CLASSES]
    int64_t most_window  # of the flow that was made last: the most credit of every flow
    int32_t deferred     # switch that has a packet to pass on in this instant; NONE
    # A free acknowledgment keeps its flag OF_RTS, and the next one that is made has it.
    uint8_t *old_ack
    int64_t old_acks, old_ack_capacity
    # routes
    const int32_t *uplink
    const int32_t *down
    const int32_t *tor
    const int32_t *group
    const int32_t *route
    const int32_t *set_start
    const int32_t *set_port
    const int32_t *set_shuffle
    int64_t groups
    int64_t *order_of_set  # of each set that is shuffled once; 0: not yet
    # flows that have ended
    int64_t *done
    int64_t done_count, done_capacity
    # conservation, in packets
    int64_t made, delivered, dropped, errored, in_network, hops
    int64_t delivered_bytes
    int64_t gave_up      # the flow
    int32_t failed       # a Failure; 0
