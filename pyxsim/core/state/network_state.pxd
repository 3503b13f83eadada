"""The state of one network as plain C data, grouped by unit of hardware. state/engine_arrays.pyx owns the arrays.

Headings say what a group of fields is for: `fixed` never changes, `decides` determines what happens next, `derived`
follows from other fields (`rebuild_masks`), `counts` only counts, `scratch` is valid within one router visit or cycle.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint64_t

from pyxsim.core.fast_forward.detector_state cimport PeriodDetector
from pyxsim.core.latency.latency_records cimport LatencyState
from pyxsim.core.state.bits cimport prefetch
from pyxsim.core.state.records cimport (
    NONE,
    Arrival,
    CalendarSlot,
    CreditReturn,
    FifoNode,
    InPort,
    InputVc,
    Launch,
    Link,
    Message,
    Outbox,
    OutputVc,
    Packet,
    PacketEvent,
    PacketNote,
    QueuedFlit,
    Replay,
    ReplayFlit,
    Request,
    RANK_BY_AGE,
    RANK_BY_HOPS,
    RANK_BY_LOCAL_AGE,
    RANK_BY_NETWORK_AGE,
    RANK_BY_QUEUE,
    RequestMatrix,
    Router,
    RouterBounds,
    VcCredits,
    VcMasks,
    VcRange,
)


cdef struct State
# A matrix allocator: fills `MatchScratch` with the granted requests and returns their count.
ctypedef int32_t (*MatchFunction)(State* s, RequestMatrix* m) noexcept nogil


cdef struct RouterConfig:
    # fixed: the options of all routers (RouterOptions in options.py), and what is recorded
    int32_t rc, va, st, drained, step_arbiter, interleaved, ordered
    int32_t va_iterations, sa_iterations, speculative, flow
    int32_t va_rotating     # VC allocator `rotating`: no request matrix
    int32_t sa_separable    # switch allocator `separable-input-first`: no request matrix
    int32_t sa_plain        # that one without any option that makes requests differ in more than their turn
    int32_t va_by_age       # ranks of requests include the age of the message
    int32_t sa_by_age
    MatchFunction va_match  # NULL without a request matrix
    MatchFunction sa_match
    void* users             # UserAllocators (core/user_allocator.py), or NULL
    int32_t input_speedup   # inputs of the switch per input port
    int32_t ticks           # internal speed-up: steps per cycle, at most
    int32_t ticks_num       # and exactly: ticks_num / ticks_den
    int32_t ticks_den
    int32_t output_speedup  # outputs of the switch per output port
    int32_t queue_after_st  # 1 where flits enter an output queue behind ST: with an internal or output speed-up
    int32_t queue_limit     # flits in an output queue from which the switch grants it no more; 0: none
    int32_t hold_switch     # the switch stays with a packet
    int32_t va_credit       # heads request only VCs with a credit
    int32_t va_limited      # 1 where a free VC may not count as free: `va_credit`, bubbles, packets buffered whole
    int32_t shared_limit    # most slots that a VC may use of a link: a number, EQUAL_SHARE, POWER_SHARE; 0: all
    int32_t credit_test     # 1 where a credit of its own is not enough for a flit: a limit, or packets buffered whole
    int32_t next_vc         # va = 0: heads rank behind others and take the VCs of a range in turn
    int32_t shared_classes  # VC classes share VCs
    int32_t rank_by         # RankBy
    int32_t unusual         # 1 with any of these options, or a fractional internal speed-up: no fast path, no jumps
    int32_t vnets, classes
    int32_t priorities      # 1 if ranks differ: by message class, or by `rank_by`
    int32_t tracing         # every launch is logged
    int32_t recycling       # records of delivered messages are reused
    int32_t silent_class    # the first message class whose deliveries do not end a run
    int32_t attribution     # 1: latency attribution; 2: every stay is logged, too
    int32_t lossy           # 1 where flits may be lost; 2 where losses of messages end a run, as deliveries do
    int32_t retry           # 1 where any link has a replay buffer
    int32_t credits         # 1 where any link returns its credits by messages
    int32_t launch_noted    # 1 with `lossy` or `credits`: something happens to a flit that has just been launched
    uint64_t seed
    int32_t* class_vnet     # [classes]
    int64_t* class_rank     # [classes] rank of their priority


cdef struct PathChoice:
    # fixed: which router runs (router_choice.py)
    int32_t bitmask_sa   # SA on bit masks
    int32_t batch_path   # 64 routers per stage
    int32_t lane_batch   # all injection lanes per stage
    int32_t unit_rate    # every link takes one flit per cycle
    int32_t prefetch     # the records exceed the nearest caches


cdef struct CreditRules:
    # fixed: how links return their credits by messages (CreditReturns in options.py)
    int64_t batch        # credits of a VC that are due
    int64_t wait         # cycles that due credits wait for a flit to carry them; NONE: no flit does
    int64_t resync       # distance of the cycles in which lost credits are sent again; 0: they are not
    int64_t share_num    # time of a message over that of a flit: share_num / share_den
    int64_t share_den
    int32_t all_vcs      # a message has the credits of all VCs
    int32_t data_first   # messages wait for flits of the opposite link
    int32_t cumulative   # a message restores the lost credits of its VCs
    int32_t advertise    # the sender has no credits until a message brings them
    int32_t most_vcs     # of a link


cdef struct VcArrays:
    # --- fixed, decides and counts: records ---
    InputVc* input            # [count] downstream ends
    OutputVc* output          # [count] upstream ends
    VcRange* ranges           # [count]
    # --- fixed ---
    int32_t count
    # --- decides ---
    int64_t* rank             # [count] of the front packet, where ranks differ
    uint64_t* unheld          # VCs of a link that no packet holds
    uint8_t* draining         # [count] tail sent, credits still out ("drained")
    int64_t* front_time       # [count] tick at which the front packet came to the front; empty in the batch path
    int64_t* bid              # [count] tick of the last speculative bid
    int32_t* bid_link         # [count] for which output
    int32_t* requested_link   # [count] VA, matrix: link of the first candidate with a free VC
    # --- scratch ---
    int64_t* va_key           # [count] VA, rotating, at the first VC of a range: key of its best requester


cdef struct LinkArrays:
    # --- fixed, decides and counts: records ---
    Link* link                          # [count]
    # --- fixed ---
    int32_t count, network, injection   # network links, then injection lanes, then ejection lanes
    int32_t logged                      # the first links, whose totals inside a jump are known
    int32_t any_queued                  # 1 if any link has an output queue
    int32_t* low                        # VC ranges [low, high) by row
    int32_t* high
    uint64_t* range_mask                # the same as bits, for ranges in the first word
    int32_t* pool                       # [count] slots that the VCs of a link share
    int32_t* limit                      # [count] with a `shared_limit`: slots that a VC may use in this tick
    int64_t* left_tick                  # [count] with a queue limit: `tick` of the flit that left the queue last
    int64_t* left_cycle                 # [count] and the cycle in which it left
    Replay* replay                      # [count] where any link has retry
    ReplayFlit* replay_flit             # [slots of all replay buffers]
    # --- decides ---
    int64_t* up_free                    # [count] where links change: `free` of a link that is down; else NULL
    int64_t* pause                      # [3 * count] where links change: `free` after the last change, and then ...
    # ... the end of the last flit on the wire, and its end with its delay, in the units of `free`
    uint64_t* error_bound               # [count] where flits may be lost: a draw below it is a bit error
    uint64_t* nack_bound                # [count] likewise: a lost nack
    # --- counts ---
    int64_t* errors                     # [count] likewise: flits with a bit error
    int64_t* lost                       # [count] flits lost on the wire, as the link went down
    uint8_t* drops                      # [count] likewise: 1 for a sink that drops packets, a lane that opens none
    # --- credits as messages: records, and arrays that are empty without ---
    CreditRules credit_rules
    CreditReturn* credit_return         # [count]
    VcCredits* vc_credits               # [VCs]
    uint64_t* credit_bound              # [count] a draw below it is a bit error in a message on this link
    int32_t* replay_credits             # [slots of all replay buffers * most_vcs] credits that they carry, by VC


cdef struct RouterArrays:
    # --- fixed, decides and counts: records ---
    Router* router         # [count]
    # --- fixed ---
    int32_t count, words
    RouterBounds* bounds   # [count]
    # --- decides ---
    uint64_t* active       # mask of routers to visit
    # --- scratch ---
    int32_t* visit_list    # [count] active routers, with prefetching
    uint8_t* woken         # [64 * words] step 1: 1 for routers to wake
    uint8_t* woken_words   # [words] 1 for words with any


cdef struct PortArrays:
    # --- fixed ---
    int32_t outputs       # output ports of all routers
    int32_t* in_links
    int32_t* out_links
    int32_t* out_router   # [outputs]
    int32_t* eject_router   # [ejection lanes] router at their beginning
    InPort* input         # [input ports]


cdef struct MaskArrays:
    # --- fixed and decides: records ---
    VcMasks* inputs          # [words + 1 + MOST_PARTS]; the last ones receive credits of VCs without a holder
    # --- fixed ---
    int32_t port_shift       # with `bitmask_sa`: 2^port_shift bits per input port
    int32_t most_words       # words of input VCs of a router, at most
    uint64_t port_low        # first bit of each port in a word
    uint64_t port_high       # and the last
    int32_t words            # of input VCs
    int32_t no_holder_bit    # mask bit that stands for no holder
    uint64_t* valid_bits     # [words] bits that stand for a VC
    int16_t* vc_at_bit       # [bits], with `bitmask_sa`: number of the input VC at its router
    int32_t per_router       # -1: vc_at_bit is [words * 64], as routers differ; 0: one table for all routers
    # --- derived ---
    uint64_t* requests       # [outputs * most_words] input VCs that hold a VC of an output
    uint8_t* out_at          # [words * 64] output port requested by the input VC at a bit
    uint64_t* busy_outputs   # [routers] outputs whose link is busy beyond the next cycle
    uint64_t* blocked        # [words] input VCs that request them
    int64_t* free_from       # [outputs] cycle in which the calendar unblocks them


cdef struct ArbiterPointers:
    # --- decides ---
    int32_t* in_pointer    # SA: [input ports * input_speedup] next VC to serve, at the input
    int32_t* out_pointer   # SA, separable input first: [outputs] next input to serve, at the output
    uint64_t* input_turn   # SA on bit masks, instead of `in_pointer`: [words] bits from the next VC to serve on
    int32_t* sa_grant      # SA, matrix: [links] next input to serve, at the output port
    int32_t* sa_accept     # SA, matrix: [input ports * input_speedup] next output to serve, at the input
    int32_t* va_grant      # VA, matrix: [VCs] next input VC to serve, at the output VC
    int32_t* va_accept     # VA, matrix: [VCs] next output VC to serve, at the input VC
    int32_t* va_wave       # [routers] wavefront
    int32_t* sa_wave
    int32_t* held_vc       # held switch: [input ports * input_speedup] VC that the switch stays with, or NONE
    int32_t* held_output   # held switch: [input ports * input_speedup] its output of the switch, or NONE
    int32_t* output_held   # held switch: [outputs * output_speedup] 1 if some input holds it


cdef struct RouteTables:
    # --- fixed ---
    int32_t dims, nodes
    int32_t credit_dependent   # routes depend on credits: they are computed in the router's step
    int32_t uses_draws         # packets may need random numbers
    int32_t ways, choose
    int32_t bubble             # bubble flow control: see `ring_vc` and `ring_slots` (vc_allocator.pxd)
    int32_t early              # packets leave at the router of their destination before they were at their via
    int32_t* home              # [nodes] router
    int32_t* resident          # [routers] one of its nodes, or NONE
    int32_t* digits            # [nodes, dims]
    int32_t* own               # [planes * routers, dims]
    int64_t* offset
    int32_t* table_link
    int32_t* table_class
    int64_t* set_start
    int32_t* set_link
    int32_t* set_class
    int32_t* set_weight        # of the members of sets; empty without a weighted plane
    int32_t* plane_any         # [planes]
    int32_t* plane_select
    int32_t* plane_escape
    int32_t* plane_sticky
    int32_t* plane_equal
    int32_t* way_first         # [ways]
    int32_t* way_last
    int32_t* way_via
    int64_t* way_bias
    int32_t* wrap              # [dims]
    int64_t* stride
    # --- decides ---
    int32_t* owed              # weighted: what each member of a set is owed, in units of its weights
    # --- counts ---
    int64_t draws              # random numbers drawn so far
    # --- scratch ---
    int32_t* cached            # [planes, routers, nodes] link and class of a route found before, or NONE
    int32_t* candidate_link    # candidates of one head
    int32_t* candidate_class


cdef struct LaneArrays:
    # --- fixed ---
    int32_t words
    # --- decides ---
    uint64_t* active         # mask of lanes to visit
    int32_t* open_pointer    # [lanes * vnets] next VC to open a packet on
    int32_t* class_pointer   # [lanes] next class to open a packet of
    int32_t* open_count      # [lanes * classes] open packets
    uint64_t* opened         # VCs with a packet that still has flits to launch
    int32_t* source_head     # [lanes * classes] messages waiting
    int32_t* source_tail


cdef struct WaitingMessages:
    # --- decides: messages whose cycle has not come ---
    int32_t first   # those sent in order of their cycle: a list
    int32_t last
    int32_t* heap   # the others: heap by (at, number)
    int32_t heap_capacity, heap_count


cdef struct RecordPools:
    # --- decides ---
    FifoNode* nodes
    QueuedFlit* queued              # [node_capacity]; NULL where no link has an output queue
    int32_t node_capacity, node_spare   # spare: number of free ones
    int32_t* free_nodes             # [node_capacity] a stack, not a list: popping does not wait for the node itself
    Packet* packets
    int32_t packet_capacity, packet_free, packet_spare
    Message* messages
    int32_t message_capacity, message_free


cdef struct Calendar:
    # --- decides ---
    CalendarSlot* slots   # [slot_mask + 1]
    uint64_t* used
    int64_t slot_mask     # number of slots - 1
    int32_t words


cdef struct Statistics:
    # --- counts ---
    uint64_t* port_stalls     # [outputs] stalls since the last flush: four counts of 16 bits
    int64_t flush_due         # cycle before which they must be flushed
    uint64_t* stalled_ports   # output ports of a router that are stalled
    int32_t changed           # a flit was launched since the last reported end of a window
    int64_t window_reported   # last cycle at which the end of a window was reported
    int64_t router_visits, packets_delivered, messages_delivered, flits_delivered
    int64_t latency_sum, network_latency_sum, hops_sum
    int64_t packets_lost, flits_lost   # dropped at their sink
    int64_t messages_sent
    int64_t messages_joined   # that have joined their source queue


cdef struct Deliveries:
    # --- counts ---
    int32_t* delivered   # messages delivered since the last report, and their cycles
    int64_t* delivered_at
    int32_t delivered_capacity, delivered_count
    Arrival* records
    int64_t record_capacity, record_count


cdef struct TraceLogs:
    # --- counts ---
    Launch* launches
    int64_t launch_capacity, launch_count
    int64_t watch_serial   # message of the watched packet, or NONE
    int32_t watch_packet
    PacketNote* notes
    int64_t note_capacity, note_count


cdef struct PartInfo:
    # fixed: of a part of a partitioned network (partition.pxd); pointers are NULL in a whole one
    int32_t number
    int16_t* sender     # [links] part at the beginning of a link
    int16_t* receiver   # [links] part at its end
    Outbox* outboxes    # [parts] entries to deliver after this epoch
    int32_t remote      # 1 if the other parts are in other processes, which have their own records of packets
    int32_t left        # then: list of the packets whose tail has left for one of them in this epoch


cdef struct StepScratch:
    # --- scratch ---
    int32_t* winners            # [output and input ports] with `bitmask_sa`: VCs that won the switch, not yet sent
    int32_t winner_count
    int32_t* output_winner      # [outputs] in the batch path: index in `winners` of the current winner, or NONE
    int32_t* tails              # VCs whose tail has left
    uint64_t no_vc              # with `bitmask_sa`: output ports at which a head stalled, by cause
    uint64_t no_credit
    uint64_t lost
    int32_t* held               # held switch: inputs of the router that are held at the beginning of the step
    int32_t* oldest             # [links] SA, ordered: VC of an input port that may request an output
    int32_t* new_heads          # input VCs whose next head has come to the front
    int32_t* requested_outputs
    int32_t* eligible_outputs   # outputs that some flit could go to
    int32_t eligible_count
    int32_t* best_vc            # [input_speedup] best candidate at the current input port
    int64_t* best_key
    int32_t* requested_ranges
    int32_t* credit_links       # links whose returning credits are looked at in this cycle
    int32_t credit_link_count


cdef struct MatchScratch:
    # --- scratch: of a matrix allocator ---
    Request* requests
    int32_t request_capacity
    int32_t* best_in    # [most inputs] request
    int32_t* best_out   # [most outputs]
    int32_t* match_in   # granted request of each input, or NONE
    int32_t* match_out
    int32_t* granted    # numbers of the granted requests
    int32_t fault       # an allocator of a user raised an error


cdef struct State:
    # --- what the cycle loop reads first ---
    int64_t now
    int32_t arrived            # step 1 of cycle `now` is done
    int32_t failed             # memory ran out
    int32_t patient            # links will change: flits that cannot move now may move then
    int32_t paused             # lanes open no packets, until those of the routes before have left the network
    int64_t in_flight          # flits launched and not consumed
    # --- configuration ---
    RouterConfig config
    PathChoice path
    # --- hardware ---
    VcArrays vcs
    LinkArrays links
    RouterArrays routers
    PortArrays ports
    MaskArrays masks
    ArbiterPointers arbiters
    RouteTables routes
    LaneArrays lanes
    # --- messages, packets, events ---
    WaitingMessages waiting
    RecordPools pools
    Calendar calendar
    # --- what only counts ---
    Statistics stats
    Deliveries arrivals
    TraceLogs trace
    LatencyState latency       # attribution
    PeriodDetector* detector   # fast-forward; NULL: off
    # --- threads ---
    PartInfo part
    # --- scratch ---
    StepScratch scratch
    MatchScratch matching


cdef inline int32_t new_node(State* s) noexcept nogil:
    cdef int32_t node
    if s.pools.node_spare == 0:
        grow_nodes(s)
        if s.failed:
            return NONE
    s.pools.node_spare -= 1
    node = s.pools.free_nodes[s.pools.node_spare]
    s.pools.nodes[node].next = NONE
    return node


cdef inline void free_node(State* s, int32_t node) noexcept nogil:
    s.pools.free_nodes[s.pools.node_spare] = node
    s.pools.node_spare += 1


cdef inline int32_t new_packet(State* s) noexcept nogil:
    cdef int32_t packet
    if s.pools.packet_free == NONE:
        grow_packets(s)
        if s.failed:
            return NONE
    packet = s.pools.packet_free
    s.pools.packet_free = s.pools.packets[packet].next
    s.pools.packet_spare -= 1
    return packet


cdef inline void free_packet(State* s, int32_t packet) noexcept nogil:
    s.pools.packets[packet].next = s.pools.packet_free
    s.pools.packet_free = packet
    s.pools.packet_spare += 1


cdef inline void packet_leaves(State* s, int32_t vc, int32_t packet) noexcept nogil:
    """The tail of a packet has left on `vc`, where other parts are in other processes."""
    if s.part.receiver[s.vcs.output[vc].link] != s.part.number:
        s.pools.packets[packet].next = s.part.left
        s.part.left = packet


cdef inline int64_t priority_rank(State* s, int32_t packet) noexcept nogil:
    """By the priority of its message class."""
    return s.config.class_rank[s.pools.messages[s.pools.packets[packet].message].klass]


cdef enum:
    RANK_SHIFT = 16           # of what packets of a class are ranked by, above the distances of arbiters
    MOST_RANK = 1 << 30


cdef inline int64_t front_rank(State* s, int32_t packet, int64_t u) noexcept nogil:
    """The rank of a packet that comes to the front of an input VC in tick `u`; less is better."""
    cdef Packet* p = &s.pools.packets[packet]
    cdef int64_t value = 0
    if s.config.rank_by == RANK_BY_AGE:
        value = s.pools.messages[p.message].at
    elif s.config.rank_by == RANK_BY_NETWORK_AGE:
        value = p.launched
    elif s.config.rank_by == RANK_BY_LOCAL_AGE:
        value = u
    elif s.config.rank_by == RANK_BY_HOPS:
        value = MOST_RANK - p.hops
    return priority_rank(s, packet) + (value << RANK_SHIFT)


cdef inline int64_t rank_of(State* s, int32_t vc) noexcept nogil:
    """The rank of the front packet of an input VC, where ranks differ."""
    cdef int64_t longer = 0
    if s.config.rank_by == RANK_BY_QUEUE:
        longer = <int64_t> (MOST_RANK - s.vcs.input[vc].occupancy) << RANK_SHIFT
    return s.vcs.rank[vc] + longer


cdef inline int64_t first_tick(State* s, int64_t t) noexcept nogil:
    """The first tick of cycle `t`."""
    return t * s.config.ticks_num if s.config.ticks_den == 1 else t * s.config.ticks_num // s.config.ticks_den


cdef inline int64_t cycle_of(State* s, int64_t u) noexcept nogil:
    """The cycle of tick `u`."""
    if s.config.ticks_den == 1:
        return u // s.config.ticks_num
    return ((u + 1) * s.config.ticks_den - 1) // s.config.ticks_num


cdef void grow_nodes(State* s) noexcept nogil
cdef void grow_packets(State* s) noexcept nogil
cdef void* grow_array(State* s, void* old, int64_t capacity, size_t size) noexcept nogil
cdef int64_t grow_list(State* s, void** items, int64_t capacity, int64_t extra, size_t size) noexcept nogil
cdef int32_t new_message(State* s) noexcept nogil
cdef void free_message(State* s, int32_t message) noexcept nogil
cdef bint reserve_requests(State* s, int32_t count) noexcept nogil
cdef void log_launch(State* s, int64_t cycle, int32_t vc, int32_t packet, int32_t flit) noexcept nogil
cdef void note_event(
    State* s, int32_t packet, int64_t cycle, PacketEvent what, int32_t link, int32_t vc, int32_t flit
) noexcept nogil
cdef void free_state(State* s) noexcept
