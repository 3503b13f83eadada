"""Files of ASTRA-sim's ns-3 front end, for cases and tests: its sample configuration, stars and leaf-spines, traces."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyxsim.chakra import trace
from pyxsim.chakra.messages import Attribute, CommType, Node, NodeType

# scratch/config/config.txt of astra-network-ns3 8fd3604
SAMPLE = {
    "ENABLE_QCN": "1",
    "USE_DYNAMIC_PFC_THRESHOLD": "1",
    "PACKET_PAYLOAD_SIZE": "1000",
    "TOPOLOGY_FILE": "topology.txt",
    "FLOW_FILE": "flow.txt",
    "TRACE_FILE": "trace.txt",
    "TRACE_OUTPUT_FILE": "mix.tr",
    "FCT_OUTPUT_FILE": "fct.txt",
    "PFC_OUTPUT_FILE": "pfc.txt",
    "SIMULATOR_STOP_TIME": "40000000000000.00",
    "CC_MODE": "12",
    "ALPHA_RESUME_INTERVAL": "1",
    "RATE_DECREASE_INTERVAL": "4",
    "CLAMP_TARGET_RATE": "0",
    "RP_TIMER": "900",
    "EWMA_GAIN": "0.00390625",
    "FAST_RECOVERY_TIMES": "1",
    "RATE_AI": "50Mb/s",
    "RATE_HAI": "100Mb/s",
    "MIN_RATE": "100Mb/s",
    "DCTCP_RATE_AI": "1000Mb/s",
    "ERROR_RATE_PER_LINK": "0.0000",
    "L2_CHUNK_SIZE": "4000",
    "L2_ACK_INTERVAL": "1",
    "L2_BACK_TO_ZERO": "0",
    "HAS_WIN": "1",
    "GLOBAL_T": "0",
    "VAR_WIN": "1",
    "FAST_REACT": "1",
    "U_TARGET": "0.95",
    "MI_THRESH": "0",
    "INT_MULTI": "1",
    "MULTI_RATE": "0",
    "SAMPLE_FEEDBACK": "0",
    "PINT_LOG_BASE": "1.05",
    "PINT_PROB": "1.0",
    "NIC_TOTAL_PAUSE_TIME": "0",
    "RATE_BOUND": "1",
    "ACK_HIGH_PRIO": "0",
    "LINK_DOWN": "0 0 0",
    "ENABLE_TRACE": "1",
    "KMAX_MAP": "3 100000000000 1600 200000000000 2400 400000000000 3200",
    "KMIN_MAP": "3 100000000000 400 200000000000 600 400000000000 800",
    "PMAX_MAP": "3 100000000000 0.2 200000000000 0.2 400000000000 0.2",
    "BUFFER_SIZE": "32",
    "QLEN_MON_FILE": "qlen.txt",
    "QLEN_MON_START": "0",
    "QLEN_MON_END": "20000",
}
SYSTEM: dict[str, Any] = {
    "scheduling-policy": "LIFO",
    "endpoint-delay": 10,
    "active-chunks-per-dimension": 1,
    "preferred-dataset-splits": 4,
    "collective-optimization": "localBWAware",
    "local-mem-bw": 1600,
    "boost-mode": 0,
    "roofline-enabled": 0,
    "peak-perf": 900,
}
KINDS = {
    "all_reduce": CommType.ALL_REDUCE,
    "all_gather": CommType.ALL_GATHER,
    "all_to_all": CommType.ALL_TO_ALL,
}

GPU = Attribute("is_cpu_op", "bool_val", False)


def config_text(changes: Mapping[str, Any] | None = None) -> str:
    """The sample with other values; None: without that key."""
    pairs = {**SAMPLE, **(changes or {})}
    return "".join(f"{key} {value}\n" for key, value in pairs.items() if value is not None)


def star(hosts: int, rate: str = "400Gbps", delay: str = "0.0005ms") -> str:
    links = "".join(f"{hosts} {host} {rate} {delay} 0\n" for host in range(hosts))
    return f"{hosts + 1} 1 {hosts}\n{hosts}\n{links}"


def leaf_spine(leaves: int, hosts: int, spines: int, rate: str = "100Gbps", up: str | None = None) -> str:
    npus = leaves * hosts
    switches = range(npus, npus + leaves + spines)
    lines = [f"{host} {npus + host // hosts} {rate} 0.0005ms 0" for host in range(npus)]
    lines += [
        f"{npus + leaf} {npus + leaves + spine} {up or rate} 0.0005ms 0"
        for leaf in range(leaves)
        for spine in range(spines)
    ]
    return f"{npus + leaves + spines} {len(switches)} {len(lines)}\n{' '.join(map(str, switches))}\n" + "\n".join(lines)


def write_run(
    folder: Path,
    topology: str,
    npus: int,
    *,
    collective: str | None = None,
    nbytes: int = 0,
    algorithm: str = "ring",
    messages: Sequence[tuple[int, int]] = (),
    changes: Mapping[str, Any] | None = None,
) -> None:
    """Write config.txt, topology.txt, logical.json, system.json and the traces `w` of a collective or of messages."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.txt").write_text(config_text(changes), encoding="utf-8")
    (folder / "topology.txt").write_text(topology, encoding="utf-8")
    (folder / "logical.json").write_text(json.dumps({"logical-dims": [str(npus)]}), encoding="utf-8")
    kinds = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
    system = {**SYSTEM, **{f"{kind}-implementation": [algorithm] for kind in kinds}}
    (folder / "system.json").write_text(json.dumps(system), encoding="utf-8")
    for npu in range(npus):
        nodes: list[Node] = []
        if collective is not None:
            attr = [_whole("comm_type", KINDS[collective]), _whole("comm_size", nbytes)]
            nodes.append(Node(0, collective, NodeType.COMM_COLL, attr=[*attr, GPU]))
        for tag, (src, dst) in enumerate(messages):
            ends = [_whole("comm_src", src), _whole("comm_dst", dst), _whole("comm_tag", tag)]
            for end, kind in ((src, NodeType.COMM_SEND), (dst, NodeType.COMM_RECV)):
                if end == npu:
                    attr = [*ends, _whole("comm_size", nbytes), GPU]
                    nodes.append(Node(len(nodes), kind.name, kind, attr=attr))
        trace.write(folder / f"w.{npu}.et", nodes)


def _whole(name: str, value: int) -> Attribute:
    return Attribute(name, "int64_val" if name in ("comm_size", "comm_type") else "int32_val", int(value))


def incast(hosts: int) -> list[tuple[int, int]]:
    return [(host, 0) for host in range(1, hosts)]


def words(folder: Path) -> list[str]:
    """The arguments of a run."""
    return [
        f"--network-configuration={folder / 'config.txt'}",
        f"--logical-topology-configuration={folder / 'logical.json'}",
        f"--system-configuration={folder / 'system.json'}",
        f"--workload-configuration={folder / 'w'}",
    ]


WORDS = words(Path())


def flows_in(path: Path) -> dict[tuple[int, int, int], tuple[int, ...]]:
    """The lines of fct.txt: (source, destination, port) -> (bytes, start, duration, duration alone)."""
    rows = [line.split() for line in path.read_text(encoding="utf-8").splitlines()]
    return {(_npu(src), _npu(dst), int(port)): tuple(map(int, rest)) for src, dst, port, _, *rest in rows}


def _npu(address: str) -> int:
    return (int(address, 16) - 0x0B000001) // 256
