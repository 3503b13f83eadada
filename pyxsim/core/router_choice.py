"""Which router runs: one function and one table of conditions, shown in docs/router.md ("Which router runs")."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum

MASK_BITS = 64  # of a word
MOST_WORDS = 64  # of bit masks per router
MOST_OUTPUTS = 64  # of a router
LONGEST_TRY_DELAY = 2  # cycles from the front of a VC to the first try in VA, or for the switch


class RouterKind(IntEnum):
    """The three implementations of a router, from the slowest to the fastest."""

    FULL_OPTION = 0
    BITMASK = 1
    BATCH = 2


@dataclass(frozen=True)
class Facts:
    """What the choice depends on.

    Attributes
    ----------
    bitmask_allowed : bool
        False if the caller asks for the full-option router (tests compare the two).
    rc, va, input_speedup, ticks, ordered, speculative, drained, step_arbiter
        As in RouterOptions (pyxsim/core/engine_options.py); `ticks` is the internal speed-up.
    separable_input_first, rotating_va, wormhole : bool
        Switch allocator, VC allocator and flow control are the defaults.
    priorities : bool
        Message classes differ in priority.
    unusual : bool
        The switch is held, VC classes share VCs, ranks differ within a class, VA looks at credits, or there is an
        output speed-up or a limit of output queues, flits may be lost, links retry, or credits
        are messages.
    bubble : bool
        Packets enter rings by bubble flow control.
    shared_pool, output_queues : bool
        Any link has a pool of shared slots, or an output queue.
    credit_routes, multi_candidates : bool
        A route depends on credits; a head requests the VCs of all its candidates (`select = each`).
    observed : bool
        Attribution or a trace records every flit.
    vcs, fan_in, fan_out, output_vcs : int
        The most VCs of a link, input ports, output ports and output VCs of a router.
    one_word : bool
        The masks of each router are one word of input VCs and one word of output ports.
    uniform : bool
        An input VC has the same number at every router that has its port.
    unit_rate : bool
        Every link takes one flit per cycle.
    classes : int
        Message classes.
    """

    bitmask_allowed: bool
    rc: int
    va: int
    input_speedup: int
    ticks: int
    ordered: bool
    speculative: bool
    drained: bool
    step_arbiter: bool
    separable_input_first: bool
    rotating_va: bool
    wormhole: bool
    priorities: bool
    unusual: bool
    bubble: bool
    shared_pool: bool
    output_queues: bool
    credit_routes: bool
    multi_candidates: bool
    observed: bool
    vcs: int
    fan_in: int
    fan_out: int
    output_vcs: int
    one_word: bool
    uniform: bool
    unit_rate: bool
    classes: int

    @property
    def port_shift(self) -> int:
        """log2 of the mask bits per input port: the VCs of a link, rounded up to a power of two."""
        return max(self.vcs - 1, 0).bit_length()


Condition = tuple[str, Callable[[Facts], bool]]

BITMASK_CONDITIONS: tuple[Condition, ...] = (
    ("not disabled (`Engine(bitmask=False)`)", lambda f: f.bitmask_allowed),
    ("switch allocator separable, input first", lambda f: f.separable_input_first),
    ("wormhole flow control", lambda f: f.wormhole),
    ("no input speed-up, no internal speed-up", lambda f: f.input_speedup == 1 and f.ticks == 1),
    ("one priority for all message classes", lambda f: not f.priorities),
    (
        "no output speed-up, no held switch, no shared VC classes, no VA by credits, no lost flits, no retry, "
        "no credits as messages",
        lambda f: not f.unusual,
    ),
    ("no bubble flow control", lambda f: not f.bubble),
    ("no ordered switch, no speculation", lambda f: not (f.ordered or f.speculative)),
    ("no shared buffer pool", lambda f: not f.shared_pool),
    (f"`rc + max(va - 1, 0)` at most {LONGEST_TRY_DELAY}", lambda f: f.rc + max(f.va - 1, 0) <= LONGEST_TRY_DELAY),
    (
        f"at most {MASK_BITS} VCs per link, {MASK_BITS * MOST_WORDS} mask bits of input VCs per router",
        lambda f: 1 << f.port_shift <= MASK_BITS and f.fan_in << f.port_shift <= MASK_BITS * MOST_WORDS,
    ),
    (f"at most {MOST_OUTPUTS} output ports per router", lambda f: f.fan_out <= MOST_OUTPUTS),
)

BATCH_CONDITIONS: tuple[Condition, ...] = (
    ("one word of masks per router, for input VCs and for output ports", lambda f: f.one_word),
    ("the same numbers of input VCs at every router", lambda f: f.uniform),
    (f"at most {MASK_BITS} VCs per link, {MASK_BITS} output VCs per router", lambda f: f.output_vcs <= MASK_BITS),
    ("a VA stage, VC allocator `rotating`", lambda f: f.va > 0 and f.rotating_va),
    (
        "routes independent of credits, no plane with `select = each`",
        lambda f: not (f.credit_routes or f.multi_candidates),
    ),
    ('`vc_reuse = "tail"`, arbiters that move past the winner', lambda f: not (f.drained or f.step_arbiter)),
    ("no output queue", lambda f: not f.output_queues),
    ("no attribution, no trace", lambda f: not f.observed),
)


@dataclass(frozen=True)
class Choice:
    """The result of `choose_router`.

    Attributes
    ----------
    kind : RouterKind
        Which router runs.
    lane_batch : bool
        Injection lanes are evaluated stage by stage, too.
    independent_ports : bool
        Packets without a common link or lane cannot affect each other. That holds for the batch router, and for the
        full-option router if it runs only because of bubble flow control, which looks at a packet's own links.
    unmet : tuple of str
        Conditions that keep a faster router from running.
    """

    kind: RouterKind
    lane_batch: bool
    independent_ports: bool
    unmet: tuple[str, ...]


def choose_router(facts: Facts) -> Choice:
    """Choose the fastest router that implements all options of a network."""
    with_datelines = replace(facts, bubble=False)
    independent = all(holds(with_datelines) for _, holds in (*BITMASK_CONDITIONS, *BATCH_CONDITIONS))
    independent = independent and facts.classes == 1
    unmet = tuple(text for text, holds in BITMASK_CONDITIONS if not holds(facts))
    if unmet:
        return Choice(RouterKind.FULL_OPTION, False, independent, unmet)
    unmet = tuple(text for text, holds in BATCH_CONDITIONS if not holds(facts))
    if unmet:
        return Choice(RouterKind.BITMASK, False, False, unmet)
    return Choice(RouterKind.BATCH, independent, independent, ())


def conditions_as_markdown() -> str:
    """Return the table of docs/router.md."""
    rows = [("bitmask", text) for text, _ in BITMASK_CONDITIONS] + [("batch", text) for text, _ in BATCH_CONDITIONS]
    return "\n".join(["| router | condition |", "|---|---|", *(f"| {name} | {text} |" for name, text in rows)])
