"""The registry: names, aliases, what happens when a name is unknown or taken twice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.errors import InputError
from pyxsim.registry import Registry


def ring_and_mesh() -> Registry[object]:
    shelf: Registry[object] = Registry("topology")
    shelf.register("ring", aliases=("oneRing",), kinds=("all-reduce",))(1)
    shelf.register("mesh")(2)
    return shelf


def test_a_registered_object_is_returned_unchanged_and_found() -> None:
    shelf: Registry[object] = Registry("block")

    @shelf.register("ring")
    def ring() -> int:
        return 7

    assert ring() == 7
    assert shelf.get("ring") is ring


def test_aliases_lead_to_the_same_entry() -> None:
    shelf = ring_and_mesh()
    assert shelf.get("oneRing") == shelf.get("ring") == 1
    assert shelf.canonical("oneRing") == "ring"
    assert shelf.entry("oneRing").info == {"kinds": ("all-reduce",)}
    assert "oneRing" in shelf
    assert "direct" not in shelf


def test_names_are_sorted_and_without_aliases() -> None:
    shelf = ring_and_mesh()
    assert shelf.names() == list(shelf) == [e.name for e in shelf.entries] == ["mesh", "ring"]
    assert len(shelf) == 2


def test_an_unknown_name_is_the_users_fault_and_gets_a_suggestion() -> None:
    with pytest.raises(InputError) as caught:
        ring_and_mesh().get("rnig")
    assert str(caught.value) == "unknown topology 'rnig'; allowed: mesh, ring; did you mean 'ring'?"


def test_a_name_that_is_close_to_no_other_may_be_from_a_folder_that_was_not_told() -> None:
    with pytest.raises(InputError) as caught:
        ring_and_mesh().get("spidergon")
    own = "or your own: give its folder with libraries=['DIR']"
    assert str(caught.value) == f"unknown topology 'spidergon'; allowed: mesh, ring, {own}"


@pytest.mark.parametrize(
    ("name", "aliases"), [("ring", ()), ("oneRing", ()), ("new", ("ring",)), ("new", ("oneRing",))]
)
def test_a_name_taken_twice_is_refused_and_changes_nothing(name: str, aliases: tuple[str, ...]) -> None:
    shelf = ring_and_mesh()
    with pytest.raises(InputError, match="already registered by module"):
        shelf.register(name, aliases=aliases)(3)
    assert shelf.names() == ["mesh", "ring"]
    assert "new" not in shelf
    assert shelf.get("ring") == 1


def test_discard_forgets_what_a_module_registered() -> None:
    shelf = ring_and_mesh()
    exec(
        compile("shelf.register('torus', aliases=('t',))(3)", "torus.py", "exec"), {"shelf": shelf, "__name__": "user"}
    )
    assert shelf.entry("t").module == "user"
    shelf.discard("user")
    assert shelf.names() == ["mesh", "ring"]
    assert "t" not in shelf
    shelf.register("t")(4)
    assert shelf.get("t") == 4


@given(st.dictionaries(st.text(), st.integers()))
def test_every_name_leads_to_its_own_object(content: dict[str, int]) -> None:
    shelf: Registry[object] = Registry("thing")
    for name, value in content.items():
        shelf.register(name)(value)
    assert {name: shelf.get(name) for name in shelf} == content
    assert shelf.names() == sorted(content)
