"""Reading experiments: what may be wrong with a file, and that everything is told, plainly, in one line each."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyxsim.errors import InputError, InputErrors
from pyxsim.settings import Experiment, load_experiment
from pyxsim.textfile import MAX_FILE
from tests.examples import part_of
from tests.in_turn import in_turn

GOOD: dict[str, Any] = {
    "network": {"topology": "torus", "shape": [4, 4, 4]},
    "collective": {"kind": "all-reduce", "size": "1 MiB"},
}
TEXT = """
[network]
topology = "torus"
shape = [4, 4, 4]
[collective]
kind = "all-reduce"
size = "1 MiB"
"""


def changed(**tables: dict[str, Any]) -> dict[str, Any]:
    """The good experiment with some keys more, or other values (None: without the key)."""
    data = {name: dict(table) for name, table in GOOD.items()}
    for name, table in tables.items():
        data.setdefault(name, {}).update(table)
    return {name: {k: v for k, v in table.items() if v is not None} for name, table in data.items()}


def lines(source: Any, *overrides: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        load_experiment(source, overrides)
    return str(caught.value).splitlines()


def test_a_file_is_read_with_units_and_defaults(tmp_path: Path) -> None:
    path = tmp_path / "exp.toml"
    path.write_text(TEXT)
    experiment = load_experiment(path)
    assert experiment == load_experiment(str(path)) == load_experiment(GOOD)
    assert experiment.network.shape == (4, 4, 4)
    assert experiment.collectives[0][1].size == 2**20
    assert experiment.network.bandwidth == Fraction(10**11)
    assert experiment.network.latency == Fraction(500, 10**9)
    assert experiment.network.clock == 10**9
    assert (experiment.network.flit, experiment.network.packet) == (256, 4096)
    assert (experiment.network.router.vcs, experiment.network.router.buffer) == (4, "auto")
    assert experiment.system.queues is None
    assert experiment.output.seed == 1


def test_a_byte_order_mark_is_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "exp.toml"
    path.write_bytes(b"\xef\xbb\xbf" + TEXT.encode())
    assert load_experiment(path) == load_experiment(GOOD)


def test_an_experiment_is_a_source_too() -> None:
    experiment = load_experiment(GOOD)
    assert load_experiment(experiment) == experiment
    assert load_experiment(experiment, ["system.chunks=4"]).system.chunks == 4
    assert experiment.system.chunks == 1


def test_tables_of_a_dict_may_be_models() -> None:
    experiment = load_experiment(GOOD)
    assert load_experiment({"network": experiment.network, "collective": GOOD["collective"]}) == experiment


def test_the_callers_dict_stays_as_it_was() -> None:
    data = changed()
    load_experiment(data, ["network.shape[0]=2", "network.router.vcs=8"])
    assert data == GOOD


# Files that cannot be read at all


def test_a_missing_file_suggests_its_neighbour(tmp_path: Path) -> None:
    (tmp_path / "torus.toml").write_text(TEXT)
    (tmp_path / "tours.txt").write_text("")
    path = tmp_path / "tours.toml"
    assert lines(path) == [f"{path}: no such file; did you mean 'torus.toml'?"]
    assert lines(tmp_path / "no" / "x.toml") == [f"{tmp_path}/no/x.toml: no such file"]


def test_a_folder_is_no_experiment(tmp_path: Path) -> None:
    assert lines(tmp_path) == [f"{tmp_path}: is a folder; allowed: a TOML file"]


@pytest.mark.parametrize("content", ["", "\n", "# only a comment\n"])
def test_an_empty_file(tmp_path: Path, content: str) -> None:
    path = tmp_path / "exp.toml"
    path.write_text(content)
    tables = "one of [collective], [[message]], [traffic], [workload] and [[job]]"
    told = f"empty file; allowed: an experiment with the table [network] and {tables}"
    assert lines(path) == [f"{path}: {told}"]


def test_binary_junk_is_told_with_the_line(tmp_path: Path) -> None:
    path = tmp_path / "exp.toml"
    path.write_bytes(b"[network]\n# \xff\x00")
    assert lines(path) == [f"{path}:2: is not a text (byte 0xff is not UTF-8)"]


# What exactly is wrong is said in Python's words, which may change; where it is, is ours.
@pytest.mark.parametrize(
    ("content", "line", "place"),
    [
        ("[network]\nshape = [1,\nx = 2\n", 3, "(column 1)"),
        ("[network\n", 1, "(column 9)"),
        ("a = 1\na = 2\n", 2, "(column "),
        ("a = 'x\n\n", 1, "(at the end of the file)"),
        ("a =", 1, "(at the end of the file)"),
        ("\n\na = '''x", 3, "(at the end of the file)"),
        ("a\x00b = 1", 1, "(column 2)"),
    ],
)
def test_a_syntax_error_is_told_with_its_line(tmp_path: Path, content: str, line: int, place: str) -> None:
    path = tmp_path / "exp.toml"
    path.write_text(content)
    (told,) = lines(path)
    assert told.startswith(f"{path}:{line}: not valid TOML: ")
    assert place in told


def test_a_network_or_a_workload_is_not_an_experiment(tmp_path: Path) -> None:
    path = tmp_path / "node.xml"
    path.write_text("<system>")
    (told,) = lines(path)
    assert told.startswith(f"{path}:1: not valid TOML: ")
    assert "allowed: a file .toml, whose [network] file and [workload] file name" in told


def test_a_hostile_file_is_refused_and_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "exp.toml"
    path.write_text("a = " + "[" * 100_000)
    assert lines(path) == [f"{path}: nested too deeply"]
    path.write_text("a = " + "9" * 10_000)
    assert lines(path)[0].startswith(f"{path}: not valid TOML: Exceeds the limit")
    path.write_text("#" * (MAX_FILE + 1))
    assert lines(path) == [f"{path}: is too large for a TOML file; allowed: at most {MAX_FILE} bytes"]


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="needs an endless device")
def test_an_endless_file_comes_to_an_end() -> None:
    assert "too large" in lines("/dev/zero")[0]


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "exp.toml"
    path.write_text(TEXT)

    def refuse(*_: object, **__: object) -> None:  # root may read everything, so chmod would prove nothing
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", refuse)
    assert lines(path) == [f"{path}: may not be read (permission denied)"]


def test_other_troubles_of_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lines("a\0b") == ["a\\x00b: cannot be read: embedded null byte"]
    assert "cannot be read: File name too long" in lines("x" * 5000)[0]


@pytest.mark.parametrize("source", [3, None, [GOOD], b"x"])
def test_other_things_are_no_experiment(source: object) -> None:
    assert "is not an experiment; allowed: the path of a TOML file, or a dict" in lines(source)[0]


# What the tables hold

NUMBER_AS_KEY: Any = 3
WRONG: list[tuple[dict[str, Any], str]] = [
    # unknown keys
    (changed(network={"latncy": "1 ns"}), "network.latncy: unknown key; allowed: topology, dims, "),
    (changed(network={"latncy": "1 ns"}), "did you mean 'latency'?"),
    (
        changed(network={"vcs": 4}),
        "network.vcs: unknown key here; it belongs to [network.router] or [network.credits];",
    ),
    ({**GOOD, "shape": [4]}, "shape: unknown key here; it belongs to [network];"),
    ({**GOOD, "systm": {}}, "systm: unknown key; allowed: network, system, "),
    (changed(network={"vcz": 4}), "; did you mean network.router.vcs or network.credits.vcs?"),
    ({**GOOD, "vcz": 4}, "vcz: unknown key; allowed: network, system, "),
    (
        changed(network={"router": {"pipeline": {"rcc": 1}}}),
        "network.router.pipeline.rcc: unknown key; allowed: bw, rc,",
    ),
    # wrong types
    ({**GOOD, "network": 3}, "network: 3 is not a table; allowed: a table [network] with the keys topology, dims, "),
    ({**GOOD, "collective": [1]}, "collective[0]: 1 is not a table"),
    ({**GOOD, "sweep": {}}, "sweep: the source defines several experiments; allowed: `pyxsim sweep`"),
    ({**GOOD, "variant": 3}, "variant: the source defines several experiments"),
    ({**GOOD, NUMBER_AS_KEY: 4}, "the key 3 is not a string"),
    (
        changed(network={"shape": 4}),
        "network.shape: 4 is not a list; allowed: a list such as [4, 4], each a whole number from 1 to 1048576",
    ),
    (changed(network={"shape": "444"}), "network.shape: '444' is not a list"),
    (changed(network={"shape": []}), "network.shape: the list is empty; allowed: at least one entry"),
    (
        changed(network={"shape": [4, "4"]}),
        "network.shape[1]: '4' is not a whole number; allowed: a whole number from 1 to",
    ),
    (changed(network={"shape": [True]}), "network.shape[0]: true is not a whole number"),
    (changed(network={"shape": [4.0]}), "network.shape[0]: 4.0 is not a whole number"),
    (changed(network={"topology": 3}), "network.topology: 3 is not a name"),
    (changed(network={"topology": " "}), "network.topology: ' ' is not a name"),
    (changed(network={"options": [1]}), "network.options: [1] is not a table; allowed: a table such as { key"),
    (changed(network={"options": {"p": float("nan")}}), "network.options: nan is not a finite number"),
    (changed(network={"options": {"p": {1}}}), "network.options: {1} cannot be a setting"),
    (changed(network={"options": {"p": 2**63}}), "cannot be a setting"),
    (
        changed(network={"router": {"output_queue": 1}}),
        "output_queue: 1 is neither true nor false; allowed: true or false",
    ),
    (changed(system={"chunks": float("inf")}), "system.chunks: inf is not a whole number"),
    (changed(system={"all_reduce": ["ring", "ring", 3]}), "system.all_reduce[2]: 3 is not a name"),
    # units
    (
        changed(network={"bandwidth": 100}),
        "network.bandwidth: 100 has no unit; allowed: a number with a unit such as '100 GB/s'",
    ),
    (changed(network={"bandwidth": "fast"}), "network.bandwidth: 'fast' is not a bandwidth"),
    (changed(network={"bandwidth": "inf GB/s"}), "network.bandwidth: 'inf GB/s' is not a bandwidth"),
    (changed(network={"bandwidth": float("nan")}), "network.bandwidth: nan has no unit"),
    (
        changed(network={"bandwidth": ["1 GB/s", "1 GB", "1 B/s"]}),
        "network.bandwidth[1]: 'GB' in '1 GB' is not a unit of bandwidth",
    ),
    (changed(network={"latency": "500"}), "network.latency: '500' has no unit"),
    (changed(network={"flit": "1 KB"}), "network.flit: the unit 'KB' in '1 KB' is ambiguous"),
    (changed(collective={"size": True}), "collective.size: true is not a size"),
    # zero, negative, absurd
    (
        changed(network={"clock": "0 GHz"}),
        "network.clock: '0 GHz' is zero; allowed: a frequency above zero, such as '1 GHz'",
    ),
    (changed(network={"bandwidth": "0 GB/s"}), "network.bandwidth: '0 GB/s' is zero"),
    (changed(network={"latency": "0 ns"}), "network.latency: '0 ns' is zero"),
    (changed(network={"lane_latency": "0 cycles"}), "network.lane_latency: '0 cycles' is zero"),
    (changed(network={"latency": "-1 ns"}), "network.latency: '-1 ns' is negative"),
    (changed(collective={"size": "0 B"}), "collective.size: '0 B' is zero"),
    (
        changed(collective={"size": "4097 PiB"}),
        "collective.size: '4097 PiB' is too large; allowed: a size of at most 4096 PiB",
    ),
    (changed(network={"shape": [0]}), "network.shape[0]: 0 is too small; allowed: a whole number from 1 to 1048576"),
    (changed(network={"shape": [1024, 1025]}), "network.shape: 1049600 NPUs are too many; allowed: at most 1048576"),
    (
        changed(network={"router": {"vcs": 0}}),
        "network.router.vcs: 0 is too small; allowed: a whole number from 1 to 1024",
    ),
    (changed(network={"router": {"vcs": 10**9}}), "network.router.vcs: 1000000000 is too large"),
    (
        changed(network={"router": {"buffer": 0}}),
        "network.router.buffer: 0 is too small; allowed: 'auto' or a whole number",
    ),
    (changed(network={"router": {"buffer": "autp"}}), "did you mean 'auto'?"),
    (changed(network={"router": {"pipeline": {"sa": 0}}}), "network.router.pipeline.sa: 0 is too small"),
    (
        changed(network={"lanes": "per-lnk"}),
        "network.lanes: unknown value 'per-lnk'; allowed: 'per-link' or 'per",
    ),
    (changed(output={"seed": -1}), "output.seed: -1 is too small"),
    (changed(output={"window": "0 us"}), "output.window: '0 us' is zero"),
    (
        changed(network={"flit": "8 KiB"}),
        "network.packet: the packet is smaller than a flit; allowed: at least one flit",
    ),
    (changed(network={"packet": "255 B"}), "network.packet: the packet is smaller than a flit"),
    (changed(network={"header": "257 B"}), "network.header: the header is larger than the head flit"),
    (
        changed(network={"latency": "1000000 s"}),
        "network.latency: 1000000 s is too many cycles; allowed: at most 1099511627776 cycles of the clock",
    ),
    (
        changed(network={"bandwidth": "1e-30 GB/s"}),
        "network.bandwidth: one flit at 1e-21 B/s takes too many cycles; allowed: at most 1099511627776 cycles of the",
    ),
    # words
    (
        changed(collective={"kind": "all-redduce"}),
        "collective.kind: unknown value 'all-redduce'; allowed: all-red",
    ),
    (changed(collective={"kind": "all_reduce"}), "did you mean 'all-reduce'?"),
    (changed(system={"scheduling": "fifo"}), "allowed: LIFO, FIFO, explicit; did you mean 'FIFO'?"),
    (changed(system={"compat": 1}), "system.compat: unknown value 1; allowed: astra-sim-1"),
    (changed(network={"router": {"pipeline": "garnt"}}), "network.router.pipeline: unknown value 'garnt'"),
    (changed(network={"router": {"pipeline": 3}}), "network.router.pipeline: unknown value 3"),
    (changed(network={"router": {"latency": 2}}), "network.router.latency: 2 has no effect with this pipeline"),
    (changed(system={"all_gather": "direct:0"}), "system.all_gather: invalid number in 'direct:0'"),
    # what is missing, what excludes each other
    (changed(network={"topology": None, "shape": None}), "network.dims: neither 'topology' nor 'dims' is given"),
    (
        changed(network={"shape": None, "dims": [{"block": "ring", "npus": 4}]}),
        "network.dims: cannot be combined with 'topology'",
    ),
    (
        changed(network={"topology": None, "dims": [{"block": "ring", "npus": 4}]}),
        "network.shape: requires 'topology'; cannot be combined with 'dims'",
    ),
    (
        changed(network={"topology": None, "shape": None, "options": {"a": 1}, "dims": [{"block": "ring", "npus": 4}]}),
        "network.options: requires 'topology'; cannot be combined with 'dims'",
    ),
    ({"network": GOOD["network"]}, "the table [collective] is missing; allowed: one of [collective], [[message]], ["),
    ({"collective": GOOD["collective"]}, "network: the table [network] is missing"),
    (changed(collective={"size": None}), "collective.size: is missing; allowed: a size such as '4 KiB'"),
    (changed(network={"dims": [{"npus": 4}]}), "network.dims[0].block: is missing; allowed: a text"),
    (
        changed(network={"dims": [3]}),
        "network.dims[0]: 3 is not a table; allowed: a table [[network.dims]] with the keys block",
    ),
    (
        {"network": GOOD["network"], "traffic": {"classes": {"load": 0.1, "on": True}}},
        "traffic.classes: { load = 0.1, on = true } is not a list; allowed: a table [[traffic.classes]] for each entry",
    ),
    (changed(network={"router": {"\ud800": 1}}), "network.router: the string is not valid Unicode"),
    (changed(network={"dims": {}}), "network.dims: {} is not a list; allowed: a table [[network.dims]] for each entry"),
    # one per dimension
    (
        changed(network={"bandwidth": ["1 GB/s"]}),
        "network.bandwidth: the list has 1 entries, but the network has 3 dimensions",
    ),
    (changed(network={"latency": []}), "network.latency: the list is empty"),
    (
        changed(system={"queues": [1, 2]}),
        "system.queues: the list has 2 entries, but the network has 3 dimensions; allowed: one value",
    ),
    (
        changed(system={"all_to_all": ["ring"] * 4}),
        "system.all_to_all: the list has 4 entries, but the network has 3 dimensions",
    ),
    ({"network": GOOD["network"], "workload": {}}, "workload.file: is missing; allowed: a workload text or traces"),
    ({**GOOD, "workload": {"file": "x.txt"}}, "workload: cannot be combined with [collective]; allowed: one of them"),
    ({"network": GOOD["network"], "workload": {"file": "x", "comm_scale": 0}}, "workload.comm_scale: 0 is not a scale"),
    (
        {"network": GOOD["network"], "workload": {"file": "x", "comm_scale": "y"}},
        "workload.comm_scale: 'y' is not a number",
    ),
]


@in_turn(("data", "told"), WRONG)
def test_each_fault_is_one_plain_line(data: dict[str, Any], told: str) -> None:
    (line,) = lines(data)
    assert told in line


def test_a_short_key_of_another_table_is_no_match() -> None:
    (line,) = lines(changed(network={"foo": 4}))  # faults.for
    assert line.startswith("network.foo: unknown key; allowed: topology, ")
    assert "did you mean" not in line


def test_faults_carry_the_file(tmp_path: Path) -> None:
    path = tmp_path / "exp.toml"
    path.write_text(TEXT + "[network.router]\nvcs = 0\n")
    assert lines(path) == [f"{path}: network.router.vcs: 0 is too small; allowed: a whole number from 1 to 1024"]


def test_all_faults_are_told_at_once() -> None:
    data = {
        "network": {
            "topology": "torus",
            "shape": [4, 0],
            "flit": "8 KiB",
            "bandwidth": ["100 GB", 3],
            "latncy": "1 ns",
            "router": {"vcs": 0, "arbiter": "steps"},
        },
        "system": {"chunks": 1.5},
        "output": {"window": 1},
    }
    with pytest.raises(InputErrors) as caught:
        load_experiment(data, ["network.router.vcz=1", "foo"])
    assert sorted(f"{fault.key}" for fault in caught.value.faults) == [
        "None",
        "collective",
        "network.bandwidth[0]",
        "network.bandwidth[1]",
        "network.latncy",
        "network.packet",
        "network.router.arbiter",
        "network.router.vcs",
        "network.router.vcz",
        "network.shape[1]",
        "output.window",
        "system.chunks",
    ]
    assert caught.value.exit_code == 2


# Whatever a user writes

WORDS = st.text(st.characters(exclude_characters="<"), max_size=8)  # what is in "<" below comes from pydantic then
JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | WORDS
    | st.sampled_from(
        ["1 GB/s", "4 KiB", "1 ns", "0 B", "ring", "auto", "booksim", "1 cycle", b"x", (1,), {1}, 1j, object]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
KEYS = {
    name: sorted(info.annotation.model_fields)
    for name, info in Experiment.model_fields.items()
    if isinstance(info.annotation, type) and hasattr(info.annotation, "model_fields")
}
PLACES = st.sampled_from([(table, key) for table, keys in KEYS.items() for key in keys] + [("sweep",), ("traffic",)])
UGLY = (
    "Input should",
    "Value error",
    "validation error",
    "pydantic",
    "type=",
    "Traceback",
    "<one>",
    "<many>",
    "<word>",
)


@given(st.lists(st.tuples(PLACES, JUNK), min_size=1, max_size=4))
@settings(max_examples=part_of(300))
def test_junk_in_any_place_is_accepted_or_told_plainly(changes: list[tuple[tuple[str, ...], Any]]) -> None:
    data: dict[str, Any] = changed()
    for place, junk in changes:
        if len(place) == 1:
            data[place[0]] = junk
        else:
            data.setdefault(place[0], {})[place[1]] = junk
    try:
        load_experiment(data)
    except InputError as error:
        told = str(error)
        for line in told.split("\n"):
            assert line.isprintable()
            assert not any(word in line for word in UGLY)


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda t: (TEXT + t).encode("utf-8", "surrogatepass")))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_an_experiment_or_told_plainly(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "exp.toml"
    path.write_bytes(content)
    try:
        load_experiment(path)
    except InputError as error:
        assert all(line.startswith(str(path)) for line in str(error).split("\n"))  # noqa: PT017


@pytest.mark.parametrize("table", ["network", "collective"])
def test_keys_of_a_misspelt_table_are_checked_under_its_name(table: str) -> None:
    data = {("x" + key if key == table else key): value for key, value in GOOD.items()}
    (line,) = lines(data)
    assert line.startswith(f"x{table}: unknown key; allowed: network, system, ")
    assert line.endswith(f"did you mean '{table}'?")
