"""The drawn network: one region per link, one frame per window, and the numbers of the file in them."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import h5py
import numpy as np
import pytest

import pyxsim
from pyxsim.reports.html.elements import Detail
from pyxsim.reports.html.panels import network
from pyxsim.reports.plots.style import nice_top
from pyxsim.results.result import STALLS, Result

TITLE = "The network: utilization of each link"


def numbers(spec: Any) -> Any:
    """An array as plotly writes it."""
    if isinstance(spec, list):
        return np.array(spec)
    found = np.frombuffer(base64.b64decode(spec["bdata"]), np.dtype(spec["dtype"]))
    return found.reshape([int(n) for n in str(spec.get("shape", len(found))).split(",")])


@pytest.fixture(scope="module")
def figure(torus: Result, show: Callable[..., Any]) -> Any:
    return show(torus).figures[TITLE]


def test_frames_hold_the_windows_of_the_file(
    torus: Result, figure: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("file") / "torus.h5"
    torus.save(path)
    with h5py.File(path) as file:
        busy, start = file["links/busy"][()], file["links/time"][()]
        whole = file["links_total/utilization"][()]
        end = int(file.attrs["summary"].partition('"cycles": ')[2].partition(",")[0])
    lengths = np.diff([*start, end])
    assert len(figure["frames"]) == 1 + len(busy)
    np.testing.assert_allclose(numbers(figure["frames"][0]["data"][0]["z"]), whole, rtol=1e-6)
    for frame, row, length in zip(figure["frames"][1:], busy, lengths, strict=True):
        np.testing.assert_allclose(numbers(frame["data"][0]["z"]), row / length, rtol=1e-6)
    np.testing.assert_allclose(numbers(figure["data"][0]["z"]), whole, rtol=1e-6)


def test_the_caption_counts_host_links_that_are_not_drawn() -> None:
    topology = {"topology": "leaf-spine", "options": {"npus": 4, "leaves": 4, "spines": 2}}
    result = pyxsim.run({"network": topology, "collective": {"kind": "all-reduce", "size": "1 KiB"}})
    whole, small = network.network(result, Detail())[0], network.still(result, "small", 1)[0]
    assert small.text == "Utilization of 16 links over the whole run. The 32 host links are not drawn."
    assert whole.text.startswith("16 links between 6 routers")
    assert whole.text.endswith("The 32 host links are not drawn.")


def test_every_frame_has_its_step_and_all_have_one_scale(torus: Result, figure: Any) -> None:
    steps = figure["layout"]["sliders"][0]["steps"]
    assert [step["args"][0][0] for step in steps] == [frame["name"] for frame in figure["frames"]]
    assert steps[0]["label"] == "whole run"
    assert steps[1]["label"] == "0 to 0.1 us"
    assert figure["layout"]["coloraxis"]["cmin"] == 0
    assert figure["layout"]["coloraxis"]["cmax"] == nice_top(torus.utilization.max())
    assert not any("cmax" in str(frame) for frame in figure["frames"])


def test_a_region_for_each_link_where_it_is_drawn(torus: Result, figure: Any) -> None:
    """Outlines are narrow, on the map, and between the ends of the link: the middle of an uncut one is."""
    links, nodes = figure["data"][:2]
    features = links["geojson"]["features"]
    assert [each["id"] for each in features] == list(range(len(torus.links)))
    middles = {
        each["id"]: np.mean(each["geometry"]["coordinates"][0][:-1], axis=0) for each in nodes["geojson"]["features"]
    }
    for link, feature in enumerate(features):
        rings = [np.array(part[0]) for part in feature["geometry"]["coordinates"]]
        assert all((ring[0] == ring[-1]).all() for ring in rings)
        assert all(np.abs(ring).max() <= network.DEGREES / 2 for ring in rings)
        ends = middles[torus.links.src[link]], middles[torus.links.dst[link]]
        if len(rings) == 1 and len(rings[0]) == 6:  # straight
            np.testing.assert_allclose(rings[0][:-1].mean(axis=0), np.mean(ends, axis=0), atol=0.1)


def test_the_mouse_is_told_name_ends_and_stalls(torus: Result, figure: Any) -> None:
    texts = figure["data"][0]["text"]
    assert len(texts) == len(torus.links)
    for link, text in enumerate(texts):
        name = torus.links.name[link].replace(">", "&gt;")
        assert text.startswith(f"{name}<br>router {torus.links.src[link]} to {torus.links.dst[link]}, dim ")
    told = numbers(figure["data"][0]["customdata"])
    np.testing.assert_allclose(told[:, 0], torus.link_utilization, rtol=1e-6)
    for column, name in enumerate(STALLS, 1):
        np.testing.assert_allclose(told[:, column], torus.totals[name] / torus.time_cycles, rtol=1e-6)


def test_many_windows_are_taken_together(torus: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "MOST_VALUES", 3 * len(torus.links))
    (panel,) = network.network(torus, Detail())
    shown = len(panel.figure.frames) - 1
    assert shown < len(torus.windows)
    assert any("Shortened" in note and f"{shown} steps" in note for note in panel.notes)
    whole = torus.busy[: -(-len(torus.windows) // shown)].sum(axis=0)
    together = torus.window_cycles[: -(-len(torus.windows) // shown)].sum()
    np.testing.assert_allclose(panel.figure.frames[1].data[0].z, whole / together, rtol=1e-6)


def test_a_network_of_many_links_is_seen_along_its_dimensions(torus: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "MOST_DRAWN", 8)
    (panel,) = network.network(torus, Detail())
    (cells,) = panel.figure.data
    assert np.shape(cells.z) == (2, 4)
    assert np.nanmax(cells.z) == pytest.approx(torus.link_utilization.max())
    assert len(panel.figure.frames) == 1 + len(torus.windows)
    np.testing.assert_allclose(np.nanmax(panel.figure.frames[3].data[0].z), torus.utilization[2].max(), rtol=1e-6)
    assert any("Shortened" in note for note in panel.notes)


def test_less_detail_draws_fewer_links_one_by_one(torus: Result) -> None:
    (panel,) = network.network(torus, Detail(1e-6))
    assert panel.title == "The network along its dimensions"


def test_a_network_that_nobody_knows_has_no_picture(torus: Result, build: Callable[..., Result]) -> None:
    assert network.network(build(), Detail()) == []


def test_colours_end_where_the_busiest_window_does(build: Callable[..., Result], torus: Result) -> None:
    assert network._scale(0.05) == ["The color scale ends at 5 %; no link was busier in any window."]
    assert network._scale(1.0) == []
