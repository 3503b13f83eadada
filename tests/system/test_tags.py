"""Whose traffic a message is: what the system layers tell the network."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from pyxsim.collective.communicator import Communicator
from pyxsim.compat.astra.system import AstraSystem
from pyxsim.runner.prepare import prepare
from pyxsim.runner.prepared import Prepared
from pyxsim.settings import load_experiment
from pyxsim.system import System
from tests.compat.astra.system.originals import network as original
from tests.compat.astra.system.originals import system as astra
from tests.system.ideal import Ideal, system


class Noting:
    """A network that notes the tag of every message: (source, destination, tag)."""

    def __init__(self, network: Any) -> None:
        self.network = network
        self.sent: list[tuple[int, int, int]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.network, name)

    def send_many(self, src: Any, dst: Any, nbytes: Any, plane: Any, at: int, tag: Any = 0) -> int:
        columns = np.broadcast_arrays(src, dst, tag)
        self.sent += zip(*(column.tolist() for column in columns), strict=True)
        return int(self.network.send_many(src, dst, nbytes, plane, at, tag))


def astra_system(compat: str, npus: tuple[int, ...]) -> tuple[AstraSystem, Noting]:
    net = original(compat, ["FullyConnected"] * len(npus), npus, [50] * len(npus), [500] * len(npus))
    layer = astra(net, compat, ["ring"] * len(npus), reduction_bytes_per_cycle=Fraction(50))
    noting = Noting(net)
    layer.network = noting
    return layer, noting


def test_collectives_and_messages_have_the_tags_that_they_were_issued_with() -> None:
    layer: System = system((4,), 10)
    network = layer.network
    assert isinstance(network, Ideal)
    layer.issue("all-gather", 4, tag=3)
    layer.issue("reduce-scatter", 16, at=1000, tag=5)
    layer.send(0, 2, 7, at=500, tag=9)
    layer.send(2, 0, 7, at=501)
    layer.run()
    assert Counter(network.tags) == {3: 12, 5: 12, 9: 1, 0: 1}
    tagged = dict(zip(network.tags, network.sent, strict=True))
    assert tagged[9] == (500, 0, 2, 7, 0)


def test_collectives_and_messages_of_astra_sim_have_theirs() -> None:
    layer, network = astra_system("astra-sim-2", (4,))
    layer.issue("all-gather", 4, tag=3)
    layer.send(0, 2, 7, at=500, tag=9)
    layer.issue("all-gather", 4, at=10_000, tag=4)
    layer.run()
    assert Counter(tag for _, _, tag in network.sent) == {3: 12, 9: 1, 4: 12}


@pytest.mark.parametrize("compat", ["astra-sim-1", "astra-sim-2"])
def test_groups_have_their_own(compat: str) -> None:
    """In version 1 the groups along a dimension are one collective; what they send is each group's all the same."""
    layer, network = astra_system(compat, (4, 2))
    for number, group in enumerate(Communicator.along((0,), (4, 2))):
        layer.issue("all-gather", 4, communicator=group, tag=7 + number)
    layer.run()
    assert Counter(network.sent).total() == 24
    assert {tag for src, _, tag in network.sent if src < 4} == {7}
    assert {tag for src, _, tag in network.sent if src >= 4} == {8}


def prepared(text: dict[str, Any]) -> Prepared:
    found = prepare(load_experiment({"network": {"topology": "torus", "shape": [4, 2]}, **text}), backend="analytical")
    assert isinstance(found, Prepared)
    return found


def test_an_experiment_has_a_tag_for_each_collective_whatever_its_groups_and_for_each_name_of_messages() -> None:
    run = prepared(
        {
            "collective": [
                {"kind": "all-gather", "size": "100 B", "dims": [0]},
                {"kind": "all-gather", "size": "100 B", "name": "weights"},
            ],
            "message": [
                {"src": 0, "dst": 1, "size": "10 B", "name": "hot"},
                {"src": 2, "dst": 1, "size": "10 B"},
                {"src": 3, "dst": 1, "size": "10 B", "name": "hot"},
            ],
        }
    )
    assert run.job.traffic == ["all-gather", "weights", "hot", "message"]
    assert [each.tag for each in run.system.collectives] == [0, 0, 1]
    assert [each.tag for each in run.system.messages] == [2, 3, 2]
