"""The tables of a result as variables with dimensions, units and a description.

One description for the HDF5 file and for xarray, so that opening the file and asking the Result give the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.errors import InputError
from pyxsim.results.attribution import NOBODY, PARTS, Attribution
from pyxsim.results.chunk_delays import ChunkDelays
from pyxsim.results.memory import NPU_TEXT, USED_TEXT, Memory
from pyxsim.results.result import COUNTERS, Result
from pyxsim.results.table import Table, Variable
from pyxsim.results.traffic import TRAFFIC_KEYS, Traffic, unit_of
from pyxsim.results.work import DOING, LAYER_PARTS, NAMES, WHY, Work
from pyxsim.system.table import COLUMNS as CHUNK_COLUMNS

_COUNTER_TEXT = {
    "flits": ("flits", "flits sent over the link"),
    "stall_credit": ("cycles", "cycles in which a flit waited for a credit: the buffer downstream was full"),
    "stall_vc": ("cycles", "cycles in which a packet waited for a free virtual channel"),
    "stall_arbitration": ("cycles", "cycles in which a flit lost to another one"),
    "stall_serial": ("cycles", "cycles in which a flit waited because the link was sending"),
}
_CHUNK_TEXT = {
    "collective": ("1", "number of the collective, the row of /collectives"),
    "chunk": ("1", "number of the chunk, over all collectives"),
    "phase": ("1", "phase of the chunk's plan, from 0"),
    "rank": ("1", "NPU"),
    "dimension": ("1", "network dimension in which the phase runs; -1: several at once"),
    "queue": ("1", "number of the queue in its dimension"),
    "bytes": ("bytes", "data of the chunk on this NPU when the phase starts"),
    "ready": ("cycles", "the chunk could start the phase; -1: not in this run"),
    "start": ("cycles", "the phase starts; -1: not in this run"),
    "end": ("cycles", "the phase ends; -1: not in this run"),
    "messages": ("1", "messages that the NPU received in the phase; -1: it did not end in this run"),
    "network": ("cycles", "time that these were in the network, added up; -1: the phase did not end in this run"),
}
_MESSAGE_TEXT = {
    "name": ("", "name of the message"),
    "src": ("1", "NPU that sends"),
    "dst": ("1", "NPU that receives"),
    "bytes": ("bytes", "bytes of the message"),
    "start": ("cycles", "the message is sent"),
    "end": ("cycles", "the receiver has taken it in; -1: not in this run"),
}
_DIMENSION_TEXT = {
    "dimension": ("1", "network dimension; -1: several at once"),
    "bytes": ("bytes", "bytes of messages between NPUs that differ in this dimension only"),
    "occupancy": ("1", "share of the run in which an NPU had a chunk at work in the dimension, mean over the NPUs"),
    "occupancy_npu0": ("1", "the same of NPU 0"),
    "queueing": ("cycles", "wait of an NPU's chunk from being ready to the start of the phase, mean"),
    "network": ("cycles", "time of a message in the network, mean"),
}
_PARTS = {
    "fwd": "forward pass",
    "wg": "weight gradient",
    "ig": "input gradient",
    "update": "update of the parameters",
    "other": "rest",
}
_LAYER_TEXT = {
    "name": ("", "name of the layer"),
    "npus": ("1", "NPUs that have tasks of the layer"),
    "memory": ("cycles", "memory accesses, added up"),
    "exposed_most": ("cycles", "waiting of the NPU that waited longest, over all parts"),
    "exposed_npu": ("1", "which NPU that is; -1: none"),
    "finished": ("cycles", "end of the layer; in a text of ASTRA-sim 1, of the whole workload"),
    **{f"{short}_compute": ("cycles", f"computing of the {part}") for short, part in _PARTS.items()},
    **{f"{short}_comm": ("cycles", f"communication of the {part}") for short, part in _PARTS.items()},
    **{f"{short}_exposed": ("cycles", f"waiting for that of the {part}") for short, part in _PARTS.items()},
}
_PHASE_TEXT = {
    "collective": ("1", "number of the collective, the row of /collectives"),
    "phase": ("1", "phase of the plan, from 0"),
    "kind": ("", "what is done in the phase"),
    "dimension": ("1", "network dimension in which the phase runs; -1: several at once"),
    "npus": ("1", "NPUs that take part"),
    "chunks": ("1", "chunks"),
    "start": ("cycles", "the first NPU starts; -1: not in this run"),
    "end": ("cycles", "the last NPU is done with the last chunk; -1: not in this run"),
    "time": ("cycles", "time of an NPU in the phase of a chunk, mean"),
    "queueing": ("cycles", "wait before it, mean"),
    "network": ("cycles", "time of a message in the network, mean"),
}
_COLLECTIVE_TEXT = {
    "start": ("cycles", "it is issued"),
    "end": ("cycles", "last NPU is done; -1: not in this run"),
    "bytes": ("bytes", "buffer of one NPU; for an all-gather the shard that one NPU contributes"),
    "bound": ("cycles", "lower bound of the time"),
    "ratio": ("1", "time over its lower bound"),
}
_MORE_OF_A_COLLECTIVE = {
    "name": ("", "name of the collective"),
    "kind": ("", "kind of the collective"),
    "group": ("", "who takes part: a group of the experiment, NPUs, dimensions, or all"),
    "npus": ("1", "NPUs that take part"),
    "root": ("1", "NPU at the root; -1: none, or one in each group"),
    "algorithm": ("", "algorithm for each dimension"),
}
_LINK_COORDINATES = ("name", "src", "dst", "dim", "bandwidth", "latency", "cycles_per_flit")


def _variable(dims: tuple[str, ...], data: NDArray[Any], units: str, text: str) -> Variable:
    return Variable(dims, data, {"units": units, "long_name": text})


def _link_columns(result: Result) -> dict[str, Variable]:
    links = result.links
    dims = ("link",)
    per_flit = links.s_num / np.maximum(links.s_den, 1)
    return {
        "link": _variable(dims, np.arange(len(links), dtype=np.int32), "1", "number of the link"),
        "name": Variable(dims, np.array(links.name, dtype=object), {"long_name": "name of the link"}),
        "src": _variable(dims, links.src, "1", "router that sends; NPU i is at router i"),
        "dst": _variable(dims, links.dst, "1", "router that receives"),
        "dim": _variable(dims, links.dim, "1", "network dimension, or kind of the link"),
        "bandwidth": _variable(dims, links.bandwidth, "bytes/second", "bandwidth"),
        "latency": _variable(dims, links.latency, "cycles", "latency"),
        "cycles_per_flit": _variable(dims, per_flit, "cycles", "time for which one flit holds the link"),
    }


def _clock(result: Result) -> dict[str, Any]:
    return {"clock_hz": float(result.clock_hz)}


def links(result: Result) -> Table:
    """Counters per time window and link."""
    dims = ("time", "link")
    variables = {
        "time": _variable(("time",), result.windows.start, "cycles", "start of the time window"),
        **_link_columns(result),
        "flits": _variable(dims, _compact(result.windows.counts["flits"]), *_COUNTER_TEXT["flits"]),
        "busy": _variable(dims, _compact(result.busy), "cycles", "cycles in which the link was sending"),
    }
    for name in COUNTERS[1:]:
        variables[name] = _variable(dims, _compact(result.windows.counts[name]), *_COUNTER_TEXT[name])
    variables["buffer_max"] = _buffer_max(result)
    return Table(variables, _LINK_COORDINATES, {"window_cycles": result.windows.length, **_clock(result)})


def links_total(result: Result) -> Table:
    """The same over the whole run."""
    dims = ("link",)
    variables = {
        **_link_columns(result),
        "s_num": _variable(dims, result.links.s_num, "1", "cycles_per_flit as an exact fraction: numerator"),
        "s_den": _variable(dims, result.links.s_den, "1", "cycles_per_flit as an exact fraction: denominator"),
        "flits": _variable(dims, result.totals["flits"], *_COUNTER_TEXT["flits"]),
        "busy": _variable(dims, result.busy_total, "cycles", "cycles in which the link was sending"),
        "utilization": _variable(dims, result.link_utilization, "1", "share of the run in which the link was sending"),
    }
    for name in COUNTERS[1:]:
        variables[name] = _variable(dims, result.totals[name], *_COUNTER_TEXT[name])
    variables["buffer_max"] = _buffer_max(result)
    return Table(variables, (*_LINK_COORDINATES, "s_num", "s_den"), {"cycles": result.time_cycles, **_clock(result)})


def chunks(result: Result) -> Table:
    """One row per chunk, phase and rank."""
    columns = {name: np.asarray(result.chunks[name], dtype=np.int64) for name in CHUNK_COLUMNS}
    return Table(_rows("row", columns, _CHUNK_TEXT), attrs=_clock(result))


def collectives(result: Result) -> Table:
    """One row per collective."""
    names = list(dict.fromkeys([*_COLLECTIVE_TEXT, *(key for row in result.collectives for key in row)]))
    columns = {name: _column(name, [row.get(name) for row in result.collectives]) for name in names}
    return Table(_rows("collective", columns, {**_COLLECTIVE_TEXT, **_MORE_OF_A_COLLECTIVE}), attrs=_clock(result))


def messages(result: Result) -> Table:
    """One row per message from NPU to NPU that is of no collective."""
    columns = {name: _column(name, [row[name] for row in result.messages]) for name in _MESSAGE_TEXT}
    return Table(_rows("message", columns, _MESSAGE_TEXT), attrs=_clock(result))


def dimensions(result: Result) -> Table:
    """One row per dimension of the network."""
    names = dict(enumerate(result.dimensions))
    dims = result.by_dimension["dimension"].tolist()
    text = {"name": np.array([names.get(dim, "several") for dim in dims], dtype=object)}
    table = {"name": ("", "what the dimension is"), **_DIMENSION_TEXT}
    return Table(_rows("row", {**result.by_dimension, **text}, table), ("name",), attrs=_clock(result))


def phases(result: Result) -> Table:
    """One row per collective, phase and dimension."""
    return Table(_rows("row", result.phases, _PHASE_TEXT), attrs=_clock(result))


def layers(result: Result) -> Table:
    """One row per layer of the workload."""
    return Table(_rows("layer", result.layers, _LAYER_TEXT), attrs=_clock(result))


_NPU_TEXT = {
    "compute": ("cycles", "it computes"),
    "memory": ("cycles", "it reads or writes memory"),
    "communication": ("cycles", "it communicates"),
    "exposed": ("cycles", "it communicates and does not compute"),
    "busy": ("cycles", "something is at work"),
    "idle": ("cycles", "nothing is at work"),
    "finished": ("cycles", "its last task ends"),
    "like": ("1", "the first NPU that did the same at the same times"),
}
_TASK_TEXT = {
    "npu": ("1", "NPU"),
    "name": ("1", "number of the name of the task, in task_name; -1: none"),
    "kind": ("1", "number of what it does, in kind_name"),
    "layer": ("1", "number of its layer, in layer_name; -1: none"),
    "part": ("1", "number of the part of the layer, in part_name"),
    "ready": ("cycles", "all that it waits for has ended; -1: not in this run"),
    "start": ("cycles", "it has its resource, too; -1: not in this run"),
    "end": ("cycles", "it ends; -1: not in this run"),
    "bytes": ("bytes", "bytes of a message, a collective, a memory access"),
    "cause": ("1", "task whose end let it start; -1: none"),
    "critical": ("1", "1: it is on the critical path"),
}
_STEP_TEXT = {
    **{name: _TASK_TEXT[name] for name in ("npu", "name", "kind", "layer", "part")},
    "task": ("1", "number of the task; -1: the NPU had not begun"),
    "why": ("1", "number of why it begins when the step before it ends, in why_name"),
    "begin": ("cycles", "from here on the end depends on it"),
    "end": ("cycles", "up to here"),
}


def npus(result: Result) -> Table:
    """One row per NPU."""
    return Table(_rows("npu", _work(result).npus, _NPU_TEXT), attrs=_clock(result))


def critical_path(result: Result) -> Table:
    """One row per step, from cycle 0 to the end."""
    told = _work(result)
    record = json.dumps({key: getattr(told, key) for key in ("totals", "by_kind", "steps", "left_out")})
    listed = _listed({**_task_names(told), "why_name": WHY})
    return Table({**_rows("step", told.path, _STEP_TEXT), **listed}, attrs={"record": record, **_clock(result)})


def tasks(result: Result) -> Table:
    """One row per task."""
    told = _work(result)
    left_out = {"left_out": told.left_out.get("tasks", 0)}
    rows = _rows("task", told.tasks, _TASK_TEXT)
    return Table({**rows, **_listed(_task_names(told))}, attrs={**left_out, **_clock(result)})


def npu_memory(result: Result) -> Table:
    """One row per NPU."""
    return Table(_rows("npu", _memory(result).npus, NPU_TEXT), attrs=_clock(result))


def memories(result: Result) -> Table:
    """One row per remote memory and link to it."""
    return Table(_rows("row", _memory(result).used, USED_TEXT), ("name",), attrs=_clock(result))


def _memory(result: Result) -> Memory:
    if result.memory is None:
        raise InputError("there was none", key="system.remote_memory", allowed="that, or system.endpoint")
    return result.memory


_LAYER_PHASE_TEXT = {
    "layer": ("1", "number of the layer"),
    "name": ("", "name of the layer"),
    "phase": ("1", "phase of the plan, from 1; 0: before the first"),
    "queueing": ("cycles", "wait of a chunk, mean"),
    "network": ("cycles", "for how long a message was expected, mean; NaN before the first phase"),
}


def layer_phases(result: Result) -> Table:
    """One row per layer and phase of its collectives, at NPU 0."""
    told = _detail(result)
    attrs = {"layer_names": json.dumps(told.layer_names), **_clock(result)}
    return Table(_rows("row", told.rows(), _LAYER_PHASE_TEXT), attrs=attrs)


def occupancy(result: Result) -> Table:
    """Windows of time x dimensions: how long NPU 0 had chunks there."""
    told = _detail(result)
    windows, dims = told.busy.shape
    dimension = np.arange(dims, dtype=np.int32)
    variables = {
        "time": _variable(("time",), np.arange(windows) * told.window, "cycles", "start of the time window"),
        "dimension": _variable(("dimension",), dimension, "1", "dimension of the system layer"),
        "busy": _variable(("time", "dimension"), told.busy, "cycles", "cycles in which there was a chunk"),
        "chunk_time": _variable(("dimension",), np.array(told.chunk_time), "cycles", "time of a chunk there, mean"),
    }
    return Table(variables, attrs={"window_cycles": told.window, **_clock(result)})


def _detail(result: Result) -> ChunkDelays:
    if result.chunk_delays is None:
        raise InputError("the run had no workload", key="workload", allowed="a workload")
    return result.chunk_delays


_TIMELINE_TEXT = {
    "npu": ("1", "NPU"),
    "doing": ("1", "number of what it does, in doing_name"),
    "begin": ("cycles", "it begins"),
    "end": ("cycles", "it ends"),
}


def timeline(result: Result) -> Table:
    """One row per stretch of time in which an NPU does something; some NPUs."""
    rows = _rows("row", _work(result).timeline, _TIMELINE_TEXT)
    return Table({**rows, **_listed({"doing_name": DOING})}, attrs=_clock(result))


def _task_names(told: Work) -> dict[str, Sequence[str]]:
    """The texts that numbers in the rows of tasks stand for."""
    return {**{name: getattr(told, of) for of, name in NAMES.items()}, "part_name": list(LAYER_PARTS.values())}


def _work(result: Result) -> Work:
    if result.work is None:
        raise InputError("the run had no graph of tasks", key="workload", allowed="a workload other than MICRO")
    return result.work


def traffic(result: Result) -> Table:
    """What was measured of open traffic: per batch, per NPU, per class, and how many packets had each latency."""
    told = result.traffic or Traffic({}, packets=np.zeros((0, 0), dtype=np.int64))
    names = {key: np.asarray(values, dtype=object) for key, values in told.classes.items() if key == "name"}
    numbers = {key: _numbers(values) for key, values in told.classes.items() if key != "name"}
    columns = {f"class_{key}": values for key, values in {**names, **numbers}.items()}
    series = {f"batch_{key}": np.asarray(values) for key, values in told.batches.items()}
    npus = np.arange(len(told.accepted), dtype=np.int32)
    variables = {
        **_rows("batch", series, _TRAFFIC_TEXT),
        "npu": _variable(("npu",), npus, "1", "NPU"),
        "accepted": _variable(("npu",), told.accepted, "flits/cycle", "flits that arrived at the NPU per cycle"),
        **_rows("class", columns, _TRAFFIC_TEXT),
        "latency": _variable(("latency",), told.latency, "cycles", "latencies that there were"),
        "packets": _variable(("class", "latency"), told.packets, "1", "measured packets of a class with a latency"),
    }
    attrs = {key: np.nan if value is None else value for key, value in told.summary.items() if key != "classes"}
    attrs = {key: np.uint8(value) if isinstance(value, bool) else value for key, value in attrs.items()}
    record = json.dumps({"summary": told.summary, "notes": told.notes})
    return Table(
        variables,
        tuple(key for key in ("class_name",) if key in columns),
        {**attrs, "record": record, **_clock(result)},
    )


def _numbers(values: list[Any]) -> NDArray[Any]:
    whole = all(isinstance(value, int | np.integer) for value in values)
    return np.array(values, dtype=np.int64 if whole else np.float64)


_TRAFFIC_TEXT = {
    "batch_start": ("cycles", "first cycle of the batch"),
    "batch_generated": ("flits/cycle", "flits that were created per node and cycle"),
    "batch_accepted": ("flits/cycle", "flits that arrived per node and cycle"),
    "batch_packets": ("1", "packets that were created in the batch and have arrived"),
    "batch_latency": ("cycles", "their mean latency"),
    "batch_backlog": ("flits", "flits under way or waiting at their source at the end of the batch"),
    "class_name": ("", "name of the class"),
    "class_virtual_network": ("1", "its virtual network"),
    "class_priority": ("1", "its priority"),
    **{f"class_{key}": (unit_of(key), text) for key, text in TRAFFIC_KEYS.items()},
}


_PART_TEXT = {
    "source": "in the source queue, behind other messages",
    "serialisation": "for the flits of its own message before it",
    "hops": "on wires and in pipelines: what it would take alone",
    "vc": "waiting for a free virtual channel",
    "credit": "waiting for a credit: the buffer downstream was full",
    "link": "waiting while the link sent flits of other messages",
    "arbitration": "waiting because another flit was chosen",
    "queue": "waiting behind packets of other messages in a buffer",
}
_NUMBERS = {
    "link": ("1", "number of the link or lane, as in /congestion"),
    "place": ("1", "number of the link or lane by which it leaves, as in /congestion"),
    "victim": ("1", "number of the traffic that waited"),
    "culprit": ("1", "number of the traffic that it waited for; -1: nobody"),
    "cause": ("1", "number of the part"),
    "cycles": ("cycles", "how long, over all packets"),
    "packets": ("1", "stays of packets that these are of"),
    "message": ("1", "number of the message, in order of sending"),
    "packet": ("1", "number of the packet in its message"),
    "src": ("1", "NPU that sends"),
    "dst": ("1", "NPU that receives"),
    "bytes": ("bytes", "bytes of the message"),
    "traffic": ("1", "number of its traffic"),
    "sent": ("cycles", "it is handed to the network"),
    "arrived": ("cycles", "its last flit arrives"),
    **{part: ("cycles", text) for part, text in _PART_TEXT.items()},
}


def congestion(result: Result) -> Table:
    """Links and lanes x traffic x parts, whoever was the culprit; and the sums over messages."""
    told = _told(result)
    dims = ("link", "victim", "cause")
    variables = {
        "link": _variable(("link",), np.arange(len(told.link_names), dtype=np.int32), "1", "number of the link"),
        "name": Variable(("link",), _names(told.link_names), {"long_name": "name of the link or lane"}),
        "victim": Variable(("victim",), _names(told.traffic_names), {"long_name": "whose packets"}),
        "cause": Variable(("cause",), _names(PARTS), {"long_name": "what the time went to"}),
        "cycles": _variable(dims, _compact(told.congestion()), "cycles", "time of packets, at or on the way from here"),
        "packets": _variable(dims, _compact(told.congestion("packets")), "1", "stays of packets that these are of"),
        "messages": _variable(("victim",), told.messages, "1", "messages that arrived (open traffic: were measured)"),
        "parts": _variable(("victim", "cause"), told.parts, "cycles", "parts of their latency, added up"),
    }
    return Table(variables, ("name",), {"left_out": json.dumps(told.left_out), **_clock(result)})


def blame(result: Result) -> Table:
    """Who made whom wait: a row for each link, victim, culprit and part. The name of culprit -1 is the last one."""
    told = _told(result)
    names = {"traffic_name": [*told.traffic_names, NOBODY], "cause_name": PARTS, "link_name": told.link_names}
    return Table({**_rows("row", told.blame, _NUMBERS), **_listed(names)}, attrs=_clock(result))


def latency(result: Result) -> Table:
    """One row per message that has arrived."""
    return Table(_rows("row", result.latency, _NUMBERS), attrs={**_left_out(result, "latency"), **_clock(result)})


def stays(result: Result) -> Table:
    """One row per packet at the source and in each buffer."""
    return Table(_rows("row", result.stays, _NUMBERS), attrs={**_left_out(result, "stays"), **_clock(result)})


def _told(result: Result) -> Attribution:
    if result.attribution is None:
        raise InputError("was off in this run", key="output.attribution", allowed="'links' or 'messages'")
    return result.attribution


def _left_out(result: Result, name: str) -> dict[str, int]:
    return {"left_out": _told(result).left_out.get(name, 0)}


def _listed(names: Mapping[str, Sequence[str]]) -> dict[str, Variable]:
    """Lists of texts that numbers elsewhere stand for."""
    return {name: Variable((name,), _names(values), {}) for name, values in names.items()}


def _names(values: Sequence[str]) -> NDArray[Any]:
    return np.array(values, dtype=object)


TABLES: dict[str, Callable[[Result], Table]] = {
    "links": links,
    "links_total": links_total,
    "chunks": chunks,
    "collectives": collectives,
    "messages": messages,
    "dimensions": dimensions,
    "phases": phases,
    "layers": layers,
    "npus": npus,
    "critical_path": critical_path,
    "tasks": tasks,
    "timeline": timeline,
    "npu_memory": npu_memory,
    "memories": memories,
    "layer_phases": layer_phases,
    "occupancy": occupancy,
    "traffic": traffic,
    "congestion": congestion,
    "blame": blame,
    "latency": latency,
    "stays": stays,
}
# Those that are only there when there is something in them: in this attribute of the result.
_OPTIONAL = {
    "messages": "messages",
    "dimensions": "by_dimension",
    "phases": "phases",
    "layers": "layers",
    "npus": "work",
    "critical_path": "work",
    "tasks": "tasks",
    "timeline": "work",
    "npu_memory": "memory",
    "memories": "memory",
    "layer_phases": "chunk_delays",
    "occupancy": "chunk_delays",
    "traffic": "traffic",
    "congestion": "attribution",
    "blame": "attribution",
    "latency": "latency",
    "stays": "stays",
}


def tables_of(result: Result) -> list[str]:
    """The tables in which a result has something."""
    return [name for name in TABLES if name not in _OPTIONAL or _there(getattr(result, _OPTIONAL[name]))]


def _there(table: Any) -> bool:
    """Whether something has anything in it; columns: whether they have rows."""
    return any(len(column) for column in table.values()) if isinstance(table, dict) else bool(table)


def table_of(result: Result, name: str) -> Table:
    """A table by its name. InputError for one that there is not, or with nothing in it."""
    if name not in TABLES:
        raise InputError(f"unknown table '{name}'", key="table", allowed=list(TABLES), given=name)
    return replace(TABLES[name](result), name=name)


def _buffer_max(result: Result) -> Variable:
    peak = np.asarray(result.buffer_max, dtype=np.int32)
    return _variable(("link",), peak, "flits", "most flits ever in one virtual channel buffer at the end of the link")


def _rows(dim: str, columns: Mapping[str, NDArray[Any]], texts: dict[str, tuple[str, str]]) -> dict[str, Variable]:
    count = max((len(values) for values in columns.values()), default=0)
    variables = {dim: _variable((dim,), np.arange(count, dtype=np.int64), "1", f"number of the {dim}")}
    for name, values in columns.items():
        units, text = texts.get(name, ("", name.replace("_", " ")))
        attrs = {"units": units, "long_name": text} if units else {"long_name": text}
        variables[name] = Variable((dim,), values, attrs)
    return variables


def _column(name: str, values: list[Any]) -> NDArray[Any]:
    """A column of int64 where all are whole numbers, of texts where all are texts, else float64 with NaN for None."""
    if name in ("bound", "ratio"):
        return np.array([np.nan if v is None else float(v) for v in values], dtype=np.float64)
    if name in _COLLECTIVE_TEXT or (values and all(isinstance(v, int | np.integer) for v in values)):
        return np.array(values, dtype=np.int64)
    if values and any(isinstance(v, str) for v in values):
        return np.array(["" if v is None else str(v) for v in values], dtype=object)
    return np.array([np.nan if v is None else float(v) for v in values], dtype=np.float64)


def _compact(counts: NDArray[Any]) -> NDArray[Any]:
    """Counts in 32 bits where all fit: half the file, half the time to write it."""
    fits = counts.size == 0 or int(counts.max()) <= np.iinfo(np.uint32).max
    return counts.astype(np.uint32 if fits else np.uint64)
