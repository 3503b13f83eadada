"""Checks of an experiment before it runs; importing this package imports its modules, which register them."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from pyxsim.study.check.check_run import CheckReport, check
from pyxsim.study.check.registered import Check, Finding, checks

__all__ = ["Check", "CheckReport", "Finding", "check", "checks"]

for _module in pkgutil.iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
