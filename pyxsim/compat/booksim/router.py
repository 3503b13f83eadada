"""The router of a BookSim2 configuration: pipeline, allocators, buffers, credits, as the table [network.router]."""

from __future__ import annotations

from typing import Any

from pyxsim.compat.booksim.config import Config
from pyxsim.compat.booksim.syntax import Named

# Policies with shared slots, and the slots that a VC may use of them.
_SHARED: dict[str, int | str] = {"shared": 0, "limited": 0, "dynamic": "equal", "shifting": "power-of-two"}
_MEASURED = "a VC has as many slots as the round trips of its flits were short, which no router here measures"
# Allocators that ignore priorities in BookSim2, and so do their counterparts here.
_UNRANKED = ("islip", "pim", "loa", "max_size")
_ALLOCATORS = {
    "islip": "islip",
    "separable_input_first": "separable-input-first",
    "separable_output_first": "separable-output-first",
    "wavefront": "wavefront",
    "select": "islip",  # iSLIP with priorities, as in pyxsim
    "rr_wavefront": "rr-wavefront",
    "pim": "pim",
    "loa": "loa",
    "max_size": "max-size",
}
_COUNTED = ("islip", "pim")
_MOST_ITERATIONS = 64
_PRIORITIES = {
    "none": "class",
    "class": "class",
    "age": "age",
    "network_age": "network-age",
    "local_age": "local-age",
    "hop_count": "hops",
    "queue_length": "queue",
    "sequence": "age",
}
_RANKED_BY_PACKET = {
    "network_age": "flits have the rank of their head here, in BookSim2 each that of its own time: 1 % of latency",
    "local_age": "packets are ranked by when they came to the front, in BookSim2 flits by arrival: 1 % of latency",
    "sequence": "packets are ranked by age here, in BookSim2 by their number at their source: below 1 % of latency",
}


def router_table(config: Config) -> dict[str, Any]:
    """Return [network.router] without the routing."""
    vcs = config.count("num_vcs", least=1, most=1024)
    speculative = config.flag("speculative")
    piggyback = config.named("vc_allocator").name == "piggyback"
    ranked = speculative or config.named("priority").name != "none"
    table: dict[str, Any] = {
        "vcs": vcs,
        "vc_reuse": "drained" if config.flag("wait_for_tail_credit") else "tail",
        **({} if piggyback else {"va_allocator": _allocator(config, "vc_allocator", ranked)}),
        "sa_allocator": _allocator(config, "sw_allocator", ranked),
        "input_speedup": config.count("input_speedup", least=1, most=vcs),
        "output_speedup": config.count("output_speedup", least=1, most=1024),
        "internal_speedup": _internal_speedup(config),
        "hold_switch": config.flag("hold_switch_for_packet"),
        "vc_requests": "credit" if config.flag("vc_busy_when_full") and not piggyback else "free",
        "credit_delay": config.count("credit_delay", most=1000),
        **_pipeline(config),
        **_buffers(config, vcs),
    }
    if piggyback:
        _piggyback(config, table, speculative)
    _output_buffer(config, table)
    _priority(config, table)
    _small_differences(config, table)
    return table


def _allocator(config: Config, key: str, ranked: bool) -> str:
    """Return the allocator of a stage. `ranked`: requests have ranks, which some allocators ignore."""
    named = config.named(key)
    if named.name == "piggyback":
        config.fault(key, "the switch assigns no VCs", allowed=list(_ALLOCATORS))
        return "islip:1"
    allocator = config.word(key, _ALLOCATORS)
    if allocator is None:
        return "islip:1"
    if allocator not in _COUNTED:
        return allocator
    word = "islip-unranked" if named.name == "islip" and ranked else allocator
    return f"{word}:{_iterations(config, key, named)}"


def _iterations(config: Config, key: str, named: Named) -> int:
    value = named.arguments[0] if named.arguments else 1
    if not isinstance(value, int) or not 1 <= value <= _MOST_ITERATIONS:
        config.fault(key, f"{named} has no such number of iterations", allowed=f"from 1 to {_MOST_ITERATIONS}")
        return 1
    return value


def _internal_speedup(config: Config) -> int | float:
    speedup = config.number("internal_speedup")
    if not 1 <= speedup <= 16:
        config.fault("internal_speedup", f"{speedup:g} is not in this version", allowed="a number from 1 to 16")
        return 1
    return int(speedup) if float(speedup).is_integer() else speedup


def _piggyback(config: Config, table: dict[str, Any], speculative: bool) -> None:
    """The switch assigns VCs: a head takes its VC when it wins, which is `va = 0` here."""
    if not speculative:
        config.fault("vc_allocator", "piggyback needs speculative = 1, as in BookSim2", allowed="speculative = 1")
    table["pipeline"] = {**table["pipeline"], "va": 0}
    table["speculation"] = False
    table["vc_choice"] = "next"


def _output_buffer(config: Config, table: dict[str, Any]) -> None:
    size = config.count("output_buffer_size", least=-1)
    if size == 0:
        config.fault("output_buffer_size", "no flit could ever leave a router", allowed="-1, or at least 1")
    elif size > 0 and (table["internal_speedup"] > 1 or table["output_speedup"] > 1):
        table["queue_limit"] = size


def _pipeline(config: Config) -> dict[str, Any]:
    rc = config.count("routing_delay", most=1000)
    va = config.count("vc_alloc_delay", least=1, most=1000)
    sa = config.count("sw_alloc_delay", least=1, most=1000)
    st = config.count("st_prepare_delay", most=1000) + config.count("st_final_delay", most=1000)
    for key, cycles, why in (
        ("vc_alloc_delay", va, "ends in an assertion"),
        ("sw_alloc_delay", sa, "ends in an assertion"),
        ("routing_delay", rc, "holds up the next packet"),
    ):
        if cycles > 1:
            config.note(key, f"{cycles} cycles are pipelined here; in BookSim2 a stage of several cycles {why}")
    if st > 1:
        key = "st_final_delay" if config.given("st_final_delay") else "st_prepare_delay"
        config.note(key, f"{st} cycles are pipelined here; in BookSim2 they hold up flits: 7 to 12 % more latency")
    return {
        # With look-ahead the route is known when a head arrives, independent of rc.
        "pipeline": {"bw": 0, "rc": max(rc, 1), "va": va, "sa": sa, "st": st},
        "lookahead": rc == 0,
        "speculation": config.flag("speculative"),
    }


def _buffers(config: Config, vcs: int) -> dict[str, int | str]:
    """Return the slots of each VC, those that the VCs of a link share, and how many one may use."""
    policy = config.text("buffer_policy")
    private = config.count("vc_buf_size", least=1, most=2**20)
    total = config.count("buf_size", least=-1, most=2**24)
    if policy != "private" and policy not in _SHARED:
        problem = f"'{policy}' is not in this version" + (f": {_MEASURED}" if policy.endswith("feedback") else "")
        config.fault("buffer_policy", problem, allowed=["private", *_SHARED], given=policy)
        return {"buffer": private}
    if policy == "private":
        if total <= 0:
            return {"buffer": private}
        if total < vcs:
            config.fault("buf_size", f"{total} slots are too few for {vcs} VCs", allowed=f"at least {vcs}")
        return {"buffer": max(1, total // vcs)}
    total = vcs * private if total < 0 else total
    groups = config.count("private_bufs", least=-1, most=vcs)
    if groups not in (-1, vcs):
        problem = f"{groups} private buffers for {vcs} VCs are not in this version"
        config.fault("private_bufs", problem, allowed=f"-1 or {vcs}: every VC has its own")
    for key in ("private_buf_start_vc", "private_buf_end_vc"):
        if config.text(key) != "-1":
            config.fault(key, "several VCs that share a private buffer are not in this version", allowed="-1")
    each = config.counts("private_buf_size", vcs, least=-1)
    if len(set(each)) > 1:
        config.fault("private_buf_size", "VCs of different sizes are not in this version", allowed="one size for all")
    private = total // vcs if each[0] < 0 else each[0]
    if private * vcs > total:
        config.fault("private_buf_size", f"{vcs} times {private} slots are more than buf_size = {total}")
    if private < 1:
        config.fault("private_buf_size", "a VC has one slot of its own at least", allowed="from 1")
    slots: dict[str, int | str] = {"buffer": max(1, private), "shared_buffer": max(0, total - private * vcs)}
    limit = _SHARED[policy]
    if policy == "limited":
        most = config.count("max_held_slots", least=-1, most=2**20)
        if most == 0:
            config.fault("max_held_slots", "no VC could hold a flit", allowed="-1, or at least 1")
        limit = 0 if most >= total else max(0, most)
    elif config.given("max_held_slots"):
        config.note("max_held_slots", "changes nothing: only of buffer_policy = limited")
    return {**slots, "shared_limit": limit} if limit and slots["shared_buffer"] else slots


def _priority(config: Config, table: dict[str, Any]) -> None:
    """Set what ranks packets; priorities of classes are in [traffic]."""
    kind = config.named("priority").name
    if kind not in _PRIORITIES:
        config.fault("priority", f"'{kind}' is not in this version", allowed=list(_PRIORITIES), given=kind)
        return
    table["priority"] = _PRIORITIES[kind]
    blind = [key for key in ("vc_allocator", "sw_allocator") if config.named(key).name in _UNRANKED]
    if kind in _RANKED_BY_PACKET and len(blind) < 2:
        config.note("priority", _RANKED_BY_PACKET[kind])


def _small_differences(config: Config, table: dict[str, Any]) -> None:
    """Note keys with a partial effect, or an effect in some configurations only."""
    if config.flag("vc_prioritize_empty"):
        blind = config.named("vc_allocator").name in _UNRANKED
        why = "the vc_allocator ignores it in BookSim2, too" if blind else "VCs of a range go in turn"
        config.note("vc_prioritize_empty", f"changes nothing here: {why}")
    if config.named("sw_allocator").name == "max_size":
        config.note("sw_allocator", "its matching is another one of equal size: up to 4 % of latency near saturation")
    if table["input_speedup"] > 1 and table["vcs"] % table["input_speedup"]:
        config.note("input_speedup", f"its connections do not share {table['vcs']} VCs evenly")
