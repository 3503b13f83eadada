"""`pyxsim timeline`: write a result as a trace for Perfetto."""

from __future__ import annotations

from pyxsim.cli.command_output import CommandOutput
from pyxsim.reports.text.facts import plural, rounded
from pyxsim.reports.timeline.view import View
from pyxsim.reports.timeline.write_timeline import timeline

OPENS = "open it at https://ui.perfetto.dev, or with Perfetto's trace processor"


def write_timeline(out: CommandOutput, path: str, view: View, file: str | None = None) -> None:
    """Run `pyxsim timeline`."""
    written = timeline(path, file, view)
    trace, result, events = written.trace, written.result, written.trace.count()
    out.put(written.json())
    out.say(
        f"{result.title}: {plural(events['slices'], 'slice')}, {plural(events['arrows'], 'arrow')}, "
        f"{plural(events['samples'], 'sample')} of {plural(len(trace.counters), 'counter')}; "
        f"{trace.about['npus']} NPUs, {trace.about['links']} links"
    )
    if not (len(result.chunks["rank"]) or result.work or trace.counters):
        out.say(
            "the result has neither chunks, tasks nor links over time, so the trace shows only the length of the run"
        )
    if not result.complete:
        out.say("the run was interrupted or failed, and the trace ends at that time")
    if trace.left_out:
        out.say(f"left out, for --max-events {view.most_events}: {'; '.join(trace.left_out)}")
    out.say("", f"wrote {written.file} ({rounded(written.bytes, 'B')}); {OPENS}")
