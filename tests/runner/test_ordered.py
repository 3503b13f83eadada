"""Ordered packets hold each other up across VCs, so VC classes prove nothing for them."""

from __future__ import annotations

from typing import Any

import pytest

from pyxsim.errors import DeadlockError
from pyxsim.runner.lifecycle import run


def experiment(algorithm: str, ordered: bool) -> dict[str, Any]:
    return {
        "network": {
            "topology": "ring",
            "shape": [8],
            "router": {"ordered": ordered, "vc_reuse": "drained"},
        },
        "system": {"chunks": 4, "active_chunks": 4, "all_reduce": algorithm},
        "collective": {"kind": "all-reduce", "size": "256 KiB"},
    }


def test_datelines_do_not_help_ordered_packets() -> None:
    """This one really stops: see the second half."""
    with pytest.raises(DeadlockError, match="routes can deadlock"):
        run(experiment("direct", ordered=True))
    with pytest.raises(DeadlockError, match="nothing can move"):
        run(experiment("direct", ordered=True), allow_deadlock=True)


def test_without_order_they_do() -> None:
    assert run(experiment("direct", ordered=False)).complete


def test_neighbours_need_no_datelines() -> None:
    assert run(experiment("ring", ordered=True)).complete


def test_a_head_does_not_wait_for_vcs_of_packets_behind_it() -> None:
    """With a VA stage younger heads would be granted the last VCs, and wait behind the older one at the switch."""
    tables = {
        "network": {
            "topology": "k-ary-n-tree",
            "options": {"k": 2, "n": 3},
            "bandwidth": "25 GB/s",
            "latency": "1 us",
            "packet": "1 KiB",
            "flit": "256 B",
            "router": {"vcs": 8, "ordered": True},
        },
        "system": {"chunks": 1, "all_reduce": "recursive-doubling", "optimization": "baseline"},
        "collective": [
            {"kind": "all-reduce", "size": "470792 B"},
            {"kind": "all-reduce", "size": "470792 B", "at": "1 us"},
        ],
    }
    assert run(tables).complete
