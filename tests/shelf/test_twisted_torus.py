"""Twisted tori against the lattices that they are, and what the twist gains."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import pytest

from pyxsim import library
from pyxsim.errors import InputError
from pyxsim.routing import prove
from pyxsim.topology import Wires, build
from pyxsim.topology.bounds import channel_loads, summary

SHAPES = [[2, 4], [4, 8], [3, 6, 3], [2, 2, 4], [4, 4, 8], [2, 4, 4], [4, 8, 8]]


@pytest.fixture(autouse=True, scope="module")
def _shelves() -> None:
    library.load_all()


@pytest.mark.parametrize("shape", SHAPES)
def test_distances_are_those_of_the_lattice(shape: list[int]) -> None:
    """Points are the same if they differ by 2 k in a long dimension, or by k in a short one and in all long ones: the
    distance is that of the nearest of all points that are the same."""
    net, k = build("twisted-torus", shape), min(shape)
    same = np.diag(shape)
    for dim, npus in enumerate(shape):
        if npus == k:
            same[dim] += np.where(np.array(shape) > k, k, 0)
    moves = np.array(list(product(range(-2, 3), repeat=len(shape)))) @ same
    near = np.abs(net.coords[:, None, :] + moves[None]).sum(axis=2).min(axis=1)
    wires = Wires(net.routers, net.home, net.link_src, net.link_dst, net.link_name)
    assert wires.distances()[0].tolist() == near.tolist()


@pytest.mark.parametrize("shape", SHAPES)
def test_every_link_carries_the_same(shape: list[int]) -> None:
    net = build("twisted-torus", shape)
    assert net.npus == prod(shape)
    assert (np.bincount(net.link_src) == 2 * len(shape)).all()
    prove(net.relation)
    loads = channel_loads(net)
    assert loads == pytest.approx(summary(net).mean_hops / (2 * len(shape)))


@pytest.mark.parametrize(("shape", "gain"), [([4, 4, 8], 1.745), ([4, 8, 8], 1.391)])
def test_it_takes_more_than_a_torus(shape: list[int], gain: float) -> None:
    """Camara and others (2010) find up to 74 % more in simulations of theirs."""
    twisted, plain = summary(build("twisted-torus", shape)), summary(build("torus", shape))
    assert plain.channel_load / twisted.channel_load == pytest.approx(gain, abs=1e-3)
    assert twisted.bisection == 2 * plain.bisection
    assert twisted.max_hops < plain.max_hops


@pytest.mark.parametrize("shape", [[4], [4, 4], [4, 12], [4, 6, 8]])
def test_what_cannot_be_twisted(shape: list[int]) -> None:
    with pytest.raises(InputError, match=r"network\.shape: .* cannot be twisted; allowed: dimensions of k and of 2 k"):
        build("twisted-torus", shape)
