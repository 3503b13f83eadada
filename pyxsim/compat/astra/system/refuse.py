"""Refusals of what ASTRA-sim cannot do; each message says what ASTRA-sim does instead."""

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
    """Raise InputError for options that ASTRA-sim lacks or crashes with."""
    compat = str(options.compat)
    if options.compat != ASTRA_SIM_1 and options.endpoint_delay < 1 and options.shared_bus is None:
        raise InputError(
            "ASTRA-sim 2 stops at an assertion of its event queue when nothing takes time",
            key="system.endpoint_delay",
            allowed="at least 1 cycle",
        )
    for given, key in ((options.start_skew, "start_skew"), (options.slowdown, "stragglers")):
        if given:
            raise InputError(f"{compat} has no differing NPUs", key=f"system.{key}", allowed="no compat")
    if options.carry:
        raise InputError(f"{compat} moves no data", key="output.carry", allowed="no compat")


def refuse_collective(kind: str, size: int, group: Communicator, options: Options, key: str) -> None:
    """Raise InputError for a collective that ASTRA-sim does not have."""
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
    """Raise InputError for in-network reductions."""
    if phase.schedule().in_network:
        problem = f"ASTRA-sim has no in-network reduction, which {phase.algorithm} needs"
        raise InputError(problem, key=key, allowed="another algorithm, or no compat")


def refuse_rendezvous(options: Options, kind: str) -> None:
    """Raise InputError for custom collectives with rendezvous."""
    if options.rendezvous:
        raise InputError(
            f"{kind} is carried out message by message, without requests for its messages",
            key="system.rendezvous",
            allowed="false, or an algorithm of ASTRA-sim's own",
        )


def refuse_large_request(options: Options, size: int, key: str) -> None:
    """Raise InputError for a message that the rendezvous protocol cannot send."""
    if options.rendezvous and size > _MOST:
        raise InputError(
            f"a message of {size} bytes does not fit into the 32 bits that ASTRA-sim's rendezvous protocol has for it: "
            "it sends the rest of the division by 2^32, or never ends",
            key=key,
            allowed=f"at most {_MOST} bytes, or no rendezvous",
        )


def refuse_message(options: Options, *, asked: bool) -> None:
    """Raise InputError where point-to-point messages are not supported. `asked`: whether this one can be requested."""
    if options.rendezvous and not asked:
        raise InputError(
            "with system.rendezvous the receiver requests a message, and this one has no receiver task",
            key="message",
            allowed="traces, which have receives",
        )
    if options.compat == ASTRA_SIM_1:
        raise InputError("astra-sim-1 has collectives only", key="message", allowed="no messages, or astra-sim-2")


def refuse_missing_groups(groups: Sequence[Sequence[int]], npus: int, key: str) -> None:
    """Raise InputError unless these groups cover all NPUs."""
    missing = sorted(set(range(npus)) - {npu for group in groups for npu in group})
    if missing:
        raise InputError(
            f"ASTRA-sim 1 never ends: all NPUs wait for each other after a phase, and NPU {missing[0]} is in none of "
            "the groups of this collective",
            key=key,
            allowed="the same collective in the same cycle on all groups along its dimensions",
        )


def refuse_other_queue() -> None:
    """Raise InputError for NPUs of a group whose rotations are at different queues."""
    raise InputError(
        "the NPUs of a group have used their queues differently: in ASTRA-sim they would wait for each other "
        "in different queues",
        key="system.queues",
        allowed="one queue in each dimension",
    )


def refuse_other_tree(kind: str) -> None:
    """Raise InputError for NPUs of a group whose rotations are at different trees."""
    raise InputError(
        "the NPUs of a group have used its double-binary-tree differently often: in ASTRA-sim they would take "
        "different trees",
        key=f"system.{kind.replace('-', '_')}",
        allowed="another algorithm, or the same collectives along a dimension on all NPUs",
    )


def refuse_other_ways(npu: int, name: str, kind: str) -> None:
    """Raise InputError for an NPU that Themis gives another order of dimensions."""
    raise InputError(
        f"NPU {npu} takes the chunks of '{name or kind}' through the dimensions in another order than the first did: "
        "in ASTRA-sim they would wait for each other in different dimensions",
        key="system.inter_dimension",
        allowed="ascending, round-robin",
    )


def refuse_other_order(npu: int, name: str, kind: str) -> None:
    """Raise InputError for an NPU that enters collectives in another order than the first."""
    raise InputError(
        f"NPU {npu} enters the {name} in another order than others do: ASTRA-sim matches the collectives of its NPUs "
        "by how many each has issued, and would take this one for another",
        key=f"system.{kind.replace('-', '_')}",
        allowed="the same order on all NPUs of a group",
    )


def refuse_chunk(chunk: int, kind: str, options: Options, key: str) -> None:
    """Raise InputError for chunks of 0 bytes."""
    if chunk < 1:
        raise InputError(
            f"{kind} of fewer bytes than chunks: ASTRA-sim cuts off chunks of 0 bytes forever",
            key=key,
            allowed=f"at least {options.chunks} bytes",
        )


def refuse_algorithm(algorithm: Algorithm, kind: str, n: int, key: str, *, group: bool) -> None:
    """Raise InputError for an algorithm that ASTRA-sim lacks, or that fails for this size."""
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
    """Raise InputError for an algorithm over all dimensions where only some are involved."""
    if len(group) < npus:
        raise InputError(
            f"ASTRA-sim uses all NPUs for {algorithm.name}, whatever dimensions are involved",
            key=key,
            allowed="an algorithm for each dimension",
        )


def refuse_themis_over_all(algorithm: Algorithm, kind: str, shape: Sequence[int], options: Options, key: str) -> None:
    """Raise InputError for an algorithm over all dimensions where each chunk has its own order of dimensions."""
    if len(shape) > 1 and kind != "all-to-all" and options.inter_dimension.startswith("themis"):
        raise InputError(
            f"ASTRA-sim stops: {options.inter_dimension} orders dimensions, and {algorithm.name} has only one",
            key=key,
            allowed="an algorithm for each dimension",
        )


def refuse_program(program: Program, options: Options, key: str) -> None:
    """Raise InputError for sizes that ASTRA-sim cannot represent."""
    if min(program.sizes) < 1:
        first = options.compat == ASTRA_SIM_1
        reason = "stops at an assertion" if not first else "1 counts the way of such over its analytical network alone"
        raise InputError(
            f"{program.entering} bytes make messages of 0 bytes on {program.n} NPUs, which no network here carries: "
            f"ASTRA-sim {reason}",
            key=key,
            allowed="more bytes, or fewer chunks",
        )
    refuse_large_request(options, max(program.sizes), key)
    most = max(program.entering, program.leaving)
    if most > _MOST and (options.compat == ASTRA_SIM_1 or options.shared_bus is not None):
        raise InputError(
            f"a chunk of {most} bytes does not fit into the 32 bits that ASTRA-sim has for it here",
            key=key,
            allowed=f"at most {_MOST} bytes, that is more chunks",
        )
