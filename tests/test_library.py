"""The shelves: where they are, that each file is loaded once under a stable name, how broken files are told."""

from __future__ import annotations

import importlib.metadata
import os
import pickle
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyxsim import library, registry
from pyxsim.errors import InputError
from pyxsim.registry import topologies

RING = """
from dataclasses import dataclass
from pyxsim.registry import topologies

@dataclass(frozen=True)
class Wiring:
    npus: int

@topologies.register("{name}")
def build(npus):
    return Wiring(npus)
"""


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Empty registries, no library modules, and a pyxsim that is installed in an empty folder."""
    for each in registry.REGISTRIES:
        each.names()  # what fills it is imported once, and would be lost with the empty tables
        monkeypatch.setattr(each, "_entries", {})
        monkeypatch.setattr(each, "_spellings", {})
    before = {name: m for name, m in sys.modules.items() if name.split(".")[0] == "pyxsim_library"}
    for name in before:
        del sys.modules[name]
    package = tmp_path / "site" / "pyxsim"
    package.mkdir(parents=True)
    monkeypatch.setattr(library, "PACKAGE", package)
    yield package
    for name in [n for n in sys.modules if n.split(".")[0] == "pyxsim_library"]:
        del sys.modules[name]
    sys.modules.update(before)


def put(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text)
    return path


def test_the_source_tree_is_found_next_to_the_package(clean: Path) -> None:
    put(clean.parent / "topologies", "ring.py", RING.format(name="ring"))
    library.load_all()
    assert topologies.names() == ["ring"]
    assert topologies.entry("ring").module == "pyxsim_library.topologies.ring"


def test_the_copy_in_the_wheel_wins_over_strangers_next_to_the_package(clean: Path) -> None:
    put(clean / "_library" / "topologies", "ring.py", RING.format(name="ring"))
    put(clean.parent / "topologies", "stranger.py", "raise RuntimeError('not ours')")
    library.load_all()
    assert topologies.names() == ["ring"]


def test_without_any_shelf_nothing_is_loaded() -> None:
    library.load_all()
    assert topologies.names() == []


def test_a_users_library_adds_to_what_ships(clean: Path, tmp_path: Path) -> None:
    put(clean.parent / "topologies", "ring.py", RING.format(name="ring"))
    put(tmp_path / "mine" / "topologies", "star.py", RING.format(name="star"))
    library.load_all([tmp_path / "mine"])
    assert topologies.names() == ["ring", "star"]


def test_every_file_is_loaded_once_and_the_path_stays_as_it_was(clean: Path, tmp_path: Path) -> None:
    count = tmp_path / "count"
    text = f"with open({str(count)!r}, 'a') as f:\n    f.write('x')\n" + RING.format(name="star")
    put(tmp_path / "mine" / "topologies", "star.py", text)
    before = list(sys.path)
    library.load_all([tmp_path / "mine"])
    library.load_all([str(tmp_path / "mine"), tmp_path / "mine"])
    library.load_all()
    assert count.read_text() == "x"
    assert sys.path == before


def test_a_file_added_later_is_found_by_the_next_load(tmp_path: Path) -> None:
    put(tmp_path / "mine" / "topologies", "star.py", RING.format(name="star"))
    library.load_all([tmp_path / "mine"])
    put(tmp_path / "mine" / "topologies", "line.py", RING.format(name="line"))
    library.load_all([tmp_path / "mine"])
    assert topologies.names() == ["line", "star"]


def test_objects_of_library_files_pickle(tmp_path: Path) -> None:
    put(tmp_path / "mine" / "topologies", "star.py", RING.format(name="star"))
    library.load_all([tmp_path / "mine"])
    wiring = topologies.get("star")(5)
    assert type(wiring).__module__ == "pyxsim_library.topologies.star"
    assert pickle.loads(pickle.dumps(wiring)) == wiring


def test_siblings_import_each_other_by_the_stable_name(tmp_path: Path) -> None:
    shelf = tmp_path / "mine" / "topologies"
    put(shelf, "zebra.py", RING.format(name="zebra"))
    put(shelf, "antelope.py", "from pyxsim_library.topologies.zebra import Wiring as W")
    library.load_all([tmp_path / "mine"])
    assert topologies.names() == ["zebra"]
    assert sys.modules["pyxsim_library.topologies.antelope"].W is type(topologies.get("zebra")(1))


def test_private_files_data_and_folders_are_left_alone(tmp_path: Path) -> None:
    shelf = tmp_path / "mine" / "topologies"
    for name in ("_draft.py", ".hidden.py"):
        put(shelf, name, "raise RuntimeError")
    put(shelf / "folder.py", "x.py", "raise RuntimeError")
    put(shelf, "pod.toml", "")
    put(shelf, "_half.toml", "")
    library.load_all([tmp_path / "mine"])
    assert library.data_files(extra_dirs=[tmp_path / "mine"]) == {"pod": shelf / "pod.toml"}


def test_named_systems_of_the_user_come_before_those_that_ship(clean: Path, tmp_path: Path) -> None:
    put(clean.parent / "topologies", "pod.toml", "")
    shipped = put(clean.parent / "topologies", "cube.toml", "")
    mine = put(tmp_path / "mine" / "topologies", "pod.toml", "")
    assert library.data_files(extra_dirs=[tmp_path / "mine"]) == {"cube": shipped, "pod": mine}
    assert library.data_files(suffix=".graphml") == {}


def test_a_system_has_a_name_of_its_own(clean: Path, tmp_path: Path) -> None:
    put(clean.parent / "topologies", "ring.py", RING.format(name="ring"))
    put(clean.parent / "topologies", "pod.toml", "")
    library.load_all()
    mine = put(tmp_path / "mine" / "topologies", "ring.toml", "")
    with pytest.raises(InputError, match="a topology named 'ring' already exists; allowed: another name") as caught:
        library.load_all([tmp_path / "mine"])
    assert caught.value.file == str(mine)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("x = 1\nfor\n", 2, "not valid Python: invalid syntax"),
        ("\n\n1 / 0\n", 3, "ZeroDivisionError: division by zero"),
        ("def f():\n    raise KeyError('k')\n\nf()\n", 2, "KeyError"),
        ("import nowhere_to_be_found\n", 1, "ModuleNotFoundError"),
        ("import sys\nsys.exit(0)\n", 2, "SystemExit"),
        ("import json\n\njson.loads('{')\n", 3, "JSONDecodeError"),
        ("x = '\0'\n", 1, "null bytes"),
        ("from pyxsim.registry import topologies\ntopologies.get('x')\n", 2, "unknown topology 'x'"),
    ],
)
def test_a_broken_file_is_told_with_its_line(tmp_path: Path, text: str, line: int, words: str) -> None:
    path = put(tmp_path / "mine" / "topologies", "star.py", text)
    with pytest.raises(InputError) as caught:
        library.load_all([tmp_path / "mine"])
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert words in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert "pyxsim_library.topologies.star" not in sys.modules


def test_what_a_broken_file_registered_is_taken_back_and_the_mended_file_loads(tmp_path: Path) -> None:
    path = put(tmp_path / "mine" / "topologies", "star.py", RING.format(name="star") + "\nraise RuntimeError('late')\n")
    with pytest.raises(InputError, match="late"):
        library.load_all([tmp_path / "mine"])
    assert topologies.names() == []
    path.write_text(RING.format(name="star"))
    os.utime(path, (1, 1))  # another time stamp than the one that the byte code remembers
    library.load_all([tmp_path / "mine"])
    assert topologies.names() == ["star"]


def test_a_name_that_is_taken_blames_the_users_file(clean: Path, tmp_path: Path) -> None:
    put(clean.parent / "topologies", "ring.py", RING.format(name="ring"))
    mine = put(tmp_path / "mine" / "topologies", "mine.py", RING.format(name="ring"))
    with pytest.raises(InputError) as caught:
        library.load_all([tmp_path / "mine"])
    assert str(caught.value).startswith(f"{mine}:9: the topology 'ring'")
    assert "already registered by module pyxsim_library.topologies.ring" in str(caught.value)
    assert topologies.names() == ["ring"]


def test_two_files_of_one_name_are_refused(clean: Path, tmp_path: Path) -> None:
    shipped = put(clean.parent / "topologies", "ring.py", RING.format(name="ring"))
    mine = put(tmp_path / "mine" / "topologies", "ring.py", RING.format(name="other"))
    with pytest.raises(InputError) as caught:
        library.load_all([tmp_path / "mine"])
    assert str(mine) in str(caught.value)
    assert str(shipped) in str(caught.value)


def test_a_file_name_that_is_no_python_name_is_refused(tmp_path: Path) -> None:
    put(tmp_path / "mine" / "collectives", "my-ring.v2.py", "")
    with pytest.raises(InputError, match="letters, digits and '_'"):
        library.load_all([tmp_path / "mine"])


def test_a_library_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="libraries: no such folder"):
        library.load_all([tmp_path / "nowhere"])
    with pytest.raises(InputError, match="contains no shelf; allowed: a folder with subfolders topologies, routings, "):
        library.load_all([tmp_path])
    with pytest.raises(InputError, match="not a folder"):
        library.load_all([put(tmp_path, "file", "")])


class FakePoint:
    """An entry point; `content` is what loading it gives or raises."""

    name, value = "mine", "mine.package"

    def __init__(self, content: object) -> None:
        self.content = content

    def load(self) -> object:
        if isinstance(self.content, Exception):
            raise self.content
        return self.content


def announce(monkeypatch: pytest.MonkeyPatch, content: object) -> None:
    def entry_points(*, group: str) -> list[FakePoint]:
        assert group == "pyxsim.library"
        return [FakePoint(content)]

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    monkeypatch.setattr(library, "_points", library._points.__wrapped__)  # what is kept is of this process


def test_an_installed_package_can_bring_shelves(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    put(tmp_path / "pkg" / "topologies", "star.py", RING.format(name="star"))
    package = type(sys)("package")
    package.__path__ = [str(tmp_path / "pkg")]
    announce(monkeypatch, package)
    library.load_all()
    assert topologies.names() == ["star"]


def test_what_is_installed_meanwhile_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Packages are not looked at again for every experiment, but as soon as one has come."""
    site = tmp_path / "packages"
    put(site / "announced" / "topologies", "star.py", RING.format(name="star"))
    put(site / "announced", "__init__.py", "")
    os.utime(site, (1, 1))
    own = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib")}  # no folder that others write into meanwhile
    monkeypatch.setattr(sys, "path", [str(site), *own])
    looked: list[str] = []
    look = importlib.metadata.entry_points

    def counted(*, group: str) -> importlib.metadata.EntryPoints:
        looked.append(group)
        return look(group=group)

    monkeypatch.setattr(importlib.metadata, "entry_points", counted)
    for _ in range(3):
        library.load_all()
    assert (topologies.names(), len(looked)) == ([], 1)
    put(site / "announced-1.dist-info", "entry_points.txt", "[pyxsim.library]\nmine = announced\n")
    put(site / "announced-1.dist-info", "METADATA", "Name: announced\nVersion: 1\n")
    for _ in range(3):
        library.load_all()
    assert (topologies.names(), len(looked)) == (["star"], 2)
    del sys.modules["announced"]


def test_an_installed_module_without_shelves_is_just_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    announce(monkeypatch, type(sys)("module"))
    library.load_all()
    assert topologies.names() == []


def test_a_broken_installed_library_is_told_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    announce(monkeypatch, ImportError("no module named x"))
    with pytest.raises(InputError) as caught:
        library.load_all()
    expected = (
        "pyxsim.library: the entry point 'mine' = 'mine.package' cannot be loaded: ImportError: no module named x"
    )
    assert str(caught.value) == expected
