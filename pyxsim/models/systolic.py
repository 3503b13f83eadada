"""The cycles of a matrix product on a systolic array, in closed form.

Samajdar et al., A Systematic Methodology for Characterizing Scalability of DNN Accelerators using SCALE-Sim (2020): a
product is cut into folds that fit the array, one after the other. Rows and columns of the array take two of the three
dimensions, the third is time. Stationary data are loaded through the rows first; streaming data need the time of their
path through rows and columns. Stationary weights or inputs: 2 R + C + T - 2 cycles per fold. Stationary outputs: R + C
+ T - 2; the paper adds R cycles in which they leave, which SCALE-Sim overlaps with the next fold.
"""

from __future__ import annotations

from pyxsim.settings.npu import Array


def cycles(m: int, n: int, k: int, array: Array) -> int:
    """Return the cycles of a product (m x k) (k x n) on one array."""
    rows, columns, time = {"os": (m, n, k), "ws": (k, n, m), "is": (k, m, n)}[array.dataflow]
    folds = -(-rows // array.rows) * -(-columns // array.columns)
    load = 0 if array.dataflow == "os" else array.rows
    return folds * (load + array.rows + array.columns + time - 2)
