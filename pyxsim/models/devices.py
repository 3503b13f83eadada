"""Devices by name: peaks per precision and memory, from devices.csv, with sources."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path

from pyxsim.errors import InputError
from pyxsim.settings.npu import PRECISIONS
from pyxsim.units import parse_bandwidth, parse_bytes, parse_flops

_FILE = Path(__file__).parent / "devices.csv"
_USUAL = ("bf16", "fp16")  # usual for training


@dataclass(frozen=True)
class Device:
    """Data of its maker: bytes, bytes per second, operations per second."""

    name: str
    help: str
    memory: int
    bandwidth: Fraction
    peaks: dict[str, Fraction]
    source: str

    def peak(self, precision: str | None) -> Fraction:
        """Return the peak of a precision, or of the usual one. Raises InputError if it has none."""
        chosen = precision or next(precision for precision in _USUAL if precision in self.peaks)
        if chosen not in self.peaks:
            raise InputError(f"the device '{self.name}' has no peak for {chosen}", key="precision", allowed=self.peaks)
        return self.peaks[chosen]


@cache
def devices() -> dict[str, Device]:
    """Return all devices by name."""
    lines = [line for line in _FILE.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return {
        row["device"]: Device(
            name=row["device"],
            help=row["name"],
            memory=parse_bytes(row["memory"]),
            bandwidth=parse_bandwidth(row["bandwidth"]),
            peaks={precision: parse_flops(row[precision]) for precision in PRECISIONS if row[precision]},
            source=row["source"],
        )
        for row in csv.DictReader(lines)
    }


def device(name: str) -> Device:
    """Return the device of that name. Raises InputError."""
    known = devices()
    if name not in known:
        raise InputError(f"unknown device '{name}'", key="device", allowed=list(known), given=name)
    return known[name]
