"""What a key may be, in words."""

from __future__ import annotations

import pytest

from pyxsim.settings import Dimension, Experiment, Network, RouterSettings, Workload, load_experiment
from pyxsim.settings.describe import _schema, words_of


def test_what_a_key_may_be_is_told_in_words() -> None:
    assert words_of(Network, "flit") == "a size such as '4 KiB'"
    assert words_of(Network, "bandwidth") == "a bandwidth such as '100 GB/s' or a list of them"
    assert words_of(Network, "dims") == "a list, each a table"
    assert words_of(RouterSettings, "buffer") == "'auto' or a whole number from 1 to 1048576"
    assert words_of(RouterSettings, "pipeline") == "'booksim' or 'garnet' or a table"
    assert words_of(RouterSettings, "output_queue") == "true or false"
    assert words_of(Dimension, "block") == "a text"
    assert words_of(Workload, "comm_scale") == "a number"


def test_many_overrides_ask_pydantic_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answer takes a hundred times as long as all else about an override."""
    _schema.cache_clear()
    asked: list[type] = []
    ask = Experiment.model_json_schema

    def counted() -> object:
        asked.append(Experiment)
        return ask()

    monkeypatch.setattr(Experiment, "model_json_schema", counted)
    data = {"network": {"topology": "ring", "shape": [4]}, "collective": {"kind": "all-reduce", "size": "1 MiB"}}
    for chunks in (2, 3, 4):
        read = load_experiment(data, [f"system.chunks={chunks}", "run.skip=false"])
        assert (read.system.chunks, read.run.skip) == (chunks, False)
    assert asked == [Experiment]
