"""Libraries of a user: they count in the runs that name them, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

import pyxsim
from pyxsim.errors import InputError
from pyxsim.reports.text.summary import html, text
from tests.cli.inputs import Command

DATASET = """
from pyxsim.results.dataset import Column, dataset
@dataset("scope-test", Column("npu"), text="NPUs")
def npus(result, prepared):
    return {"npu": range(prepared.topology.npus)}
"""
CHECK = """
from pyxsim.study.check import Finding, checks
@checks.register("scope-test")
def check(prepared):
    return Finding([("scope", "test")], {"scope": "test"})
"""
BACKEND = """
import heapq
import numpy as np
from pyxsim.network.protocol import Backend, Capabilities
from pyxsim.plugins import backends
@backends.register("scope-test")
class FixedLatency(Backend):
    capabilities = Capabilities(congestion=False, checkpoint=False)
    now = 0
    def __init__(self, topology, settings, **options):
        super().__init__(topology, settings, **options)
        self.under_way = []
    def send_many(self, src, dst, nbytes, plane, at, tag=0):
        self.under_way += [(at + 100, *each) for each in enumerate(nbytes.tolist(), self.messages_sent)]
        self.messages_sent += len(src)
        return self.messages_sent - len(src)
    def advance(self, until, *, slack=0):
        if not self.under_way:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        self.under_way.sort()
        self.now, message, size = self.under_way.pop(0)
        self.bytes_delivered += size
        return np.array([message]), np.array([self.now])
"""


def put(folder: Path, shelf: str, text: str) -> None:
    path = folder / "mine" / shelf / "scope_test.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_datasets_and_checks_of_a_library_end_with_its_run(folder: Path) -> None:
    put(folder, "datasets", DATASET)
    put(folder, "checks", CHECK)
    for _ in range(2):
        with_library = pyxsim.run("small.toml", libraries=["mine"])
        assert "scope-test" in with_library.frames
        assert pyxsim.check("small.toml", libraries=["mine"])["scope"] == "test"
        assert "scope-test" not in pyxsim.run("small.toml").frames
        assert "scope" not in pyxsim.check("small.toml").data
    with_library.save("with.h5")
    assert "scope-test" in pyxsim.load("with.h5").frames


def test_a_backend_without_checkpoints_refuses_them_before_the_run(pyxsim: Command, folder: Path) -> None:
    put(folder, "backends", BACKEND)
    ended = pyxsim("run", "small.toml", "--library", "mine", "--backend", "scope-test", "--checkpoint", "9 s")
    assert ended.code == 2
    assert ended.lines == [
        "pyxsim: --set: run.checkpoint: backend 'scope-test' cannot write checkpoints; "
        "allowed: no checkpoints, or another backend"
    ]
    assert list(folder.glob("*.checkpoint")) == []


def test_counters_that_a_backend_does_not_have_are_left_out(folder: Path) -> None:
    put(folder, "backends", BACKEND)
    result = pyxsim.run("small.toml", libraries=["mine"], backend="scope-test")
    for shown in (text(result), html(result)):
        assert "busy" not in shown
        assert "waited" not in shown
    assert not result.has_link_counters
    fluid = pyxsim.run("small.toml", backend="flow")
    assert fluid.has_link_counters
    assert fluid.stall_causes == ()
    assert "busiest links" in text(fluid)
    assert "waited" not in text(fluid)
    assert "waited: credit" in text(pyxsim.run("small.toml"))


def test_run_in_python_refuses_checkpoints_too(folder: Path) -> None:
    put(folder, "backends", BACKEND)
    with pytest.raises(InputError, match="backend 'scope-test' cannot write checkpoints"):
        pyxsim.run("small.toml", overrides=["run.checkpoint='9 s'"], libraries=["mine"], backend="scope-test")


def test_a_misspelt_shelf_is_an_error(pyxsim: Command, folder: Path) -> None:
    put(folder, "patterns", "")
    put(folder, "pattern", "")
    put(folder, "docs", "")
    ended = pyxsim("run", "small.toml", "--library", "mine")
    assert ended.code == 2
    (line,) = ended.lines
    assert line.startswith(f"pyxsim: {folder}/mine/pattern: --library: is not a shelf; allowed: topologies, ")
    assert line.endswith("; did you mean 'patterns'?")


@pytest.mark.parametrize("section", ["link", "Link losses"])
def test_a_misspelt_section_is_an_error_and_a_heading_is_none(pyxsim: Command, folder: Path, section: str) -> None:
    text = "from pyxsim.reports.html import Panel, html_panel\n@html_panel('section-test', section='{}')\n"
    put(folder, "panels", text.format(section) + "def panel(result, detail):\n    return Panel('x')\n")
    ended = pyxsim("run", "small.toml", "--library", "mine", "-q")
    if section == "link":
        assert ended.code == 2
        assert "the panel 'section-test' is for the section 'link'; did you mean 'links'?; allowed: " in ended.lines[0]
        assert "scope_test.py:2: " in ended.lines[0]
    else:
        assert (ended.code, ended.lines) == (0, [])


def test_a_workload_file_that_no_reader_claims(pyxsim: Command, folder: Path) -> None:
    (folder / "tasks.foo").write_text("x\n", encoding="utf-8")
    (folder / "t.toml").write_text(
        '[network]\ntopology = "ring"\nshape = [4]\n[workload]\nfile = "tasks.foo"\n', encoding="utf-8"
    )
    ended = pyxsim("run", "t.toml")
    assert ended.code == 2
    (line,) = ended.lines
    assert "workload.file: no reader claims '.foo', and as 'astra-sim-1': tasks.foo:1: unknown parallelism 'x'" in line
    assert line.endswith(", .txt, or your own: give its folder with --library DIR")


def test_a_plot_of_its_own_height_beside_a_backend_without_link_counters(pyxsim: Command, folder: Path) -> None:
    """The figure is divided then, and the legend of the network is fitted into its part."""
    put(folder, "backends", BACKEND)
    text = "from pyxsim.reports.plots.plot_registry import plot\n@plot('height_test', height=2.5)\n"
    put(folder, "panels", text + "def height_test(result, ax=None):\n    ax.set_title('of mine')\n    return ax\n")
    ended = pyxsim("run", "small.toml", "--library", "mine", "--backend", "scope-test", "--plot", "out.svg", "-q")
    assert (ended.code, ended.lines) == (0, [])
    assert "of mine" in (folder / "out.svg").read_text(encoding="utf-8")
