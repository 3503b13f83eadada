"""The whole state of one network as plain C data. Who owns the arrays: network_state.pyx."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint64_t

from pyxsim.core.latency.latency_records cimport Books
from pyxsim.core.fast_forward.detector_state cimport Orbit


cdef enum VcState:
    IDLE = 0      # no packet at the front
    WAITING = 1   # its head wants an output VC
    HOLDING = 2   # it holds one, and has not left
    ACTIVE = 4    # it has left, other flits of its packet have not
    ROUTING = 8   # its head is about to be routed, from the credits of the coming step


cdef enum Event:
    # The kinds of calendar entries. An entry is a number; each kind has a list of its own.
    HEAD = 0          # a head reaches the end of VC number so-and-so, in a router
    BODY = 1          # another flit does
    SINK = 2          # a flit reaches a sink, and others of its packet follow
    LAST = 3          # a tail does
    CREDIT = 4        # a credit reaches the sender of a VC, a router
    LANE_CREDIT = 5   # an injection lane
    LAUNCH = 6        # the link of an output port may launch: its output queue, or by masks who waits for it
    WAKE = 7          # a router, or lane number - routers, has something to look at


cdef enum:
    KINDS = 8
    ROUTE_SHIFT = 8   # State.known: a link, shifted, and its VC class


cdef enum Stall:
    STALL_VC = 1
    STALL_CREDIT = 2
    STALL_SERIAL = 4
    STALL_ARBITRATION = 8


cdef enum Many:
    # Bits of `many`: the head asks for several ranges.
    MANY_EACH = 1     # in every try anew
    MANY_ESCAPE = 2   # and the one asked for now is of the escape plane
    MANY_TURNED = 4   # it turned to the last plane of its way at this router


cdef enum:
    # As in pyxsim/core/options.py.
    ROTATING = 0
    INPUT_FIRST = 1
    ISLIP = 2
    WAVEFRONT = 3
    AGE = 4
    CUT_THROUGH = 1
    STORE_AND_FORWARD = 2
    SELECT_RANDOM = 0
    SELECT_LEAST = 1
    SELECT_TWO = 2
    SELECT_EACH = 3
    VIA_NONE = 0
    VIA_ANY = 1
    VIA_BOX = 2


cdef enum Noted:
    # What happens to the watched packet; the words are EVENTS of pyxsim/core/options.py.
    OPENED = 0
    ROUTED = 1
    GRANTED = 2
    SWITCHED = 3
    LAUNCHED = 4
    ARRIVES = 5
    WASTED = 6


cdef enum:
    NONE = -1


cdef enum:
    # A rank, less is better: BID (speculation) before ESCAPE before priority before age.
    PRIORITY_SHIFT = 50
    ESCAPE_SHIFT = 60
    BID_SHIFT = 61


cdef struct Node:
    # An entry of a FIFO: packet of a VC behind the first one, or flit of an output queue.
    int32_t packet
    int32_t next


cdef struct Queued:
    # What a node of an output queue has besides.
    int64_t at         # the cycle in which the flit enters it
    int32_t vc
    int32_t flit
    int32_t kind       # Event: of its arrival


cdef struct Packet:
    # 64 bytes, of which what routers read comes first.
    int32_t message
    int32_t number
    int32_t flits
    int32_t dst
    int32_t plane      # NONE: a way is still to be chosen
    int32_t via        # NPU that it goes to first, or NONE
    int32_t last       # plane from there on
    int32_t eject      # link
    int32_t exit       # the router at its beginning
    int32_t vnet
    int32_t hops       # counting: routers at which its head has come to the front
    int32_t next       # in the list of unused records
    uint64_t key       # of its draws
    int64_t launched   # counting: when its head was launched


cdef struct Message:
    int32_t lane       # injection link
    int32_t eject      # ejection link
    int32_t exit       # the router at its beginning
    int32_t dst
    int32_t plane
    int32_t packets
    int32_t flits
    int32_t last_flits
    int32_t opened
    int32_t delivered
    int32_t next       # in the source queue, or in the list of unused records
    int16_t klass      # message class
    int16_t tag        # counting: whose traffic it is
    int64_t serial     # the number of the call that sent it
    int64_t at         # deciding: when it joins its source queue
    int64_t hops       # counting: routers passed by its heads
    int64_t first      # counting: when its first flit was launched
    int64_t last       # counting: when its last flit arrived


cdef struct Slot:
    # One cycle of the calendar: two cache lines.
    int32_t* events[8]   # of each kind
    int32_t count[8]
    int32_t room[8]


cdef struct Launch:
    int64_t cycle
    int64_t message
    int32_t packet
    int32_t link
    int32_t vc
    int32_t flit


cdef struct Note:
    # Something that happened to the watched packet; `number` is that of a VC or a flit.
    int64_t cycle
    int32_t what
    int32_t link
    int32_t vc
    int32_t flit


cdef struct Request:
    # One entry of a request matrix: input `i` wants output `o`; their pointers are at `in_id` and `out_id`.
    int64_t rank
    int32_t turn       # wavefront: the diagonal
    int32_t i
    int32_t o
    int32_t in_id
    int32_t out_id
    int32_t vc         # the input VC that asks
    int32_t target     # VA: the VC asked for; SA: 1 if it is a bid
    int32_t escape     # VA: of the escape plane
    int32_t empty      # SA: a bid that would win for nothing


cdef struct Arrival:
    # A message that has arrived, when records are used again.
    int64_t serial
    int64_t klass
    int64_t at
    int64_t first
    int64_t last
    int64_t hops
    int64_t packets
    int64_t flits
    int64_t parts[8]   # of its latency, with attribution


cdef struct Parcel:
    # What goes from one part of a divided network to another (mailbox.pyx).
    int64_t cycle
    int32_t vc
    int32_t packet           # one that was granted the VC; or NONE: an entry of the calendar
    int32_t kind             # Event


cdef struct Outbox:
    Parcel* parcels
    int32_t count
    int32_t room
    int64_t soonest          # cycle of its first entry of the calendar,
    int64_t latest           # and of its last


cdef struct Vc:
    # The downstream end of a VC: an input VC of a router, or a sink. One cache line; those of a router stand together.
    int64_t ready            # tick of its next try; with `masked` of its first one
    int32_t packet           # the first packet, whose head may still be on its way; NONE: there is none
    int32_t spot             # fixed: its bit in the masks of input VCs
    int32_t occupancy        # flits in the buffer
    int32_t left             # flits of the front packet that have not left
    int32_t want             # output link of the front packet
    int32_t hold             # output VC that it holds; of a waiting head the first VC of its range
    int32_t head             # the other packets of the VC, in order
    int32_t tail
    int32_t link             # fixed
    int32_t router           # fixed; NONE: a sink
    int32_t port             # fixed: into in_port
    int32_t row              # of low, high and range_mask: the VCs that the front packet may use
    uint8_t state            # VcState
    uint8_t many             # Many
    int16_t vc_class         # fixed
    int32_t occupancy_max    # counting


cdef struct Out:
    # The upstream end of a VC: what its sender knows of it.
    int32_t credit           # below 0: so many slots of the pool are its
    int32_t link             # fixed
    int32_t holder           # derived, with `masked`: `spot` of the input VC that holds it, or that of nobody
    int32_t send_packet      # lanes: the open packet
    int32_t send_left        # lanes: its flits not yet launched
    int32_t src              # fixed: router, or NONE: a lane


cdef struct Range:
    # VA, rotating: a range of VCs, at the place of the first one.
    int32_t next             # the VC number to try next
    int32_t requester        # the input VC to serve next
    int32_t pick             # scratch: who has it first, in stages the place in their list; or NONE
    int32_t word             # fixed: of its link in the VC masks of senders
    uint64_t mask            # fixed: its VCs there
    int32_t base             # fixed: of its link
    int32_t outlet           # fixed: of its link


cdef struct Link:
    # --- what routing, a launch and stages touch: one cache line ---
    int64_t free             # in units of 1 / den
    int64_t flits            # counting
    int64_t num              # s = num / den cycles per flit
    int64_t den
    int32_t delay
    int32_t base             # its first VC
    int32_t word             # its words in the VC masks of senders: first, and how many
    int32_t outlet           # fixed: number of the output port among those of all routers
    int32_t range            # row of (virtual network 0, class 0) in low and high
    int32_t group
    int32_t launch_pointer   # lanes: next VC to launch from
    int16_t classes          # VC classes
    uint8_t sink             # fixed: 1 if it ends at an interface
    uint8_t queued           # 1: has an output queue
    # --- the switch with all options, stalls ---
    int64_t pick_key         # scratch, SA: best candidate for this output
    int32_t pick_vc
    int32_t pick_port        # scratch, SA
    int32_t eligible         # scratch, SA: how many flits could go
    int32_t out_port         # number of the output port at its beginning
    int32_t src              # router, or NONE: an interface
    int32_t dst
    int32_t vcs
    int32_t words
    int32_t depth            # flits per VC
    int32_t out_offset       # number of its VC 0 among the output VCs of its router
    uint8_t stalled          # causes in the last tick looked at
    uint8_t stalled_before   # causes in the ticks before, of the same cycle
    # --- the rest ---
    int64_t stall_vc
    int64_t stall_credit
    int64_t stall_serial
    int64_t stall_arbitration
    int64_t queued_since
    int32_t credit_delay
    int32_t queue_head       # output queue
    int32_t queue_tail
    int32_t port             # number of the input port at its end
    int32_t vc_offset        # number of its VC 0 among the input VCs of its router
    int32_t pool_left        # of the slots that its VCs share


cdef struct Router:
    int32_t in_start         # into in_links
    int32_t in_end
    int32_t out_start        # into out_links
    int32_t out_end
    int32_t base             # its first input VC
    int32_t input_vcs
    int32_t output_vcs
    int32_t word             # its words in the masks of input VCs: first, and how many
    int32_t words
    int32_t port_word        # its words in the mask of output ports
    int32_t port_words
    int32_t unrouted         # heads to be routed
    uint64_t filled          # derived, without `masked`: which of its words have an occupied VC (buffer.pxd)
    int64_t looked           # counting: last cycle looked at


cdef struct Inputs:
    # The masks of 64 places for input VCs of a router: one cache line. A place is a bit; `Vc.spot` has its number.
    uint64_t occupied        # VCs with a flit in the buffer
    uint64_t heads           # whose head waits for an output VC, or to be routed
    uint64_t holding         # derived, with `masked`: whose front packet holds an output VC
    uint64_t credit          # derived, with `masked`: one that has credits
    uint64_t early[4]        # derived, with `masked`: whose head may not try yet, by the tick (modulo 4) of its try


cdef struct InPort:
    int32_t base             # fixed: its first VC
    int32_t credit_delay     # fixed
    int32_t credit_kind      # fixed; Event
    int32_t group            # fixed, of its link
    int32_t following        # fixed: number, at the router, of the port behind it; behind the last one comes the first


cdef struct Bounds:
    # Of a router, again: what stages read for every flit, of four routers in a cache line.
    int32_t base             # its first input VC
    int32_t input_vcs
    int32_t out_start
    int32_t in_ports


cdef struct State:
    # --- records that are partly fixed, partly decide, partly count ---
    Vc* vc                       # [vcs]
    Out* out                     # [vcs]
    Range* ranges                # [vcs]
    Link* link                   # [links]
    Router* router               # [routers]
    Inputs* inputs               # [words of input VCs + 1 + MOST_PARTS]; the last are nobody's

    # --- the machine, fixed ---
    int32_t routers, links, vcs, network_links, injection_links, dims, nodes
    int32_t rc, va, st, drained, step_arbiter, interleaved, ordered, tracing, recycling
    int32_t va_allocator, va_iterations, sa_allocator, sa_iterations, speculative, flow
    int32_t parts                # input speed-up: inputs of the switch per input port
    int32_t ticks                # internal speed-up: steps per cycle
    int32_t vnets, classes
    int32_t priorities           # whether there is more than one
    int32_t far                  # the records do not fit into the nearest caches: fetch them ahead
    int32_t lazy                 # routes depend on credits: they are found in the router's step
    int32_t masked               # SA by masks (bitmask_sa.pxd)
    int32_t plain                # and nothing beyond a word per router, alike, VA by ranges
    int32_t unit                 # every link takes a flit per cycle
    int32_t plain_lanes          # and one message class: lanes can go through their cycle in stages
    int32_t queues               # any link has an output queue
    int32_t keyed                # packets may need random numbers
    int32_t shift                # with `masked`: 2^shift places per input port
    int32_t most_words           # words of input VCs of a router, at most
    uint64_t port_low            # the first place of each port in a word
    uint64_t port_high           # and the last
    int32_t words                # of input VCs
    int32_t nobody               # the place of the holder of an output VC that has none
    int32_t out_ports            # of all routers
    int32_t ways, choose
    uint64_t seed
    int32_t* class_vnet          # [classes]
    int64_t* class_rank          # [classes] of their priority
    int32_t* low                 # VC numbers of a range: [low, high)
    int32_t* high
    uint64_t* range_mask         # the same as bits, of ranges in the first word
    int32_t* pool                # [links] slots that the VCs of a link share
    int32_t* in_links
    int32_t* out_links
    int32_t* out_router          # [output ports]
    InPort* in_port              # [input ports]
    uint64_t* places             # [words] places with a VC
    int16_t* input_at            # [places], with `masked`: the number of the input VC there, at its router
    int32_t apart                # -1: [words * 64], as the routers differ; 0: of a router, as one is like the other
    Bounds* bounds               # [routers]
    int32_t* home                # [nodes] router
    int32_t* resident            # [routers] one of its nodes, or NONE
    int32_t* digits              # [nodes, dims]
    int32_t* own                 # [planes * routers, dims]
    int64_t* offset
    int32_t* table_link
    int32_t* table_class
    int64_t* set_start
    int32_t* set_link
    int32_t* set_class
    int32_t* plane_any           # [planes]
    int32_t* plane_select
    int32_t* plane_escape
    int32_t* plane_sticky
    int32_t* plane_equal
    int32_t* way_first           # [ways]
    int32_t* way_last
    int32_t* way_via
    int64_t* way_bias
    int32_t* known               # scratch: [planes, routers, nodes] link and class of a route found before, or NONE
    int32_t* wrap                # [dims]
    int64_t* stride

    # --- of a part of a divided network (partition.pxd); NULL in a whole one ---
    int32_t part                 # its number
    int16_t* sender              # [links] the part that the beginning of a link belongs to
    int16_t* receiver            # [links] and the end
    Outbox* outboxes             # [parts] what goes to them after this epoch

    # --- what decides ---
    int64_t now
    int32_t arrived              # step 1 of cycle `now` is done
    int64_t reported             # the last cycle at which the caller was told of a window's end
    int32_t* in_pointer          # SA: [input ports * parts] next VC to look at, at the input
    int32_t* out_pointer         # SA, separable input first: [output ports] next input to look at, at the output
    uint64_t* turn               # SA by masks, instead of `in_pointer`: [words] places from the next VC to look at on
    int32_t* sa_grant            # SA, matrix: [links] next input to look at, at the output port
    int32_t* accept_pointer      # SA, matrix: [input ports * parts] next output to look at, at the input
    int32_t* va_grant            # VA, matrix: [vcs] next input VC to look at, at the output VC
    int32_t* va_accept           # VA, matrix: [vcs] next output VC to look at, at the input VC
    int32_t* va_wave             # [routers]
    int32_t* sa_wave
    int32_t* open_pointer        # [lanes * vnets] next VC to open a packet on
    int32_t* class_pointer       # [lanes] next class to open a packet of
    int32_t* open_count          # [lanes * classes] open packets
    uint8_t* closing             # [vcs] tail sent, credits still out ("drained")
    int64_t* rank                # [vcs] of the front packet, where there is more than one priority
    uint64_t* unheld             # VCs of a link that no packet holds
    uint64_t* opened             # lanes: VCs with a packet that still has flits to launch
    int64_t* front               # [vcs] front time (tick) of the front packet; follows from `ready` where `plain`
    int64_t* bid                 # [vcs] tick of its last speculative bid
    int32_t* bid_link            # [vcs] for which output
    int32_t* asked_link          # [vcs] VA, matrix: link of its first candidate with a free VC
    int32_t* source_head         # [lanes * classes] messages waiting
    int32_t* source_tail
    uint64_t* router_active
    uint64_t* lane_active
    int32_t router_words, lane_words
    Node* nodes_pool
    Queued* queued_pool             # [node_room]; NULL where no link has an output queue
    int32_t node_room, node_spare   # spare: how many are free,
    int32_t* free_nodes             # [node_room] which these are: no list, as one would wait for the next
    Packet* packets
    int32_t packet_room, packet_free, packet_spare   # spare: how many are free
    Message* messages
    int32_t message_room, message_free
    int64_t serials              # messages sent so far
    int64_t joined               # messages that have joined their source queue so far
    int32_t next_message         # messages sent in order of their time: a list
    int32_t last_message
    int32_t* pending             # the others: heap by (at, number)
    int32_t pending_room, pending_count
    Slot* slots                  # the calendar
    uint64_t* slot_used
    int64_t slot_mask
    int32_t slot_words
    int64_t in_flight            # flits that have left their source and are not consumed
    int64_t draws                # random numbers asked for so far

    # --- derived, with `masked`: made anew from the above by `rederive` (vc_masks.pyx), as are some fields of records ---
    uint64_t* wants              # [output ports * most_words] input VCs that hold a VC of an output
    uint8_t* out_at              # [words * 64] the output that the input VC at a place wants
    uint64_t* busy               # [routers] outputs whose link is busy beyond the next cycle, till the calendar tells,
    uint64_t* blocked            # [words] input VCs that want them,
    int64_t* free_from           # [output ports] and in which cycle it tells

    # --- what only counts ---
    uint64_t* stalls             # [output ports] stalls of each cause since the last `flush`: four counts of 16 bits
    int64_t flush                # the cycle before which they must be added up
    int32_t changed              # a flit was launched since the caller was told of a window's end
    uint64_t* stalled_ports      # output ports of a router that are stalled
    int64_t router_visits, packets_delivered, messages_delivered, flits_delivered
    int64_t latency_sum, network_latency_sum, hops_sum
    int32_t* delivered           # messages delivered since the last report, with their cycles
    int64_t* delivered_at
    int32_t delivered_room, delivered_count
    Arrival* arrivals
    int64_t arrival_room, arrival_count
    Launch* log
    int64_t log_room, log_count
    int64_t watch_serial         # the watched packet, or NONE
    int32_t watch_packet
    Note* notes
    int64_t note_room, note_count
    int32_t attribution          # books are kept: 1; and every stay is listed: 2
    Books books
    Orbit* orbit                 # NULL: nobody looks for periods

    # --- scratch within one router and cycle ---
    int32_t* won                 # [output and input ports] with `masked`: VCs whose flit has won the switch, not left
    int32_t* out_pick            # [output ports] in stages: the place in `won` of who has it first, or NONE
    int32_t* gone                # tails that have left
    int32_t won_count
    uint64_t no_vc               # with `masked`: output ports at which a head stalled
    uint64_t no_credit
    uint64_t lost
    int32_t* oldest              # [links] SA, ordered: the VC of an input port that may ask for an output
    int32_t* active              # [routers] to be visited in this cycle
    uint8_t* woken               # [64 * router_words] step 1: 1 for routers that have to be looked at
    uint8_t* woken_words         # [router_words] 1 for words of them that may have any
    int32_t* fronts              # input VCs to whose front a head has come
    int32_t* touched             # outputs with a candidate
    int32_t* able                # outputs that some flit could go to
    int32_t able_count
    int32_t* part_pick           # [parts] of the input port at hand: best candidate
    int64_t* part_key
    int64_t* va_key              # [vcs] rotating, first VC of a range: how good its best requester is
    int32_t* va_touched
    int32_t* found_link          # candidates of one head
    int32_t* found_class
    Request* requests            # of a matrix allocator
    int32_t request_room
    int32_t* best_in             # [most inputs] request
    int32_t* best_out            # [most outputs]
    int32_t* match_in
    int32_t* match_out
    int32_t* matched             # requests that were granted
    int32_t failed               # memory ran out


cdef inline int32_t new_node(State* s) noexcept nogil:
    cdef int32_t node
    if s.node_spare == 0:
        more_nodes(s)
        if s.failed:
            return NONE
    s.node_spare -= 1
    node = s.free_nodes[s.node_spare]
    s.nodes_pool[node].next = NONE
    return node


cdef inline void free_node(State* s, int32_t node) noexcept nogil:
    s.free_nodes[s.node_spare] = node
    s.node_spare += 1


cdef inline int32_t new_packet(State* s) noexcept nogil:
    cdef int32_t packet
    if s.packet_free == NONE:
        more_packets(s)
        if s.failed:
            return NONE
    packet = s.packet_free
    s.packet_free = s.packets[packet].next
    s.packet_spare -= 1
    return packet


cdef inline void free_packet(State* s, int32_t packet) noexcept nogil:
    s.packets[packet].next = s.packet_free
    s.packet_free = packet
    s.packet_spare += 1


cdef inline int64_t rank_of(State* s, int32_t packet) noexcept nogil:
    """By the priority of its message class."""
    return s.class_rank[s.messages[s.packets[packet].message].klass]


cdef void more_nodes(State* s) noexcept nogil
cdef void more_packets(State* s) noexcept nogil
cdef void* grown(State* s, void* old, int64_t room, size_t size) noexcept nogil
cdef int32_t new_message(State* s) noexcept nogil
cdef void free_message(State* s, int32_t message) noexcept nogil
cdef bint requests_fit(State* s, int32_t count) noexcept nogil
cdef void log_launch(State* s, int64_t cycle, int32_t vc, int32_t packet, int32_t flit) noexcept nogil
cdef void note(
    State* s, int32_t packet, int64_t cycle, Noted what, int32_t link, int32_t vc, int32_t flit
) noexcept nogil
cdef void free_state(State* s) noexcept
