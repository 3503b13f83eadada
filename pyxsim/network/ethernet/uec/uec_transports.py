"""The transports of Ultra Ethernet: what an experiment may set, and the rules of the engine that follow from it."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, ClassVar

from pyxsim.errors import InputError, raise_all
from pyxsim.network.ethernet.transport_options import KEY, read_options
from pyxsim.settings import Network
from pyxsim.settings.ethernet import Ethernet
from pyxsim.units import to_seconds

PICOSECONDS = 10**12
ENTROPY = {"mixed": 0, "bitmap": 1, "oblivious": 2, "reps": 3, "reps-legacy": 4}
ALGORITHMS = {"nscc": 0, "dctcp": 1, "constant": 2}
_POWERS = "a power of two"
# Settings of [network.ethernet] without an effect on these transports.
_OF_OTHERS = (
    "forwarding",
    "load_balancing",
    "flowlet_gap",
    "flowlet_entries",
    "reliability",
    "ack_interval",
    "nack_interval",
    "cnp_interval",
    "resolution",
    "source_ports",
    "pacing",
    "ports",
    "buffer.capacity",
    "buffer.alpha",
    "buffer.reserve",
    "ecn.pmax",
    "ecn.mark",
)


class UecTransport:
    """A transport of Ultra Ethernet; its state is in the engine.

    Options
    -------
    entropy
        How a sender chooses the entropy of each packet: "mixed", "bitmap", "oblivious", "reps", "reps-legacy".
    paths
        Entropies of a flow: a power of two.
    sack_threshold
        Bytes after which a receiver acknowledges.
    window
        Bytes that a flow may have in flight at its start. 0: 1.5 bandwidth-delay products.
    target
        Queueing delay that NSCC aims at. 0: three quarters of a round trip of the network; all of it without trimming.
    quick_adapt
        NSCC adapts at once to less than this power of two of the window: 3: one eighth.
    algorithm
        Of the window: "nscc", "dctcp" or "constant".
    """

    sender_cc: ClassVar[int] = 1
    receiver_cc: ClassVar[int] = 0
    header_bytes: ClassVar[int] = 0
    reply_bytes: ClassVar[int] = 0
    telemetry: ClassVar[int] = 0
    rules: ClassVar[dict[str, Any]] = {}
    options: ClassVar[dict[str, Any]] = {
        "paths": 64,
        "sack_threshold": 16384,
        "window": 0,
        "target": "0 ns",
        "quick_adapt": 3,
    }
    words: ClassVar[dict[str, dict[str, int]]] = {"entropy": ENTROPY, "algorithm": ALGORITHMS}

    def __init__(self, name: str, options: Mapping[str, Any] | None = None) -> None:
        self.name = name
        given = dict(options or {})
        self.chosen = {word: self._word(name, word, given.pop(word, None)) for word in self.words}
        faults = set(given) - set(self.options)
        if faults:
            option = sorted(faults)[0]
            raise InputError(
                f"the transport '{name}' has no option '{option}'",
                key=f"{KEY}.{option}",
                allowed=[*self.options, *self.words],
                given=option,
            )
        self.values = read_options(name, self.options, given)
        paths = self.values["paths"]
        if not 1 <= paths <= 32768 or paths & (paths - 1):
            raise InputError(f"{paths} paths", key=f"{KEY}.paths", allowed=f"{_POWERS}, 1 to 32768")
        if not 1 <= self.values["sack_threshold"] < 65536:
            raise InputError("out of range", key=f"{KEY}.sack_threshold", allowed="1 to 65535")
        if self.values["quick_adapt"] > 20:
            raise InputError("out of range", key=f"{KEY}.quick_adapt", allowed="0 to 20")

    def _word(self, name: str, word: str, given: object) -> int:
        allowed = self.words[word]
        if given is None:
            return 0
        if not isinstance(given, str) or given not in allowed:
            raise InputError(
                f"{word} '{given}' of the transport '{name}' is unknown",
                key=f"{KEY}.{word}",
                allowed=list(allowed),
                given=str(given),
            )
        return allowed[given]

    def adapt(self, network: Network) -> Network:
        """Return a network without PFC. Raises InputError if it sets what has no effect with this transport."""
        faults, ethernet = [], network.ethernet
        for path in _OF_OTHERS:
            *groups, key = path.split(".")
            table: Any = ethernet
            default: Any = Ethernet()
            for group in groups:
                table, default = getattr(table, group), getattr(default, group)
            if getattr(table, key) != getattr(default, key):
                problem = f"the transport '{self.name}' does not use {path}"
                faults.append(InputError(problem, key=f"network.ethernet.{path}", allowed="without it"))
        raise_all(faults)
        pfc = ethernet.pfc.model_copy(update={"enabled": False})
        return network.model_copy(update={"ethernet": ethernet.model_copy(update={"pfc": pfc})})

    def engine_rules(
        self, ethernet: Ethernet, clock: Fraction, line: int, network_rtt: int, queue: int
    ) -> dict[str, Any]:
        """Return the rules of the engine.

        `line`: bits per second of a NIC. `network_rtt`: the longest round trip, in ps. `queue`: bytes of an output
        queue.
        """
        trim = ethernet.ack if ethernet.trim is None else ethernet.trim
        target = int(self.values["target"]) or (int(network_rtt * 0.75) if trim else network_rtt)
        if ethernet.timeout:
            timeout = round(to_seconds(ethernet.timeout, clock) * PICOSECONDS)
        else:
            timeout = int((15 + queue * 48e6 / line) * 1e6)
        return {
            "mtu": ethernet.mtu + ethernet.header,
            "header": ethernet.header,
            "control": ethernet.ack,
            "trim": trim,
            "line": line,
            "network_rtt": network_rtt,
            "min_rto": timeout,
            "end": 0,
            "sender_cc": self.sender_cc,
            "receiver_cc": self.receiver_cc,
            "algorithm": self.chosen["algorithm"],
            "window": self.values["window"],
            "target": target,
            "qa_gate": self.values["quick_adapt"],
            "paths": self.values["paths"],
            "balance": self.chosen["entropy"],
            "sack_threshold": self.values["sack_threshold"],
            "sleek": int(self.values.get("sleek", False)),
            "update_rtt_on_nack": 1,
            "oversubscribed_cc": 0,
            "oversub_min_rate": 0.01,
            "oversub_ai": 0.01,
            "oversub_md": 0.5,
            "oversub_alpha": 0.5,
            "trim_sending": 0,
            "pull_finished": 0,
            "patience": ethernet.retries * timeout,
            "ack_ends": int(ethernet.end == "acknowledged"),
        }


class Nscc(UecTransport):
    """NSCC: the sender controls the window by marks and queueing delay.

    Options
    -------
    sleek
        Whether losses are inferred from packets that arrive out of order (SLEEK), for networks that do not trim.
    """

    options: ClassVar[dict[str, Any]] = {**UecTransport.options, "sleek": False}


class Rccc(UecTransport):
    """RCCC: the receiver grants credit, at 99 % of its line rate in all, in turns of its senders."""

    sender_cc: ClassVar[int] = 0
    receiver_cc: ClassVar[int] = 1


class NsccRccc(UecTransport):
    """NSCC and RCCC together: a packet needs window and credit."""

    receiver_cc: ClassVar[int] = 1
