"""The whole state of one network as plain C data. Who owns the arrays: state.pyx."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t


cdef enum VcState:
    IDLE = 0      # no packet at the front
    WAITING = 1   # its head wants an output VC
    ACTIVE = 2    # it holds one


cdef enum Event:
    # The kinds of calendar entries; an entry is index * 4 + kind.
    FLIT = 0      # a flit reaches the end of VC `index`
    CREDIT = 1    # a credit reaches the sender of VC `index`
    LAUNCH = 2    # the output queue of link `index` may launch
    WAKE = 3      # router `index`, or lane `index - routers`, has something to look at


cdef enum Stall:
    STALL_VC = 1
    STALL_CREDIT = 2
    STALL_SERIAL = 4
    STALL_ARBITRATION = 8


cdef enum:
    NONE = -1


cdef struct Node:
    # An entry of a FIFO: packet of a VC, or flit of an output queue (`vc` and `flit` are of use there only).
    int32_t packet
    int32_t vc
    int32_t flit
    int32_t next


cdef struct Packet:
    int32_t message
    int32_t number
    int32_t flits
    int32_t dst
    int32_t plane
    int32_t eject      # link
    int32_t next       # in the list of unused records
    int64_t launched   # counting: when its head was launched


cdef struct Message:
    int32_t lane       # injection link
    int32_t eject      # ejection link
    int32_t dst
    int32_t plane
    int32_t packets
    int32_t flits
    int32_t last_flits
    int32_t opened
    int32_t delivered
    int32_t next       # in the source queue
    int64_t at         # deciding: when it joins its source queue
    int64_t first      # counting: when its first flit was launched
    int64_t last       # counting: when its last flit arrived


cdef struct Slot:
    int32_t* events
    int32_t count
    int32_t room


cdef struct Launch:
    int64_t cycle
    int32_t link
    int32_t vc
    int32_t packet_message
    int32_t packet_number
    int32_t flit


cdef struct State:
    # --- the machine, fixed ---
    int32_t routers, links, vcs, network_links, injection_links, dims, nodes
    int32_t rc, va, drained, step_arbiter, interleaved, ordered, tracing
    int32_t* link_src            # [links] router, or NONE: an interface
    int32_t* link_dst
    int32_t* link_vcs
    int32_t* link_base           # first VC
    int32_t* link_depth          # flits per VC
    int64_t* link_num            # s = num / den cycles per flit
    int64_t* link_den
    int64_t* link_delay
    int64_t* link_credit_delay
    int32_t* link_queued         # 1: has an output queue
    int32_t* link_classes
    int32_t* link_group
    int32_t* link_port           # number of the input port at its end
    int32_t* link_vc_offset      # number of its VC 0 among the input VCs of its router
    int32_t* link_word           # its words in the VC bit masks: first, and how many
    int32_t* link_words
    int32_t* vc_link             # [vcs]
    int32_t* in_start            # [routers + 1] into in_links
    int32_t* in_links
    int32_t* out_start           # [routers + 1] into out_links
    int32_t* out_links
    int32_t* input_vcs           # [routers] how many input VCs
    int32_t* digits              # [nodes, dims]
    int32_t* own                 # [planes * routers, dims]
    int64_t* offset
    int32_t* table_link
    int32_t* table_class

    # --- what decides ---
    int64_t now
    int32_t arrived              # step 1 of cycle `now` is done
    int64_t reported             # the last cycle at which the caller was told of a window's end
    int64_t* link_free           # in units of 1 / den
    int32_t* in_pointer          # SA: [links] next VC to look at, at the input port
    int32_t* out_pointer         # SA: [links] next input port to look at, at the output port
    int32_t* open_pointer        # [links] lanes: next VC to open a packet on
    int32_t* launch_pointer      # [links] lanes: next VC to launch from
    uint64_t* occupied           # VCs with a flit in the buffer (downstream end)
    uint64_t* unheld             # VCs that no packet holds (upstream end)
    uint64_t* opened             # lanes: VCs with a packet that still has flits to launch
    int32_t* occupancy           # [vcs] flits in the buffer
    int32_t* credit              # [vcs] at the sender
    int32_t* closing             # [vcs] tail sent, credits still out ("drained")
    uint8_t* vc_state            # [vcs] VcState
    int32_t* left                # [vcs] flits of the front packet that have not left (sinks: not arrived)
    int32_t* want                # [vcs] output link of the front packet
    int32_t* range_low           # [vcs] VC numbers it may use there
    int32_t* range_high
    int32_t* hold                # [vcs] output VC that it holds
    int64_t* ready               # [vcs] cycle of its next try
    int64_t* front               # [vcs] front time of the front packet
    int32_t* va_next             # [vcs] VA, first VC of a range: the VC number to try next
    int32_t* va_requester        # [vcs] VA, first VC of a range: the input VC to serve next
    int32_t* fifo_head           # [vcs] packets in the VC, in order
    int32_t* fifo_tail
    int32_t* send_packet         # [vcs] lanes: the open packet
    int32_t* send_left           # [vcs] lanes: its flits not yet launched
    int32_t* queue_head          # [links] output queue
    int32_t* queue_tail
    int32_t* source_head         # [links] lanes: messages waiting
    int32_t* source_tail
    int32_t* waiting             # [routers] heads without an output VC
    uint64_t* router_active
    uint64_t* lane_active
    int32_t router_words, lane_words
    Node* nodes_pool
    int32_t node_room, node_free
    Packet* packets
    int32_t packet_room, packet_free
    Message* messages
    int32_t message_room, message_count
    int32_t* pending             # heap of messages by (at, number)
    int32_t pending_room, pending_count
    Slot* slots                  # the calendar
    uint64_t* slot_used
    int64_t slot_mask
    int32_t slot_words
    int64_t scheduled            # entries in it
    int64_t in_flight            # flits that have left their source and are not consumed

    # --- what only counts ---
    int32_t changed              # a flit was launched since the caller was told of a window's end
    int64_t* flits               # [links]
    int64_t* stall_vc
    int64_t* stall_credit
    int64_t* stall_serial
    int64_t* stall_arbitration
    int32_t* occupancy_max       # [vcs]
    uint8_t* stalled             # [links] causes in the last cycle looked at
    uint8_t* router_stalled      # [routers] any of its outputs is stalled
    int64_t* looked              # [routers] last cycle looked at
    int64_t* queued_since        # [links]
    int64_t router_visits, packets_delivered, messages_delivered, flits_delivered
    int64_t latency_sum, network_latency_sum
    int32_t* delivered           # messages delivered since the last report, with their cycles
    int64_t* delivered_at
    int32_t delivered_room, delivered_count
    Launch* log
    int64_t log_room, log_count

    # --- scratch within one router and cycle ---
    int32_t* pick_port           # [links] SA: best candidate for an output
    int32_t* pick_vc
    int32_t* pick_distance
    int32_t* oldest              # [links] SA, ordered: the VC of an input port that may ask for an output
    int32_t* eligible            # [links] how many flits could go
    int32_t* touched             # outputs with a candidate
    int32_t* va_pick             # [vcs] VA, first VC of a range: its best requester
    int32_t* va_distance
    int32_t* va_touched
    int32_t failed               # memory ran out


cdef int32_t new_node(State* s) noexcept nogil
cdef void free_node(State* s, int32_t node) noexcept nogil
cdef int32_t new_packet(State* s) noexcept nogil
cdef void free_packet(State* s, int32_t packet) noexcept nogil
cdef void* grown(State* s, void* old, int64_t room, size_t size) noexcept nogil
cdef void log_launch(State* s, int64_t cycle, int32_t vc, int32_t packet, int32_t flit) noexcept nogil
