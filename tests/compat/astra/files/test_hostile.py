"""Whatever stands in a file of ASTRA-sim, a reader reads it or tells in lines what is wrong with it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyxsim.compat.astra.files import network_tables, read_system
from pyxsim.compat.astra.files.dimensions import yaml_tables
from pyxsim.compat.astra.files.hierarchical import hierarchical_tables
from pyxsim.errors import InputError
from pyxsim.settings import load_experiment
from tests.compat.astra.files.files import HIERARCHICAL, SYSTEM, SYSTEM_2, TORUS, YAML
from tests.examples import part_of

SCALAR = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 2**70),
    st.floats(),
    st.sampled_from(["", "ring", "Ring", "LIFO", "0", "1", "-1", "1e9", "oneRing", "direct0", "\x00", "ä"]),
    st.text(max_size=5),
)
VALUE = st.one_of(SCALAR, st.lists(SCALAR, max_size=4), st.dictionaries(st.text(max_size=2), SCALAR, max_size=2))
RING = {"topology": "torus", "shape": [2, 2, 2]}
COLLECTIVE = {"kind": "all-reduce", "size": "1 MiB"}
PATIENT = settings(
    max_examples=part_of(150),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def read_or_refuse(read: Callable[[Path], Any], path: Path) -> Any:
    """What is read; None where the file is refused, in lines that name it."""
    try:
        return read(path)
    except InputError as error:
        lines = str(error).splitlines()
        assert lines
        assert all(path.name in line and line.isprintable() for line in lines)
        return None


def build(network: dict[str, Any], system: dict[str, Any]) -> None:
    """What was read is an experiment, or has faults in its own words: too many NPUs, for one."""
    with contextlib.suppress(InputError):
        load_experiment({"network": network, "system": system, "collective": COLLECTIVE})


def changed(sound: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A good file in which some values are others."""
    return st.dictionaries(st.sampled_from([*sound, "nonsense"]), VALUE, max_size=3).map(lambda more: sound | more)


@PATIENT
@given(pairs=changed(HIERARCHICAL))
def test_network_json(pairs: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_text(json.dumps(pairs), encoding="utf-8")
    tables = read_or_refuse(hierarchical_tables, path)
    if tables is not None:
        build(tables[0], {})


@PATIENT
@given(pairs=changed(SYSTEM_2 | {"model-shared-bus": 0, "G": 0.5}))
def test_system_json(pairs: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_text(json.dumps(pairs), encoding="utf-8")
    read = read_or_refuse(lambda path: read_system(path, 3), path)
    if read is not None:
        build(RING, read[0])


@PATIENT
@given(pairs=changed(SYSTEM | {"model-shared-bus": "0", "boost-mode": "0"}))
def test_system_text(pairs: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    path.write_text("".join(f"{key}: {value}\n" for key, value in pairs.items()), encoding="utf-8", errors="replace")
    read = read_or_refuse(lambda path: read_system(path, 3), path)
    if read is not None:
        build(RING, read[0])


@PATIENT
@given(pairs=changed(TORUS))
def test_network_text(pairs: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    path.write_text("".join(f"{key}: {value}\n" for key, value in pairs.items()), encoding="utf-8", errors="replace")
    read_or_refuse(network_tables, path)


@PATIENT
@given(data=st.data())
def test_yaml(data: st.DataObject, tmp_path: Path) -> None:
    at = data.draw(st.integers(0, len(YAML)))
    end = data.draw(st.integers(at, min(len(YAML), at + 12)))
    more = data.draw(
        st.one_of(st.text(max_size=8), st.sampled_from(["[", "]", "- 1", "\n- 1\n", ": ", "# ", "'", '"', ","]))
    )
    path = tmp_path / "file.yml"
    path.write_text(YAML[:at] + more + YAML[end:], encoding="utf-8", errors="replace")
    tables = read_or_refuse(yaml_tables, path)
    if tables is not None:
        build(tables[0], {})


@pytest.mark.parametrize("read", [network_tables, hierarchical_tables, yaml_tables, read_system])
def test_files_that_are_not_there(read: Callable[[Path], Any], tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nothing.txt"):
        assert read_or_refuse(read, path) is None
