"""The closed form of a systolic array against what SCALE-Sim 3.0.0 says."""

from __future__ import annotations

from importlib import metadata

import pytest

from pyxsim.models import scalesim, systolic
from pyxsim.settings.npu import Array, Sram

# (dataflow, rows, columns, m, n, k): "Total Cycles" of SCALE-Sim 3.0.0 (NumPy 2.3), which nothing keeps waiting.
SCALESIM = {
    ("os", 4, 4, 10, 7, 5): 65,
    ("os", 4, 4, 33, 20, 9): 674,
    ("os", 8, 16, 16, 16, 16): 75,
    ("os", 16, 8, 4, 4, 40): 61,
    ("os", 16, 16, 64, 64, 64): 1503,
    ("ws", 4, 4, 10, 7, 5): 79,
    ("ws", 8, 16, 33, 20, 9): 251,
    ("ws", 16, 8, 4, 4, 40): 125,
    ("ws", 16, 16, 256, 256, 256): 77311,
    ("ws", 128, 128, 1024, 1024, 64): 11247,
    ("ws", 128, 128, 1024, 1024, 1024): 89983,
    ("is", 4, 4, 10, 7, 5): 101,
    ("is", 8, 16, 33, 20, 9): 299,
    ("is", 16, 8, 16, 16, 16): 107,
}


def array(dataflow: str, rows: int, columns: int, sram: Sram | None = None) -> Array:
    return Array.model_validate(
        {"dataflow": dataflow, "rows": rows, "columns": columns, "clock": "1 GHz", "sram": sram}
    )


@pytest.mark.parametrize("case", SCALESIM)
def test_the_closed_form_is_what_scalesim_counts(case: tuple[str, int, int, int, int, int]) -> None:
    """SCALE-Sim tells the number of the last cycle, and begins with 0."""
    dataflow, rows, columns, m, n, k = case
    assert systolic.cycles(m, n, k, array(dataflow, rows, columns)) == SCALESIM[case] + 1


def numpy_fits() -> bool:
    try:
        metadata.version("scalesim")
    except metadata.PackageNotFoundError:
        return False
    return tuple(map(int, metadata.version("numpy").split(".")[:2])) < (2, 4)


@pytest.mark.skipif(not numpy_fits(), reason="needs SCALE-Sim, and a NumPy with which it runs")
def test_scalesim_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYXSIM_CACHE", "")
    for (dataflow, rows, columns, m, n, k), expected in SCALESIM.items():
        if m * n * k < 10**5:
            assert scalesim.cycles(m, n, k, array(dataflow, rows, columns)) == expected
    # One KiB of each buffer, ten words in a cycle: it waits for 2043 of 3802 cycles; with 64 KiB for none.
    small = Sram(inputs=1, weights=1, outputs=1, words_per_cycle=10)
    assert scalesim.cycles(64, 64, 64, array("ws", 16, 16, small)) == 3802
    assert scalesim.cycles(64, 64, 64, array("ws", 16, 16, Sram(words_per_cycle=10))) == 1759
