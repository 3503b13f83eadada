"""Slim fly (Besta and Hoefler 2014): McKay-Miller-Siran graphs, whose size is close to the maximum for diameter 2.

Routers are two squares of q x q, over the finite field of q elements with a primitive element x. Router (0, a, b) is
joined to (0, a, b') if b - b' is in a set X, (1, m, c) to (1, m, c') if c - c' is in X', and (0, a, b) to (1, m, c) if
b = m a + c. With q = 4w + 1, X has the even powers of x and X' the odd ones.
"""

import itertools
import math

import numpy as np

from pyxsim.errors import InputError
from pyxsim.registry import topologies
from pyxsim.topology import Dimension, Topology, graph_network
from pyxsim.topology.place import circles
from pyxsim.topology.routings import graph_routings


@topologies.register("slim-fly")
def slim_fly(q: int, p: int = 0) -> Topology:
    """A slim fly: 2 q^2 routers of diameter 2, after McKay, Miller and Siran.

    Their degree is (3q - d) / 2, where q = 4w + d is a power of a prime. `p` NPUs each (0: half the degree).
    """
    add, powers = field(q)
    # X and X' (Hafner 2004) by the exponents of x; for q = 4w - 1 even and odd change places in the upper half.
    half = (q - 1) // 2 if q % 4 == 3 else q
    even = [powers[e] for e in range(q - 1) if (e % 2 == 0) == (e < half)]
    odd = [powers[e % (q - 1)] for e in range(1, q) if (e % 2 == 1) == (e <= half)]
    log = {value: e for e, value in enumerate(powers)}
    links = set()
    for square, steps in ((0, even), (q * q, odd)):
        for row in range(square, square + q * q, q):
            links |= {(row + min(b, add[b][s]), row + max(b, add[b][s])) for b in range(q) for s in steps}
    for a, m, c in itertools.product(range(q), repeat=3):
        product = powers[(log[m] + log[a]) % (q - 1)] if m and a else 0
        links.add((q * a + add[product][c], q * q + q * m + c))
    pairs = sorted(links)
    p = p or -(-(q + len(even)) // 2)
    return graph_network(
        "slim-fly",
        np.repeat(np.arange(2 * q * q), p),
        pairs,
        graph_routings("minimal"),
        indirect=True,
        dims=[Dimension("router", p), Dimension("routers", 2 * q * q)],
        kinds=["local", "global"],
        kind=[int(i // q != j // q) for i, j in pairs],
        kind_dims=[1, 1],
        router_names=[f"({s},{a},{b})" for s in (0, 1) for a in range(q) for b in range(q)],
        place=circles(2 * q, q),
    )


def field(q: int) -> tuple[list[list[int]], list[int]]:
    """Return the field of q elements: sums, and the powers 0 to q - 2 of a primitive element. Raises InputError.

    Elements are polynomials over the integers modulo the prime p, written as numbers in base p. The field uses the
    first polynomial modulo which the powers of x are all nonzero elements.
    """
    p = next((d for d in range(2, q + 1) if q % d == 0), 0)
    m = round(math.log(q, p)) if p else 0
    if q < 3 or p**m != q:
        allowed = "a power of a prime from 3: 3, 4, 5, 7, 8, 9, 11, 13, 16, 17 .."
        raise InputError(f"no field has {q} elements", key="network.options.q", allowed=allowed)

    def number(digits: list[int]) -> int:
        return sum(d * p**i for i, d in enumerate(digits))

    elements = [[n // p**i % p for i in range(m)] for n in range(q)]
    add = [[number([(x + y) % p for x, y in zip(a, b, strict=True)]) for b in elements] for a in elements]
    for rest in elements:  # x^m is this polynomial
        power, powers = elements[1], []
        for _ in range(q - 1):
            powers.append(number(power))
            power = [(low + power[-1] * r) % p for low, r in zip([0, *power[:-1]], rest, strict=True)]
        if len(set(powers) - {0}) == q - 1:
            return add, powers
    raise AssertionError("every finite field has a primitive element")
