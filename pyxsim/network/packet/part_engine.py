"""An engine for a part of a network: the links, lanes and routers that a group of messages uses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.core.engine import Engine
from pyxsim.core.engine_options import Routes
from pyxsim.network.engine_config import EngineConfig
from pyxsim.network.packet.congruent_groups import Paths
from pyxsim.network.packet.episode_book import describe
from pyxsim.routing.product_table import NONE
from pyxsim.routing.relation import Relation

BY_LINK = (
    "vcs",
    "depth",
    "s_num",
    "s_den",
    "delay",
    "credit_delay",
    "output_queue",
    "group",
    "pool",
    "classes",
    "ranges",
)


def part_engine(
    relation: Relation, config: EngineConfig, paths: Paths
) -> tuple[Engine, bytes, int, IntArray, IntArray]:
    """Make an engine for the messages of some pairs, each with one route.

    Returns
    -------
    engine
        Its injection lanes, ejection lanes, links and NPUs are those of the pairs in ascending order.
    description
        Its arguments; see `describe`.
    counted
        Number of its first links that are counted.
    used
        int64[links and lanes]: their numbers in the whole network.
    npus
        int64[NPUs]: likewise.
    """
    links = config.links
    first_lane, first_eject = links.network, links.network + links.injection
    steps = paths.steps[paths.steps >= 0]
    used = np.unique(np.concatenate([steps, paths.inject + first_lane, paths.eject + first_eject]))
    src, dst = np.asarray(links.src, np.int64)[used], np.asarray(links.dst, np.int64)[used]
    routers = np.unique(np.concatenate([src, dst]))
    routers = routers[routers >= 0]
    network, injection = (int(np.searchsorted(used, limit)) for limit in (first_lane, first_eject))
    counted = int(np.searchsorted(used, links.network if links.counted is None else links.counted))
    part = replace(
        links,
        network=network,
        injection=injection - network,
        ejection=len(used) - injection,
        src=_local(routers, src),
        dst=_local(routers, dst),
        counted=counted,
        **{name: np.asarray(getattr(links, name))[used] for name in BY_LINK},
    )
    npus = np.unique(paths.pairs[:, :2])
    routes = _routes(relation, config.routes, routers, npus, used[:network], paths)
    arguments = len(routers), part, routes, config.options
    return Engine(*arguments), describe(*arguments), counted, used, npus


def _local(known: IntArray, numbers: IntArray) -> IntArray:
    """The places of numbers in a sorted array; -1 stays."""
    return np.where(numbers < 0, -1, np.searchsorted(known, numbers)).astype(np.int32)


def _routes(
    relation: Relation,
    routes: Routes,
    routers: IntArray,
    npus: IntArray,
    used: IntArray,
    paths: Paths,
) -> Routes:
    """The routes of the pairs as one digit, the router of the destination, with an entry for each router and digit."""
    count, planes, pairs = len(routers), relation.planes, paths.pairs
    home = np.searchsorted(routers, relation.home[npus])
    link, vc_class = np.full(planes * count * count, NONE, np.int32), np.zeros(planes * count * count, np.int32)
    plane = np.where(pairs[:, 2] < 0, relation.ways[0].last, pairs[:, 2])
    digit = np.searchsorted(routers, relation.home[pairs[:, 1]])
    for step, vc in zip(paths.steps.T, paths.classes.T, strict=True):
        at = np.flatnonzero(step >= 0)
        router = np.searchsorted(routers, relation.link_src[step[at]])
        entry = (plane[at] * count + router) * count + digit[at]
        link[entry], vc_class[entry] = np.searchsorted(used, step[at]), vc[at]
    each = np.arange(planes * count)
    return replace(
        routes,
        home=home.astype(np.int32),
        digits=home[:, None].astype(np.int32),
        own=np.tile(np.arange(count), planes)[:, None].astype(np.int32),
        offset=(each * count)[:, None].astype(np.int64),
        link=link,
        vc_class=vc_class,
        set_start=np.zeros(1, np.int64),
        set_link=np.zeros(0, np.int32),
        set_class=np.zeros(0, np.int32),
        wrap=np.zeros(1, np.int32),
        stride=np.ones(1, np.int32),
    )
