"""Mutated files of synthesizers are either proved or refused in one line; nothing else happens."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyxsim.collective.checker import prove
from pyxsim.collective.lookup import get_schedule
from pyxsim.errors import InputError
from tests.collective.custom.synthesized import FILES
from tests.examples import part_of

VALUES: list[Any] = [None, True, -1, 0, 1, 2, 3, 7, 10**6, 10**30, 0.5, 1e300, "", "i", "put", "x", [], {}, [0], [[]]]


def mutate_text(text: str, draw: st.DrawFn) -> str:
    """Change, delete, double or move a piece."""
    begin = draw(st.integers(0, len(text)))
    end = draw(st.integers(begin, min(len(text), begin + 40)))
    how = draw(st.sampled_from(["delete", "double", "move", "insert", "number", "cut"]))
    if how == "number":
        numbers = list(re.finditer(r"\d+", text))
        found = draw(st.sampled_from(numbers))
        return text[: found.start()] + str(draw(st.sampled_from(VALUES[2:10]))) + text[found.end() :]
    if how == "insert":
        return text[:begin] + draw(st.text(max_size=5)) + text[begin:]
    if how == "cut":
        return text[:begin]
    rest = text[:begin] + text[end:]
    if how == "delete":
        return rest
    place = begin if how == "double" else draw(st.integers(0, len(rest)))
    return (text if how == "double" else rest)[:place] + text[begin:end] + (text if how == "double" else rest)[place:]


def mutate_json(text: str, draw: st.DrawFn) -> str:
    """Replace or remove a value, or exchange it with another."""
    value = json.loads(text)
    places: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        each = waiting.pop()
        keys = list(each) if isinstance(each, dict) else range(len(each)) if isinstance(each, list) else ()
        places += [(each, key) for key in keys]
        waiting += [each[key] for key in keys]
    holder, key = draw(st.sampled_from(places))
    how = draw(st.sampled_from(["replace", "remove", "exchange"]))
    if how == "remove":
        del holder[key]
    elif how == "replace":
        holder[key] = draw(st.sampled_from(VALUES))
    else:
        other, other_key = draw(st.sampled_from(places))
        holder[key] = json.loads(json.dumps(other[other_key]))
    return json.dumps(value)


@st.composite
def mutated(draw: st.DrawFn, text: str, suffix: str) -> str:
    for _ in range(draw(st.integers(1, 3))):
        if suffix == ".json" and draw(st.booleans()):
            try:
                text = mutate_json(text, draw)
                continue
            except (ValueError, RecursionError):
                pass
        if re.search(r"\d", text):
            text = mutate_text(text, draw)
    return text


@pytest.mark.parametrize("name", list(FILES))
def test_the_samples_are_proved(name: str, tmp_path: Path) -> None:
    kind, text = FILES[name]
    (tmp_path / name).write_text(text)
    prove(get_schedule(kind, str(tmp_path / name), 3))


def refusal(kind: str, path: Path) -> str:
    """The error of a file, or nothing."""
    try:
        prove(get_schedule(kind, str(path), 3))
    except InputError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", list(FILES))
def test_a_mutation_is_proved_or_refused(name: str, tmp_path: Path) -> None:
    kind, text = FILES[name]
    path = tmp_path / name
    count = 0

    @settings(max_examples=part_of(60), deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(mutated(text, path.suffix))
    def check(changed: str) -> None:
        nonlocal count
        count += 1
        mine = path.with_name(f"{count}-{name}")  # a file of the same age and size would not be read again
        mine.write_text(changed, encoding="utf-8", errors="surrogatepass")
        assert refusal(kind, mine).count("\n") == 0
        mine.unlink()

    check()
