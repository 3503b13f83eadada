"""The reference of all keys as Markdown, from the models: it cannot say anything else than what is read.

docs/settings.md holds it; `python -m pyxsim.settings.page docs/settings.md` brings the page up to date.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from pyxsim.settings.describe import heads, models_in, words_of
from pyxsim.settings.experiment import Experiment
from pyxsim.settings.points import Study

MARK = "<!-- every key: written by pyxsim.settings.page from here on -->\n"
PAGE = re.compile(r"docs/(\w+\.md)")


def reference(model: type[BaseModel]) -> str:
    """All keys of an experiment as Markdown, one section for each table: what each may be, its default, what it is."""
    return "\n".join(_section("", model)).strip() + "\n"


def every_key() -> str:
    """The keys of an experiment, and those by which a file holds several."""
    return linked(f"{reference(Experiment)}\n## Several experiments in a file\n\n{reference(Study)}")


def _section(path: str, model: type[BaseModel], header: Sequence[str] = ()) -> Iterator[str]:
    if header:
        yield from ("", f"## {' or '.join(f'`{head}`' for head in header)}")
    yield from ("", " ".join((model.__doc__ or "").split()), "")
    yield from ("| key | may be | default | |", "|---|---|---|---|")
    for key, info in model.model_fields.items():
        may_be = words_of(model, key)
        yield f"| `{key}` | {may_be} | {_default(info)} | {info.description} |".replace("  ", " ")
    for key, info in model.model_fields.items():
        for inner in dict.fromkeys(models_in(info.annotation)):
            inside = f"{path}.{key}" if path else key
            yield from _section(inside, inner, heads(inside, info.annotation))


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return "required"
    value = info.get_default(call_default_factory=True)
    if value is None or isinstance(value, BaseModel) or value in ({}, ()):
        return ""
    return f"`{json.dumps(value) if isinstance(value, str | int) else value}`"


def linked(text: str) -> str:
    """Where a text names a page of the docs, a link to it, as pages have it."""
    return PAGE.sub(r"[\1](\1)", text)


def write_below(path: Path, mark: str, text: str) -> None:
    """Write the part of a page anew that stands below a mark."""
    prose = path.read_text(encoding="utf-8").partition(mark)[0]
    path.write_text(f"{prose}{mark}\n{text}", encoding="utf-8")


def main(path: Path) -> None:
    """Write the reference anew below the mark of a Markdown page."""
    write_below(path, MARK, every_key())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
