"""`pyxsim cost` and `pyxsim.cost`: designs and results, their text and JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import pyxsim
from pyxsim.cli.app import main
from pyxsim.costs import DesignCost, StepCost
from pyxsim.errors import InputError

RING = """
[network]
topology = "ring"
shape = [4]

[collective]
kind = "all-reduce"
size = "1 MiB"

[cost.npu]
type = "h100"

[cost.links]
energy = "2 pJ/bit"
idle = 0
price = "4 $/GBps"
"""


@pytest.fixture
def ring(tmp_path: Path) -> Path:
    path = tmp_path / "ring.toml"
    path.write_text(RING)
    return path


def test_a_design(ring: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", str(ring), "--set", "cost.npu.price=10 k$", "--json"]) == 0
    out = json.loads(capfd.readouterr().out)
    # 4 NPUs, and 4 links of 100 GB/s both ways.
    assert out["design"]["capex"]["typical"] == pytest.approx(4 * 10_000 + 4 * 100 * 4)
    assert [part["kind"] for part in out["design"]["parts"]] == ["npu", "link"]
    assert "run" not in out


def test_a_result(ring: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "out.h5"
    pyxsim.run(ring).save(file)
    assert main(["cost", str(file)]) == 0
    text = " ".join(capfd.readouterr().err.split())
    bits = 2 * 3 * 8 * 2**20
    assert f"links (each direction) 8 {bits * 2e-6:.0f} uJ 0 J {bits * 2e-6:.0f} uJ" in text
    assert "2 pJ per delivered bit" in text
    assert main(["cost", str(file), "--json", "--set", "cost.links.energy=4 pJ/bit"]) == 0
    parts = {row["part"]: row for row in json.loads(capfd.readouterr().out)["run"]["parts"]}
    assert parts["links"]["energy"] == pytest.approx(4e-12 * bits)


def test_an_unknown_price_is_a_line_and_not_the_end(ring: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", str(ring), "--set", "cost.npu.type=tpu-v4"]) == 0
    text = " ".join(capfd.readouterr().err.split())
    assert "price unknown: cost.npu.price: the catalogue has no price of 'tpu-v4'" in text
    assert "peak" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--set", "cost.npu.type=h10"], "cost.npu.type: 'h10' is not in the catalogue"),
        (["--set", "cost.links.energy=2 pJ"], "cost.links.energy: 'pJ' in '2 pJ' is not a unit of energy per bit"),
        (["--set", "cost.lnks.energy=2 pJ/bit"], "cost.lnks: unknown key"),
    ],
)
def test_faults_take_a_line(ring: Path, words: list[str], said: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", str(ring), *words]) == 2
    text = capfd.readouterr().err
    assert said in text
    assert text.count("\n") == 1


def test_a_result_keeps_its_network(ring: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "out.h5"
    pyxsim.run(ring).save(file)
    assert main(["cost", str(file), "--set", "network.shape=[8]"]) == 2
    assert "cannot change a result; allowed: cost.KEY=VALUE" in capfd.readouterr().err


def test_in_python(ring: Path) -> None:
    design = pyxsim.cost(ring)
    assert isinstance(design, DesignCost)
    result = pyxsim.run(ring)
    step = pyxsim.cost(result, ["cost.pue=1"])
    assert isinstance(step, StepCost)
    assert step.energy == pyxsim.energy(result).total
    assert step.json()["seconds"] == float(result.time_cycles / result.clock_hz)


def test_the_energy_is_in_summary_page_and_json(ring: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "out.h5"
    assert main(["run", str(ring), "-o", str(file)]) == 0
    lines = capfd.readouterr().err.splitlines()
    assert any(line.startswith("energy ") and "npus" in line for line in lines)
    assert main(["run", str(ring), "--json"]) == 0
    rows = json.loads(capfd.readouterr().out)["energy"]
    assert [row["part"] for row in rows] == ["links", "routers", "npus"]
    assert main(["report", str(file), "-o", str(tmp_path / "page.html")]) == 0
    assert "Energy in numbers" in (tmp_path / "page.html").read_text()


def test_the_catalogue_is_listed(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "links", "--json"]) == 0
    links = {one["name"]: one for one in json.loads(capfd.readouterr().out)["links"]}
    assert links["optical"]["energy"] == ["21.25 pJ/bit", "21.25 pJ/bit", "22.5 pJ/bit"]
    assert links["optical"]["source"][0]["url"].startswith("https://docs.nvidia.com")


def test_a_search_has_the_cost_of_the_experiment_that_its_designs_vary() -> None:
    searched = pyxsim.cost("inputs/search/mixtral_256.toml")
    assert isinstance(searched, DesignCost)
    assert next(part for part in searched.parts if part.kind == "npu").count == 256


@pytest.mark.parametrize(
    ("table", "line"),
    [
        ("{type='h100', idle='900 W'}", "cost.npu.idle: 900 W without work are more than 574 W at work"),
        ("{type='h100', power='10 W'}", "cost.npu.power: 105 W without work are more than 10 W at work"),
        ("{power='10 W', idle='11 W', price='1 $'}", "cost.npu.idle: 11 W without work are more than 10 W at work"),
    ],
)
def test_an_idle_npu_takes_no_more_than_a_busy_one(table: str, line: str) -> None:
    with pytest.raises(InputError, match=line):
        pyxsim.cost("inputs/torus_all_reduce.toml", [f"cost.npu={table}"])
