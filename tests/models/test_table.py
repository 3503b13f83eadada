"""Tables of layers: the forms of ASTRA-sim's workload generator and of SCALE-Sim, and what is wrong with others."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.errors import InputError
from pyxsim.models import Kind, Model
from pyxsim.models.table import read_table

GEMMS = "one,1024,128,512\ntwo,1024,16,128\n"
CONVOLUTION = "Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides"


def read(folder: Path, text: str) -> Model:
    file = folder / "table.csv"
    file.write_text(text, encoding="utf-8")
    return read_table(file)


@pytest.mark.parametrize(
    "text",
    [
        "Layer,m,n,k\n" + GEMMS,
        "Layer,M,N,K,\n" + GEMMS.replace("\n", ",\n"),
        "L, M, N, K,\n\none, 1024, 128, 512,\n,,,,\ntwo,1024,16,128,",
        "\ufeffLayer Name, M, N, K, Sparsity,\none,1024,128,512,1:1,\ntwo,1024,16,128,\n",
        "Layer\tm\tn\tk\n" + GEMMS.replace(",", "\t"),
        "# what it is\n# source: somewhere\nLayer,k,n,m\none,512,128,1024\ntwo,128,16,1024\n",
        "Layer,m,n,k,,see,below\none,1024,128,512,,7,x\ntwo,1024,16,128\n",
    ],
)
def test_tables_of_gemms(tmp_path: Path, text: str) -> None:
    model = read(tmp_path, text)
    assert [(gemm.m, gemm.n, gemm.k) for layer in model.layers for gemm in layer.gemms] == [(1, 128, 512), (1, 16, 128)]
    assert [layer.name for layer in model.layers] == ["one", "two"]
    assert model.batch == 1024
    assert model.parameters == 512 * 128 + 128 * 16
    assert [layer.gathered for layer in model.layers] == [128, 16]
    assert [layer.backward_sum for layer in model.layers] == [512, 128]


def test_rows_that_differ_have_a_batch_in_common(tmp_path: Path) -> None:
    model = read(tmp_path, "Layer,m,n,k\none,96,2,2\ntwo,64,2,2\n")
    assert model.batch == 32
    assert [layer.gemms[0].m for layer in model.layers] == [3, 2]


def test_the_words_at_the_top(tmp_path: Path) -> None:
    model = read(tmp_path, "# what it is\n# source: somewhere\n# a note\nLayer,m,n,k\n" + GEMMS)
    assert (model.help, model.source) == ("what it is", "somewhere")


def test_a_parallelism_for_each_layer(tmp_path: Path) -> None:
    text = "Layer,m,n,k,CustomizedParallelization\none,8,2,2,DATA\ntwo,8,2,2,HYBRID_MODEL_DATA\nthree,8,2,2,\n"
    assert [layer.parallel for layer in read(tmp_path, text).layers] == ["DATA", "HYBRID_MODEL_DATA", ""]


@pytest.mark.parametrize(
    "header",
    [
        CONVOLUTION,
        CONVOLUTION + ",",
        CONVOLUTION.lower().replace("num filter", "num filters").replace("channels", "channel"),
        CONVOLUTION.replace("IFMAP Height", "IFMAP Width"),  # as in some of SCALE-Sim's
        CONVOLUTION + ",,,Eh,Ew,e2",
        CONVOLUTION + ", Batch Size,",
    ],
)
def test_tables_of_convolutions(tmp_path: Path, header: str) -> None:
    batch = "4," if "Batch" in header else ""
    model = read(tmp_path, f"{header}\nconv, 30, 20, 3, 5, 16, 64, 1,{batch}\n")
    (layer,) = model.layers
    assert layer.kind == Kind.CONVOLUTION
    assert (layer.gemms[0].m, layer.gemms[0].n, layer.gemms[0].k) == (28 * 16, 64, 3 * 5 * 16)
    assert (layer.inputs, layer.outputs) == (30 * 20 * 16, 28 * 16 * 64)
    assert model.parameters == 64 * 3 * 5 * 16
    assert model.batch == (4 if batch else 1)


def test_a_last_step_counts_as_in_scalesim(tmp_path: Path) -> None:
    """Its topology_utils: ceil((224 - 7 + 2) / 2) = 110 rows; and 7 wide in steps of 3 on 14: ceil(10 / 3) = 4."""
    model = read(tmp_path, f"{CONVOLUTION}\na,224,224,7,7,3,64,2\nb,14,14,7,7,3,1,3\n")
    assert [layer.gemms[0].m for layer in model.layers] == [110 * 110, 16]


def test_channels_apart(tmp_path: Path) -> None:
    """SCALE-Sim: a layer called DP... is one convolution of one channel after the other."""
    (layer,) = read(tmp_path, f"{CONVOLUTION}\nDP1,8,8,3,3,32,1,1\n").layers
    gemm = layer.gemms[0]
    assert (gemm.m, gemm.n, gemm.k, gemm.count) == (36, 1, 9, 32)
    assert (layer.own_parameters, layer.outputs) == (9 * 32, 36 * 32)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", ": has no layers; allowed: 'Layer,m,n,k', or 'Layer name,IFMAP"),
        ("# only words\n", ": has no layers"),
        ("Layer,m,n,k\n", ": has no layers; allowed: one line per layer"),
        ("a,1,2,3\n", ":1: 'a, 1, 2, 3' is not a header of a table; allowed: 'Layer,m,n,k'"),
        ("Layer,m,n,k,paralel\na,1,2,3\n", ":1: unknown column 'paralel'; allowed: m, n, k, customized"),
        ("Layer,m,n,k,m\na,1,2,3\n", ":1: the column 'm' occurs twice"),
        (
            "Layer,m,n,k\na,1,2\n",
            ":2: layer 'a': invalid value '' in the column 'k'; allowed: a whole number from 1 to",
        ),
        (
            "Layer,m,n,k\na,1,x,3\n",
            ":2: layer 'a': invalid value 'x' in the column 'n'; allowed: a whole number from 1",
        ),
        ("Layer,m,n,k\na,1,0,3\n", ":2: layer 'a': invalid value '0' in the column 'n'"),
        ("Layer,m,n,k\na,1.5,2,3\n", ":2: layer 'a': invalid value '1.5' in the column 'm'"),
        ("Layer,m,n,k\na,-1,2,3\n", ":2: layer 'a': invalid value '-1' in the column 'm'"),
        ("Layer,m,n,k\na,99999999999,2,3\n", ":2: layer 'a': invalid value '99999999999' in the column 'm'"),
        ("Layer,m,n,k\n,1,2,3\n", ":2: a layer has no name"),
        (
            "Layer,M,N,K,Sparsity\na,1,2,3,2:4\n",
            ":2: layer 'a': invalid value '2:4' in the column 'sparsity'; allowed: 1:1",
        ),
        (
            "Layer,m,n,k,CustomizedParallelization\na,1,2,3,MODEL_DATA\n",
            ":2: layer 'a': invalid value 'MODEL_DATA' in the column 'customizedparallelization'; allowed: DATA",
        ),
        (f"{CONVOLUTION}\nc,4,4,5,3,1,1,1\n", ":2: layer 'c': a filter of 5 x 3 exceeds its input of 4 x 4"),
        (
            f"{CONVOLUTION},Batch Size\nc,4,4,3,3,1,1,1,2\nd,4,4,3,3,1,1,1,3\n",
            ":3: layer 'd': the batch is 3, but 2 in",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path / 'table.csv'}{fault}")


def test_all_faults_come_together(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, f"{CONVOLUTION}\na,4,4,3,3,1,1,\nb,4,4,3,3,1,1,1\nc,4,4,9,3,1,1,1\n,4\n")
    assert len(str(caught.value).splitlines()) == 3


def test_each_fault_comes_once(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, "Layer,m,n,k\na,99999999999999999999,64,64\n")
    assert len(str(caught.value).splitlines()) == 1


@given(text=st.text(alphabet="Layer,mnk0123456789\n\t#:\"'x ", max_size=200))
def test_whatever_stands_there_is_a_model_or_a_fault(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.getbasetemp()
    for header in ("", "Layer,m,n,k\n"):
        with suppress(InputError):  # and nothing else
            assert read(folder, header + text).flops > 0


def test_a_cell_that_never_ends(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"table.csv:2: cannot be read as a table: field larger"):
        read(tmp_path, "Layer,m,n,k\n" + "a" * 200_000 + ",1,2,3\n")
