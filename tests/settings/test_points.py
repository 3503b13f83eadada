"""A file that holds several experiments: its points, and what is wrong with them."""

from __future__ import annotations

import itertools
import pickle
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.errors import InputError
from pyxsim.settings import load_experiment, resolved_toml
from pyxsim.settings.points import MOST, Point, points
from tests.examples import part_of
from tests.in_turn import in_turn

RING: dict[str, Any] = {
    "network": {"topology": "ring", "shape": [4]},
    "collective": {"kind": "all-reduce", "size": "1 MiB"},
}


def told(source: dict[str, Any] | Path, *overrides: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        points(source, overrides)
    return str(caught.value).splitlines()


def variants(*each: dict[str, Any]) -> dict[str, Any]:
    return {**RING, "variant": list(each)}


def test_a_single_experiment_is_one_point(tmp_path: Path) -> None:
    (point,) = points(RING)
    assert (point.label, point.values, point.experiment) == ("experiment", {}, load_experiment(RING))
    path = tmp_path / "mine.toml"
    path.write_text(resolved_toml(point.experiment), encoding="utf-8")
    (from_file,) = points(path, ["system.chunks=3"])
    assert from_file.label == "mine"
    assert from_file.experiment.system.chunks == 3


@settings(max_examples=part_of(25))
@given(
    st.lists(st.sampled_from([1, 2, 3, 5]), min_size=1, max_size=3, unique=True),
    st.lists(st.sampled_from(["1 KiB", "1 MiB"]), min_size=1, max_size=2, unique=True),
    st.integers(0, 3),
)
def test_a_study_is_the_product_of_variants_and_values(chunks: list[int], sizes: list[str], count: int) -> None:
    study = variants(*({"name": f"v{n}", "set": {"network.shape": [4 + n]}} for n in range(count)))
    found = points({**study, "sweep": {"system.chunks": chunks, "collective.size": sizes}})
    wanted = itertools.product(range(max(1, count)), chunks, sizes)
    for point, (n, chunk, size) in zip(found, wanted, strict=True):
        alone = {
            "network": {"topology": "ring", "shape": [4 + n]},
            "collective": {"kind": "all-reduce", "size": size},
            "system": {"chunks": chunk},
        }
        assert point.experiment == load_experiment(alone)
        assert point.label == f"{f'v{n}, ' * (count > 0)}chunks={chunk}, size={size}"
        assert point.variant == (f"v{n}" if count else None)
    assert len({point.label for point in found}) == len(found)


def test_a_variant_may_set_whole_tables() -> None:
    found = points(
        variants(
            {"name": "as it is", "set": {}},
            {"name": "later", "set": {"collective": {"kind": "all-gather", "size": "1 KiB", "at": "1 us"}}},
            {"name": "two", "set": {"collective": [{"kind": "all-gather", "size": "1 KiB"}] * 2}},
        )
    )
    assert [len(point.experiment.collectives) for point in found] == [1, 1, 2]
    assert found[1].experiment.collectives[0][1].kind == "all-gather"
    base = {"network": {"latency": "1 us"}, "collective": RING["collective"]}
    dims = [{"block": "ring", "npus": 4}, {"block": "switch", "npus": 2}]
    study = {**base, "variant": [{"name": "product", "set": {"network.dims": dims, "network.dims[1].npus": 8}}]}
    assert points(study)[0].experiment.network.dimensions == 2
    assert points(study)[0].experiment.network.dims[1].npus == 8  # type: ignore[index]


def test_the_tables_of_the_caller_stay_as_they_are() -> None:
    shape = [4, 2]
    study = {
        **variants({"name": "a", "set": {"network.topology": "torus", "network.shape": shape}}),
        "sweep": {"network.shape[0]": [8, 16]},
    }
    found = points(study)
    assert [point.experiment.network.shape for point in found] == [(8, 2), (16, 2)]
    assert [point.values["network.shape"] for point in found] == [[4, 2], [4, 2]]
    assert RING["network"]["shape"] == [4]
    assert shape == [4, 2]


def test_labels_tell_what_is_different_and_are_never_alike() -> None:
    long = ["a" * 70, "a" * 71]
    found = points(
        {
            **RING,
            "sweep": {
                "network.shape": [[4], [8]],
                "system.endpoint_delay": ["1 ns"],
                "collective.at": ["1 ns"],
                "output.carry": [True, False],
            },
        }
    )
    assert [point.label for point in found][:2] == [
        "shape=4, endpoint_delay=1 ns, at=1 ns, carry=true",
        "shape=4, endpoint_delay=1 ns, at=1 ns, carry=false",
    ]
    both = points({**RING, "sweep": {"network.latency": ["1 ns"], "network.options": [{"x": text} for text in long]}})
    assert len({point.label for point in both}) == 2
    alike = {"network.dims[0].npus": [2], "network.dims[1].npus": [4]}
    dims = {"dims": [{"block": "ring", "npus": 4}, {"block": "ring", "npus": 4}]}
    (point,) = points({"network": dims, "collective": RING["collective"], "sweep": alike})
    assert point.label == "network.dims[0].npus=2, network.dims[1].npus=4"


def test_a_label_is_one_line() -> None:
    found = points({**RING, "sweep": {"collective.name": ["a\nb", "a b"]}})
    assert [point.label for point in found] == [r"name='a\nb'", "name=a b"]


def test_set_comes_last() -> None:
    study = {**RING, "sweep": {"system.chunks": [1, 2], "collective.size": ["1 KiB", "2 KiB"]}}
    found = points(study, ["system.chunks=5"])
    assert [point.label for point in found] == ["size=1 KiB", "size=2 KiB"]
    assert {point.experiment.system.chunks for point in found} == {5}
    named = points(variants({"name": "a", "set": {"system.chunks": 2}}), ["system.chunks=7"])
    assert named[0].experiment.system.chunks == 7


def test_spellings_of_astra_sim_are_taken() -> None:
    study = {**RING, "sweep": {"system.preferred-dataset-splits": [1, 2]}}
    assert [point.experiment.system.chunks for point in points(study)] == [1, 2]
    found = points(variants({"name": "a", "set": {"system.endpoint-delay": 10}}))
    assert found[0].experiment.system.endpoint_delay == Fraction(1, 10**8)


FAULTS: list[tuple[dict[str, Any], str]] = [
    ({**RING, "sweep": 3}, "sweep: 3 is not a table; allowed: a table such as { key = value }"),
    ({**RING, "sweep": {"a.b": 3}}, 'sweep."a.b": 3 is not a list of values; allowed: a list such as [1, 2, 4]'),
    ({**RING, "sweep": {"a": []}}, "sweep.a: [] is not a list of values"),
    ({**RING, "sweep": {"network.latncy": ["1 ns"]}}, 'sweep."network.latncy": unknown key; allowed: topology'),
    ({**RING, "sweep": {"network.latncy": ["1 ns"]}}, "did you mean 'latency'?"),
    (
        {**RING, "sweep": {"network..x": [1]}},
        "sweep.\"network..x\": 'network..x' is not a key path; allowed: a key path such as",
    ),
    ({**RING, "sweep": {"sweep.x": [1]}}, 'sweep."sweep.x": unknown key'),
    ({**RING, "sweep": {"system.chunks": [1, 0]}}, 'sweep."system.chunks"[1]: 0 is too small; allowed: a whole'),
    ({**RING, "sweep": {"network.shape[4]": [1]}}, 'sweep."network.shape[4]"[0]: the list at'),
    (
        {**variants({"name": "a", "set": {"system.chunks": 2}}), "sweep": {"system": [{"chunks": 1}]}},
        'variant[0].set."system.chunks": [sweep] also sets system; allowed: one of them',
    ),
    (
        {**RING, "sweep": {"network.shape[0]": [4, 5], "network.shape": [[3]]}},
        'sweep."network.shape": the sweep also sets network.shape[0], which overlaps with it; allowed: one of them',
    ),
    (
        {**RING, "sweep": {"system": [{"chunks": 1}], "system.chunks": [1]}},
        'sweep."system.chunks": the sweep also sets system, which overlaps with it',
    ),
    (
        {**RING, "sweep": {"collective": {"size": ["1 KiB"]}}},
        "sweep.collective.size: a table, not a list of values; allowed: the key path in quotes: "
        '"collective.size" = [..]',
    ),
    (variants({"name": "a\nb", "set": {}}), r"variant[0].name: 'a\nb' contains unprintable characters; allowed"),
    (variants({"name": "a"}), "variant[0].set: is missing"),
    (variants({"set": {}}), "variant[0].name: is missing"),
    (variants({"name": "", "set": {}}), "variant[0].name: '' is not a name"),
    (variants({"name": "a", "set": {}, "sett": {}}), "variant[0].sett: unknown key; allowed: name, set; did you mean"),
    (variants({"name": "a", "set": {"network.topolgy": "x"}}), 'variant[0].set."network.topolgy": unknown key'),
    (variants({"name": "a", "set": {}}, {"name": "a", "set": {}}), "variant[1].name: same name as variant[0]"),
    (
        variants({"name": "a", "set": {}}, {"name": "b", "set": {"collective.size": "1 MB/s"}}),
        "variant[1].set.\"collective.size\": 'MB/s' in '1 MB/s' is not a unit of size",
    ),
    (
        variants({"name": "a", "set": {"collective": {"kind": "all-reduce", "size": "0 B"}}}),
        "variant[0].set.collective.size: '0 B' is zero",
    ),
    ({**RING, "sweep": {"system.chunks": list(range(1, MOST + 2))}}, "sweep: 10001 points are too many; allowed: at"),
]


@in_turn(("study", "line"), FAULTS)
def test_faults(study: dict[str, Any], line: str) -> None:
    assert any(line in one for one in told(study)), told(study)


def test_faults_of_all_points_come_at_once_and_each_once(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(
        """
        [network]
        topology = "ring"
        shape = [4]
        bandwidth = "fast"

        [system]
        all_reduce = ["ring"]

        [collective]
        kind = "all-reduce"
        size = "1 MiB"

        [sweep]
        "system.chunks" = [0, 1]

        [[variant]]
        name = "ring"
        set = {}

        [[variant]]
        name = "two rings"
        set = { "network.shape" = [4, 4], "network.bandwidth" = "1 GB/s" }
        """,
        encoding="utf-8",
    )
    found = [line.removeprefix(f"{path}: ") for line in told(path, "collective.size=2", "network.latncy=3")]
    assert [line.split(";")[0] for line in found] == [
        "overrides: network.latncy: unknown key",
        "network.bandwidth: 'fast' is not a bandwidth (in ring, chunks=0 and 1 more)",
        'sweep."system.chunks"[0]: 0 is too small',
        "overrides: collective.size: 2 has no unit",
        "system.all_reduce: the list has 1 entries, but the network has 2 dimensions (in two rings, chunks=1)",
    ]


def test_a_fault_that_turns_up_later_is_placed_where_the_value_stands(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(
        '[network]\ntopology = "ring"\n[collective]\nkind = "all-reduce"\nsize = "1 MiB"\n'
        '[[variant]]\nname = "a"\nset = { "network.shape" = [4] }\n',
        encoding="utf-8",
    )
    (point,) = points(path, ["system.chunks=1"])

    def place(key: str) -> str:
        return str(point.placed(InputError("wrong", key=key)))

    assert place("network.shape") == f'{path}: variant[0].set."network.shape": wrong'
    assert place("network.shape[0]") == f'{path}: variant[0].set."network.shape"[0]: wrong'
    assert place("network.latency") == f"{path}: network.latency: wrong"
    assert place("system.chunks") == "overrides: system.chunks: wrong"
    assert place("--backend") == "backend: wrong"


def test_points_can_be_sent_to_other_processes() -> None:
    (point, _) = points({**RING, "sweep": {"system.chunks": [1, 2]}})
    again: Point = pickle.loads(pickle.dumps(point))
    assert again == point
