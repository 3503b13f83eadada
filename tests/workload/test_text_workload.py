"""The workload text of ASTRA-sim 1: what is read, and every way in which a file can be wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pyxsim.errors import InputError
from pyxsim.workload import Layer, TextWorkload, read_text_workload
from pyxsim.workload.text_workload import Header, Pass

Write = Callable[[str], Path]
GROUP = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group:"
LINE = "conv1 -1 5 NONE 0 6 ALLGATHER 70 8 ALLREDUCE 1048576 9"


def again(kept: int, *restarts: int) -> str:
    """The head of a transformer that recomputes."""
    listed = " ".join(map(str, restarts))
    return f"{GROUP} 4 checkpoints: 1 {kept} checkpoint_initiates: {len(restarts)} {listed}"


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def text(content: str) -> Path:
        path = tmp_path / "work.txt"
        path.write_text(content, encoding="utf-8")
        return path

    return text


def test_a_workload(write: Write) -> None:
    path = write(f"MICRO\n2\n{LINE}\nfc 0 1 ALLTOALL 2 3 REDUCESCATTER 4 5 NONE 0 6\n")
    assert read_text_workload(path) == TextWorkload(
        str(path),
        Header("MICRO"),
        (
            Layer("conv1", Pass(5, None, 0), Pass(6, "all-gather", 70), Pass(8, "all-reduce", 1048576), 9),
            Layer("fc", Pass(1, "all-to-all", 2), Pass(3, "reduce-scatter", 4), Pass(5, None, 0), 6),
        ),
    )


@pytest.mark.parametrize(
    ("head", "header"),
    [
        ("DATA", Header("DATA")),
        ("HYBRID_DLRM\t4\t\t", Header("HYBRID_DLRM", last_bottom=4)),
        ("HYBRID_DLRM_ENHANCED 0", Header("HYBRID_DLRM_ENHANCED")),
        ("HYBRID_TRANSFORMER model_parallel_NPU_group: 8", Header("HYBRID_TRANSFORMER", model_npus=8)),
        (
            f"{GROUP} 4 checkpoints: 2 2 11 checkpoint_initiates: 2 19 10",
            Header("HYBRID_TRANSFORMER_FWD_IN_BCKWD", model_npus=4, checkpoints=(2, 11), restarts=(19, 10)),
        ),
        (f"{GROUP}\n4\ncheckpoints: 0\ncheckpoint_initiates: 0", Header(GROUP.split()[0], model_npus=4)),
    ],
)
def test_heads(write: Write, head: str, header: Header) -> None:
    """The forms of the original's own files; it reads words, wherever its lines end."""
    text = read_text_workload(write(f"{head}\n20\n" + f"{LINE}\n" * 20))
    assert (text.header, len(text.layers)) == (header, 20)


def test_layers_that_say_how_they_are_parallel(write: Write) -> None:
    text = read_text_workload(write(f"HYBRID_CUSTOMIZED\n2\n{LINE} DATA\n{LINE} HYBRID_MODEL_DATA \n"))
    assert [layer.policy for layer in text.layers] == ["DATA", "HYBRID_MODEL_DATA"]


def test_what_may_be_run(write: Write) -> None:
    """MICRO runs one collective; other loops any that there is."""
    for word, kinds in (("MICRO", {"all-reduce"}), ("DATA", {"all-reduce", "all-gather", "all-to-all"})):
        text = read_text_workload(write(f"{word}\n2\n{LINE}\n{LINE.replace('ALLREDUCE', 'ALLTOALL')}"))
        assert text.kinds == kinds


@pytest.mark.parametrize(
    "text",
    [
        f"MICRO\r\n1\r\n{LINE}\r\n",
        f"\n\nMICRO\n\n1\n\n{LINE}",
        "MICRO\n1\n" + LINE.replace(" ", "\t\t"),
        f"\ufeffMICRO\n1\n{LINE}\n",
        f"MICRO\n1\n{LINE} POLICY\n",  # a 13th field belongs to another parallelism
        f"MICRO\n1\n{LINE}\nwhat follows the layers is not read\n",
    ],
    ids=["DOS lines", "empty lines", "tabs", "byte order mark", "policy", "more lines"],
)
def test_what_other_programs_write(write: Write, text: str) -> None:
    (layer,) = read_text_workload(write(text)).layers
    assert (layer.name, layer.weight_gradient.size, layer.update) == ("conv1", 1048576, 9)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "work.txt: is empty"),
        (" \n\t\n", "work.txt: is empty"),
        (f"MIRCO\n1\n{LINE}", "work.txt:1: unknown parallelism 'MIRCO'; .*did you mean 'MICRO'"),
        ("HYBRID_DLRM", "work.txt: the number of the last bottom layer is missing"),
        (f"HYBRID_DLRM x\n1\n{LINE}", "work.txt:1: 'x' is not a number of the last bottom layer"),
        (f"HYBRID_TRANSFORMER 4\n1\n{LINE}", "work.txt:1: '4' instead of 'model_parallel_NPU_group:'"),
        ("HYBRID_TRANSFORMER", "work.txt: 'model_parallel_NPU_group:' is missing"),
        (f"{GROUP} 0\n1\n{LINE}", "work.txt:1: the model has 0 NPUs; allowed: 1 or more"),
        (f"{GROUP} 4 checkpoints: 1 0\n1\n{LINE}", "work.txt:2: '1' instead of 'checkpoint_initiates:'"),
        (f"{GROUP} 4 checkpoints: 9 0", "work.txt: the number of a layer is missing"),
        (f"{GROUP} 4 checkpoints: 99999999999 0", "work.txt: the number of a layer is missing"),
        (f"{again(0, 2)}\n2\n{LINE}\n{LINE}", "work.txt:1: there is no layer 2; allowed: layers 0 to 1"),
        (f"{again(1, 0)}\n2\n{LINE}\n{LINE}", "work.txt:1: layer 0 restarts .* but no checkpoint precedes it"),
        (f"{again(1, 1)}\n2\n{LINE}\n{LINE}", "work.txt:1: layer 1 restarts .* but no checkpoint precedes it"),
        (f"{again(0, 1, 2)}\n3" + f"\n{LINE}" * 3, "work.txt:1: layers 1 and 2 restart .*the same checkpoint 0"),
        (f"HYBRID_CUSTOMIZED\n1\n{LINE}", "work.txt:3: the layer has 12 fields; allowed: 13 fields"),
        (f"HYBRID_CUSTOMIZED\n1\n{LINE} DATE", "work.txt:3: unknown parallelism 'DATE' .*did you mean 'DATA'"),
        (f"HYBRID_CUSTOMIZED\n1\n{LINE} HYBRID_TRANSFORMER", "work.txt:3: unknown parallelism"),
        ("MICRO", "work.txt: the number of layers is missing"),
        (f"MICRO\nx\n{LINE}", "work.txt:2: 'x' is not a number of layers; allowed: a whole number"),
        (f"MICRO\n-1\n{LINE}", "work.txt:2: '-1' is not a number of layers"),
        (f"MICRO\n1.0\n{LINE}", "work.txt:2: '1.0' is not a number of layers"),
        (f"MICRO\n0\n{LINE}", "work.txt:2: 0 layers are declared, but 1 follow; allowed: 1"),
        (f"MICRO\n\n3\n{LINE}\n{LINE}", "work.txt:3: 3 layers are declared, but 2 follow; allowed: 1 to 2"),
        (f"MICRO\n1\n{LINE.rsplit(' ', 1)[0]}", "work.txt:3: the layer has 11 fields; allowed: 12 fields"),
        (f"MICRO\n1\n{LINE} 5 6", "work.txt:3: the layer has 14 fields; allowed: 12 fields"),
        (f"MICRO\n2\n{LINE}\nfc", "work.txt:4: the layer has 1 fields"),
        (f"MICRO\n1\n{LINE.replace('NONE', 'none')}", "work.txt:3: unknown communication 'none'; .*mean 'NONE'"),
        (f"MICRO\n1\n{LINE.replace('ALLREDUCE', 'ALLREDUCEALLTOALL')}", "work.txt:3: unknown communication"),
        (f"MICRO\n1\n{LINE.replace(' 5 ', ' five ')}", "work.txt:3: 'five' is not a compute time"),
        (f"MICRO\n1\n{LINE.replace('70', '-70')}", "work.txt:3: '-70' is not a number of bytes"),
        (f"MICRO\n1\n{LINE.replace('70', '7_0')}", "work.txt:3: '7_0' is not a number of bytes"),
        (f"MICRO\n1\n{LINE.replace('70', '٧٠')}", "work.txt:3: .* is not a number of bytes"),
        (f"MICRO\n1\n{LINE.replace('70', '9' * 19)}", "work.txt:3: '9999999999999999999' is not a number of bytes"),
        (f"MICRO\n1\n{LINE.replace('70', '9' * 5000)}", "work.txt:3: .* is not a number of bytes"),
        (f"MICRO\n1\n{LINE[:-1]}1e3", "work.txt:3: '1e3' is not a update time"),
    ],
)
def test_every_fault(write: Write, text: str, told: str) -> None:
    with pytest.raises(InputError, match=told) as caught:
        read_text_workload(write(text))
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.txt: no such file"):
        read_text_workload(tmp_path / "none.txt")
    with pytest.raises(InputError, match="is a folder"):
        read_text_workload(tmp_path)
    (tmp_path / "binary").write_bytes(b"MICRO\n1\n\xff\xfe")
    with pytest.raises(InputError, match="binary:3: is not a text"):
        read_text_workload(tmp_path / "binary")
