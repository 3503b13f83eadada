"""What ASTRA-sim crashes or hangs on is refused, and the line says what it does."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from pyxsim.collective.communicator import Communicator
from pyxsim.errors import InputError
from tests.compat.astra.system.originals import network, system


def layer(compat: str, npus: tuple[int, ...], algorithms: list[str], **options: Any) -> Any:
    net = network(compat, ["FullyConnected"] * len(npus), npus, [50] * len(npus), [500] * len(npus))
    return system(net, compat, algorithms, **options)


@pytest.mark.parametrize(
    ("algorithm", "kind", "told"),
    [
        ("halving-doubling", "all-reduce", "system.all_reduce: ASTRA-sim never ends: halving-doubling on 6 NPUs"),
        ("double-binary-tree", "all-reduce", "ASTRA-sim crashes: double-binary-tree on 6 NPUs"),
        ("halving-doubling", "all-to-all", "system.all_to_all: ASTRA-sim stops: halving-doubling cannot do all-to-all"),
        ("bruck", "all-gather", "ASTRA-sim has no bruck; allowed: ring, direct.*, one-halving-doubling"),
        ("one-double-binary-tree", "all-reduce", "ASTRA-sim has no one-double-binary-tree"),
    ],
)
@pytest.mark.parametrize("compat", ["astra-sim-1", "astra-sim-2"])
def test_algorithms(compat: str, algorithm: str, kind: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        layer(compat, (6,), [algorithm]).issue(kind, 600)


def test_kinds() -> None:
    """Version 2 gets those that it has not (test_custom.py)."""
    with pytest.raises(InputError, match="astra-sim-1 has no broadcast; allowed: all-reduce, reduce-scatter"):
        layer("astra-sim-1", (4,), ["ring"]).issue("broadcast", 600)


def test_nothing_may_take_no_time_in_version_2() -> None:
    with pytest.raises(InputError, match=r"system.endpoint_delay: ASTRA-sim 2 stops at an assertion"):
        layer("astra-sim-2", (4,), ["ring"], endpoint_delay=0)
    layer("astra-sim-1", (4,), ["ring"], endpoint_delay=0)


def test_options_that_only_we_have() -> None:
    for option in ({"start_skew": [1, 2, 3, 4]}, {"slowdown": [Fraction(2)] * 4}, {"carry": True}):
        with pytest.raises(InputError, match=r"astra-sim-2 (has no differing NPUs|moves no data)"):
            layer("astra-sim-2", (4,), ["ring"], **option)


@pytest.mark.parametrize("compat", ["astra-sim-1", "astra-sim-2"])
def test_less_bytes_than_chunks(compat: str) -> None:
    other = layer(compat, (4,), ["ring"], chunks=8)
    other.issue("all-gather", 7)
    with pytest.raises(InputError, match="cuts off chunks of 0 bytes forever; allowed: at least 8 bytes"):
        other.run()


def test_messages_of_0_bytes() -> None:
    first = layer("astra-sim-1", (4,), ["ring"], chunks=4)
    first.issue("reduce-scatter", 1_000_003)  # 4 chunks, and one of 3 bytes
    with pytest.raises(InputError, match="3 bytes make messages of 0 bytes on 4 NPUs"):
        first.run()
    # Version 2 makes the buffer as large as that each NPU has a byte of each chunk.
    second = layer("astra-sim-2", (4,), ["ring"], chunks=4)
    second.issue("reduce-scatter", 3)
    second.run()
    assert second.bytes_planned == 4 * 4 * 3


def test_32_bits() -> None:
    first = layer("astra-sim-1", (4,), ["ring"])
    first.issue("all-gather", 2**30)
    with pytest.raises(InputError, match="a chunk of 4294967296 bytes does not fit into the 32 bits"):
        first.run()
    layer("astra-sim-2", (4,), ["ring"]).issue("all-gather", 2**30)


def test_groups() -> None:
    group = Communicator((0, 3, 2, 5), (4,), (-1,))
    with pytest.raises(InputError, match="astra-sim-1 has no communicators"):
        layer("astra-sim-1", (4, 2), ["ring"] * 2).issue("all-gather", 4, communicator=group)
    with pytest.raises(InputError, match="ASTRA-sim crashes: a communicator group has no trees"):
        layer("astra-sim-2", (8,), ["double-binary-tree"]).issue("all-reduce", 4, communicator=group)
    with pytest.raises(InputError, match="astra-sim-1 has collectives only"):
        layer("astra-sim-1", (4, 2), ["ring"] * 2).send(0, 1, 4)


def test_groups_whose_npus_disagree_about_queues() -> None:
    other = layer("astra-sim-2", (4,), ["ring"], queues=2)
    other.issue("all-gather", 4, communicator=Communicator((0, 1), (2,), (-1,)))
    other.issue("all-gather", 4, at=1)
    with pytest.raises(InputError, match="the NPUs of a group have used their queues differently"):
        other.run()


def test_groups_that_are_missing_in_version_1() -> None:
    other = layer("astra-sim-1", (4, 2), ["ring"] * 2)
    other.issue("all-gather", 4, communicator=Communicator.along((0,), (4, 2))[0])
    with pytest.raises(InputError, match=r"ASTRA-sim 1 never ends: .* and NPU 4 is in none of the groups"):
        other.run()


def test_one_group_over_some_dimensions() -> None:
    for compat in ("astra-sim-1", "astra-sim-2"):
        other = layer(compat, (4, 2), ["one-ring"] * 2)
        with pytest.raises(InputError, match="ASTRA-sim uses all NPUs for one-ring, whatever dimensions are involved"):
            other.issue("all-gather", 4, communicator=Communicator.along((0,), (4, 2))[0])


def test_themis_needs_dimensions() -> None:
    with pytest.raises(InputError, match="ASTRA-sim stops: themis orders dimensions, and one-ring has only one"):
        layer("astra-sim-1", (4, 2), ["one-ring"] * 2, inter_dimension="themis").issue("all-reduce", 64)
