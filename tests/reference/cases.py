"""Random cases for the comparison of the engine with the oracle: a network, the options of its routers, messages."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from hypothesis import strategies as st

from pyxsim.core.engine_options import (
    BY_AGE,
    BY_CLASS,
    BY_HOPS,
    BY_LOCAL_AGE,
    BY_NETWORK_AGE,
    BY_QUEUE,
    CUT_THROUGH,
    EACH,
    EQUAL_SHARE,
    LEAST,
    POWER_SHARE,
    RANDOM,
    STORE_AND_FORWARD,
    TWO,
    WORMHOLE,
    RouterOptions,
)
from tests.reference.allocator_names import AGE, INPUT_FIRST, ISLIP, ROTATING, UNRANKED, WAVEFRONT
from tests.reference.networks import Net, Style, crowd, full, grid, hub, line, ring, ring_of_stars, star
from tests.reference.relations import Manner, cut, digraph, give_ways, loosen

Send = tuple[int, int, int, int, int, int, int, int, int]  # the arguments of `send`


@dataclass
class Case:
    """Messages are sorted by their start, so that they may be sent piecemeal without a change of order."""

    net: Net
    options: RouterOptions
    messages: list[Send]


FEW_VCS = st.integers(1, 5)
SERIALISATION = [Fraction(1), Fraction(1), Fraction(3, 2), Fraction(64, 25), Fraction(2), Fraction(8)]
flag = st.booleans()
seldom = st.sampled_from([False, False, False, True])


def styles(
    vcs: st.SearchStrategy[int], shortest: int = 1, pools: Sequence[int] = (0, 0, 0, 1, 2, 5)
) -> st.SearchStrategy[Style]:
    """`shortest`: the least slots that a VC can have; `pools`: what a link may have besides."""
    return st.builds(
        Style,
        vcs=vcs,
        depth=st.integers(shortest, shortest + 7),
        s=st.sampled_from(SERIALISATION),
        delay=st.one_of(st.integers(1, 4), st.integers(1, 30)),
        credit_delay=st.one_of(st.integers(2, 5), st.integers(2, 30)),
        output_queue=flag,
        pool=st.sampled_from(pools),
    )


@st.composite
def plain_nets(draw: st.DrawFn) -> Net:
    """Every packet of a plane has one path."""
    kind = draw(st.sampled_from(["hub", "line", "ring", "torus", "grid", "star", "full", "ring of stars"]))
    match kind:
        case "hub":
            net = hub(draw(st.integers(1, 5)))
        case "line":
            net = line(draw(st.integers(2, 5)))
        case "ring":
            net = ring(draw(st.integers(2, 6)), bidirectional=draw(flag), datelines=draw(flag), keep=draw(flag))
        case "torus":
            shape = [draw(st.integers(2, 3)), draw(st.integers(2, 3))]
            net = grid(shape, wrap=[True, True], bidirectional=draw(flag), datelines=draw(flag), keep=draw(flag))
        case "grid":
            net = grid([draw(st.integers(2, 3)), draw(st.integers(1, 3))], wrap=[draw(flag), draw(flag)])
        case "star":
            net = star(draw(st.integers(2, 6)))
        case "full":
            net = full(draw(st.integers(3, 5)))
        case _:
            net = ring_of_stars(draw(st.integers(2, 3)), draw(st.integers(2, 3)))
    net.bubble = draw(flag)  # of rings whose packets keep their class, that is with groups of links
    return crowd(net, 2) if draw(seldom) else net


manners = st.builds(
    Manner,
    entries=st.sampled_from(["one", "sets", "sets", "sets"]),
    any=flag,
    select=st.sampled_from([RANDOM, LEAST, TWO, EACH, EACH, EACH]),
    escape=st.sampled_from([True, True, False]),
    sticky=flag,
    equal=flag,
)


@st.composite
def free_nets(draw: st.DrawFn) -> Net:
    """Relations with sets, planes of every manner, and ways."""
    match draw(st.sampled_from(["line", "ring", "grid", "digraph", "full"])):
        case "line":
            net = line(draw(st.integers(2, 4)))
        case "ring":
            net = ring(draw(st.integers(2, 6)), bidirectional=draw(flag), datelines=draw(flag), keep=draw(flag))
        case "grid":
            shape = [draw(st.integers(2, 3)), draw(st.integers(2, 3))]
            net = grid(shape, wrap=[draw(flag), draw(flag)], datelines=draw(flag), keep=draw(flag))
        case "full":
            net = full(draw(st.integers(3, 5)))
        case _:
            routers = draw(st.integers(2, 6))
            switches = draw(st.integers(0, routers - 2))
            net = digraph(routers, draw(st.integers(0, 2 * routers)), switches, draw(st.integers(0, 999)))
    columns = draw(st.sampled_from([[0, 1], [1, 0], [0, 1, 0, 1], [1, 0, 0, 1], [0, 0, 1]]))
    if len(net.digits[0]) == 1:
        columns = [0] * draw(st.integers(1, 2))
    loosen(
        net,
        draw(st.lists(manners, min_size=1, max_size=4)),
        classes=draw(st.integers(1, 3)),
        columns=columns,
        groups=draw(flag),
        nodes=draw(st.integers(1, 3)),
        seed=draw(st.integers(0, 999)),
    )
    net.early = draw(flag)
    return give_ways(net, draw(st.integers(0, 4)), draw(st.integers(0, 999)), least=draw(flag))


@st.composite
def adaptive_nets(draw: st.DrawFn) -> Net:
    """Planes with `each` and an escape, on the same VCs: what is an escape for one packet is not for another."""
    net = draw(
        st.one_of(
            st.builds(ring, st.integers(3, 5), datelines=flag, keep=flag),
            st.builds(digraph, st.integers(2, 4), st.integers(2, 8), st.just(0), st.integers(0, 999)),
            st.builds(lambda wrap: grid([3, 2], wrap=[wrap, False], datelines=False), flag),
        )
    )
    dimensions = len(net.digits[0])
    made = st.builds(
        Manner,
        entries=st.just("sets"),
        any=flag,
        select=st.just(EACH),
        escape=st.just(True),
        sticky=flag,
        equal=seldom,
    )
    loosen(
        net,
        draw(st.lists(made, min_size=1, max_size=2)),
        classes=draw(st.sampled_from([1, 1, 2])),
        columns=list(range(dimensions)),
        groups=False,
        nodes=draw(st.integers(1, 3)),
        seed=draw(st.integers(0, 999)),
    )
    return give_ways(net, draw(st.integers(0, 2)), draw(st.integers(0, 999)), least=draw(flag))


def nets() -> st.SearchStrategy[Net]:
    return st.one_of(plain_nets(), free_nets(), free_nets())


def risky_nets() -> st.SearchStrategy[Net]:
    """Rings of one direction without datelines: long packets soon wait for each other in a circle."""
    rings = st.builds(ring, st.integers(3, 5), bidirectional=st.just(False), datelines=st.just(False))
    tori = st.builds(
        lambda a, b: grid([a, b], wrap=[True, True], bidirectional=False, datelines=False),
        st.integers(2, 3),
        st.integers(2, 3),
    )
    return st.one_of(rings, rings, tori)


def classed_nets() -> st.SearchStrategy[Net]:
    """Crowded rings with datelines: packets of both classes meet at every output port."""
    return st.builds(
        lambda routers, nodes, both: crowd(ring(routers, bidirectional=both), nodes),
        st.integers(3, 5),
        st.integers(2, 3),
        st.sampled_from([False, False, True]),
    )


@st.composite
def router_options(draw: st.DrawFn, *, each: bool = False) -> RouterOptions:
    """Any legal options. `each`: a plane has it, with which neither `va = 0` nor `ordered` goes."""
    vnets = draw(st.sampled_from([1, 1, 1, 2, 3]))
    classes = draw(st.sampled_from([1, 1, 2, 3]))
    options = RouterOptions(
        rc=draw(st.integers(0, 3)),
        va=draw(st.integers(int(each), 3)),
        drained=draw(flag),
        interleaved=draw(flag),
        flow=draw(st.sampled_from([WORMHOLE, WORMHOLE, CUT_THROUGH, STORE_AND_FORWARD])),
        vnets=vnets,
        class_vnet=tuple(draw(st.integers(0, vnets - 1)) for _ in range(classes)),
        class_priority=tuple(draw(st.integers(0, 3)) for _ in range(classes)),
        seed=draw(st.integers(0, 2**63 - 1)),
    )
    if draw(seldom):  # as Garnet's
        options.step_arbiter, options.ordered = draw(flag), not each and draw(flag)
        return options
    options.va_allocator = draw(st.sampled_from([ROTATING, ROTATING, INPUT_FIRST, ISLIP, ISLIP, WAVEFRONT, AGE]))
    options.va_iterations = draw(st.integers(1, 3))
    options.sa_allocator = draw(st.sampled_from([INPUT_FIRST, INPUT_FIRST, ISLIP, ISLIP, WAVEFRONT, AGE]))
    options.sa_iterations = draw(st.integers(1, 3))
    options.speculative = options.va > 0 and draw(flag)
    options.input_speedup = draw(st.sampled_from([1, 1, 1, 2, 3]))
    options.speedup = draw(st.sampled_from([1, 1, 1, 2, 3]))
    options.st = draw(st.integers(0, 4)) if options.speedup > 1 else 0
    return options


@st.composite
def ranked_options(draw: st.DrawFn, *, each: bool = False) -> RouterOptions:
    """Matrix allocators, and classes with different priorities that meet in them."""
    options = draw(router_options(each=each))
    options.step_arbiter = options.ordered = False
    options.va = max(1, options.va)
    options.va_allocator = draw(st.sampled_from([INPUT_FIRST, ISLIP, WAVEFRONT, AGE]))
    options.sa_allocator = draw(st.sampled_from([INPUT_FIRST, ISLIP, WAVEFRONT, AGE]))
    options.vnets, options.class_vnet, options.class_priority = 1, (0, 0, 0), (0, 1, 0)
    return options


@st.composite
def whole_options(draw: st.DrawFn, *, each: bool = False) -> RouterOptions:
    """Packets are buffered as a whole, and a VC may have those of others."""
    options = draw(router_options(each=each))
    options.flow, options.drained = draw(st.sampled_from([CUT_THROUGH, CUT_THROUGH, STORE_AND_FORWARD])), False
    return options


@st.composite
def speculative_options(draw: st.DrawFn, *, each: bool = False) -> RouterOptions:
    options = draw(router_options(each=each))
    options.step_arbiter = options.ordered = options.drained = False
    options.rc, options.va, options.speculative = draw(st.integers(0, 1)), draw(st.integers(1, 2)), True
    return options


@st.composite
def switch_options(draw: st.DrawFn, *, each: bool = False) -> RouterOptions:
    """A held switch, limits of output queues, an output speed-up, fractional steps, ranks, shared VC classes."""
    options = draw(router_options(each=each))
    options.step_arbiter = options.ordered = False
    options.va = max(1, options.va)
    options.va_allocator = draw(st.sampled_from([INPUT_FIRST, ISLIP, WAVEFRONT, *UNRANKED]))
    options.sa_allocator = draw(st.sampled_from([INPUT_FIRST, ISLIP, WAVEFRONT, *UNRANKED]))
    options.output_speedup = draw(st.sampled_from([1, 1, 2, 3]))
    options.speedup = draw(st.sampled_from([1, 1, 2, Fraction(3, 2), Fraction(17, 10), Fraction(7, 3)]))
    queued = options.output_speedup > 1 or options.speedup > 1
    options.st = draw(st.integers(0, 3)) if queued else 0
    options.queue_limit = draw(st.sampled_from([0, 1, 1, 2, 3]))
    options.hold_switch, options.va_credit, options.shared_classes = draw(flag), draw(flag), draw(flag)
    options.rank_by = draw(st.sampled_from([BY_CLASS, BY_AGE, BY_NETWORK_AGE, BY_LOCAL_AGE, BY_HOPS, BY_QUEUE]))
    return options


@st.composite
def slot_options(draw: st.DrawFn, *, each: bool = False) -> RouterOptions:
    """Limits of the slots that a VC may use of a link, and VCs in turn without VA."""
    options = draw(router_options(each=each))
    options.flow = WORMHOLE
    options.shared_limit = draw(st.sampled_from([0, 1, 2, 4, EQUAL_SHARE, EQUAL_SHARE, POWER_SHARE]))
    options.next_vc = draw(flag)
    if draw(flag) and not each:
        options.va, options.speculative = 0, False
    return options


def shared_ranges(vcs: int, vnets: int, classes: int) -> list[list[tuple[int, int]]]:
    """VC ranges in which all classes of a virtual network have what it does not divide evenly."""
    rows = []
    for v in range(vnets):
        first, last = v * vcs // vnets, (v + 1) * vcs // vnets
        share = (last - first) // classes
        rows.append([(first + c * share, last - (classes - 1 - c) * share) for c in range(classes)])
    return rows


@st.composite
def cases(
    draw: st.DrawFn,
    of: st.SearchStrategy[Net] | None = None,
    vcs: st.SearchStrategy[int] = FEW_VCS,
    limit: int = 8,
    how: Callable[..., st.SearchStrategy[RouterOptions]] = router_options,
    longest: int = 9,
) -> Case:
    """`of`: which networks, all kinds unless told; `vcs`: VCs per link; `limit`: the most messages; `how`: options."""
    net = draw(nets() if of is None else of)
    options = draw(how(each=any(manner.select == EACH for manner in net.manners.values())))
    net.vnets = options.vnets
    longest = draw(st.integers(1, longest))
    if options.output_speedup > 1:  # two flits of a tick could want the last slot of a pool
        shade_of = styles(vcs, 1 if options.flow == WORMHOLE else longest, pools=(0,))
    elif options.flow != WORMHOLE and draw(flag):  # a packet needs slots of the pool
        shade_of = styles(vcs, pools=(longest - 1, longest, longest + 3))
    else:
        shade_of = styles(vcs, 1 if options.flow == WORMHOLE else longest)
    palette = draw(st.lists(shade_of, min_size=1, max_size=3))

    def pattern(values: st.SearchStrategy[int]) -> Callable[[int], int]:
        few = draw(st.lists(values, min_size=1, max_size=4))
        return lambda i: few[i % len(few)]

    shade = st.integers(0, len(palette) - 1)
    of_wire, of_injection, of_ejection = pattern(shade), pattern(shade), pattern(shade)
    entries, exits = pattern(st.integers(1, 3)), pattern(st.integers(1, 3))
    nodes = range(len(net.homes))
    # A lane heeds no output queue, which belongs to a router's switch.
    injection = [(n, palette[of_injection(n + k)]) for n in nodes for k in range(entries(n))]
    ejection = [(n, palette[of_ejection(n + k)]) for n in nodes for k in range(exits(n))]
    net.dress(lambda i: palette[of_wire(i)], injection, ejection)
    if draw(seldom):
        rng = random.Random(draw(st.integers(0, 999)))
        links = [(style.vcs, wire.classes) for style, wire in zip(net.styles, net.wires, strict=True)]
        links += [(style.vcs, 1) for _, style in net.injection + net.ejection]
        net.ranges = {i: cut(vcs, net.vnets, classes, rng) for i, (vcs, classes) in enumerate(links)}
    if options.shared_classes:
        net.ranges = {
            i: shared_ranges(style.vcs, net.vnets, wire.classes)
            for i, (style, wire) in enumerate(zip(net.styles, net.wires, strict=True))
        }
    return Case(net, options, draw(messages(net, limit, longest, len(options.class_vnet))))


@st.composite
def messages(draw: st.DrawFn, net: Net, limit: int, longest: int, classes: int) -> list[Send]:
    sends: list[Send] = []
    planes = st.integers(0, net.planes - 1)
    if net.ways:
        planes = st.one_of(st.just(-1), planes)
    exits = st.integers(0, len(net.ejection) - 1)
    starts = st.one_of(st.just(0), st.integers(0, 9), st.integers(0, 60))
    if draw(flag):  # all at once to a few: more of them meet
        exits = st.sampled_from(draw(st.lists(exits, min_size=1, max_size=2)))
        starts = st.integers(0, 3)
    for _ in range(draw(st.integers(1, limit))):
        inject = draw(st.integers(0, len(net.injection) - 1))
        eject = draw(exits)
        flits = draw(st.integers(1, longest))
        sends.append(
            (
                inject,
                eject,
                net.ejection[eject][0],
                draw(planes),
                draw(st.integers(1, 6)),
                flits,
                draw(st.integers(1, flits)),
                draw(starts),
                draw(st.integers(0, classes - 1)),
            )
        )
    return sorted(sends, key=lambda send: send[7])
