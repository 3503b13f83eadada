"""The random numbers of ns-3: streams of L'Ecuyer's MRG32k3a, with numbers that ns-3 prints."""

from __future__ import annotations

import pytest

from pyxsim.network.ethernet.ns3_random import MODULI, streams


def times(matrix: list[int], vector: list[int], modulus: int) -> list[int]:
    return [sum(matrix[3 * row + k] * vector[k] for k in range(3)) % modulus for row in range(3)]


def first_number(fields: dict[str, list[int]]) -> float:
    a, b = (times(fields[f"run_{name}"], fields[name], modulus) for name, modulus in zip("ab", MODULI, strict=True))
    x, y = (1403580 * a[1] - 810728 * a[0]) % MODULI[0], (527612 * b[2] - 1370589 * b[0]) % MODULI[1]
    return (x - y if x > y else x - y + MODULI[0]) / (MODULI[0] + 1)


@pytest.mark.parametrize(
    ("stream", "run", "expected"),
    [
        (83, 1, 0.45835465480055854),
        (83, 2, 0.9871878270839965),
        (84, 1, 0.24326989697295676),
        (84, 2, 0.42018700819436877),
        (290, 1, 0.66334198624248),
        (2**63 + 50, 1, 0.46039245737754536),
    ],
)
def test_first_number_of_a_stream(stream: int, run: int, expected: float) -> None:
    assert first_number(streams(stream, run)) == pytest.approx(expected, abs=1e-15)


def test_next_stream() -> None:
    fields, following = streams(83, 2), streams(84, 2)
    for name, modulus in zip("ab", MODULI, strict=True):
        assert times(fields[f"next_{name}"], fields[name], modulus) == following[name]
