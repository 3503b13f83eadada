"""Plots and notebook displays of results. `pyxsim.reports` registers them, so `pyxsim.results` imports no plots."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar


class Viewed:
    """Base class of objects with plots.

    Attributes
    ----------
    views
        Functions of the object by name ("plot", "html"), one mapping per subclass.
    """

    views: ClassVar[dict[str, Callable[..., Any]]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.views = {}

    def view(self, name: str, *arguments: Any) -> Any:
        """Call a registered view. Raises AttributeError if `pyxsim.reports` has not been imported."""
        if name not in self.views:
            raise AttributeError(f"'{name}' needs pyxsim.reports; import it first")
        return self.views[name](self, *arguments)
