"""The result files of ASTRA-sim's ns-3 front end: flow completion times and pauses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.compat.astra.files.ns3_config import Ns3Config
from pyxsim.errors import InputError
from pyxsim.network.ethernet.config import EthernetConfig
from pyxsim.network.ethernet.ethernet_network import NS3_PORTS
from pyxsim.network.ethernet.ideal import first_port
from pyxsim.results.hdf5 import check_writable
from pyxsim.results.result import Result
from pyxsim.topology.ns3_text import Ns3Topology, read_ns3

_HEADERS = 48  # bytes of each packet, as ns-3 counts them for a flow that is alone
_LEAST_QUEUE = 1000  # bytes
_PS = 1000  # per ns


@dataclass(frozen=True)
class Ns3Files:
    """Names of the result files that a configuration names; None: not to be written."""

    fct: str | None
    pfc: str | None
    queues: str | None
    queues_from: int
    topology: Path

    @classmethod
    def of(cls, config: Ns3Config, folder: str | None) -> Self:
        """Return the files of a configuration, all in `folder` if it is given. Raises InputError if one is no file."""

        def placed(key: str, name: str | None) -> str | None:
            if name is None:
                return None
            name = name if folder is None else str(Path(folder) / Path(name).name)
            try:
                check_writable(name)
            except InputError as error:
                allowed = "a file, or --path DIR"
                raise InputError(f"{name}: {error.problem}", key=key, allowed=allowed) from None
            return name

        fct, pfc = placed("FCT_OUTPUT_FILE", config.fct), placed("PFC_OUTPUT_FILE", config.pfc)
        return cls(fct, pfc, placed("QLEN_MON_FILE", config.queues), config.queues_from, config.topology)

    def write(self, prepared: Any, result: Result) -> None:
        """Write the files of a complete run. Raises InputError."""
        network, topology = prepared.network, read_ns3(self.topology)
        if self.fct is not None:
            _put(self.fct, fct_lines(network, result))
        if self.pfc is not None and "pfc_frames" in result.backend_tables:
            _put(self.pfc, pfc_lines(network, result, topology))
        if self.queues is not None:
            _put(self.queues, queue_lines(network, result, topology, self.queues_from))


def fct_lines(network: Any, result: Result) -> Iterable[str]:
    """Yield a line per flow in order of completion: addresses, ports, bytes, start, duration, duration alone (ns)."""
    flows = result.backend_tables["flows"].columns
    src, dst, size = (np.asarray(flows[name], np.int64) for name in ("src", "dst", "bytes"))
    start, end = (np.asarray(flows[name], np.int64) // _PS for name in ("start", "end"))
    port = NS3_PORTS[0] + _numbers(src, dst)
    alone = _alone(network, src, dst, size)
    for row in np.lexsort((np.arange(len(end)), end)).tolist():
        if end[row] >= 0:
            yield (
                f"{_address(int(src[row]))} {_address(int(dst[row]))} {port[row] % 65536} {NS3_PORTS[1]} {size[row]} "
                f"{start[row]} {end[row] - start[row]} {alone[row]}\n"
            )


def pfc_lines(network: Any, result: Result, topology: Ns3Topology) -> Iterable[str]:
    """Yield a line per PFC frame: time (ns), node where it arrives, 1 for a switch, port from 1, 1 for a pause."""
    number = _port_numbers(topology)
    frames = result.backend_tables["pfc_frames"].columns
    for time, link, pause in zip(frames["time"], frames["link"], frames["pause"], strict=True):
        node, peer = network.arrays.ports[link, :2].tolist()
        yield f"{time // _PS} {node} {int(node in topology.switches)} {number[node, peer]} {pause}\n"


def queue_lines(network: Any, result: Result, topology: Ns3Topology, start: int) -> Iterable[str]:
    """Yield a line per time window from `start` (ns) on and switch with a queue of at least 1000 bytes.

    `time T NODE`, then `j PORT BYTES` for each such port: the most bytes in the window.
    """
    number = _port_numbers(topology)
    columns = result.backend_tables["port_windows"].columns
    ends = network.arrays.ports[:, :2].tolist()
    for cycle, depths in zip(columns["time"].tolist(), columns["depth"], strict=True):
        time = int(cycle * 10**9 / network.settings.clock)
        if time < start:
            continue
        at: dict[int, list[tuple[int, int]]] = {}
        for link in np.flatnonzero(depths >= _LEAST_QUEUE).tolist():
            node, peer = ends[link]
            if node in topology.switches:
                at.setdefault(node, []).append((number[node, peer], int(depths[link])))
        for node, queues in sorted(at.items()):
            yield f"time {time} {node} {' '.join(f'j {port} {nbytes}' for port, nbytes in sorted(queues))}\n"


def _port_numbers(topology: Ns3Topology) -> dict[tuple[int, int], int]:
    """The number of the port of a node to another one, from 1 in order of the links."""
    number: dict[tuple[int, int], int] = {}
    ports: Counter[int] = Counter()
    for link in topology.links:
        for node, peer in ((link.a, link.b), (link.b, link.a)):
            ports[node] += 1
            number[node, peer] = ports[node]
    return number


def _numbers(src: IntArray, dst: IntArray) -> IntArray:
    """How many earlier flows have the same source and destination."""
    order = np.lexsort((dst, src))
    pair = np.stack([src[order], dst[order]])
    first = np.flatnonzero(np.any(np.diff(pair, prepend=-1), axis=0))
    number = np.empty(len(src), np.int64)
    number[order] = np.arange(len(src)) - np.repeat(first, np.diff(first, append=len(src)))
    return number


def _alone(network: Any, src: IntArray, dst: IntArray, size: IntArray) -> IntArray:
    """The duration of a flow without any other, by ns-3's formula: round trip and bytes at the rate of the NIC."""
    mtu = network.arrays.rules["mtu"]
    pairs, which = np.unique(np.stack([src, dst]), axis=1, return_inverse=True)
    rtt = network.base_rtt(pairs[0], pairs[1])[which.ravel()] // _PS
    total = size + -(-size // mtu) * _HEADERS
    picoseconds, per_bytes = _slowest(network.arrays, *pairs)[:, which.ravel()]
    made: IntArray = rtt + total * picoseconds // (per_bytes * _PS)
    return made


def _slowest(arrays: EthernetConfig, src: IntArray, dst: IntArray) -> IntArray:
    """int64[2, K]: picoseconds per byte of the slowest link on the way, as a fraction."""
    node, last = arrays.home[src].astype(np.int64), arrays.home[dst]
    slowest = np.stack([np.zeros(len(src), np.int64), np.ones(len(src), np.int64)])
    while (moving := np.flatnonzero(node != last)).size:
        port = first_port(arrays, node[moving], dst[moving])
        time, held = arrays.ports[port, 3:5].T, slowest[:, moving]
        slowest[:, moving] = np.where(time[0] * held[1] > held[0] * time[1], time, held)
        node[moving] = arrays.ports[port, 1]
    return slowest


def _address(npu: int) -> str:
    return f"{0x0B000001 + 256 * npu:08x}"


def _put(name: str, lines: Iterable[str]) -> None:
    try:
        with open(name, "w", encoding="utf-8") as file:
            file.writelines(lines)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", file=name) from None
