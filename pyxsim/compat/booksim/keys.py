"""Every key of BookSim2's configuration files, with its default and its treatment.

Keys that are not in ONLY or UNUSED are used by network.py, router.py or traffic.py of this package. docs/booksim.md
lists the same; a test compares the two.
"""

from __future__ import annotations

# BookSim2's defaults, commit 28f43299. A list may hold one value per class.
DEFAULTS: dict[str, str] = {
    # network
    "topology": "torus", "k": "8", "n": "2", "c": "1", "x": "8", "y": "8", "xr": "1", "yr": "1",
    "routing_function": "none", "use_noc_latency": "1", "network_file": "", "subnets": "1", "channel_file": "",
    "link_failures": "0", "fail_seed": "0", "in_ports": "5", "out_ports": "5",
    # router
    "router": "iq", "num_vcs": "16", "vc_buf_size": "8", "buf_size": "-1", "buffer_policy": "private",
    "private_bufs": "-1", "private_buf_size": "1", "private_buf_start_vc": "-1", "private_buf_end_vc": "-1",
    "max_held_slots": "-1", "feedback_aging_scale": "1", "feedback_offset": "0", "wait_for_tail_credit": "0",
    "vc_busy_when_full": "0", "vc_prioritize_empty": "0", "vc_priority_donation": "0", "vc_shuffle_requests": "0",
    "hold_switch_for_packet": "0", "input_speedup": "1", "output_speedup": "1", "internal_speedup": "1.0",
    "output_buffer_size": "-1", "routing_delay": "1", "vc_alloc_delay": "1", "sw_alloc_delay": "1",
    "st_prepare_delay": "0", "st_final_delay": "1", "output_delay": "0", "credit_delay": "0", "noq": "0",
    "speculative": "0", "spec_check_elig": "1", "spec_check_cred": "1", "spec_mask_by_reqs": "0",
    "spec_sw_allocator": "prio", "vct": "0", "vc_allocator": "islip", "sw_allocator": "islip",
    "arb_type": "round_robin", "alloc_iters": "1", "priority": "none",
    # traffic
    "classes": "1", "traffic": "uniform", "class_priority": "0", "perm_seed": "0", "injection_rate": "0.1",
    "injection_rate_uses_flits": "0", "packet_size": "1", "packet_size_rate": "1", "injection_process": "bernoulli",
    "burst_alpha": "0.5", "burst_beta": "0.5", "burst_r1": "-1.0", "batch_size": "1000", "batch_count": "1",
    "max_outstanding_requests": "0", "use_read_write": "0", "write_fraction": "0.5",
    "read_request_begin_vc": "0", "read_request_end_vc": "5", "write_request_begin_vc": "2",
    "write_request_end_vc": "7", "read_reply_begin_vc": "8", "read_reply_end_vc": "13",
    "write_reply_begin_vc": "10", "write_reply_end_vc": "15",
    "read_request_subnet": "0", "read_reply_subnet": "0", "write_request_subnet": "0", "write_reply_subnet": "0",
    "read_request_size": "1", "write_request_size": "1", "read_reply_size": "1", "write_reply_size": "1",
    # method
    "sim_type": "latency", "warmup_periods": "3", "sample_period": "1000", "max_samples": "10", "measure_stats": "1",
    "latency_thres": "500.0", "warmup_thres": "0.05", "acc_warmup_thres": "0.05", "stopping_thres": "0.05",
    "acc_stopping_thres": "0.05", "sim_count": "1", "include_queuing": "1", "seed": "0",
    # what is printed
    "print_activity": "0", "print_csv_results": "0", "deadlock_warn_timeout": "256", "viewer_trace": "0",
    "pair_stats": "0", "watch_file": "", "watch_flits": "", "watch_packets": "", "watch_transactions": "",
    "watch_out": "", "stats_out": "", "sent_packets_out": "", "injected_flits_out": "", "received_flits_out": "",
    "stored_flits_out": "", "sent_flits_out": "", "outstanding_credits_out": "", "ejected_flits_out": "",
    "active_packets_out": "", "used_credits_out": "", "free_credits_out": "", "max_credits_out": "",
    # of an older version, in some of its example files
    "limit": "0", "physical_subnetworks": "1",
    # power
    "sim_power": "0", "power_output_file": "pwr_tmp", "tech_file": "", "channel_width": "128", "channel_sweep": "0",
}  # fmt: skip

_FILES = "no such file is written here: -o FILE keeps the results, --json prints them"
_WATCH = "one packet is followed with --watch"
_PRINTED = "not printed here"
_POWER = "power is not modeled here"
_CONVERGENCE = (
    "the measurement has a fixed length here, the three samples that BookSim2 takes in practice; "
    "traffic.measure = 'auto' continues until a confidence interval is reached"
)
_POLICY = "only of other buffer policies"

# Keys without effect, and why: a value other than the default gives a note.
UNUSED: dict[str, str] = {
    "channel_file": "BookSim2 never reads it",
    "fail_seed": "link_failures is 0",
    "in_ports": "BookSim2 never reads it",
    "out_ports": "BookSim2 never reads it",
    "output_delay": "BookSim2 never reads it",
    "vct": "of the event router only",
    "alloc_iters": "BookSim2 does not hand it to its allocators; write islip(4)",
    "arb_type": "BookSim2 does not hand it to its allocators; arbiters are round robin",
    "feedback_aging_scale": _POLICY,
    "feedback_offset": _POLICY,
    "vc_shuffle_requests": "it numbers the requests of VC allocation in another order",
    "max_samples": _CONVERGENCE,
    "warmup_thres": "warm-up has a fixed length, or is detected (traffic.warmup = 'auto')",
    "acc_warmup_thres": "warm-up has a fixed length, or is detected (traffic.warmup = 'auto')",
    "stopping_thres": _CONVERGENCE,
    "acc_stopping_thres": _CONVERGENCE,
    "measure_stats": "all classes are measured",
    "print_csv_results": "--json prints results for scripts",
    "print_activity": _PRINTED,
    "viewer_trace": _PRINTED,
    "deadlock_warn_timeout": "a deadlock ends the run and is named, see network.router.watchdog",
    "pair_stats": _PRINTED,
    **dict.fromkeys(("watch_file", "watch_flits", "watch_packets", "watch_transactions", "watch_out"), _WATCH),
    **dict.fromkeys(("stats_out", *(key for key in DEFAULTS if key.endswith(("flits_out", "credits_out")))), _FILES),
    **dict.fromkeys(("sent_packets_out", "active_packets_out"), _FILES),
    **dict.fromkeys(("power_output_file", "tech_file", "channel_sweep"), _POWER),
    **dict.fromkeys(("limit", "physical_subnetworks"), "of an older version; BookSim2 no longer accepts it"),
}  # fmt: skip

# Keys of which only some values are supported, and why the others are refused.
ONLY: dict[str, tuple[tuple[str, ...], str]] = {
    "router": (("iq",), "the event and chaos routers do not work in BookSim2, either"),
    "subnets": (
        ("1",),
        "packets to all networks wait in one queue of their source, so one network at a share of the load shows 7 % "
        "less latency at half of the saturation, 16 to 40 % less near it",
    ),
    "link_failures": (("0",), "failed links end in an assertion in BookSim2; leave them out of a graph instead"),
    "vc_priority_donation": (("0",), "priorities are not handed on"),
    "spec_check_elig": (("1",), "a speculative bid needs a free VC"),
    "spec_check_cred": (("1",), "a speculative bid needs a credit"),
    "spec_mask_by_reqs": (("0",), "speculative bids give way to grants"),
    "spec_sw_allocator": (("prio",), "speculative bids go through the same allocator, behind the others"),
    "include_queuing": (("1",), "packet latency includes the time at the source; network_latency does not"),
    "sim_power": (("0",), _POWER),
    **dict.fromkeys(
        ("read_request_subnet", "read_reply_subnet", "write_request_subnet", "write_reply_subnet"),
        (("0",), "there is one network"),
    ),
}
