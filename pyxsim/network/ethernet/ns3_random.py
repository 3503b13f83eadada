"""The random numbers of ns-3 for marks: L'Ecuyer's MRG32k3a, with a new stream for each draw.

Source: P. L'Ecuyer, "Good parameters and implementations for combined multiple recursive random number generators",
Operations Research 47 (1), 1999. Stream k of run r is the generator with seed 1, advanced by k 2^127 + r 2^76 steps.
"""

from __future__ import annotations

from itertools import chain

Matrix = list[list[int]]

MODULI = 4294967087, 4294944443
_STEPS: tuple[Matrix, Matrix] = (
    [[0, 1, 0], [0, 0, 1], [-810728, 1403580, 0]],
    [[0, 1, 0], [0, 0, 1], [-1370589, 0, 527612]],
)
_STREAM, _RUN = 127, 76  # binary logarithms of steps
_ERRORS = 2**63 + 50  # the stream of the errors of all links without errors of their own


def streams(number: int, run: int) -> dict[str, list[int]]:
    """Return the state of stream `number` of run 0, the matrices to the next stream and to the run, and that of errors.

    The keys are the fields of `Streams` (ns3_random.pxd).
    """
    fields = {}
    for name, step, modulus in zip("ab", _STEPS, MODULI, strict=True):
        following = _power(step, 1 << _STREAM, modulus)
        start = _power(following, number, modulus)
        fields[name] = [sum(row) % modulus for row in start]
        fields[f"next_{name}"] = list(chain(*following))
        to_run = _power(step, run << _RUN, modulus)
        fields[f"run_{name}"] = list(chain(*to_run))
        errors = _product(to_run, _power(following, _ERRORS, modulus), modulus)
        fields[f"error_{name}"] = [sum(row) % modulus for row in errors]
    return fields


def _power(matrix: Matrix, exponent: int, modulus: int) -> Matrix:
    result = [[int(i == k) for k in range(3)] for i in range(3)]
    while exponent:
        if exponent & 1:
            result = _product(result, matrix, modulus)
        matrix = _product(matrix, matrix, modulus)
        exponent >>= 1
    return result


def _product(left: Matrix, right: Matrix, modulus: int) -> Matrix:
    return [[sum(row[k] * right[k][i] for k in range(3)) % modulus for i in range(3)] for row in left]
