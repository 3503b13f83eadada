"""Memory capacity, MFU and tokens per second of a model's training."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

import pyxsim as face
from pyxsim.errors import InputError
from pyxsim.reports.text.summary import text
from pyxsim.results.result import Result

# One block: 24 h^2 + 4 s h operations for each token in it, 2 h V in the head (h = 8, s = 4, V = 16).
SMALL = """
kind = "transformer"
help = "a block"
source = "made up"
layers = 1
hidden = 8
heads = 2
ffn = 32
vocabulary = 16
sequence = 4
"""
FORWARD = 24 * 8**2 + 4 * 4 * 8 + 2 * 8 * 16
NPU = {"peak": "1 TFLOP/s", "memory_bandwidth": "1 TB/s", "efficiency": 0.5}


def experiment(folder: Path, npu: dict[str, Any] = NPU, **workload: Any) -> dict[str, Any]:
    (folder / "small.toml").write_text(SMALL, encoding="utf-8")
    return {
        "network": {"topology": "torus", "shape": [4]},
        "system": {"all_reduce": "ring", "npu": npu},
        "workload": {"model": str(folder / "small.toml"), "batch": 24, **workload},
    }


@pytest.mark.parametrize("passes", [1, 3])
def test_mfu_by_hand(tmp_path: Path, passes: int) -> None:
    """PaLM (Chowdhery et al. 2022, appendix B): 6 N + 12 L H Q T operations of a token, here N without the embedding
    and its norms, so 6 (12 h^2 + h V) + 12 h s; whatever is computed again does not count."""
    token = 6 * (12 * 8**2 + 8 * 16) + 12 * 8 * 4
    assert token == 3 * FORWARD
    for recompute in ("none", "full"):
        result = face.run(experiment(tmp_path, passes=passes, recompute=recompute), backend="analytical")
        (row,) = result.training
        step = result.time_ns / passes / 10**9
        assert row["step"] == pytest.approx(step)
        assert (row["samples"], row["tokens"], row["steps"]) == (24, 96, passes)
        assert row["model_flops"] == 96 * token
        assert row["mfu"] == pytest.approx(96 * token / (step * 4 * 10**12))
        assert row["tokens_per_s"] == pytest.approx(96 / step)
        assert row["tokens_per_s_npu"] == pytest.approx(24 / step)
        assert row["samples_per_s"] == pytest.approx(24 / step)
        for key in ("mfu", "tokens_per_s"):
            assert result.json()[key] == row[key]


def test_results_have_it(tmp_path: Path) -> None:
    """In text, HDF5, JSON, data frames and the page."""
    result = face.run(experiment(tmp_path, {"device": "v100"}), backend="analytical")
    (row,) = result.training
    assert row["peak_flops"] == 125e12
    assert row["capacity"] == 32 * 10**9
    assert sum(each["bytes"] for each in result.footprint) == row["memory"]
    assert result.tables()["training"] == [row]
    shown = text(result)
    for word in ("MFU", "tokens/s", "NPU memory", "of 32 GB; "):
        assert word in shown
    file = tmp_path / "out.h5"
    result.save(file)
    again = Result.load(file)
    assert list(again.footprint) == list(result.footprint)
    assert list(again.training) == [row]
    assert text(again).splitlines()[1:] == shown.splitlines()[1:]
    face.report(file, tmp_path / "page.html")
    assert "MFU" in (tmp_path / "page.html").read_text(encoding="utf-8")
    with_no_model = {
        "network": {"topology": "ring", "shape": [2]},
        "collective": {"kind": "all-reduce", "size": "64 B"},
    }
    with_no_model["network"] = {"topology": "torus", "shape": [2]}
    assert not face.run(with_no_model, backend="analytical").training


def test_too_little_memory() -> None:
    """Issue 23: Llama on 256 replicas was run, with 1.04 TiB on GPUs of 80 GB."""
    training = {"batch": 256, "recompute": "full", "parallelism": {"data": 256}}
    llama = {
        "network": {"topology": "torus", "shape": [256]},
        "system": {"all_reduce": "ring", "npu": {"device": "h100"}},
        "workload": {"model": "llama3-70b", **training},
    }
    # 16 bytes per parameter; inputs of 80 blocks; all that a block keeps; what the head keeps.
    tokens, hidden, keys, ffn, vocabulary = 8192, 8192, 1024, 28672, 128256
    block = 12 * hidden + 4 * keys + 6 * ffn
    need = 16 * 70553706496 + tokens * (80 * 2 * hidden + block + 4 * hidden + 4 * vocabulary)
    assert f"{need / 2**40:.2f}" == "1.04"
    with pytest.raises(InputError) as raised:
        face.run(llama, backend="analytical")
    (line,) = str(raised.value).splitlines()
    assert line.startswith(f"workload.parallelism: an NPU needs {need / 10**12:.2f} TB of memory and has 80 GB; ")
    optimizer = f"{12 * 70553706496 / 10**9:.0f} GB"
    assert f"largest term: optimizer, {optimizer}; allowed: a larger tensor or pipeline, zero = 1 to 3" in line
    assert line.endswith("; or allow_oom=True")


def test_allowed_without_memory(tmp_path: Path) -> None:
    small = {**NPU, "memory": "1 KiB"}
    with pytest.raises(InputError, match=r"an NPU needs .* of memory and has 1.02 kB; largest term: "):
        face.run(experiment(tmp_path, small), backend="analytical")
    with pytest.raises(InputError, match="allow_oom=True"):
        face.check(experiment(tmp_path, small), backend="analytical")
    result = face.run(experiment(tmp_path, small), backend="analytical", allow_oom=True)
    assert [line for line in result.warnings if line.startswith("an NPU needs ")]
    unknown = face.run(experiment(tmp_path), backend="analytical")
    assert unknown.time_cycles == result.time_cycles
    assert not unknown.warnings
    assert unknown.training[0]["capacity"] == -1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compared = face.compare(experiment(tmp_path, small), backends=["analytical"], allow_oom=True)
    assert compared.complete
