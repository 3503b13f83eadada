"""Render the page: chapters through a template that escapes all texts of users."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pyxsim import __version__
from pyxsim.errors import InputError
from pyxsim.paths import ending
from pyxsim.reports.html.elements import Chapter, Detail, Panel
from pyxsim.reports.html.plotly_style import CONFIG, need_plotly, plotly_js, templates
from pyxsim.results.hdf5 import check_writable, put_file

MOST_BYTES = 8_000_000
LEAST_SHARE = 1 / 64  # minimum share of detail
KINDS = (".html", ".htm")


def check_page(path: str | os.PathLike[str]) -> Path:
    """Return the path of a page; InputError unless it can be written."""
    need_plotly()
    ending(path, KINDS, "a page")
    return check_writable(path)


def save(chapters: Sequence[Chapter], path: str | os.PathLike[str]) -> None:
    """Write a page that works offline. Raises InputError if that is impossible."""
    check_page(path)
    put_file(path, page(chapters).encode())


def page(chapters: Sequence[Chapter]) -> str:
    """Return the HTML of a page; a page that would be too large is made with less detail.

    Raises
    ------
    InputError
        If even the least detail is too large.
    """
    share = 1.0 / len(chapters)
    while share >= LEAST_SHARE / len(chapters):
        text = _page(chapters, Detail(share))
        if len(text.encode()) <= MOST_BYTES:
            return text
        share /= 2
    raise InputError(f"the page would have more than {MOST_BYTES // 10**6} MB", allowed="fewer files at a time")


def _page(chapters: Sequence[Chapter], detail: Detail) -> str:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    folder = Path(__file__).parent
    look = Environment(
        loader=PackageLoader("pyxsim.reports", "html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return look.get_template("page.jinja").render(
        title=" | ".join(dict.fromkeys(chapter.title for chapter in chapters)),
        source=f"pyxsim {__version__}",
        chapters=[_chapter(chapter, number, len(chapters), detail) for number, chapter in enumerate(chapters)],
        css=Markup((folder / "page.css").read_text(encoding="utf-8")),
        js=Markup((folder / "page.js").read_text(encoding="utf-8")),
        plotly=Markup(plotly_js()),
        themes=_script(json.dumps(templates())),
        config=_script(json.dumps(CONFIG)),
    )


def _chapter(chapter: Chapter, number: int, count: int, detail: Detail) -> dict[str, Any]:
    """The data of a chapter for the template; with several chapters, section keys are prefixed."""
    prefix = f"c{number}-" if count > 1 else ""
    return {
        "key": f"chapter-{number}",
        **{name: getattr(chapter, name) for name in ("title", "by", "cards", "alarms", "lead", "files")},
        "sections": [
            {
                "key": f"{prefix}{section.key}",
                "title": section.title,
                "lead": section.lead,
                "panels": list(_panels(section.panels, f"{prefix}{section.key}")),
            }
            for section in chapter.make(detail)
        ],
    }


def _panels(panels: Sequence[Panel], prefix: str) -> Iterator[dict[str, Any]]:
    for number, panel in enumerate(panels):
        yield {
            "key": f"{prefix}-{number}",
            **{name: getattr(panel, name) for name in _SHOWN},
            "json": _script(panel.figure.to_json()) if panel.figure is not None else "",
        }


_SHOWN = ("title", "text", "height", "sheet", "sentences", "preformatted", "notes", "folded", "wide")


def _script(text: str) -> Any:
    """JSON that is safe inside a script element."""
    from markupsafe import Markup

    return Markup(text.replace("<", "\\u003c"))
