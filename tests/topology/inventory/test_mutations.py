"""Mutated inventories are refused in one line or read: no other exception, no hang, little memory."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyxsim import library
from pyxsim.errors import InputError
from pyxsim.topology.from_networkx import from_networkx, read_graph
from tests.examples import part_of

library.load_all()

FOLDER = Path("inputs/inventories").resolve()
SAMPLES = {path.name: path.read_text(encoding="utf-8") for path in sorted(FOLDER.iterdir()) if path.suffix != ".toml"}
MANY = 500  # links; larger networks take long
WORDS = re.compile(r"[\w.:-]+|\W")
STRANGE = (
    *("", "0", "-1", "999999999", "1000000000", "1e99", "18446744073709551616", "٣", "1.5", "nan", "\x00", "\ud7ff"),
    *(
        "[0:999999]",
        "[::0]",
        "[5:1:-1]",
        "X",
        "NV999",
        "NV0",
        "SYS",
        "&a",
        "*a",
        "<",
        ">",
        '"',
        "'",
        "- ",
        "{",
        "]",
        ":",
    ),
    *("many2many", "one2one", "device", "xpu", "server", "switch", "host", "0000:11:00.0", "\t", "\n", "gpu", "pci"),
)


@st.composite
def mutated(draw: st.DrawFn, text: str) -> str:
    words = WORDS.findall(text)
    for _ in range(draw(st.sampled_from((1, 1, 2, 3)))):
        at = draw(st.integers(0, len(words) - 1))
        how = draw(st.sampled_from(("replace", "delete", "copy", "swap", "cut")))
        if how == "replace":
            words[at] = draw(st.sampled_from(STRANGE))
        elif how == "delete":
            del words[at : at + draw(st.integers(1, 30))]
        elif how == "copy":
            words[at:at] = words[at : at + draw(st.integers(1, 60))]
        elif how == "swap":
            other = draw(st.integers(0, len(words) - 1))
            words[at], words[other] = words[other], words[at]
        else:
            words = words[: max(at, 1)]
        words = words or [""]
    return "".join(words)


@pytest.mark.parametrize("name", SAMPLES)
@given(data=st.data(), nodes=st.sampled_from([1, 1, 2]))
@settings(max_examples=part_of(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_only_input_errors(name: str, tmp_path: Path, data: st.DataObject, nodes: int) -> None:
    path = tmp_path / name
    path.write_text(data.draw(mutated(SAMPLES[name])), encoding="utf-8")
    with contextlib.suppress(InputError):
        graph = read_graph(path, nodes)
        if graph.number_of_edges() < MANY:
            from_networkx(graph)
