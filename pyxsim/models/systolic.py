"""How long a systolic array computes a matrix product, in closed form.

Samajdar et al., A Systematic Methodology for Characterizing Scalability of DNN Accelerators using SCALE-Sim (2020): a
product is cut into folds that fit the array, one after the other. Rows and columns of the array take two of the three
dimensions, the third is time. What stays in place is loaded through the rows first; what flows needs as long as its way
through rows and columns. Weights or inputs in place: 2 R + C + T - 2 cycles for each fold. Outputs in place: R + C + T
- 2; the paper adds R cycles in which they leave, which SCALE-Sim, as it is, lets overlap the next fold.
"""

from __future__ import annotations

from pyxsim.settings.npu import Array


def cycles(m: int, n: int, k: int, array: Array) -> int:
    """Of a product (m x k) (k x n) on one array."""
    rows, columns, time = {"os": (m, n, k), "ws": (k, n, m), "is": (k, m, n)}[array.dataflow]
    folds = -(-rows // array.rows) * -(-columns // array.columns)
    load = 0 if array.dataflow == "os" else array.rows
    return folds * (load + array.rows + array.columns + time - 2)
