"""Load-latency curves and saturation."""

from __future__ import annotations

from pyxsim.study.curve.load_curve import Points, Saturation, curve, points_of, saturation

__all__ = ["Points", "Saturation", "curve", "points_of", "saturation"]
