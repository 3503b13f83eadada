"""Generate the reference of all settings from their models.

`python -m pyxsim.settings.page docs/settings.md` updates the page.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from pyxsim.settings.describe import models_in, table_headers, words_of
from pyxsim.settings.experiment import Experiment
from pyxsim.settings.faults import fields
from pyxsim.settings.points import Study

MARK = "<!-- every key: written by pyxsim.settings.page from here on -->\n"
PAGE = re.compile(r"docs/(\w+\.md)")


def reference(model: type[BaseModel]) -> str:
    """Return all keys of a model as Markdown, one section per table: allowed values, default and meaning."""
    return "\n".join(_section("", model)).strip() + "\n"


def every_key() -> str:
    """Return the keys of an experiment, and those of files with several experiments."""
    return linked(f"{reference(Experiment)}\n## Several experiments in a file\n\n{reference(Study)}")


def _section(path: str, model: type[BaseModel], header: Sequence[str] = ()) -> Iterator[str]:
    if header:
        yield from ("", f"## {' or '.join(f'`{head}`' for head in header)}")
    text = (model.__doc__ or "").partition("\nParameters\n")[0].partition("\n    Parameters\n")[0]
    yield from ("", " ".join(text.split()), "")
    yield from ("| key | allowed | default | |", "|---|---|---|---|")
    for key, info in fields(model).items():
        allowed = words_of(model, key)
        yield f"| `{key}` | {allowed} | {_default(info)} | {info.description} |".replace("  ", " ")
    for key, info in fields(model).items():
        for inner in dict.fromkeys(models_in(info.annotation)):
            inside = f"{path}.{key}" if path else key
            yield from _section(inside, inner, table_headers(inside, info.annotation))


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return "required"
    value = info.get_default(call_default_factory=True)
    if value is None or isinstance(value, BaseModel) or value in ({}, ()):
        return ""
    return f"`{json.dumps(value) if isinstance(value, str | int) else value}`"


def linked(text: str) -> str:
    """Turn names of pages of the docs into links."""
    return PAGE.sub(r"[\1](\1)", text)


def write_below(path: Path, mark: str, text: str) -> None:
    """Replace the part of a page below a mark."""
    prose = path.read_text(encoding="utf-8").partition(mark)[0]
    path.write_text(f"{prose}{mark}\n{text}", encoding="utf-8")


def main(path: Path) -> None:
    """Update the reference on a Markdown page."""
    write_below(path, MARK, every_key())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
