"""`pyxsim timeline`: a result as a trace that Perfetto opens."""

from __future__ import annotations

import os

from pyxsim.cli.command_output import CommandOutput
from pyxsim.cli.faults import all_or_faults
from pyxsim.errors import InputError
from pyxsim.reports.text.facts import plural, rounded
from pyxsim.reports.timeline import View, build, check_timeline, write
from pyxsim.results.result import Result

DEFAULT = ".trace.json.gz"
OPENS = "open it at https://ui.perfetto.dev, or with Perfetto's trace processor"


def write_timeline(out: CommandOutput, path: str, view: View, file: str | None = None) -> None:
    """Write the trace of the result in a file. Left out, the name of the trace follows from that of the result."""
    target = file if file is not None else f"{path.removesuffix('.h5')}{DEFAULT}"

    def check() -> None:
        if os.path.realpath(check_timeline(target)) == os.path.realpath(path):
            raise InputError("cannot be written: it is the result", file=target, allowed="another name")

    result, *_ = all_or_faults(lambda: Result.load(path), check, view.check)
    trace = build(result, view)
    size = write(trace, target)
    events = trace.count()
    told = {**trace.about, "complete": result.complete, "left_out": trace.left_out}
    out.put({"file": target, "bytes": size, **events, **told})
    out.say(
        f"{result.title}: {plural(events['slices'], 'slice')}, {plural(events['arrows'], 'arrow')}, "
        f"{plural(events['samples'], 'sample')} of {plural(len(trace.counters), 'counter')}; "
        f"{trace.about['npus']} NPUs, {trace.about['links']} links"
    )
    if not (len(result.chunks["rank"]) or result.work or trace.counters):
        out.say("it tells neither of chunks, tasks nor links over time: there is nothing to see but when it ran")
    if not result.complete:
        out.say("the run was interrupted, or failed: it is shown until then")
    if trace.left_out:
        out.say(f"left out, for --max-events {view.most_events}: {'; '.join(trace.left_out)}")
    out.say("", f"wrote {target} ({rounded(size, 'B')}); {OPENS}")
