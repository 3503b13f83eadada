"""The families of cases: (name, title, further columns of its table, its cases), in the order of the page."""

from __future__ import annotations

from pyxsim.validation.families import garnet, ring, switch

ALL = (ring.FAMILY, switch.FAMILY, garnet.FAMILY)
