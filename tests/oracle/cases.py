"""Random cases for the comparison of the engine with the oracle: a network, the options of its routers, messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from hypothesis import strategies as st

from pyxsim.core.options import RouterOptions
from tests.oracle.networks import Net, Style, crowd, full, grid, hub, line, ring, ring_of_stars, star

Send = tuple[int, int, int, int, int, int, int, int]  # the arguments of `send`


@dataclass
class Case:
    """Messages are sorted by their start, so that they may be sent piecemeal without a change of order."""

    net: Net
    options: RouterOptions
    messages: list[Send]


FEW_VCS = st.integers(1, 5)
SERIALISATION = [Fraction(1), Fraction(1), Fraction(3, 2), Fraction(64, 25), Fraction(2), Fraction(8)]


def styles(vcs: st.SearchStrategy[int]) -> st.SearchStrategy[Style]:
    return st.builds(
        Style,
        vcs=vcs,
        depth=st.integers(1, 8),
        s=st.sampled_from(SERIALISATION),
        delay=st.one_of(st.integers(1, 4), st.integers(1, 30)),
        credit_delay=st.one_of(st.integers(2, 5), st.integers(2, 30)),
        output_queue=st.booleans(),
    )


@st.composite
def nets(draw: st.DrawFn) -> Net:
    flag = st.booleans()
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
    return crowd(net, 2) if draw(st.sampled_from([False, False, False, True])) else net


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
def cases(
    draw: st.DrawFn, of: st.SearchStrategy[Net] | None = None, vcs: st.SearchStrategy[int] = FEW_VCS, limit: int = 8
) -> Case:
    """`of`: which networks, all kinds unless told; `vcs`: VCs per link; `limit`: the most messages."""
    net = draw(nets() if of is None else of)
    palette = draw(st.lists(styles(vcs), min_size=1, max_size=3))

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
    options = draw(
        st.builds(
            RouterOptions,
            rc=st.integers(0, 3),
            va=st.integers(0, 3),
            drained=st.booleans(),
            step_arbiter=st.booleans(),
            interleaved=st.booleans(),
            ordered=st.booleans(),
        )
    )
    return Case(net, options, draw(messages(net, limit)))


@st.composite
def messages(draw: st.DrawFn, net: Net, limit: int) -> list[Send]:
    sends: list[Send] = []
    for _ in range(draw(st.integers(1, limit))):
        inject = draw(st.integers(0, len(net.injection) - 1))
        eject = draw(st.integers(0, len(net.ejection) - 1))
        flits = draw(st.integers(1, 9))
        sends.append(
            (
                inject,
                eject,
                net.ejection[eject][0],
                draw(st.integers(0, net.planes - 1)),
                draw(st.integers(1, 6)),
                flits,
                draw(st.integers(1, flits)),
                draw(st.one_of(st.just(0), st.integers(0, 9), st.integers(0, 60))),
            )
        )
    return sorted(sends, key=lambda send: send[-1])
