"""Memory transactions in plain Python and in the engine: equal on every packet, message and counter."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import pyxsim
from pyxsim.errors import PyxsimError
from pyxsim.network.packet.transactions.transaction_network import TransactionNetwork
from pyxsim.reference.transaction_state import Server
from pyxsim.results.diff import diff
from tests.examples import part_of
from tests.network.packet.transactions.random_transactions import experiments

# Flits in replay buffers at the end of a run: the engines stop at other cycles after it.
AFTER_THE_END = {"/link_faults/replay_mean", "/link_fault_windows/replay_mean"}


@contextmanager
def completions(log: list[tuple[int, int]]) -> Iterator[None]:
    """Record (message, cycle) of every message that completes."""
    original = TransactionNetwork._completed

    def completed(self: TransactionNetwork) -> Any:
        found = original(self)
        log.extend(zip(*(column.tolist() for column in found), strict=True))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionNetwork, "_completed", completed)
        yield


def outcome(backend: str, table: dict[str, Any], file: Path) -> tuple[str, list[tuple[int, int]]]:
    """Run an experiment; return the first line of its error, or '', and when its messages were complete."""
    log: list[tuple[int, int]] = []
    file.unlink(missing_ok=True)
    with completions(log):
        try:
            pyxsim.run(table, backend=backend).save(file)
        except PyxsimError as error:
            return str(error).splitlines()[0], log
    return "", log


@settings(max_examples=part_of(500, 8), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=experiments())
def test_every_message_link_and_counter_is_equal(tmp_path: Path, table: dict[str, Any]) -> None:
    files = [tmp_path / f"{backend}.h5" for backend in ("packet", "reference")]
    outcomes = [outcome(file.stem, table, file) for file in files]
    assert outcomes[0] == outcomes[1]
    if not outcomes[0][0]:
        names = {difference.name for difference in diff(*files).differences}
        assert not names - AFTER_THE_END


def test_windows_in_which_flits_only_wait_for_answers() -> None:
    """While the memory answers, no flit is launched, but those launched last are in replay buffers."""
    table = {
        "network": {
            "topology": "switch",
            "shape": [2],
            "clock": "1 GHz",
            "flit": "16 B",
            "bandwidth": "16 GB/s",
            "latency": "25 ns",
            "retry": {},
            "transactions": {"memory_latency": "450 ns", "outstanding": 1},
        },
        "system": {"reduce_scatter": "two-shot"},
        "collective": {"kind": "reduce-scatter", "size": "1 KiB"},
        "output": {"window": "20 ns"},
    }
    results = [pyxsim.run(table, backend=backend) for backend in ("packet", "reference")]
    packet, reference = (result.backend_tables["link_fault_windows"].columns["replay_mean"] for result in results)
    assert np.array_equal(packet[:-1], reference[:-1]), "the last one has what follows the run"


def test_servers_round_up_and_keep_the_rest() -> None:
    """At 3 B a cycle, 4 B end after 4/3 and 8/3 cycles; after idle time the next begins in its own cycle."""
    server = Server(Fraction(3))
    assert [server.serve(4, 10), server.serve(4, 10), server.serve(4, 20)] == [12, 13, 22]
    assert server.busy == 4
