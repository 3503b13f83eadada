"""Settings without effect are named, with what they need."""

from __future__ import annotations

from typing import Any

import pytest

from pyxsim.network.ethernet.unused_settings import unused
from pyxsim.settings.ethernet import Ethernet

LOSSY: dict[str, Any] = {"pfc": {"enabled": False}}


@pytest.mark.parametrize(
    ("settings", "key", "needs"),
    [
        ({"buffer": {"queue": "64 KiB"}}, "buffer.queue", LOSSY),
        ({"trim": "64 B"}, "trim", LOSSY),
        ({"flowlet_gap": "9 us"}, "flowlet_gap", {"load_balancing": "flowlet"}),
        ({"flowlet_entries": 9}, "flowlet_entries", {"load_balancing": "flowlet"}),
        ({"ack_interval": 4, "reliability": "selective"}, "ack_interval", {"reliability": "go-back-n"}),
        ({"nack_interval": "4 us", "reliability": "selective"}, "nack_interval", {"reliability": "go-back-n"}),
        ({"classes": [{}, {"weight": 3}]}, "classes[1].weight", {"scheduling": "weighted"}),
        ({"cnp_interval": "4 us", "ecn": {"enabled": False}}, "cnp_interval", {"ecn": {"enabled": True}}),
    ],
)
def test_a_setting_without_effect(settings: dict[str, Any], key: str, needs: dict[str, Any]) -> None:
    (line,) = unused(Ethernet.model_validate(settings))
    assert line.startswith(f"network.ethernet.{key} has no effect with")
    assert unused(Ethernet.model_validate({**settings, **needs})) == []


def test_one_lossy_class_gives_queues_a_limit() -> None:
    assert unused(Ethernet.model_validate({"buffer": {"queue": "64 KiB"}, "classes": [{"pfc": False}]})) == []
    assert unused(Ethernet()) == []
