"""Write a trace as Chrome trace events in JSON, which Perfetto, chrome://tracing and others open.

Times are in microseconds with three decimals, written digit by digit and therefore exact; Perfetto reads the digits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pyxsim.reports.timeline.trace_model import INTO, OUT, Counter, Process, Trace

CHAINS = 1 << 32
"""Numbers of chains begin here: Perfetto counts the arrows of other events from 1, and takes both for the same."""


def lines(trace: Trace) -> Iterator[str]:
    """Yield the file line by line, one event per line."""
    about = json.dumps(_plain(trace.about))
    yield f'{{"displayTimeUnit":"ns","otherData":{about},"traceEvents":[\n'
    comma = ""
    for event in _events(trace):
        yield f"{comma}{event}"
        comma = ",\n"
    yield "\n]}\n"


def _events(trace: Trace) -> Iterator[str]:
    for process in trace.processes:
        yield from _names(process)
    pid = trace.pid
    out: dict[tuple[int, int], list[int]] = {}
    into: dict[tuple[int, int], list[int]] = {}
    for number, (source, target) in enumerate(trace.arrows, 1):
        out.setdefault((id(source[0]), source[1]), []).append(number)
        into.setdefault((id(target[0]), target[1]), []).append(number)
    first: dict[int, int] = {}  # chains of different kinds are distinct
    offset = CHAINS
    for block in trace.slices:
        first[id(block)] = offset
        offset += int(block.chain.max(initial=0))
    for at, part, row in trace.in_order():
        if isinstance(part, Counter):
            value = json.dumps(part.values[row].item())
            what = json.dumps(part.what)
            yield f'{{"ph":"C","pid":{part.pid},"name":{json.dumps(part.of)},"ts":{_us(at)},"args":{{{what}:{value}}}}}'
            continue
        tid = int(part.tid[row])
        place = f'"pid":{pid[tid]},"tid":{tid},"ts":{_us(at)}'
        dur = _us(int(part.end[row]) - at)
        name, args = json.dumps(part.name(row)), json.dumps(_plain(part.args(row)), separators=(",", ":"))
        chain = ""
        if role := int(part.role[row]):
            chain = f',"bind_id":{first[id(part)] + int(part.chain[row])}'
            chain += ',"flow_out":true' * bool(role & OUT) + ',"flow_in":true' * bool(role & INTO)
        yield f'{{"ph":"X",{place},"dur":{dur},"name":{name},"cat":"{part.category}"{chain},"args":{args}}}'
        for number in out.get((id(part), row), ()):
            yield f'{{"ph":"s",{place},"name":"starts","cat":"starts","id":{number}}}'
        for number in into.get((id(part), row), ()):
            yield f'{{"ph":"f","bp":"e",{place},"name":"starts","cat":"starts","id":{number}}}'


def _names(process: Process) -> Iterator[str]:
    yield _metadata_event(process.pid, 0, "process_name", {"name": process.name})
    yield _metadata_event(process.pid, 0, "process_sort_index", {"sort_index": process.pid})
    for place, (tid, name) in enumerate(process.threads.items()):
        yield _metadata_event(process.pid, tid, "thread_name", {"name": name})
        yield _metadata_event(process.pid, tid, "thread_sort_index", {"sort_index": place})


def _metadata_event(pid: int, tid: int, name: str, args: dict[str, Any]) -> str:
    place = f'"pid":{pid},"tid":{tid}' if tid else f'"pid":{pid}'
    return f'{{"ph":"M",{place},"name":"{name}","args":{json.dumps(args)}}}'


def _us(ns: int) -> str:
    return f"{ns // 1000}.{ns % 1000:03d}"


def _plain(args: dict[str, Any]) -> dict[str, Any]:
    """Replace NaN, which JSON does not support."""
    return {key: value for key, value in args.items() if value == value}
