"""What ASTRA-sim cannot do, told before it is tried: each line says what the original does with it."""

from __future__ import annotations

from collections.abc import Sequence

from pyxsim.collective.communicator import Communicator
from pyxsim.collective.lookup import Algorithm
from pyxsim.collective.plan import Phase
from pyxsim.compat.astra.system.phase_algorithms import ALGORITHMS, Program, plain
from pyxsim.errors import InputError
from pyxsim.settings.algorithms import ASTRA_KINDS
from pyxsim.system.options import ASTRA_SIM_1, Options

_OVER_ALL = ("one-ring", "one-direct", "one-halving-doubling")
_MOST = 2**31 - 1  # bytes of a chunk in version 1, which keeps them in an int


def refuse_options(options: Options) -> None:
    """Raise InputError for options that the original has not, or dies of."""
    compat = str(options.compat)
    if options.compat != ASTRA_SIM_1 and options.endpoint_delay < 1 and options.shared_bus is None:
        raise InputError(
            "ASTRA-sim 2 stops at an assertion of its event queue when nothing takes time",
            key="system.endpoint_delay",
            allowed="at least 1 cycle",
        )
    for given, key in ((options.start_skew, "start_skew"), (options.slowdown, "stragglers")):
        if given:
            raise InputError(f"{compat} knows no NPUs that differ", key=f"system.{key}", allowed="no compat")
    if options.carry:
        raise InputError(f"{compat} moves no data", key="output.carry", allowed="no compat")


def refuse_collective(kind: str, size: int, group: Communicator, options: Options, key: str) -> None:
    """Raise InputError for a collective that the original has not."""
    compat = str(options.compat)
    if kind not in ASTRA_KINDS and options.compat == ASTRA_SIM_1:
        raise InputError(f"{compat} has no {kind}", key=key, allowed=list(ASTRA_KINDS), given=kind)
    if size < 1:
        raise InputError(f"{kind} of {size} bytes", key=key, allowed="at least 1 byte")
    if not group.is_grid and options.compat == ASTRA_SIM_1:
        raise InputError(
            "astra-sim-1 has no communicators: a collective concerns all NPUs, or whole dimensions",
            key=key,
            allowed="dimensions",
        )


def refuse_join(phase: Phase, key: str) -> None:
    """Raise InputError for messages that are added up on their way."""
    if (phase.schedule().join >= 0).any():
        problem = f"ASTRA-sim has no switches that add up, as {phase.algorithm} wants"
        raise InputError(problem, key=key, allowed="another algorithm, or no compat")


def refuse_rendezvous(options: Options, kind: str) -> None:
    """Raise InputError for collectives that are carried out message by message where each message is asked for."""
    if options.rendezvous:
        raise InputError(
            f"{kind} is carried out message by message here, and nothing says when its messages are asked for",
            key="system.rendezvous",
            allowed="false, or an algorithm of ASTRA-sim's own",
        )


def refuse_message(options: Options, *, asked: bool) -> None:
    """Raise InputError where there are no messages from NPU to NPU. `asked`: somebody can ask for this one."""
    if options.rendezvous and not asked:
        raise InputError(
            "with system.rendezvous whoever receives a message asks for it, and nobody receives this one",
            key="message",
            allowed="traces, which have receives",
        )
    if options.compat == ASTRA_SIM_1:
        raise InputError("astra-sim-1 has collectives only", key="message", allowed="no messages, or astra-sim-2")


def refuse_missing_groups(groups: Sequence[Sequence[int]], npus: int, key: str) -> None:
    """Raise InputError unless these groups are all NPUs."""
    missing = sorted(set(range(npus)) - {npu for group in groups for npu in group})
    if missing:
        raise InputError(
            f"ASTRA-sim 1 never ends: all NPUs wait for each other after a phase, and NPU {missing[0]} is in none of "
            "the groups of this collective",
            key=key,
            allowed="the same collective in the same cycle on all groups along its dimensions",
        )


def refuse_other_queue() -> None:
    """Raise InputError for NPUs of a group whose turns have come to different queues."""
    raise InputError(
        "the NPUs of a group have used their queues differently: in ASTRA-sim they would wait for each other "
        "in different queues",
        key="system.queues",
        allowed="one queue in each dimension",
    )


def refuse_other_tree(kind: str) -> None:
    """Raise InputError for NPUs of a group whose turns have come to different trees."""
    raise InputError(
        "the NPUs of a group have used its double-binary-tree differently often: in ASTRA-sim they would take "
        "different trees",
        key=f"system.{kind.replace('-', '_')}",
        allowed="another algorithm, or the same collectives along a dimension on all NPUs",
    )


def refuse_other_ways(npu: int, name: str, kind: str) -> None:
    """Raise InputError for an NPU that Themis sends other ways than those before it."""
    raise InputError(
        f"NPU {npu} takes the chunks of '{name or kind}' through the dimensions in another order than the first did: "
        "in ASTRA-sim they would wait for each other in different dimensions",
        key="system.inter_dimension",
        allowed="ascending, round-robin",
    )


def refuse_other_order(npu: int, name: str, kind: str) -> None:
    """Raise InputError for an NPU that enters collectives in another order than the first did."""
    raise InputError(
        f"NPU {npu} enters the {name} in another order than others do: ASTRA-sim matches the collectives of its NPUs "
        "by how many each has issued, and would take this one for another",
        key=f"system.{kind.replace('-', '_')}",
        allowed="the same order on all NPUs of a group",
    )


def refuse_chunk(chunk: int, kind: str, options: Options, key: str) -> None:
    """Raise InputError for chunks that cannot be cut off a buffer."""
    if chunk < 1:
        raise InputError(
            f"{kind} of fewer bytes than chunks: ASTRA-sim cuts off chunks of 0 bytes for ever",
            key=key,
            allowed=f"at least {options.chunks} bytes",
        )


def refuse_algorithm(algorithm: Algorithm, kind: str, n: int, key: str, *, group: bool) -> None:
    """Raise InputError for an algorithm that the original has not, or that dies of what it gets."""
    name = plain(algorithm)
    if name not in ALGORITHMS or (algorithm.over_all and name == "double-binary-tree"):
        raise InputError(
            f"ASTRA-sim has no {algorithm.name}", key=key, allowed=[*ALGORITHMS, *_OVER_ALL], given=algorithm.name
        )
    if name == "halving-doubling" and kind == "all-to-all":
        raise InputError("ASTRA-sim stops: halving-doubling cannot do all-to-all", key=key, allowed="ring or direct")
    if name in ("halving-doubling", "double-binary-tree") and n & (n - 1):
        what = "never ends" if name == "halving-doubling" else "crashes"
        raise InputError(f"ASTRA-sim {what}: {name} on {n} NPUs", key=key, allowed="a power of two of NPUs")
    if name == "double-binary-tree" and group:
        raise InputError(
            "ASTRA-sim crashes: a communicator group has no trees", key=key, allowed="ring, direct or halving-doubling"
        )


def refuse_over_all_in_part(algorithm: Algorithm, group: Communicator, npus: int, key: str) -> None:
    """Raise InputError for one group over all dimensions where only some are asked for."""
    if len(group) < npus:
        raise InputError(
            f"ASTRA-sim takes all NPUs for {algorithm.name}, whatever dimensions are involved",
            key=key,
            allowed="an algorithm for each dimension",
        )


def refuse_themis_over_all(algorithm: Algorithm, kind: str, shape: Sequence[int], options: Options, key: str) -> None:
    """Raise InputError for one group over all dimensions where each chunk chooses their order."""
    if len(shape) > 1 and kind != "all-to-all" and options.inter_dimension.startswith("themis"):
        raise InputError(
            f"ASTRA-sim stops: {options.inter_dimension} puts dimensions in order, and {algorithm.name} has but one",
            key=key,
            allowed="an algorithm for each dimension",
        )


def refuse_program(program: Program, options: Options, key: str) -> None:
    """Raise InputError for sizes that the original cannot hold."""
    if program.smallest < 1:
        first = options.compat == ASTRA_SIM_1
        there = "stops at an assertion" if not first else "1 counts the way of such over its analytical network alone"
        raise InputError(
            f"{program.entering} bytes make messages of 0 bytes on {program.n} NPUs, which no network here carries: "
            f"ASTRA-sim {there}",
            key=key,
            allowed="more bytes, or fewer chunks",
        )
    most = max(program.entering, program.leaving)
    if most > _MOST and (options.compat == ASTRA_SIM_1 or options.shared_bus is not None):
        raise InputError(
            f"a chunk of {most} bytes does not fit into the 32 bits that ASTRA-sim has for it here",
            key=key,
            allowed=f"at most {_MOST} bytes, that is more chunks",
        )
