"""The notebooks of docs/notebooks run from the first cell to the last, and what is stored in them is what they show."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
LARGEST = 300_000  # bytes
each = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def outputs(notebook: Any) -> list[tuple[list[str], str]]:
    """Of each cell of code the kinds of its outputs, and the texts of its data but pictures."""
    found = []
    for cell in notebook.cells:
        if cell.cell_type == "code":
            data = [output.get("data", {}) for output in cell.outputs]
            kinds = [kind for each in data for kind in sorted(each)]
            found.append((kinds, "\n".join(str(each.get("text/plain")) for each in data if "image/png" not in each)))
    return found


def read(path: Path) -> Any:
    return pytest.importorskip("nbformat").read(path, as_version=4)


# A kernel and its plots take seconds: of the notebooks, one.
some = pytest.mark.parametrize(
    "path", [pytest.param(p, marks=() if p.stem == "first_look" else pytest.mark.slow, id=p.stem) for p in NOTEBOOKS]
)


def test_there_are_notebooks() -> None:
    assert len(NOTEBOOKS) >= 2


@some
def test_a_notebook_runs_and_shows_what_is_stored(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    import pyxsim

    # The kernel is a process of its own: it finds the package that is tested here.
    here = str(Path(pyxsim.__file__).resolve().parent.parent)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH", "")])))
    # Nor a kernel of that name which the user has made for another Python.
    for name in ("IPYTHONDIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "MPLCONFIGDIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    notebook = read(path)
    stored = outputs(notebook)
    where = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3", resources=where).execute()
    found = outputs(notebook)
    assert [kinds for kinds, _ in found] == [kinds for kinds, _ in stored]
    # The numbers are those that stand there; how tables are drawn is a matter of versions.
    assert [numbers(text) for _, text in found] == [numbers(text) for _, text in stored]
    for cell in notebook.cells:
        if cell.cell_type == "code" and ".plot" in cell.source:
            assert any("image/png" in output.get("data", {}) for output in cell.outputs), cell.source


def numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?", text)]


@each
def test_a_notebook_is_fit_for_a_tree(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert path.stat().st_size < LARGEST
    assert not re.search(r"/(home|root|tmp|Users)/", text)
    notebook = read(path)
    pytest.importorskip("nbformat").validate(notebook)
    assert all(
        output.output_type in ("execute_result", "display_data")
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
    )
