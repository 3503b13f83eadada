"""What a picture needs, asked before the work that it shall show; and its file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyxsim.errors import InputError, PyxsimError
from pyxsim.output.hdf5 import check_writable


def check_plot(path: str, others: tuple[str, ...] = ()) -> Path:
    """Make sure that a picture can be drawn and written to `path`. Raises InputError. `others`: ends of names that the
    path may also have, and has not."""
    from pyxsim.report.style import need_matplotlib

    need_matplotlib()
    import matplotlib

    matplotlib.use("Agg")  # a file needs no screen
    from matplotlib.backend_bases import FigureCanvasBase

    known = sorted(FigureCanvasBase.get_supported_filetypes())
    suffix = Path(path).suffix.lower().removeprefix(".")
    if suffix not in known:
        what = "a file" if others else "a picture"
        raise InputError(
            f"'.{suffix}' is no format of {what}" if suffix else f"the name does not tell the format of {what}",
            file=path,
            allowed=[*others, *(f".{name}" for name in known)],
            given=f".{suffix}" if suffix else None,
        )
    return check_writable(path)


def save_picture(axes: Any, path: Path) -> None:
    """Write the figure of these matplotlib Axes. Raises InputError."""
    figure = axes.get_figure()
    if figure is None:
        raise PyxsimError("the picture has no figure")
    try:
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be written: {error}", file=str(path)) from error
