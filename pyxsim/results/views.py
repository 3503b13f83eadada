"""Plots and notebook pages of results: registered by `pyxsim.reports`, so that data does not import its pictures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar


class Viewed:
    """Base of what can be plotted.

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
