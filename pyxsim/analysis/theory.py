"""Zero-load latency and saturation bound of a network under a traffic pattern."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pyxsim.arrays import FloatArray
from pyxsim.core.engine_options import STORE_AND_FORWARD
from pyxsim.network.engine_config import EngineConfig
from pyxsim.routing.loads import expected_loads, oblivious
from pyxsim.settings.traffic import TrafficClass
from pyxsim.topology import Topology
from pyxsim.topology.bounds import throughput
from pyxsim.traffic import Pattern
from pyxsim.traffic.draws import DESTINATION, random_below, stream

EXACT = 256  # NPUs up to which all pairs are evaluated
SAMPLE = 1000  # pairs that are evaluated in a larger network
MOST_PAIRS = 2**26  # half a GB of memory


@dataclass(frozen=True)
class Theory:
    """`zero_load`: mean packet latency in cycles without contention. `hops`: mean number of routers on a route."""

    zero_load: float
    hops: float


def zero_load(
    topology: Topology, config: EngineConfig, classes: Sequence[TrafficClass], patterns: Sequence[Pattern]
) -> Theory:
    """Return the zero-load latency and hops of open traffic: over all pairs up to 256 NPUs, over a sample beyond.

    Adaptive packets take the route of an empty network.
    """
    wire = np.ceil(_cycles_per_flit(config)) + np.asarray(config.links.delay)
    network = config.links.network
    small = topology.npus <= EXACT
    over, hops = (_all_pairs if small else _some_pairs)(topology, classes, patterns, wire[:network])
    lanes = network + config.links.injection
    ends = float(wire[network:lanes].mean()) + float(wire[lanes:].mean())
    total, rate = sum(class_.load or 0.0 for class_ in classes), _packets(classes)
    slowest = float(_cycles_per_flit(config).max())
    times = hops + 2 if config.options.flow == STORE_AND_FORWARD else 1
    body = (total / rate - 1) * slowest * times
    return Theory(over + ends + (hops + 1) * config.head_wait + body, hops + 1)


def bound(
    topology: Topology, config: EngineConfig, classes: Sequence[TrafficClass], patterns: Sequence[Pattern]
) -> float | None:
    """Return the largest load that links and lanes can carry, in flits per node and cycle.

    It follows from the channel loads of these routes; for adaptive routes, from a bound for any routing. None if
    the load is unbounded, or for more than MOST_PAIRS pairs unless traffic is uniform and routes are oblivious.
    """
    large = topology.npus**2 > MOST_PAIRS
    even = all(pattern.uniform for pattern in patterns) and oblivious(topology.relation)
    if large and not even:
        return None
    rates = 1 / _cycles_per_flit(config)
    network, lanes = config.links.network, config.links.network + config.links.injection
    load = throughput(
        topology,
        None if large else _matrix(classes, patterns, topology.npus),
        rates=rates[:network],
        injection=np.bincount(config.inject.npu, rates[network:lanes], topology.npus),
        ejection=np.bincount(config.eject.npu, rates[lanes:], topology.npus),
    )
    return float(load) if math.isfinite(load) else None


def _cycles_per_flit(config: EngineConfig) -> FloatArray:
    cycles: FloatArray = np.asarray(config.links.s_num) / np.asarray(config.links.s_den)
    return cycles


def _packets(classes: Sequence[TrafficClass]) -> float:
    """Packets per node and cycle; a request and its reply count as two."""
    return sum((class_.load or 0.0) / class_.mean_flits * (1 if class_.replies is None else 2) for class_ in classes)


def _matrix(
    classes: Sequence[TrafficClass], patterns: Sequence[Pattern], npus: int, *, packets: bool = False
) -> FloatArray:
    """float64[npus, npus]: flits (or packets) per cycle between nodes, for a load of one flit per node and cycle."""
    total = sum(class_.load or 0.0 for class_ in classes)
    matrix = np.zeros((npus, npus))
    for class_, pattern in zip(classes, patterns, strict=True):
        sent = pattern.matrix() * ((class_.load or 0.0) / total / class_.mean_flits)
        if (rates := pattern.rates()) is not None:
            sent = sent * rates[:, None]
        if class_.replies is None:
            matrix += sent if packets else sent * class_.mean_flits
        else:
            back = 1 if packets else class_.replies.reply_flits
            matrix += (1 if packets else class_.replies.request_flits) * sent + back * sent.T
    return matrix


def _all_pairs(
    topology: Topology, classes: Sequence[TrafficClass], patterns: Sequence[Pattern], wire: FloatArray
) -> tuple[float, float]:
    """Mean cycles on links and mean number of links of a packet, over all pairs."""
    matrix = _matrix(classes, patterns, topology.npus, packets=True)
    relation = topology.relation
    # In an empty network an adaptive choice takes the route with the smallest bias.
    plane = -1 if oblivious(relation) else min(relation.ways, key=lambda way: way.bias).last
    loads, hops = expected_loads(relation, matrix, plane)
    if loads is None:
        return hops * float(wire.mean()) if len(wire) else 0.0, hops
    return float(loads @ wire) / float(matrix.sum()), hops


def _some_pairs(
    topology: Topology, classes: Sequence[TrafficClass], patterns: Sequence[Pattern], wire: FloatArray
) -> tuple[float, float]:
    """Mean cycles on links and mean number of links of a packet, over a sample of pairs."""
    rate = _packets(classes)
    time = hops = 0.0
    for number, (class_, pattern) in enumerate(zip(classes, patterns, strict=True)):
        rng = stream(0, number, DESTINATION)
        src = random_below(rng, topology.npus, SAMPLE)
        weights = pattern.rates()
        weight = np.ones(SAMPLE) if weights is None else weights[src]
        pairs = list(zip(src.tolist(), pattern.destinations(rng, src).tolist(), strict=True))
        share = (class_.load or 0.0) / class_.mean_flits / rate / float(weight.sum())
        for back in (False, True)[: 1 if class_.replies is None else 2]:
            for (a, b), heavy in zip(pairs, weight.tolist(), strict=True):
                links = [link for link, _ in topology.relation.route(*((b, a) if back else (a, b)), -1)]
                time += share * heavy * float(wire[links].sum())
                hops += share * heavy * len(links)
    return time, hops
