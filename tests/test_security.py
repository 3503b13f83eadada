"""Reading data never runs code, and what is written runs nothing where it is opened."""

from __future__ import annotations

import csv
import json
import os
import pickle
import shutil
from pathlib import Path

import pytest

import pyxsim
from pyxsim import chakra
from pyxsim.cli.app import main
from pyxsim.runner.checkpoint import checkpoint_file, signing_key
from pyxsim.textfile import csv_text

TREE = Path(__file__).parents[1]
MARK = "was_run"
EVIL = f"open({MARK!r}, 'w').close()\ndef run(kind, n):\n    raise ValueError\n"
NETWORK = '[network]\ntopology = "ring"\nshape = [4]\nbandwidth = "64 GB/s"\nlatency = "10 ns"\nflit = "64 B"\n'
COLLECTIVE = '[collective]\nkind = "all-reduce"\nsize = "4 KiB"\n'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: the inputs of ASTRA-sim, and Python that leaves a mark if it runs."""
    shutil.copytree(TREE / "inputs" / "astra", tmp_path, dirs_exist_ok=True)
    (tmp_path / "evil.py").write_text(EVIL, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(capsys: pytest.CaptureFixture[str], command: str) -> str:
    """Run a command; return the first line with which it refuses the input."""
    assert main(command.split()) == 2
    lines = capsys.readouterr().err.splitlines()
    assert not os.path.exists(MARK)
    return lines[0]


def trace(algorithms: list[str]) -> None:
    """Write traces of an all-reduce on four NPUs, whose node names these algorithms."""
    for rank in range(4):
        attributes = [
            chakra.Attribute("comm_type", "int64_val", 0),
            chakra.Attribute("comm_size", "int64_val", 4096),
            chakra.Attribute("involved_dim", "bool_list", [True]),
        ]
        attributes += [chakra.Attribute("algorithms", "string_list", algorithms)] if algorithms else []
        node = chakra.Node(0, "sum", chakra.NodeType.COMM_COLL, attr=attributes)
        chakra.write(f"t.{rank}.et", [node])
    Path("x.toml").write_text(NETWORK + '[workload]\nfile = "t.*.et"\n', encoding="utf-8")


@pytest.mark.parametrize("name", ["evil.py", "./evil.py:run", "one-evil.py", "evil.py:run:2"])
def test_traces_cannot_name_python(capsys: pytest.CaptureFixture[str], name: str) -> None:
    trace([name])
    assert "Python code" in refused(capsys, "check x.toml")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("all-reduce-implementation", ["evil.py"]),
        ("all-reduce-implementation", ["evil.py:run"]),
        ("all-reduce-implementation-custom", ["evil.py:x"]),
    ],
)
def test_system_json_cannot_name_python(capsys: pytest.CaptureFixture[str], key: str, value: list[str]) -> None:
    table = json.loads(Path("ring_system.json").read_text(encoding="utf-8"))
    Path("s.json").write_text(json.dumps({**table, key: value}), encoding="utf-8")
    command = "astra --net ring_network.yml --sys s.json --workload all_reduce_8npus/all_reduce"
    assert "Python code" in refused(capsys, command)
    Path("x.toml").write_text(NETWORK + '[system]\nfile = "s.json"\n' + COLLECTIVE, encoding="utf-8")
    assert "Python code" in refused(capsys, "check x.toml")


def test_system_text_cannot_name_python(capsys: pytest.CaptureFixture[str]) -> None:
    text = Path("switch_system.txt").read_text(encoding="utf-8")
    Path("s.txt").write_text(
        text.replace("all-reduce-implementation: ring", "all-reduce-implementation: evil.py"), encoding="utf-8"
    )
    Path("x.toml").write_text(NETWORK + '[system]\nfile = "s.txt"\n' + COLLECTIVE, encoding="utf-8")
    assert "Python code" in refused(capsys, "check x.toml")


def test_node_algorithms_cannot_name_python(capsys: pytest.CaptureFixture[str]) -> None:
    trace([])
    Path("a.yml").write_text("0: 'evil.py:x'\n", encoding="utf-8")
    Path("x.toml").write_text(
        NETWORK + '[system]\ncompat = "astra-sim-2"\n[workload]\nfile = "t.*.et"\nalgorithms = "a.yml"\n',
        encoding="utf-8",
    )
    assert "Python code" in refused(capsys, "check x.toml")


def test_the_experiment_names_python() -> None:
    Path("x.toml").write_text(NETWORK + '[system]\nall_reduce = "evil.py"\n' + COLLECTIVE, encoding="utf-8")
    assert main(["check", "x.toml"]) == 2  # it raises ValueError
    assert os.path.exists(MARK)


# Checkpoints


class _Evil:
    def __reduce__(self) -> tuple[object, ...]:
        return open, (MARK, "w")


def checkpoint(run: object) -> Path:
    path = Path("x.checkpoint")
    head = {"libraries": [], "shelves": checkpoint_file.shelves([]), "written": "", "cpu_s": 0, "resumed": 0}
    checkpoint_file.write(path, head, run)
    return path


def test_a_checkpoint_of_another_user_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setenv("PYXSIM_CONFIG", str(folder / "theirs"))
    path = checkpoint(_Evil())
    monkeypatch.setenv("PYXSIM_CONFIG", str(folder / "mine"))
    assert "another user wrote this checkpoint" in refused(capsys, f"resume {path}")
    checkpoint([1])  # now there is a key
    monkeypatch.setenv("PYXSIM_CONFIG", str(folder / "theirs"))
    assert "another user wrote this checkpoint" in refused(capsys, f"resume {path}")


def test_a_checkpoint_with_a_false_signature_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    path = checkpoint(_Evil())
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert "another user wrote this checkpoint" in refused(capsys, f"resume {path}")


def test_a_checkpoint_that_others_can_write_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    path = checkpoint(_Evil())
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o620)
    assert "other users can write this checkpoint" in refused(capsys, f"resume {path}")


def test_a_key_that_others_can_read_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setenv("PYXSIM_CONFIG", str(folder / "mine"))
    path = checkpoint(pickle.PickleBuffer(b"x").raw().tobytes())
    assert signing_key.key_path().stat().st_mode & 0o777 == 0o600
    signing_key.key_path().chmod(0o640)
    assert "other users can read or write this key" in refused(capsys, f"resume {path}")


# What is written


@pytest.mark.parametrize("text", ["=cmd()", "+1+cmd()", "-x", "@SUM(A1)", "\tx"])
def test_csv_holds_no_formulas(text: str) -> None:
    assert csv_text(text) == f"'{text}"
    assert csv_text(csv_text(text)) == f"'{text}"


@pytest.mark.parametrize("text", ["-5", "+1.5e-3", "ring", "", "4 KiB", "a=b"])
def test_csv_keeps_other_texts(text: str) -> None:
    assert csv_text(text) == text


def test_a_sweep_writes_no_formulas() -> None:
    names = enumerate(("=cmd()", "b"), 1)
    variants = "".join(f'[[variant]]\nname = "{name}"\nset = {{ "system.chunks" = {i} }}\n' for i, name in names)
    Path("x.toml").write_text(NETWORK + COLLECTIVE + variants, encoding="utf-8")
    assert main(["sweep", "x.toml", "-o", "s", "--workers", "1", "--backend", "analytical", "-q"]) == 0
    cells = [cell for row in csv.reader(Path("s/table.csv").read_text(encoding="utf-8").splitlines()) for cell in row]
    assert "'=cmd()" in cells
    assert not [cell for cell in cells if cell[:1] in ("=", "@")]


def test_a_page_shows_names_and_runs_nothing() -> None:
    hostile = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
    name = json.dumps(hostile)
    Path("x.toml").write_text(NETWORK + COLLECTIVE + f"name = {name}\n", encoding="utf-8")
    pyxsim.run("x.toml").save("x.h5")
    assert main(["report", "x.h5", "-o", "x.html", "-q"]) == 0
    page = Path("x.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert "<img src=x" not in page


def test_a_local_dask_cluster_listens_on_loopback_only() -> None:
    pytest.importorskip("distributed")
    source = (TREE / "pyxsim" / "study" / "sweep" / "local_cluster.py").read_text(encoding="utf-8")
    assert source.count('f"{LOOPBACK}:0"') == 2
    assert "host=LOOPBACK" in source
