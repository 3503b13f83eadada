"""Search a space of designs: points that cannot run are cut, cheap models screen, packets decide (docs/search.md)."""

from __future__ import annotations

from pyxsim.study.search.search_run import SearchStanding, search

__all__ = ["SearchStanding", "search"]
