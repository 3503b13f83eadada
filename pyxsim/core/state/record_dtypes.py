"""The engine's records as numpy dtypes, field by field as in records.pxd; the engine compares their sizes."""

from __future__ import annotations

from typing import Any

from pyxsim.errors import PyxsimError

VC = {
    "ready": "i8",
    "packet": "i4",
    "mask_bit": "i4",
    "occupancy": "i4",
    "left": "i4",
    "out_link": "i4",
    "out_vc": "i4",
    "head": "i4",
    "tail": "i4",
    "link": "i4",
    "router": "i4",
    "port": "i4",
    "range_row": "i4",
    "state": "u1",
    "multi": "u1",
    "vc_class": "i2",
    "occupancy_max": "i4",
}
OUT = {
    "credit": "i4",
    "link": "i4",
    "holder": "i4",
    "send_packet": "i4",
    "send_left": "i4",
    "src": "i4",
}
RANGE = {
    "next": "i4",
    "requester": "i4",
    "pick": "i4",
    "word": "i4",
    "mask": "u8",
    "base": "i4",
    "outlet": "i4",
}
LINK = {
    "free": "i8",
    "flits": "i8",
    "num": "i8",
    "den": "i8",
    "delay": "i4",
    "base": "i4",
    "word": "i4",
    "outlet": "i4",
    "range": "i4",
    "group": "i4",
    "launch_pointer": "i4",
    "classes": "i2",
    "sink": "u1",
    "queued": "u1",
    "pick_key": "i8",
    "pick_vc": "i4",
    "pick_port": "i4",
    "eligible": "i4",
    "out_port": "i4",
    "src": "i4",
    "dst": "i4",
    "vcs": "i4",
    "words": "i4",
    "depth": "i4",
    "out_offset": "i4",
    "stalled": "u1",
    "stalled_before": "u1",
    "stall_vc": "i8",
    "stall_credit": "i8",
    "stall_serial": "i8",
    "stall_arbitration": "i8",
    "queued_since": "i8",
    "credit_delay": "i4",
    "queue_head": "i4",
    "queue_tail": "i4",
    "port": "i4",
    "vc_offset": "i4",
    "pool_left": "i4",
}
REPLAY = {
    "oldest": "i8",
    "next": "i8",
    "newest": "i8",
    "rewind_at": "i8",
    "rewind_to": "i8",
    "due": "i8",
    "timeout": "i8",
    "slots": "i4",
    "base": "i4",
    "ack": "i4",
    "count_most": "i4",
    "resent": "i8",
    "timeouts": "i8",
    "full": "i8",
    "full_at": "i8",
    "held": "i8",
}
REPLAY_FLIT = {
    "arrival": "i8",
    "acked": "i8",
    "entered": "i8",
    "vc": "i4",
    "packet": "i4",
    "flit": "i4",
    "kind": "i4",
}
CREDIT_RETURN = {
    "num": "i8",
    "timeout": "i8",
    "due_at": "i8",
    "wake_at": "i8",
    "listed_at": "i8",
    "flit_at": "i8",
    "flit_arrival": "i8",
    "launched": "i8",
    "opposite": "i4",
    "pointer": "i4",
    "reset": "i4",
    "flit_wrong": "i4",
    "messages": "i8",
    "riding": "i8",
    "destroyed": "i8",
    "busy": "i8",
}
VC_CREDITS = {
    "since": "i8",
    "pending": "i4",
    "lost": "i4",
    "forced": "i4",
    "spare": "i4",
    "returned": "i8",
    "carried": "i8",
    "destroyed": "i8",
    "restored": "i8",
    "empty": "i8",
    "empty_since": "i8",
}
NEVER_COMES = 2**63 - 1  # a cycle
INPUTS = {"occupied": "u8", "heads": "u8", "holding": "u8", "credit": "u8", "early": "4u8"}
BOUNDS = {"base": "i4", "input_vcs": "i4", "out_start": "i4", "in_ports": "i4"}
IN_PORT = {"base": "i4", "credit_delay": "i4", "credit_kind": "i4", "group": "i4", "following": "i4"}
ROUTER = {
    "in_start": "i4",
    "in_end": "i4",
    "out_start": "i4",
    "out_end": "i4",
    "base": "i4",
    "input_vcs": "i4",
    "output_vcs": "i4",
    "word": "i4",
    "words": "i4",
    "port_word": "i4",
    "port_words": "i4",
    "unrouted": "i4",
    "filled": "u8",
    "looked": "i8",
}

VC_WAIT = {
    "cum": "4i8",
    "since": "i8",
    "waited": "i8",
    "coming": "i4",
    "place": "i4",
    "doing": "i1",
    "by": "i1",
    "culprit": "4i1",
    "whom": "i1",
    "based": "i1",
    "base": "4i8",
    "begun": "i8",
    "first": "i8",
    "serial": "i8",
    "sequence": "i4",
    "run": "i4",
}
VC_WAIT_DETAIL = {
    "noted": "i8",
    "waited": "i8",
    "aimed": "i8",
    "fault": "i8",
    "fault_base": "i8",
    "fault_from": "i8",
    "target": "i4",
    "target_before": "i4",
    "whom": "i1",
    "front_by": "i1",
    "queue_by": "i1",
}
LINK_WAIT = {
    "serial": "i8",
    "at": "i8",
    "packet": "i4",
    "won": "i4",
    "riders": "i4",
    "unseen": "i4",
    "by": "i4",
    "delay": "i4",
    "credit_delay": "i4",
    "num": "i8",
    "sound_free": "i8",
    "fault": "i8",
    "fault_at": "i8",
}
LANE_WAIT = {
    "since": "i8",
    "busy_until": "i8",
    "began": "i8",
    "no_vc": "i8",
    "no_credit": "i8",
    "fault": "i8",
    "credit_over": "i8",
    "vc_over": "i8",
    "user": "i4",
    "target": "i4",
    "after": "i1",
    "by": "i1",
    "vc_by": "i1",
    "credit_by": "i1",
    "other_by": "i1",
}
VC_OWNER = {"serial": "i8", "by": "i4"}

# The records of attribution (latency_records.pxd), and initial values other than 0. -1: none; 5: a silent lane.
NEVER = -(2**62)
LATENCY_RECORDS: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
    "vc_book": (
        VC_WAIT,
        dict.fromkeys(("by", "culprit", "whom", "serial", "place"), -1) | {"waited": NEVER},
    ),
    "vc_margin": (
        VC_WAIT_DETAIL,
        dict.fromkeys(("whom", "front_by", "queue_by"), -1)
        | dict.fromkeys(("waited", "noted"), NEVER)
        | {"fault_from": 2**63 - 1},
    ),
    "link_book": (LINK_WAIT, {"serial": -1, "packet": -1, "riders": -1, "unseen": -1, "by": -1}),
    "lane_book": (LANE_WAIT, {"after": 5, "by": -1, "vc_by": -1, "credit_by": -1, "other_by": -1}),
    "owner": (VC_OWNER, {"serial": -1, "by": -1}),
}

# Derived fields (`rebuild_masks` in vc_masks.pyx).
DERIVED = {"out": {"holder"}, "inputs": {"holding", "credit", "early"}, "router": {"filled"}}

# Fields that only count, or are scratch: they do not decide what happens next.
COUNTING = {
    "vc": {"occupancy_max"},
    "out": set(),
    "ranges": {"pick"},
    "inputs": set(),
    "in_port": set(),
    "bounds": set(),
    "link": {
        "pick_vc",
        "pick_port",
        "pick_key",
        "eligible",
        "stalled",
        "stalled_before",
        "queued_since",
        "flits",
        "stall_vc",
        "stall_credit",
        "stall_serial",
        "stall_arbitration",
    },
    "router": {"looked"},
    "replay": {"count_most", "resent", "timeouts", "full", "full_at", "held"},
    "replay_flit": {"entered"},
    "credit_return": {"messages", "riding", "destroyed", "busy"},
    "vc_credits": {"returned", "carried", "destroyed", "restored", "empty", "empty_since"},
    **{kind: set(fields) for kind, (fields, _) in LATENCY_RECORDS.items()},
}

# Counters of every link.
COUNTERS = ("flits", "stall_credit", "stall_vc", "stall_arbitration", "stall_serial")

# Arrays compared byte by byte with a state snapshot. visit_state.pyx visits the other deciding ones one by one.
COMPARED_ARRAYS = (
    "in_pointer",
    "out_pointer",
    "input_turn",
    "sa_grant",
    "sa_accept",
    "va_grant",
    "va_accept",
    "va_wave",
    "sa_wave",
    "open_pointer",
    "class_pointer",
    "open_count",
    "draining",
    "rank",
    "unheld",
    "opened",
    "router_active",
    "lane_active",
    "stalled_ports",
)

# Other arrays that are restored as copied when a jump leads to a known snapshot.
COPIED = ("front_time", "out", "ranges", "router", "inputs")

# Fields that the state visitor of fast-forward skips, by reason: constant (or implied by the message), scratch within a
# cycle, derived from visited fields, position in a visited list (buffer.pxd), or a count that nothing else reads.
NOT_VISITED: dict[str, dict[str, tuple[str, ...]]] = {
    "InputVc": {"fixed": ("mask_bit", "port", "vc_class"), "counts": ("occupancy_max",), "places": ("head", "tail")},
    "OutputVc": {"derived": ("holder",)},
    "Link": {
        "fixed": (
            *("num", "delay", "sink", "words", "group", "range", "depth", "out_port", "out_offset", "outlet"),
            *("credit_delay", "port", "vc_offset"),
        ),
        "derived": ("queue_tail",),
        "scratch": ("pick_key", "pick_vc", "pick_port", "eligible", "stalled_before"),
    },
    "Router": {
        "fixed": (
            *("in_start", "in_end", "out_start", "out_end", "input_vcs", "output_vcs"),
            *("words", "port_word", "port_words"),
        ),
        "derived": ("filled",),
    },
    "VcRange": {"fixed": ("mask", "outlet"), "scratch": ("pick",)},
    "Packet": {"fixed": ("exit", "vnet"), "counts": ("lost",)},
    "Message": {"fixed": ("exit", "tag"), "counts": ("lost",)},
    # "faults": with the first change of a link, or with retry, nothing is skipped any more.
    "LinkWait": {
        "scratch": ("won",),
        "fixed": ("delay", "credit_delay", "num"),
        "faults": ("sound_free", "fault", "fault_at"),
    },
    "VcWaitDetail": {"faults": ("fault", "fault_base", "fault_from")},
    "LaneWait": {"faults": ("fault",)},
    "MessageWait": {"faults": ("fault",)},
    "PacketWait": {"faults": ("fault", "queued_fault", "started", "sound_arrival")},
    "QueuedMessage": {"faults": ("fault_base",)},
}


def check_size(kind: str, compiled: int, described: int) -> None:
    """Raise PyxsimError if a record has another size in the compiled engine, which is then out of date."""
    if compiled != described:
        raise PyxsimError(
            f"the compiled engine and the Python files beside it are of different versions (a record of {kind} has "
            f"{compiled} "
            f"bytes there, {described} here); build the engine again, for instance with pip install -e ."
        )
