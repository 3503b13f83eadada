"""What an experiment says of the packets of a network: their classes, and the longest one."""

from __future__ import annotations

from pyxsim.network.engine_config import MessageClass
from pyxsim.settings import Experiment


def background_classes(experiment: Experiment) -> list[MessageClass]:
    """Return the message classes of the background traffic of an experiment; none without any."""
    traffic = experiment.background
    classes = traffic.message_classes() if traffic is not None else ()
    return [MessageClass(class_.virtual_network, class_.priority) for class_ in classes]


def longest_packet(experiment: Experiment) -> int:
    """Return the flits of the longest packet of messages and of background traffic."""
    network, traffic = experiment.network, experiment.background
    sizes = [size for class_ in (traffic.resolved if traffic is not None else ()) for size in class_.sizes]
    return max(-(-(network.packet + network.header) // network.flit), *sizes, 0)
