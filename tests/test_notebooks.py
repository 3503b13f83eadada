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


SMALL: dict[str, Any] = {
    "network": {"topology": "ring", "shape": [4]},
    "collective": {"kind": "all-reduce", "size": "4 KiB"},
}
OPEN: dict[str, Any] = {"network": SMALL["network"], "traffic": {"pattern": "uniform", "load": 0.1}}
OPEN["traffic"] |= {"warmup": 50, "measure": 200}


def test_what_functions_return_is_shown_in_a_line_and_in_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyxsim

    monkeypatch.chdir(tmp_path)
    result = pyxsim.run(SMALL)
    comparison = pyxsim.compare(SMALL, backends=["analytical", "flow"])
    model = {"model": "resnet50", "parallelism": {"data": 4}}
    training = {"network": SMALL["network"], "system": {"npu": {"device": "a100-80gb"}}, "workload": model}
    for shown in (
        result,
        result.frames,
        result.links,
        result.chunks,
        pyxsim.check(SMALL),
        pyxsim.diff(result, result),
        comparison,
        comparison.worst,
        pyxsim.curve(OPEN, 0.1, workers=1),
        pyxsim.saturation(OPEN, 0.3, workers=1),
        pyxsim.sweep({**SMALL, "sweep": {"system.chunks": [1, 2]}}, "sweep", workers=1),
        pyxsim.describe_topology("ring", [4]),
        pyxsim.describe_collective("ring"),
        pyxsim.generate(training),
        pyxsim.report(result),
        pyxsim.timeline(result),
    ):
        assert len(repr(shown)) <= 130, repr(shown)
        assert "\n" not in repr(shown)
        html = shown._repr_html_()
        assert html.startswith("<")
        assert 100 < len(html) < 10_000, type(shown)


@pytest.mark.slow
def test_the_progress_bar_of_a_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")])))
    for name in ("IPYTHONDIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "MPLCONFIGDIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    large = {"network": {"topology": "torus", "shape": [8, 8, 8]}, "run": {"skip": False}}
    large |= {"collective": {"kind": "all-reduce", "size": "1 MiB"}}
    lines = [
        "import IPython.display, pyxsim",
        "shown, update = [], IPython.display.DisplayHandle.update",
        "def record(handle, obj, **options):",
        "    shown.append(obj.data)",
        "    update(handle, obj, **options)",
        "IPython.display.DisplayHandle.update = record",
        f"pyxsim.run({large!r}, progress=pyxsim.ProgressBar(delay=0.0))",
        'print(sum("<progress" in each for each in shown), repr(shown[-1]))',
    ]
    cell = nbformat.v4.new_code_cell("\n".join(lines))
    notebook = nbformat.v4.new_notebook(cells=[cell])
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    texts = [each["text"] for each in cell.outputs if each.output_type == "stream" and each.name == "stdout"]
    count, last = "".join(texts).split()
    assert int(count) >= 1
    assert last == "''"
