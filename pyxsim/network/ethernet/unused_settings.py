"""Settings of [network.ethernet] that have no effect because of others."""

from __future__ import annotations

from collections.abc import Iterator

from pyxsim.settings.ethernet import Ethernet

DEFAULT = Ethernet()


def unused(ethernet: Ethernet) -> list[str]:
    """Return a line for each setting without effect: what it needs."""
    return [f"network.ethernet.{key} has no effect {why}" for key, why in _unused(ethernet)]


def _unused(ethernet: Ethernet) -> Iterator[tuple[str, str]]:
    lossless = ethernet.pfc.enabled and all(entry.pfc for entry in ethernet.classes)
    if lossless and ethernet.buffer.queue:
        yield "buffer.queue", "with PFC (network.ethernet.pfc.enabled)"
    if lossless and ethernet.trim:
        yield "trim", "with PFC, which lets no queue overflow (network.ethernet.pfc.enabled)"
    if ethernet.load_balancing != "flowlet":
        for key in ("flowlet_gap", "flowlet_entries"):
            if getattr(ethernet, key) != getattr(DEFAULT, key):
                yield key, 'without load_balancing = "flowlet"'
    if ethernet.reliability == "selective":
        for key in ("ack_interval", "nack_interval"):
            if getattr(ethernet, key) != getattr(DEFAULT, key):
                yield key, 'with reliability = "selective"'
    if ethernet.scheduling != "weighted":
        for number, entry in enumerate(ethernet.classes):
            if entry.weight != 1:
                yield f"classes[{number}].weight", 'without scheduling = "weighted"'
    if not ethernet.ecn.enabled and ethernet.cnp_interval != DEFAULT.cnp_interval:
        yield "cnp_interval", "without marks (network.ethernet.ecn.enabled)"
