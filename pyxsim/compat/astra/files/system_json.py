"""The system JSON of ASTRA-sim 2 as a table [system]. Delays in ns, memory bandwidth in GB/s of 10^9 bytes."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pyxsim.compat.astra.files.algorithms import algorithms
from pyxsim.compat.astra.files.json_file import Json
from pyxsim.errors import InputError, raise_all
from pyxsim.file_entries import MANY, PathLike
from pyxsim.settings.algorithms import ASTRA_KINDS, data_algorithm

_POLICIES = {"LIFO": "LIFO", "FIFO": "FIFO", "EXPLICIT": "explicit"}
_OPTIMIZATIONS = {name: name for name in ("baseline", "localBWAware")}
_NODES = "per-node-custom-implementation"
_UNUSED = ("intra-dimension-scheduling", "inter-dimension-scheduling")


def json_system(
    path: PathLike, dims: int | None = None, kinds: Collection[str] = ()
) -> tuple[dict[str, Any], list[str]]:
    """Return the table [system] of a system JSON, and warnings. Raises InputError.

    `dims`: of the network, if known; `kinds`: kinds of collectives that the algorithms must support. Its keys for
    traces: see `of_workload`.
    """
    file = Json(path)
    table: dict[str, Any] = {
        "compat": "astra-sim-2",
        "scheduling": file.choice("scheduling-policy", _POLICIES, "LIFO"),
        "endpoint_delay": f"{file.cut('endpoint-delay', 10)} ns",
        "active_chunks": file.cut("active-chunks-per-dimension", 1, least=1, most=MANY),
        "chunks": file.cut("preferred-dataset-splits", least=1, most=MANY),
        "optimization": file.choice("collective-optimization", _OPTIMIZATIONS, "baseline"),
    }
    if not file.given("collective-optimization"):
        file.warn("collective-optimization", "is missing, which is undefined in ASTRA-sim; baseline is used")
    memory = file.number("local-mem-bw", 0)
    peak = file.number("peak-perf", 0)
    if _is_on(file, "roofline-enabled", file.warnings):
        for key, value in (("peak-perf", peak), ("local-mem-bw", memory)):
            if not value:
                file.fault(key, "is 0, but roofline-enabled needs it", "a number above 0")
        table["npu"] = {"peak": f"{peak} TFLOP/s", "memory_bandwidth": f"{memory} GB/s", "roofline": True}
    if memory:
        table["local_memory_bandwidth"] = f"{memory} GB/s"
    for kind in ASTRA_KINDS:
        names = _algorithms(file, kind, dims, kinds)
        if names:
            table[kind.replace("-", "_")] = names
    bus = {name: f"{file.cut(name, 0)} ns" for name in ("L", "o", "g")}
    bus |= {"G": f"{file.number('G', 0)} ns", "reduction_delay": f"{file.cut('local-reduction-delay', 1)} ns"}
    if _has_bus(file):
        # It replaces the endpoint delays.
        del table["endpoint_delay"]
        table["shared_bus"] = bus
    _off(file)
    file.finish()
    return table, file.warnings


def of_workload(path: PathLike) -> dict[str, Any]:
    """Return the keys of [workload] in the file: replay of traces, algorithms of nodes."""
    file = Json(path)
    table: dict[str, Any] = {"replay": True} if _is_on(file, "replay-only", []) else {}
    if file.given(_NODES):
        name = file.raw(_NODES)
        if not isinstance(name, str) or not name:
            file.fault(_NODES, "is not a file name", "a YAML file with lines 'node: PREFIX'")
        table["algorithms"] = name
    if file.faults:
        raise_all(file.faults)
    return table


def _algorithms(file: Json, kind: str, dims: int | None, kinds: Collection[str]) -> list[str] | str | None:
    """A list with one algorithm per dimension; a name for an algorithm over all dimensions."""
    key, custom = f"{kind}-implementation", f"{kind}-implementation-custom"
    native = file.given(key)
    if file.given(custom):  # takes precedence
        prefixes = file.listed(custom)
        if len(prefixes) > 1:
            file.fault(custom, f"{len(prefixes)} prefixes", "a list with one, of the files PREFIX.RANK.et")
        if not prefixes:
            return None
        if not isinstance(prefixes[0], str):
            file.fault(custom, "is not a list of prefixes", "a list with one, of the files PREFIX.RANK.et")
            return None
        try:
            return data_algorithm(f"{data_algorithm(prefixes[0])}.*.et")
        except InputError as error:
            file.faults.append(error.at(file=file.place(custom), key=custom))
            return None
    if not native:
        return None
    spelled = file.listed(key)
    if not spelled:
        return None  # a fault already
    if not all(isinstance(word, str) for word in spelled):
        file.fault(key, "is not a list of names", "a list with an algorithm for each dimension")
        return None
    names = algorithms(file, key, spelled, dims, kind if kind in kinds else None)
    if names and dims and len(names) < dims and not names[0].startswith("one-"):
        file.fault(
            key,
            f"1 algorithm for {dims} dimensions: the others would take no part in {kind}",
            f"a list of {dims}, or an algorithm over all dimensions, such as oneRing",
        )
    return names[0] if names and names[0].startswith("one-") else names


def _is_on(file: Json, key: str, warnings: list[str]) -> bool:
    """Whether a flag is on: ASTRA-sim 2 compares it with the number 0, from which `false` differs."""
    if file.raw(key, 0) is False:
        warnings.append(f"{file.place(key)}: {key}: false turns it on in ASTRA-sim 2, and here; 0 turns it off")
        return True
    value = file.number_of(file.raw(key, 0))
    return file.flag(key, False) if value is None else value != 0


def _has_bus(file: Json) -> bool:
    """Whether the shared bus is modeled: ASTRA-sim 2 cuts the number to an integer, and 1 is on."""
    key = "model-shared-bus"
    value = file.number_of(file.raw(key, 0))
    if value is None or value in (0, 1):
        return file.flag(key, False)
    on = int(value) == 1
    file.warn(key, f"{float(value):g} turns it {'on' if on else 'off'} in ASTRA-sim 2, and here")
    return on


def _off(file: Json) -> None:
    """Warn of keys that do not concern the system layer."""
    if _is_on(file, "replay-only", file.warnings):
        file.warn("replay-only", "belongs to the workload: `pyxsim astra` sets [workload] replay = true")
    if file.flag("track-local-mem", False):
        file.warn("track-local-mem", "tensors in memory are not tracked, and no file of them is written")
    file.unused("local-mem-trace-filename")  # for track-local-mem only
    if file.flag("trace-enabled", False):
        file.warn("trace-enabled", "no debug lines are written; /chunks of the result has the times")
    if file.given(_NODES):
        file.warn(_NODES, "belongs to the workload: `pyxsim astra` sets [workload] algorithms")
    if file.flag("boost-mode", False):
        file.warn("boost-mode", "version 2 does not read it; all NPUs are simulated")
    for key in _UNUSED:
        if file.given(key):
            file.warn(key, "version 2 has not read it since January 2023; its queues are FIFO, its order ascending")
