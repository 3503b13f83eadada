"""Traces of all ranks as a graph of tasks: what each rank did, in its order, with the pauses of the trace.

An activity starts after the one before it in its thread or stream, and after what started it. What else it waited for,
the trace does not tell. If it started later, it is taken to have waited for the activity of its rank that ended last
before it: on the host one of another thread, and every collective of gloo that has ended; on a device one of another
stream; and where the host waits for a device, one of the device. What is left is a pause.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

from pyxsim.errors import InputError
from pyxsim.rank_files import find
from pyxsim.workload.graph import MOST_CYCLES, Call, GraphBuilder, Kind, TaskGraph
from pyxsim.workload.pytorch.kineto import Activity, Recording, read

_PER_SECOND = 10**9
_PAUSE = "pause"
_POINT_TO_POINT = ("send", "recv")


def graph_of(
    name: str,
    npus: int,
    clock: Fraction = Fraction(_PER_SECOND),
    compute_scale: Fraction = Fraction(1),
    comm_scale: Fraction = Fraction(1),
) -> TaskGraph:
    """Return the tasks of `PREFIX.*.kineto.json` for a network of `npus`. Raises InputError.

    NPU r is rank r.
    """
    files = find(name)
    recordings = [read(str(path), rank) for rank, path in sorted(files.items())]
    ranks = recordings[0].ranks
    for recording in recordings:
        if recording.ranks != ranks:
            problem = f"is of {recording.ranks} ranks, but {recordings[0].file} of {ranks}"
            raise InputError(problem, file=recording.file, key="distributedInfo.world_size")
    if lost := sorted(set(range(ranks)) - {recording.rank for recording in recordings}):
        problem = f"has no trace of rank {lost[0]}" + (f" and {len(lost) - 1} more" if len(lost) > 1 else "")
        raise InputError(problem, file=name, allowed=f"a trace of each of the {ranks} ranks")
    if ranks > npus:
        raise InputError(f"has {ranks} ranks", file=name, allowed=f"up to {npus}, the NPUs of the network")
    build = GraphBuilder(npus, ())
    calls = _calls(build, recordings, comm_scale)
    for recording in recordings:
        _add(build, recording, calls, clock, compute_scale, comm_scale)
    return build.graph()


def _add(
    build: GraphBuilder,
    recording: Recording,
    calls: dict[int, int],
    clock: Fraction,
    compute_scale: Fraction,
    comm_scale: Fraction,
) -> None:
    """Add the tasks of a rank."""
    of_host, of_device = [*recording.host, *recording.others], recording.device
    activities = sorted((*of_host, *of_device), key=_order)
    ended = {"host": _by_end(of_host), "device": _by_end(of_device), "gloo": _by_end(recording.others)}
    task: dict[int, int] = {}
    newest: dict[tuple[str, int, int], Activity] = {}
    begin = min(activity.start for activity in activities)
    for activity in activities:
        before = [each for each in (newest.get(activity.lane), activity.after) if each is not None]
        newest[activity.lane] = activity
        known = max((each.end for each in before), default=begin)
        others = [each for each in _during(ended[activity.lane[0]], known, activity.start) if id(each) in task]
        before += [each for each in others if each.lane[0] == "gloo"] + others[-1:]
        known = max((each.end for each in before), default=known)
        waits = list(dict.fromkeys(task[id(each)] for each in before if id(each) in task))
        if activity.start > known:
            pause = _cycles(activity.start - known, clock)
            waits = [build.task(recording.rank, Kind.MARK, _PAUSE, ticks=pause, before=waits)]
        begun = activity.start
        if activity.waits:
            others = [each for each in _during(ended[activity.waits], begun, activity.end) if id(each) in task]
            waits += [task[id(each)] for each in (others if activity.waits == "gloo" else others[-1:])]
            begun = max((each.end for each in others), default=begun)
        took = activity.end - begun
        task[id(activity)] = _task(
            build, recording, activity, calls, waits, _cycles(took, clock), compute_scale, comm_scale
        )


def _task(
    build: GraphBuilder,
    recording: Recording,
    activity: Activity,
    calls: dict[int, int],
    before: Sequence[int],
    ticks: int,
    compute_scale: Fraction,
    comm_scale: Fraction,
) -> int:
    """Add the task of an activity."""
    rank, name, message = recording.rank, activity.name, activity.message
    if id(activity) in calls:
        return build.task(rank, Kind.COLLECTIVE, name, call=calls[id(activity)], before=before)
    if message is not None and message.kind in _POINT_TO_POINT:
        kind = Kind.SEND if message.kind == "send" else Kind.RECEIVE
        size = max(1, int(message.size * comm_scale))
        return build.task(rank, kind, name, size=size, peer=message.peer, match=message.tag, before=before)
    if activity.waits or activity.lane[0] == "gloo" or name.startswith("nccl"):
        return build.task(rank, Kind.MARK, name, ticks=ticks, before=before)
    if activity.memory:
        return build.task(rank, Kind.MEMORY, name, ticks=ticks, before=before)
    return build.task(rank, Kind.COMPUTE, name, ticks=int(-(-ticks * compute_scale // 1)), before=before)


def _order(activity: Activity) -> tuple[int, bool, int]:
    """Causes come before effects: where the host waits counts by its end."""
    return (activity.end, False, activity.end) if activity.waits else (activity.start, True, activity.end)


def _during(by_end: tuple[list[int], list[Activity]], after: int, until: int) -> list[Activity]:
    """The activities that ended after a time, and not after another one."""
    ends, activities = by_end
    return activities[bisect_right(ends, after) : bisect_right(ends, until)]


def _by_end(activities: Sequence[Activity]) -> tuple[list[int], list[Activity]]:
    """The activities by their ends, with these; of equal ends the latest start is last."""
    ordered = sorted(activities, key=lambda activity: (activity.end, activity.start))
    return [activity.end for activity in ordered], ordered


def _cycles(ns: int, clock: Fraction) -> int:
    """A time as cycles, rounded up. Raises InputError for one that is too long."""
    cycles = -(-ns * clock.numerator // (clock.denominator * _PER_SECOND))
    if cycles > MOST_CYCLES:
        raise InputError(f"an activity of {ns} ns takes too many cycles", allowed=f"up to {MOST_CYCLES}")
    return cycles


def _calls(build: GraphBuilder, recordings: Sequence[Recording], comm_scale: Fraction) -> dict[int, int]:
    """Add the collectives; return the call of each activity, by its identity.

    The k-th of a kind and group on each of its ranks are one. Raises InputError if the ranks differ.
    """
    of_rank = {recording.rank: recording for recording in recordings}
    turns: dict[tuple[tuple[int, ...], str], dict[int, list[Activity]]] = {}
    for recording in recordings:
        launched = sorted((*recording.device, *recording.others), key=_launch)
        for activity in launched:
            message = activity.message
            if message is None:
                continue
            if message.kind in _POINT_TO_POINT:
                if not 0 <= message.peer < recording.ranks or message.peer == recording.rank:
                    problem = f"{activity.name} has the peer {message.peer}"
                    raise InputError(problem, file=recording.file, allowed=f"another rank of {recording.ranks}")
                continue
            members = message.members or recording.groups.get(message.group)
            if members is None and len(recording.groups) == 1:
                members = next(iter(recording.groups.values()))
            if members is None or recording.rank not in members or len(set(members)) < len(members):
                continue  # of a group that the trace does not tell: it takes its recorded time
            turns.setdefault((tuple(members), message.kind), {}).setdefault(recording.rank, []).append(activity)
    calls: dict[int, int] = {}
    for (members, kind), of in turns.items():
        many = Counter({rank: len(of.get(rank, ())) for rank in members})
        (most, highest), (fewest, lowest) = many.most_common(1)[0], many.most_common()[-1]
        if highest != lowest:
            problem = f"rank {most} has {highest} calls of {kind} in a group of {len(members)}, rank {fewest} {lowest}"
            raise InputError(
                problem, file=of_rank[most].file if most in of_rank else "", allowed="traces of the same steps"
            )
        for together in zip(*(of[rank] for rank in members), strict=True):
            first = together[0].message
            assert first is not None
            for rank, activity in zip(members, together, strict=True):
                if activity.message is None or activity.message.size != first.size:
                    size = 0 if activity.message is None else activity.message.size
                    problem = f"{activity.name} of rank {rank} has {size} bytes, but rank {members[0]} {first.size}"
                    raise InputError(problem, file=of_rank[rank].file, allowed="the same on all ranks of a group")
            size = max(1, int(first.size * comm_scale)) if first.size else 0
            root = members[first.root] if 0 <= first.root < len(members) else None
            if len(members) > 1:
                call = build.call(Call(kind, size, members=members, root=root, name=together[0].name))
                calls |= {id(activity): call for activity in together}
    return calls


def _launch(activity: Activity) -> tuple[int, int]:
    """When the host started it; what it did not start, as it began."""
    return (activity.start if activity.after is None else activity.after.end), activity.start
