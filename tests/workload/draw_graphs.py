"""Random graphs of tasks: any kinds, dependencies, resources, numbers. Nothing makes sure that they come to an end."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

from pyxsim.collective.communicator import Communicator
from pyxsim.workload.graph import Call, GraphBuilder, Kind, TaskGraph

SHAPES = ((1,), (2,), (3,), (2, 2), (3, 2))


@dataclass
class Drawn:
    """A graph, and the machine that it is for."""

    graph: TaskGraph
    shape: tuple[int, ...]
    skew: list[int]
    slow: list[Fraction]


@st.composite
def drawn_graphs(
    draw: st.DrawFn, shapes: tuple[tuple[int, ...], ...] = SHAPES, most: int = 12, *, remote: bool = False
) -> Drawn:
    """`remote`: with remote accesses, for a system that has remote memory."""
    shape = draw(st.sampled_from(shapes))
    npus = len(Communicator.whole(shape))
    resources = [(f"r{i}", draw(st.integers(1, 2))) for i in range(draw(st.integers(0, 3)))]
    builder = GraphBuilder(npus, resources)
    tasks: list[dict[str, Any]] = []  # those that a task waits for come before it here, and anywhere in the graph
    for item in range(draw(st.integers(1, most))):
        what = draw(st.sampled_from(["own", "own", "message", "collective"]))
        if what == "message" and npus > 1:
            src = draw(st.integers(0, npus - 1))
            dst = draw(st.integers(0, npus - 2))
            dst += dst >= src
            common = {"size": draw(st.integers(1, 3)), "match": draw(st.integers(0, 1))}
            tasks.append({"npu": src, "kind": Kind.SEND, "peer": dst, **common})
            tasks.append({"npu": dst, "kind": Kind.RECEIVE, "peer": src, **common})
        elif what == "collective":
            who = draw(st.sampled_from(["all", "members", "dims", "groups"]))
            some = tuple(draw(st.lists(st.integers(0, npus - 1), min_size=1, unique=True)))
            cut = draw(st.integers(1, len(some)))
            groups: dict[str, Any] = {
                "all": None,
                "members": some,
                "dims": (draw(st.integers(0, len(shape) - 1)),),
                "groups": tuple(group for group in (some[:cut], some[cut:]) if group),
            }
            size = draw(st.integers(1, 6))
            them = {} if who == "all" else {who: groups[who]}
            call = builder.call(Call("all-reduce", size, name=f"c{item}", **them))
            everybody = some if who in ("members", "groups") else range(npus)
            tasks += [{"npu": npu, "kind": Kind.COLLECTIVE, "call": call} for npu in everybody]
        else:
            kind = draw(st.sampled_from([Kind.COMPUTE, Kind.COMPUTE, Kind.MEMORY, Kind.MARK]))
            far = remote and kind == Kind.MEMORY and draw(st.booleans())
            long = {"size": draw(st.integers(1, 6))} if far else {"ticks": draw(st.integers(0, 5))}
            tasks.append({"npu": draw(st.integers(0, npus - 1)), "kind": kind, **long})
    for place, task in enumerate(tasks):
        earlier = [other for other in range(place) if tasks[other]["npu"] == task["npu"]]
        task["before"] = draw(st.lists(st.sampled_from(earlier), max_size=3, unique=True)) if earlier else []
        if resources and task["kind"] != Kind.MARK and draw(st.booleans()):
            task["resource"] = draw(st.sampled_from(resources))[0]
    order = draw(st.permutations(range(len(tasks))))
    number = {place: at for at, place in enumerate(order)}
    for place in order:
        task = tasks[place]
        before = [number[other] for other in task["before"]]
        builder.task(**{**task, "before": before, "name": f"t{number[place]}"})
    skew = draw(st.lists(st.integers(0, 4), min_size=npus, max_size=npus))
    slow = [draw(st.sampled_from([Fraction(1), Fraction(3, 2)])) for _ in range(npus)]
    return Drawn(builder.graph(), shape, skew, slow)
