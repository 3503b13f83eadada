"""The configuration of ASTRA-sim's ns-3 front end (HPCC's `config.txt`) as a table [network].

Lines `KEY value`. Every key has an effect, or is refused with a reason, or is one that ns-3 reads and never uses
(docs/from_ns3.md). Defaults are those of ns-3.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from pyxsim.compat.astra.files.json_file import Json
from pyxsim.errors import InputError
from pyxsim.file_entries import Entries, PathLike, shown
from pyxsim.textfile import read_text
from pyxsim.topology.ns3_text import Ns3Topology, read_ns3
from pyxsim.units import format_bandwidth, parse_bandwidth

_KEY = re.compile(r"[A-Z][A-Z0-9_]*", re.ASCII)
_NUMBER = re.compile(r"\d{1,30}(\.\d{0,30})?([eE][+-]?\d{1,2})?", re.ASCII)
_MAPS = ("KMIN_MAP", "KMAX_MAP", "PMAX_MAP")
_UNUSED = (  # ns-3 reads these and never uses them
    *("USE_DYNAMIC_PFC_THRESHOLD", "PAUSE_TIME", "SIMULATOR_STOP_TIME", "L2_CHUNK_SIZE"),
    *("QLEN_MON_END", "TRACE_FILE", "TRACE_OUTPUT_FILE"),  # the traces with ENABLE_TRACE only
)
TRANSPORTS = {"1": "dcqcn", "3": "hpcc", "7": "timely", "8": "dctcp", "10": "hpcc-pint", "12": "none"}
_RESERVE = 4096  # bytes of each input port
_TIMEOUT = "1 ms"
_DOWN_AFTER = 2_000_000  # us: the time of LINK_DOWN is counted from here
_SHIFT = 3  # binary logarithm of 1 / alpha, less 1 for each halving of the rate of a port down to that of the NICs


class Ns3Config(NamedTuple):
    """What a configuration says: the table [network], the number of dimensions, and the files of results and flows."""

    tables: dict[str, Any]
    dims: int
    hosts: list[int]
    topology: Path
    warnings: list[str]
    fct: str | None
    pfc: str | None
    queues: str | None
    queues_from: int
    flows: str | None


class Ns3Text(Entries):
    """A file of lines `KEY value`; some values have several words. Raises InputError if it is not."""

    def __init__(self, path: PathLike) -> None:
        super().__init__(path)
        lines = [line.partition("#")[0].split() for line in read_text(path).splitlines()]
        for number, words in enumerate(lines, 1):
            if not words:
                continue
            if len(words) < 2 or not _KEY.fullmatch(words[0]):
                self.broken(f"'{shown(' '.join(words))}' is not 'KEY value'", number, "lines such as 'CC_MODE 3'")
            self.add(words[0], words[1] if len(words) == 2 else words[1:], number)
        if not self.entries:
            self.broken("is empty", None, "lines such as 'CC_MODE 3'")

    def number_of(self, value: Any) -> Fraction | None:
        """Return a decimal number exactly, or None."""
        return Fraction(value) if isinstance(value, str) and _NUMBER.fullmatch(value) else super().number_of(value)

    def quantity(self, key: str, parse: Callable[[object], Any], default: str | None, example: str) -> str:
        """Return a text with a unit."""
        value = self.raw(key, default, example)
        try:
            parse(value)
        except InputError as error:
            if value is not None:
                self.fault(key, error.problem, example)
            return example
        return str(value)

    def by_rate(self, key: str) -> dict[Fraction, Fraction]:
        """Return a map `count rate value rate value ...`; rates in bytes per second."""
        words = self.raw(key, allowed="a count, then a rate in bit/s and a value for each of so many rates")
        numbers = [self.number_of(word) for word in words or ()] if isinstance(words, list) else []
        values = [number for number in numbers if number is not None]
        if words is not None and (None in numbers or not values or len(values) != 2 * values[0] + 1):
            self.fault(key, f"'{shown(words)}' is not a map", "a count, then that many pairs of rate and value")
            return {}
        return {rate / 8: value for rate, value in zip(values[1::2], values[2::2], strict=True)}

    def must_be(self, key: str, values: tuple[int, ...], reason: str, default: int = 0) -> None:
        """Refuse other values of a key."""
        number = self.number_of(self.raw(key, str(default)))
        if number not in values:
            self.fault(key, reason, " or ".join(map(str, values)))

    def file_name(self, key: str) -> str | None:
        """Return the name of a file; None without the key."""
        return str(self.raw(key)) if self.given(key) else None


def is_ns3_config(path: PathLike) -> bool:
    """Return whether a file has lines `KEY value`, rather than `key: value`."""
    try:
        text = read_text(path)
    except InputError:
        return False
    lines = (line.partition("#")[0].split() for line in text.splitlines())
    first = next((words for words in lines if words), [])
    return len(first) > 1 and _KEY.fullmatch(first[0]) is not None


def read_ns3_config(path: PathLike, logical: PathLike | None = None) -> Ns3Config:
    """Read a configuration, its topology and the file of logical dimensions. Raises InputError."""
    text = Ns3Text(path)
    name = text.raw("TOPOLOGY_FILE", allowed="the name of a topology of ns-3")
    topology = near(path, str(name)) if name is not None else None
    net = read_ns3(topology) if topology is not None else None
    ethernet = _ethernet(text)
    rates = _rates(text, net)
    if len(rates) == 1:
        ((_, row),) = rates.items()
        ethernet["buffer"]["alpha"] = row.pop("alpha")
        ethernet["ecn"] |= row
    else:
        ethernet["ports"] = [{"rate": rate, **row} for rate, row in rates.items()]
    faults = _link_faults(text, net)
    if faults:
        text.warn("TOPOLOGY_FILE", f"links lose packets: lost ones are sent again after {_TIMEOUT}, in ns-3 never")
        ethernet |= {"links": faults, "timeout": _TIMEOUT}
    flows = text.file_name("FLOW_FILE")
    fct, pfc = text.file_name("FCT_OUTPUT_FILE"), text.file_name("PFC_OUTPUT_FILE")
    queues, queues_from = text.file_name("QLEN_MON_FILE"), text.count("QLEN_MON_START", 0, 0, 2**63)
    if pfc is not None:
        ethernet["pfc"]["log"] = True
    if net is not None and net.has_forwarding_hosts:
        ethernet["npus_forward"] = False
    text.unused(*_UNUSED)
    if text.flag("ENABLE_TRACE", True):
        text.warn("ENABLE_TRACE", "no trace of packets is written; the result has flows, ports and queues over time")
    text.finish()
    assert net is not None
    assert topology is not None
    dims = [len(net.hosts)] if logical is None else _logical(logical, len(net.hosts))
    if net.hosts[-1] >= len(net.hosts):
        switch = min(net.switches)
        problem = f"node {switch} is a switch with a lower number than some hosts, so node n is not NPU n"
        text.warnings.append(f"{topology}: {problem}; hosts are numbered in their order")
    options: dict[str, Any] = {"file": str(topology)}
    if len(dims) > 1 or dims[0] < len(net.hosts):
        options["dims"] = dims
    tables = {"topology": "graph", "options": options, "clock": "1 GHz", "ethernet": ethernet}
    return Ns3Config(
        tables, len(dims), net.hosts[: prod(dims)], topology, text.warnings, fct, pfc, queues, queues_from, flows
    )


def _ethernet(text: Ns3Text) -> dict[str, Any]:
    """The table [network.ethernet], without what depends on the rates of ports."""
    transport = text.choice("CC_MODE", TRANSPORTS, "1") or "none"
    text.must_be("L2_ACK_INTERVAL", (1,), "without an acknowledgment of each packet, senders of ns-3 stop")
    text.must_be("L2_BACK_TO_ZERO", (0,), "go-back-0 is not modelled")
    text.must_be("RATE_BOUND", (1,), "every flow is paced", 1)
    text.must_be("NIC_TOTAL_PAUSE_TIME", (0,), "NICs do not pause switches")
    if text.flag("ACK_HIGH_PRIO", False):
        text.warn("ACK_HIGH_PRIO", "in ns-3 it lets paused NICs send acknowledgments, here it has no effect")
    return {
        "mtu": f"{text.count('PACKET_PAYLOAD_SIZE', 1000)} B",
        "header": "36 B",
        "ack": "48 B",
        "transport": transport,
        "transport_options": _options(text, transport),
        "source_ports": "counted",
        "pacing": "port",
        "base_rtt": "largest" if text.flag("GLOBAL_T", True) else "pair",
        "end": "acknowledged",
        "resolution": "1 ns",
        "timeout": "0 ns",
        "buffer": {"capacity": f"{text.count('BUFFER_SIZE', 16)} MiB", "reserve": f"{_RESERVE} B"},
        "pfc": {"frame": "31 B", "headroom_delays": 3},
        "ecn": {"enabled": text.flag("ENABLE_QCN", True), "random": "ns-3"},
    }


def _options(text: Ns3Text, transport: str) -> dict[str, Any]:
    """The options of the transport. Keys of other transports are read, and have no effect, as in ns-3."""
    both = {"window": text.flag("HAS_WIN", True), "variable": text.flag("VAR_WIN", False)}
    least = text.quantity("MIN_RATE", parse_bandwidth, "100Mb/s", "100Mb/s")
    needs_steps = transport in ("dcqcn", "hpcc", "hpcc-pint", "timely")
    additive = text.quantity("RATE_AI", parse_bandwidth, None if needs_steps else "0b/s", "50Mb/s")
    hyper = text.quantity("RATE_HAI", parse_bandwidth, None if transport in ("dcqcn", "timely") else "0b/s", "100Mb/s")
    gain = float(text.number("EWMA_GAIN", 0))
    of: dict[str, dict[str, Any]] = {
        "dcqcn": {
            "gain": gain,
            "alpha_interval": _microseconds(text, "ALPHA_RESUME_INTERVAL", 55),
            "decrease_interval": _microseconds(text, "RATE_DECREASE_INTERVAL", 4),
            "increase_interval": _microseconds(text, "RP_TIMER", 0 if transport != "dcqcn" else None),
            "fast_recovery": text.count("FAST_RECOVERY_TIMES", 5, 0, 2**31 - 1),
            "additive": additive,
            "hyper": hyper,
            "least": least,
            "clamp": text.flag("CLAMP_TARGET_RATE", False),
        },
        "hpcc": {
            "target": float(text.number("U_TARGET", Fraction(95, 100), above=True)),
            "stages": text.count("MI_THRESH", 5, 0, 2**31 - 1),
            "additive": additive,
            "least": least,
            "fast": text.flag("FAST_REACT", True),
        },
        "hpcc-pint": {
            "target": float(text.number("U_TARGET", Fraction(95, 100), above=True)),
            "stages": text.count("MI_THRESH", 5, 0, 2**31 - 1),
            "additive": additive,
            "least": least,
            "probability": float(text.number("PINT_PROB", 1, above=True)),
            "base": float(text.number("PINT_LOG_BASE", Fraction(105, 100), above=True)),
        },
        "dctcp": {
            "gain": gain,
            "additive": text.quantity("DCTCP_RATE_AI", parse_bandwidth, "1000Mb/s", "1000Mb/s"),
            "least": least,
        },
        "timely": {"additive": additive, "least": least},
        "none": {},
    }
    if transport == "hpcc":
        text.must_be("MULTI_RATE", (0,), "HPCC has one rate for all hops of a flow", 1)
        text.must_be("SAMPLE_FEEDBACK", (0,), "HPCC takes the feedback of every packet")
        text.must_be("INT_MULTI", (1,), "telemetry has the resolution of INT_MULTI 1", 1)
        if not both["window"]:
            text.warn("HAS_WIN", "ns-3 divides by the window, which is 0; here queues count for nothing then")
    if transport == "timely":
        text.warn("CC_MODE", "ns-3 never sets TIMELY's time stamp and takes the absolute time; here RTTs are measured")
    text.unused("MULTI_RATE", "SAMPLE_FEEDBACK", "INT_MULTI", "PINT_LOG_BASE", "PINT_PROB")
    return {**of[transport], **both}


def _microseconds(text: Ns3Text, key: str, default: int | None) -> str:
    """A time that ns-3 truncates to whole microseconds."""
    number = text.number(key, default)
    if number.denominator != 1:
        text.warn(key, f"{shown(number)} us is {int(number)} us, as in ns-3")
    if number and number < 1:
        text.fault(key, "is truncated to 0 us, as in ns-3, and its timer would never advance", "at least 1")
    return f"{int(number)} us"


def _rates(text: Ns3Text, net: Ns3Topology | None) -> dict[str, dict[str, Any]]:
    """Rate -> marks and dynamic threshold of the ports of this rate."""
    kmin, kmax, pmax = (text.by_rate(key) for key in _MAPS)
    if net is None or not text.is_valid(*_MAPS):
        return {}
    # the first NIC: ns-3 compares the rates of ports with it
    first = min(net.hosts, default=0)
    nic = next((parse_bandwidth(link.rate) for link in net.links if first in (link.a, link.b)), Fraction(1))
    rows: dict[str, dict[str, Any]] = {}
    for rate in sorted({parse_bandwidth(link.rate) for link in net.links}):
        shift, halved = _SHIFT, rate
        while halved > nic and shift:
            shift, halved = shift - 1, halved / 2
        for key, values in zip(_MAPS, (kmin, kmax, pmax), strict=True):
            if rate not in values:
                text.fault(key, f"has no value for {_bits(rate)}, a rate of the topology", "every rate of the topology")
        if rate in kmin and rate in kmax and rate in pmax:
            marks = {"kmin": f"{kmin[rate]} kB", "kmax": f"{kmax[rate]} kB", "pmax": float(pmax[rate])}
            rows[format_bandwidth(rate)] = {**marks, "alpha": 0.5**shift}
    return rows


def _link_faults(text: Ns3Text, net: Ns3Topology | None) -> list[dict[str, Any]]:
    """The table [[network.ethernet.links]]: links with errors, and the one that goes down."""
    common = float(text.number("ERROR_RATE_PER_LINK", 0))
    down = [text.number_of(word) for word in text.raw("LINK_DOWN", ["0"] * 3)]
    links = [] if net is None else net.routed()
    rows: list[dict[str, Any]] = []
    errors = {link.error or common for _, link in links}
    if not 0 <= common < 1 or 1 in errors:
        text.fault("ERROR_RATE_PER_LINK", "no packet would arrive", "a number from 0, below 1")
    elif errors != {0.0}:
        rows = [_link(*ends, packet_error_rate=link.error or common) for ends, link in links if link.error or common]
        if len(errors) == 1:
            rows = [{"link": "*", "packet_error_rate": errors.pop()}]
    if len(down) != 3 or None in down:
        text.fault("LINK_DOWN", f"'{shown(text.raw('LINK_DOWN'))}' is no time and link", "three numbers")
    elif down[0]:
        ends = (int(down[1] or 0), int(down[2] or 0))
        if (max(ends), min(ends)) not in dict(links):
            text.fault("LINK_DOWN", f"there is no link of {ends[0]} and {ends[1]}", "a link of the topology")
        rows.append(_link(*ends, down=True, start=f"{_DOWN_AFTER + down[0]} us"))
    return rows


def _link(a: int, b: int, **values: Any) -> dict[str, Any]:
    return {"link": f"link:({a})->({b})", **values}


def _bits(rate: Fraction) -> str:
    return f"{float(8 * rate / 10**9):g} Gb/s"


def _logical(path: PathLike, npus: int) -> list[int]:
    """The NPUs of each logical dimension."""
    file = Json(path)
    words = file.raw("logical-dims", allowed='a list such as ["8"]')
    dims = []
    for word in words if isinstance(words, list) else ():
        number = Fraction(word) if isinstance(word, str) and word.isdecimal() else file.number_of(word)
        if number is None or number.denominator != 1 or number < 1:
            file.fault("logical-dims", f"'{shown(word)}' is not a number of NPUs", 'a list such as ["8"]')
        else:
            dims.append(int(number))
    if words is not None and not dims and not file.faults:
        file.fault("logical-dims", f"'{shown(words)}' is not a list of numbers of NPUs", 'a list such as ["8"]')
    elif not file.faults and prod(dims) > npus:
        problem = f"{' x '.join(map(str, dims))} NPUs, but the topology has {npus} hosts"
        file.fault("logical-dims", problem, "at most as many NPUs as hosts")
    file.finish()
    return dims


def near(config: PathLike, name: str) -> Path:
    """The file that a name refers to: relative to the current folder as in ns-3, or to the configuration."""
    places = (Path(name), Path(config).parent / name, Path(config).parent / Path(name).name)
    return next((place for place in places if place.is_file()), places[0])


def ns3_tables(path: PathLike, given: Mapping[str, str] | None = None) -> tuple[dict[str, Any], int]:
    """Return the table [network] of a configuration, and the number of dimensions. Raises InputError."""
    config = read_ns3_config(path)
    return config.tables, config.dims
