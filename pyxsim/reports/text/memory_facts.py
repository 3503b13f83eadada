"""Key figures of memories."""

from __future__ import annotations

from pyxsim.reports.text.facts import Fact, percent, rounded
from pyxsim.results.result import Result


def facts(result: Result) -> list[Fact]:
    """Return the use of remote memory, and of the NPUs' memory where computation and communication share it."""
    memory = result.memory
    if memory is None:
        return []
    end, npus, lines = max(1, result.time_cycles), memory.npus, []
    if "loaded" in npus:
        loaded, stored = (rounded(int(npus[name].sum()), "B", 1024) for name in ("loaded", "stored"))
        (busiest,) = memory.busiest(1)
        busy = f"{memory.used['name'][busiest]} {percent(float(memory.used['busy'][busiest]) / end)} busy"
        lines.append(Fact("remote memory", loaded, f"loaded by the NPUs, {stored} stored; at most {busy}"))
    if "busy" in npus:
        moved = rounded(int(npus["read"].sum() + npus["written"].sum()), "B", 1024)
        most = int(npus["busy"].argmax())
        note = f"busy on average, NPU {most} {percent(float(npus['busy'][most]) / end)}; {moved} of communication"
        lines.append(Fact("NPUs' memory", percent(float(npus["busy"].mean()) / end), note))
    return lines
