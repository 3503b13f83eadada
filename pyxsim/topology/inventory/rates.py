"""Bandwidths that inventories do not state, in bytes per second and direction."""

from __future__ import annotations

from bisect import bisect_right
from fractions import Fraction

GB = 10**9
_NVLINK_FROM = (0, 70, 86, 90, 100)
_NVLINK = (Fraction(20 * GB), Fraction(25 * GB), Fraction(225 * GB, 16), Fraction(25 * GB), Fraction(50 * GB))
SYS = {"GenuineIntel": Fraction(10 * GB), "AuthenticAMD": Fraction(16 * GB)}
"""Between NUMA nodes, as NCCL takes it (NCCL 2.30, src/graph/topo.h): Skylake and the first EPYC."""
SYS_OTHER = Fraction(6 * GB)
GEN3 = Fraction(8)  # GT/s
_TENTHS = Fraction(5)  # GT/s up to which a byte takes ten bits
_FLITS = Fraction(64)  # GT/s from which flits of 256 bytes carry 242
_MEGA = 10**6


def nvlink(sm: int) -> Fraction:
    """Return the bandwidth of one NVLink of a GPU with compute capability `sm` (80 is 8.0), as NVIDIA states it.

    20 GB/s (P100), 25 (V100, A100, H100), 14.0625 (GPUs with compute capability 8.6), 50 (B200).
    """
    return _NVLINK[bisect_right(_NVLINK_FROM, sm) - 1]


def pcie(transfers: Fraction, lanes: int) -> Fraction:
    """Return the bandwidth of PCI Express at `transfers` GT/s, rounded to MB/s: without the bits of the line code."""
    code = Fraction(8, 10) if transfers <= _TENTHS else Fraction(242, 256)
    if _TENTHS < transfers < _FLITS:
        code = Fraction(128, 130)
    return Fraction(round(transfers * GB * lanes * code / 8 / _MEGA) * _MEGA)
