"""The experiment as a whole: warnings of every table, lists that must agree with the network."""

from __future__ import annotations

from pyxsim.settings import load_experiment


def test_warnings_of_all_tables_come_together() -> None:
    experiment = load_experiment(
        {
            "network": {"topology": "ring", "shape": [4], "latency": "1.5 ns", "reroute": {"reaction": "2.5 ns"}},
            "system": {"endpoint_delay": "0.5 ns", "reduction_delay": "10 ns"},
            "collective": {"kind": "all-reduce", "size": "1 MiB"},
            "output": {"window": "10.5 ns"},
            "faults": [{"link": "*", "at": "1 us", "for": "0.1 ns", "every": "500.1 ns", "down": True}],
        }
    )
    # At 1 GHz: 1.5 -> 2, 0.5 -> 1, 10 -> 10 exactly, 10.5 -> 11 (4.8 % more), 500.1 -> 501 (0.2 % more).
    assert experiment.warnings() == [
        "network.latency: 1.5 ns is simulated as 2 cycles of the 1 GHz clock",
        "system.endpoint_delay: 500 ps is simulated as 1 cycle of the 1 GHz clock",
        "output.window: 10.5 ns is simulated as 11 cycles of the 1 GHz clock",
        "faults[0].for: 100 ps is simulated as 1 cycle of the 1 GHz clock",
        "network.reroute.reaction: 2.5 ns is simulated as 3 cycles of the 1 GHz clock",
    ]


def test_lists_are_not_counted_where_the_dimensions_are_not_known() -> None:
    experiment = load_experiment(
        {
            "network": {"topology": "some-graph", "bandwidth": ["1 GB/s", "2 GB/s"]},
            "system": {"queues": [1, 2, 3]},
            "collective": {"kind": "all-reduce", "size": "1 MiB"},
        }
    )
    assert experiment.system.queues == (1, 2, 3)
