"""The matrix allocators: one file each, which registers its name and traits in `pyxsim.plugins.allocators`."""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
