"""The reference at the end of docs/python.md is that of the code."""

from __future__ import annotations

from pathlib import Path

import pyxsim
from pyxsim.cli.python_page import CLASSES, FUNCTIONS, MARK, TABLES, main, reference
from pyxsim.settings import networks


def test_the_page_is_as_the_code_is(tree: Path, tmp_path: Path) -> None:
    page = (tree / "docs" / "python.md").read_text(encoding="utf-8")
    again = tmp_path / "python.md"
    again.write_text(page, encoding="utf-8")
    main(again)
    assert again.read_text(encoding="utf-8") == page, "out of date: python -m pyxsim.cli.python_page docs/python.md"
    assert page.count(MARK) == 1


def test_every_name_has_a_section() -> None:
    names = (
        {function.__name__ for function in FUNCTIONS}
        | {kind.__name__ for kind in (*CLASSES, *TABLES)}
        | set(networks.__all__)
    )
    assert {name for name in pyxsim.__all__ if not name.endswith(("Error", "Errors"))} <= {*names, "__version__"}
    for function in FUNCTIONS:
        assert getattr(pyxsim, function.__name__) is function
        assert f"### `pyxsim.{function.__name__}`" in reference()


def test_a_name_is_told_as_it_is() -> None:
    text = reference()
    assert '    *,\n    overrides: Iterable[str] = (),\n    backend: str = "packet",' in text.replace("'", '"')
    assert "| `ratio` | Simulated time over its lower bound. |" in text
    assert "| `save()` |" in text
    assert " at 0x" not in text
