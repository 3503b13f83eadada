"""BookSim2's configuration files: every key is honoured, remarked upon or refused; what comes out is an experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyxsim.compat.booksim.keys import DEFAULTS, ONLY, UNUSED
from pyxsim.compat.booksim.syntax import Named, parse_value, read_entries
from pyxsim.compat.booksim.translation import booksim_experiment, translate
from pyxsim.errors import InputError, InputErrors
from pyxsim.runner.lifecycle import run
from pyxsim.settings import load_experiment
from tests.in_turn import in_turn

# What BookSim2 (commit 28f43299) draws for 16 nodes with perm_seed 5.
RANDPERM_5 = [1, 7, 2, 0, 6, 8, 3, 4, 15, 11, 12, 9, 5, 14, 10, 13]
TORUS = {"topology": "torus", "k": 4, "n": 2, "routing_function": "dim_order", "num_vcs": 4, "injection_rate": 0.1}


def table(name: str, **more: Any) -> dict[str, Any]:
    """One table of the experiment for a small torus with other keys."""
    found: dict[str, Any] = translate({**TORUS, **more}).tables
    return found[name]


def fault(**more: Any) -> str:
    with pytest.raises(InputError) as caught:
        translate({**TORUS, **more})
    return str(caught.value)


# --- syntax ---


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8", 8),
        ("-1", -1),
        (".5", 0.5),
        ("1e-3", 0.001),
        ("uniform", Named("uniform")),
        ("{1, 5}", (1, 5)),
        ("{{1,5},{2}}", ((1, 5), (2,))),
        ("{}", ()),
        ("islip(4)", Named("islip", (4,))),
        ("hotspot({{0,9},{1,2}})", Named("hotspot", ((0, 9), (1, 2)))),
        ("on_off(0.1,0.2)", Named("on_off", (0.1, 0.2), braced=False)),
        ("../net-1.txt", Named("../net-1.txt")),
    ],
)
def test_values(text: str, value: object) -> None:
    assert parse_value(text) == value


@pytest.mark.parametrize("text", ["", "{1,", "a(", "1 2", "{1}}", "f(1;)", "{" * 40 + "}" * 40, "9" * 99, "1e999"])
def test_what_is_no_value(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        parse_value(text)


def test_files() -> None:
    entries = read_entries("// a remark; k = 3;\nk = 8; n=2;\n\n traffic\n = tornado ; k = 4; // again\n", "net.cfg")
    assert {key: (entry.text, entry.place) for key, entry in entries.items()} == {
        "k": ("4", "net.cfg:5"),
        "n": ("2", "net.cfg:2"),
        "traffic": ("tornado", "net.cfg:4"),
    }


@pytest.mark.parametrize("text", ["k = 8", "k;", "= 8;", "k = ;", "8 = k;"])
def test_what_is_no_assignment(text: str) -> None:
    with pytest.raises(InputError, match=r"net\.cfg:2"):
        read_entries(f"n = 2;\n{text}", "net.cfg")


# --- keys ---


def test_an_unknown_key_is_refused_with_the_closest_match() -> None:
    assert fault(num_vc=4) == "num_vc: unknown key; allowed: a key of BookSim2; did you mean 'num_vcs'?"


def test_every_fault_is_told() -> None:
    with pytest.raises(InputErrors) as caught:
        translate({**TORUS, "num_vcs": "x", "traffic": "unifrom", "noq": 1, "typo": 1})
    assert [each.key for each in caught.value.faults] == ["typo", "noq", "num_vcs", "traffic"]


def test_every_key_stands_in_the_page(tree: Path) -> None:
    page = (tree / "docs" / "booksim.md").read_text(encoding="utf-8")
    assert [key for key in DEFAULTS if f"`{key}`" not in page] == []


@pytest.mark.parametrize("key", sorted(ONLY))
def test_what_is_not_there_is_refused_with_a_reason(key: str) -> None:
    words, why = ONLY[key]
    assert why in fault(**{key: "7"})
    translate({**TORUS, key: words[0]})


@in_turn("key", sorted(UNUSED))
def test_what_changes_nothing_is_told(key: str) -> None:
    assert not translate({**TORUS, key: DEFAULTS[key]} if DEFAULTS[key] else TORUS).notes
    (note,) = translate({**TORUS, key: "3"}).notes
    assert note.startswith(f"{key}: changes nothing: ")


def test_the_defaults_are_booksims() -> None:
    """A torus of 8x8 with 16 VCs of 8 flits, single flits with probability 0.1, three periods of 1000 cycles each."""
    tables = translate({"routing_function": "dim_order"}).tables
    assert tables["network"]["shape"] == [8, 8]
    router = tables["network"]["router"]
    assert (router["vcs"], router["buffer"], router["va_allocator"], router["sa_allocator"]) == (
        16,
        8,
        "islip:1",
        "islip:1",
    )
    traffic = tables["traffic"]
    assert (traffic["load"], traffic["packet_flits"], traffic["warmup"], traffic["measure"]) == (0.1, 1, 3000, 3000)
    assert "routing_function" in fault(routing_function="none")


# --- network ---


@pytest.mark.parametrize(
    ("config", "npus", "routing"),
    [
        ({"topology": "torus", "k": 3, "n": 3, "routing_function": "dim_order_bal"}, 27, "dimension-order-balanced"),
        ({"topology": "mesh", "k": 4, "routing_function": "adaptive_xy_yx"}, 16, "adaptive-xy-yx"),
        ({"topology": "mesh", "k": 4, "routing_function": "min_adapt"}, 16, "minimal-adaptive"),
        ({"topology": "mesh", "k": 4, "routing_function": "romm"}, 16, "romm"),
        ({"topology": "mesh", "k": 4, "routing_function": "valiant"}, 16, "valiant"),
        (
            {"topology": "cmesh", "k": 4, "c": 4, "x": 4, "y": 4, "xr": 2, "yr": 2, "routing_function": "dor"},
            64,
            "dimension-order",
        ),
        (
            {"topology": "flatfly", "k": 4, "c": 4, "x": 4, "y": 4, "xr": 2, "yr": 2, "routing_function": "ran_min"},
            64,
            "dimension-order",
        ),
        (
            {"topology": "flatfly", "k": 4, "c": 4, "x": 4, "y": 4, "xr": 2, "yr": 2, "routing_function": "ugal"},
            64,
            "ugal",
        ),
        ({"topology": "fattree", "k": 4, "n": 2, "routing_function": "nca"}, 16, "nearest-common-ancestor"),
        ({"topology": "qtree", "k": 4, "n": 3, "routing_function": "nca"}, 64, "nearest-common-ancestor"),
        ({"topology": "dragonflynew", "k": 2, "n": 1, "routing_function": "min"}, 72, "minimal"),
    ],
    ids=lambda value: f"{value['topology']}-{value['routing_function']}" if isinstance(value, dict) else None,
)
def test_topologies_run(config: dict[str, Any], npus: int, routing: str) -> None:
    found = translate({**config, "n": config.get("n", 2), "injection_rate": 0.02, "sample_period": 100})
    assert found.tables["network"]["router"]["routing"] == routing
    result = run(found.tables, allow_deadlock=True)
    assert result.json()["npus"] == npus
    assert not result.json()["saturated"]


def test_latencies_of_links() -> None:
    assert table("network")["latency"] == "2 cycles"
    assert table("network", use_noc_latency=0)["latency"] == "1 cycle"
    assert table("network", topology="mesh", routing_function="dor")["latency"] == "1 cycle"
    dragonfly = table("network", topology="dragonflynew", n=1, routing_function="min")
    assert dragonfly["latency"] == ["10 cycles", "100 cycles"]


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"topology": "tree4", "routing_function": "nca", "k": 2}, "has 64 nodes"),
        ({"topology": "mesh", "routing_function": "dim_order_ni"}, "as many VCs as nodes"),
        ({"topology": "toru"}, "did you mean 'torus'?"),
        ({"routing_function": "valiant_ni"}, "did you mean 'valiant'?"),
        ({"routing_function": "planar_adapt"}, "'planar_adapt' is not in this version for 'torus'"),
        ({"topology": "cmesh", "routing_function": "dor"}, "2x2 nodes"),
        ({"topology": "flatfly", "routing_function": "ran_min", "c": 3}, "do not form a square"),
        ({"topology": "dragonflynew", "routing_function": "min"}, "has one dimension"),
        ({"topology": "anynet", "routing_function": "min"}, "network_file: is missing"),
        ({"k": 100, "n": 4}, "are too many"),
    ],
)
def test_networks_that_are_refused(config: dict[str, Any], text: str) -> None:
    assert text in fault(**config)


ANYNET = """
router 0 node 0 node 1 router 1 10
router 1 node 2 router 2
router 2 node 3
"""


def test_anynet(tmp_path: Path) -> None:
    """Links have the latency behind them, 1 in the other direction unless the other line says more."""
    file = tmp_path / "net.txt"
    file.write_text(ANYNET, encoding="utf-8")
    config = {"topology": "anynet", "routing_function": "min", "network_file": str(file), "injection_rate": 0.02}
    found = translate({**config, "sample_period": 500})
    result = run(found.tables, allow_deadlock=True)
    assert result.json()["npus"] == 4
    assert sorted(result.links.latency.tolist()) == [1, 1, 1, 10]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("router 0 nod 1", "not an end of a link"),
        ("router 0 node x", "not a number"),
        ("node 0 node 1", "cannot be joined"),
        ("router 0 node 0\nrouter 1 node 0", "two routers"),
        ("router 0 node 1", "not numbered from 0"),
        ("router 0 router 1", "no nodes"),
    ],
)
def test_faulty_anynets(text: str, fault: str, tmp_path: Path) -> None:
    file = tmp_path / "net.txt"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=fault):
        translate({"topology": "anynet", "routing_function": "min", "network_file": str(file)})


# --- router ---


def test_pipelines() -> None:
    assert table("network")["router"]["pipeline"] == {"bw": 0, "rc": 1, "va": 1, "sa": 1, "st": 1}
    ahead = table("network", routing_delay=0, speculative=1, st_prepare_delay=1)["router"]
    assert (ahead["lookahead"], ahead["speculation"], ahead["pipeline"]["st"]) == (True, True, 2)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("islip", "islip:1"),
        ("islip(4)", "islip:4"),
        ("select(2)", "islip:2"),
        ("separable_input_first", "separable-input-first"),
        ("separable_output_first(matrix)", "separable-output-first"),
        ("wavefront", "wavefront"),
        ("rr_wavefront", "rr-wavefront"),
        ("pim", "pim:1"),
        ("pim(3)", "pim:3"),
        ("loa", "loa"),
        ("max_size", "max-size"),
    ],
)
def test_allocators(theirs: str, ours: str) -> None:
    router = table("network", vc_allocator=theirs, sw_allocator=theirs)["router"]
    assert (router["va_allocator"], router["sa_allocator"]) == (ours, ours)


def test_buffers() -> None:
    assert table("network", vc_buf_size=5)["router"]["buffer"] == 5
    assert table("network", buf_size=35)["router"]["buffer"] == 8
    shared = table("network", buffer_policy="shared", buf_size=40, private_buf_size=3)["router"]
    assert (shared["buffer"], shared["shared_buffer"]) == (3, 28)
    more = {"buf_size": 40, "private_buf_size": 3, "num_vcs": 4}
    for policy, limit in (("dynamic", "equal"), ("shifting", "power-of-two")):
        assert table("network", buffer_policy=policy, **more)["router"]["shared_limit"] == limit
    limited = {"buffer_policy": "limited", **more}
    assert table("network", **limited, max_held_slots=7)["router"]["shared_limit"] == 7
    assert "shared_limit" not in table("network", **limited)["router"]
    assert "no VC could hold" in fault(**limited, max_held_slots=0)
    assert "round trips" in fault(buffer_policy="feedback")
    assert "more than buf_size" in fault(buffer_policy="shared", buf_size=4, private_buf_size=3)
    assert "did you mean 'shared'?" in fault(buffer_policy="share")


def test_what_else_the_router_has() -> None:
    more = {"wait_for_tail_credit": 1, "input_speedup": 2, "internal_speedup": "2.0", "credit_delay": 3}
    router = table("network", **more)["router"]
    assert (router["vc_reuse"], router["input_speedup"]) == ("drained", 2)
    assert (router["internal_speedup"], router["credit_delay"]) == (2, 3)
    assert table("network", internal_speedup="1.7")["router"]["internal_speedup"] == 1.7
    assert "from 1 to 16" in fault(internal_speedup=0.5)
    more = {"hold_switch_for_packet": 1, "vc_busy_when_full": 1, "output_speedup": 2, "output_buffer_size": 3}
    router = table("network", **more)["router"]
    assert (router["hold_switch"], router["vc_requests"]) == (True, "credit")
    assert (router["output_speedup"], router["queue_limit"]) == (2, 3)
    assert "queue_limit" not in table("network", output_buffer_size=3)["router"]  # it never fills
    assert "no flit could ever leave" in fault(output_buffer_size=0)


def test_an_odd_vc_belongs_to_both_halves() -> None:
    assert "vc_classes" not in table("network")["router"]
    assert table("network", num_vcs=3)["router"]["vc_classes"] == "shared"


def test_the_switch_assigns_vcs() -> None:
    found = translate({**TORUS, "vc_allocator": "piggyback", "speculative": 1})
    router = found.tables["network"]["router"]
    assert (router["pipeline"]["va"], router["speculation"], "va_allocator" in router) == (0, False, False)
    assert router["vc_choice"] == "next"
    assert not found.notes
    assert "needs speculative" in fault(vc_allocator="piggyback")


def test_where_adaptive_routings_differ_is_noted() -> None:
    mesh = {"topology": "mesh", "routing_function": "adaptive_xy_yx"}
    assert not translate({**TORUS, **mesh}).notes
    assert "5 % of latency" in translate({**TORUS, **mesh, "routing_delay": 0}).notes[0]
    torus = {**TORUS, "routing_function": "min_adapt", "speculative": 1}
    assert "7 % more latency" in translate(torus).notes[0]
    assert not translate({**torus, "k": 5}).notes  # without ties both lead by the same link


def test_priorities() -> None:
    aged = {"priority": "age", "vc_allocator": "wavefront", "sw_allocator": "wavefront"}
    router = table("network", **aged)["router"]
    assert (router["priority"], router["va_allocator"]) == ("age", "wavefront")
    # BookSim2's iSLIP ignores priorities.
    assert table("network", priority="age")["router"]["va_allocator"] == "islip-unranked:1"
    named = {"hop_count": "hops", "queue_length": "queue", "local_age": "local-age", "network_age": "network-age"}
    assert {key: table("network", priority=key)["router"]["priority"] for key in named} == named
    assert "'oldest' is not in this version" in fault(priority="oldest")


# --- traffic ---


def test_loads_are_flits_here() -> None:
    assert table("traffic", packet_size=5)["load"] == 0.5
    assert table("traffic", packet_size=5, injection_rate_uses_flits=1)["load"] == 0.1
    assert "2 packets per node and cycle" in fault(injection_rate=2)


def test_mixes() -> None:
    mix = table("traffic", packet_size="{{1,5}}", packet_size_rate="{{3,1}}")
    assert (mix["packet_flits"], mix["packet_weights"], mix["load"]) == ([1, 5], [3.0, 1.0], 0.2)
    found = translate({**TORUS, "packet_size": "{1,5}"})
    assert found.tables["traffic"]["packet_flits"] == 1  # as BookSim2 takes it: a size for each class
    assert "a mix of sizes is {{1,5}}" in found.notes[0]


def test_classes() -> None:
    more = {"classes": 2, "traffic": "{uniform,tornado}", "injection_rate": "{0.1,0.2}", "packet_size": "{1,4}"}
    one, two = table("traffic", **more, priority="class", class_priority="{0,3}")["classes"]
    assert (one["pattern"], one["load"], one["packet_flits"], one["priority"]) == ("uniform", 0.1, 1, 0)
    assert (two["pattern"], two["load"], two["packet_flits"], two["priority"]) == ("tornado", 0.8, 4, 3)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("bitcomp", {"pattern": "bit-complement"}),
        ("tornado", {"pattern": "tornado"}),
        ("neighbor(4,2,1)", {"pattern": "neighbor"}),
        ("hotspot({{0,9},{1,2}})", {"pattern": "hotspot", "pattern_options": {"nodes": [0, 9], "rates": [1, 2]}}),
        ("hotspot({{3,3}})", {"pattern": "hotspot", "pattern_options": {"nodes": [3], "rates": [2]}}),
        (
            "background({{0,1}})",
            {"pattern": "hotspot", "pattern_options": {"nodes": list(range(2, 16)), "rates": [1] * 14}},
        ),
        ("randperm(5)", {"pattern": "permutation", "pattern_options": {"destinations": RANDPERM_5}}),
    ],
)
def test_patterns(theirs: str, ours: dict[str, Any]) -> None:
    found = table("traffic", traffic=theirs)
    assert {key: found[key] for key in ours} == ours
    load_experiment(translate({**TORUS, "traffic": theirs}).tables)


@pytest.mark.parametrize("theirs", ["unifrom", "tornado(8,2,1)", "hotspot", "hotspot({{99}})", "7"])
def test_patterns_that_are_refused(theirs: str) -> None:
    assert fault(traffic=theirs).startswith("traffic: ")


def test_bursts() -> None:
    assert table("traffic", injection_process="on_off({0.1,0.3})")["injection"] == {
        "process": "on-off",
        "alpha": 0.1,
        "beta": 0.3,
    }
    found = translate({**TORUS, "injection_process": "on_off(0.1,0.3)"})
    assert found.tables["traffic"]["injection"]["beta"] == 0.5  # that of burst_beta, as in BookSim2
    assert "only the first argument" in found.notes[0]
    assert "two of alpha, beta and r1" in fault(injection_process="on_off", burst_r1=0.5)
    assert "too little" in fault(injection_process="on_off({0.01,0.9})")


def test_requests_and_replies() -> None:
    sizes = {"read_request_size": 1, "read_reply_size": 5, "write_request_size": 5, "write_reply_size": 1}
    found = translate({**TORUS, "num_vcs": 16, "use_read_write": 1, **sizes, "injection_rate_uses_flits": 1})
    replies = found.tables["traffic"]["replies"]
    assert {f"{key}_size": replies[key] for key in ("read_request", "read_reply")} == {
        "read_request_size": 1,
        "read_reply_size": 5,
    }
    assert found.tables["traffic"]["load"] == 0.1
    assert found.tables["network"]["router"]["virtual_networks"] == [8, 8]
    assert "there is no VC 13" in fault(num_vcs=8, use_read_write=1)
    assert "share VCs" in fault(num_vcs=16, use_read_write=1, read_reply_begin_vc=7)


def test_methods() -> None:
    assert table("traffic", warmup_periods=0)["warmup"] == "auto"
    assert table("traffic", sample_period=500, warmup_periods=2)["measure"] == 1500
    assert table("traffic", latency_thres=99.5)["latency_limit"] == 100
    assert table("traffic", sim_type="throughput")["latency_limit"] > 10**9
    batch = table("traffic", sim_type="batch", batch_size=10, batch_count=3, max_outstanding_requests=2)
    assert batch["batch"] == {"size": 10, "count": 3, "outstanding": 2}
    assert "did you mean 'batch'?" in fault(sim_type="bach")


# --- all of it ---


def test_a_file_with_assignments_and_overrides(tmp_path: Path) -> None:
    file = tmp_path / "net.cfg"
    file.write_text("topology = mesh; k = 4; n = 2;\nrouting_function = dor; // in order\n", encoding="utf-8")
    words, overrides = ["injection_rate=0.2", "num_vcs=2"], ["traffic.load=0.3"]
    experiment, notes = booksim_experiment(file, words, overrides)
    assert experiment.network.router.vcs == 2
    assert experiment.traffic is not None
    assert experiment.traffic.load == 0.3
    assert not notes


def test_a_file_that_says_nothing_is_named(tmp_path: Path) -> None:
    """And one that leaves out what there is no default for."""
    file = tmp_path / "net.cfg"
    for text in ("", "// nothing\n"):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match=r"net\.cfg: has no assignments; allowed: "):
            booksim_experiment(file)
    with pytest.raises(InputError, match=r"^stdin: has no assignments"):
        booksim_experiment("-", text="")
    with pytest.raises(InputError, match=r"net\.cfg: routing_function: is missing"):
        booksim_experiment(file, ["topology=torus"])
    # What the command line says is not the fault of the file.
    with pytest.raises(InputError, match=r"^num_vcs: 0 is none"):
        booksim_experiment(file, ["topology=torus", "routing_function=dim_order", "num_vcs=0"])


def test_zero_load_latency_is_booksims() -> None:
    """7 + 6 * links + (flits - 1) on a torus with the defaults, at a load that is next to none."""
    told = run(translate({**TORUS, "packet_size": 5, "injection_rate": 0.0002, "sample_period": 20000}).tables).json()
    assert told["packet_latency"] == pytest.approx(7 + 6 * (told["hops"] - 1) + 4, abs=0.1)


# --- against BookSim2, commit 28f43299: mean packet latencies, measured on 2026-11-22, one run each ---

MESH = {"topology": "mesh", "k": 5, "n": 2, "routing_function": "dor", "num_vcs": 4, "packet_size": 3}
PIGGYBACK = {**MESH, "vc_allocator": "piggyback", "speculative": 1}
SHARED = {**MESH, "packet_size": 5, "buf_size": 16, "private_buf_size": 1}
FIRST = {"vc_allocator": "separable_input_first", "sw_allocator": "separable_input_first"}
MEASURED: list[tuple[dict[str, Any], float, float]] = [  # keys, injection rate in packets, latency in cycles
    (
        {
            **MESH,
            "topology": "torus",
            "k": 4,
            "routing_function": "dim_order",
            "num_vcs": 3,
            "packet_size": 5,
            "injection_rate_uses_flits": 1,
        },
        0.5869,
        33.35,
    ),
    (
        {
            **MESH,
            "topology": "torus",
            "k": 4,
            "routing_function": "dim_order_bal",
            "num_vcs": 3,
            "packet_size": 1,
            "injection_rate_uses_flits": 1,
        },
        0.6352,
        22.04,
    ),
    (
        {**MESH, "routing_function": "xy_yx", "num_vcs": 3, "packet_size": 5, "injection_rate_uses_flits": 1},
        0.418,
        38.83,
    ),
    ({**MESH, "packet_size": 5, "injection_rate_uses_flits": 1, "hold_switch_for_packet": 1}, 0.4904, 40.24),
    ({**MESH, "packet_size": 1, "vc_allocator": "loa", "sw_allocator": "loa"}, 0.4663, 37.38),
    ({**MESH, "packet_size": 1, "vc_allocator": "max_size", "sw_allocator": "max_size"}, 0.4904, 42.4),
    ({**MESH, **FIRST, "priority": "age"}, 0.1526, 35.08),
    ({**MESH, **FIRST, "priority": "hop_count"}, 0.1285, 32.1),
    ({**MESH, **FIRST, "priority": "queue_length"}, 0.1526, 32.71),
    ({**MESH, "output_speedup": 2, "input_speedup": 2, "output_buffer_size": 2}, 0.1767, 32.13),
    ({**MESH, "internal_speedup": "1.7"}, 0.2009, 28.03),
    ({**MESH, "internal_speedup": "2.0", "output_buffer_size": 2}, 0.1767, 23.49),
    ({**PIGGYBACK, "packet_size": 5}, 0.08, 30.62),
    ({**PIGGYBACK, "packet_size": 1}, 0.5, 21.43),  # 38.99 with the lowest free VC
    ({**SHARED, "buffer_policy": "limited", "max_held_slots": 3}, 0.076, 42.99),  # 34.86 without the limit
    ({**SHARED, "buffer_policy": "dynamic"}, 0.076, 34.55),
    ({**SHARED, "buffer_policy": "shifting"}, 0.076, 34.6),
    ({**MESH, "vc_buf_size": 3, "vc_busy_when_full": 1}, 0.1285, 29.37),
    ({"topology": "fly", "k": 4, "n": 2, "routing_function": "dest_tag", "num_vcs": 4, "packet_size": 3}, 0.1526, 20.2),
    (
        {"topology": "fly", "k": 2, "n": 4, "routing_function": "dest_tag", "num_vcs": 4, "packet_size": 3},
        0.1767,
        32.91,
    ),
    ({"topology": "tree4", "k": 4, "n": 3, "routing_function": "nca", "num_vcs": 4, "packet_size": 3}, 0.0802, 31.94),
    (
        {"topology": "mesh", "k": 5, "n": 2, "routing_function": "planar_adapt", "num_vcs": 6, "packet_size": 3},
        0.1285,
        30.33,
    ),
    # BookSim2 keeps the first of equal outputs only: one dimension, one link up.
    (
        {"topology": "mesh", "k": 5, "n": 2, "routing_function": "planar_adapt", "num_vcs": 3, "packet_size": 5},
        0.045,
        33.1,
    ),
    ({"topology": "tree4", "k": 4, "n": 3, "routing_function": "anca", "num_vcs": 4, "packet_size": 5}, 0.008, 30.66),
    (
        {
            "topology": "mesh",
            "k": 8,
            "n": 2,
            "routing_function": "dor",
            "num_vcs": 4,
            "packet_size": 1,
            "traffic": "taper64",
        },
        0.4422,
        31.1,
    ),
    (
        {
            "topology": "flatfly",
            "k": 4,
            "n": 2,
            "c": 4,
            "x": 4,
            "y": 4,
            "xr": 2,
            "yr": 2,
            "routing_function": "valiant",
            "num_vcs": 4,
            "packet_size": 5,
            "injection_rate_uses_flits": 1,
        },
        0.2491,
        43.86,
    ),
    (
        {
            "topology": "dragonflynew",
            "k": 2,
            "n": 1,
            "routing_function": "min",
            "num_vcs": 3,
            "packet_size": 3,
            "vc_buf_size": 64,
        },
        0.0802,
        128.42,
    ),
]


@pytest.mark.parametrize(("keys", "rate", "latency"), MEASURED, ids=lambda value: str(value)[:60])
def test_latencies_of_booksim2(keys: dict[str, Any], rate: float, latency: float) -> None:
    """At 78 % of saturation, one run of 7500 cycles: within 4 %."""
    found = translate({**keys, "injection_rate": rate, "sample_period": 2500})
    result = run(found.tables, allow_deadlock=True)
    assert result.json()["packet_latency"] == pytest.approx(latency, rel=0.04)
