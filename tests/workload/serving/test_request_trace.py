"""Traces of requests in the formats of public data sets. The rows are the first ones of the named files."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.errors import InputError
from pyxsim.workload.serving.request_trace import Arrival, read_requests

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799600,4808,10
2023-11-16 18:17:04.0319600,3180,8
2023-11-16 18:17:04.0781490,110,27
"""  # Azure/AzurePublicDataset, data/AzureLLMInferenceTrace_code.csv
BURST = """Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45,ChatGPT,1087,230,1317,Conversation log
118,GPT-4,417,0,417,Conversation log
"""  # HPMLL/BurstGPT, data/BurstGPT_1.csv; the last row is as a failure has it
SERVING_SIM = """{"input_toks":10,"output_toks":70,"arrival_time_ns":46926808,"input_tok_ids":[1,2,3]}
{"input_toks":22,"output_toks":104,"arrival_time_ns":347938952}
"""  # casys-kaist/LLMServingSim, dataset/example_trace.jsonl, with fewer token numbers
MOONCAKE = """{"timestamp": 0, "input_length": 6755, "output_length": 500, "hash_ids": [0, 1, 2]}
{"timestamp": 3000, "input_length": 7319, "output_length": 490, "hash_ids": [0, 14]}
"""  # kvcache-ai/Mooncake, as documented for its traces


def read(folder: Path, text: str, name: str, most: int | None = None) -> tuple[list[Arrival], int]:
    path = folder / name
    path.write_text(text)
    return read_requests(path, most)


@pytest.mark.parametrize(
    ("text", "name", "expected", "empty"),
    [
        (AZURE, "azure.csv", [("0", 4808, 10), ("0.052", 3180, 8), ("0.098189", 110, 27)], 0),
        (BURST, "burst.csv", [("5", 472, 18), ("45", 1087, 230)], 1),
        (SERVING_SIM, "sim.jsonl", [("0.046926808", 10, 70), ("0.347938952", 22, 104)], 0),
        (MOONCAKE, "mooncake.jsonl", [("0", 6755, 500), ("3", 7319, 490)], 0),
    ],
)
def test_public_formats(tmp_path: Path, text: str, name: str, expected: list[tuple[str, int, int]], empty: int) -> None:
    found, left_out = read(tmp_path, text, name)
    assert found == [Arrival(Fraction(time), prompt, output) for time, prompt, output in expected]
    assert left_out == empty


def test_dates_count_from_the_earliest(tmp_path: Path) -> None:
    header, *rows = AZURE.splitlines()
    found, _ = read(tmp_path, "\n".join([header, *reversed(rows)]), "azure.csv")
    assert found == read(tmp_path, AZURE, "sorted.csv")[0]


def test_only_the_first_requests(tmp_path: Path) -> None:
    assert len(read(tmp_path, AZURE, "azure.csv", 2)[0]) == 2


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("", "a.csv", "has no requests"),
        ("arrival,prompt\n1,2\n", "a.csv", "a.csv:2: the columns are arrival, prompt"),
        ("timestamp,input_length,output_length\n1,2\n", "a.csv", "a.csv:2: the row has 2 entries, and the header 3"),
        ("timestamp,input_length,output_length\nnan,2,2\n", "a.csv", "a.csv:2: 'nan' is not a time"),
        ("timestamp,input_length,output_length\n-1,2,2\n", "a.csv", "a.csv:2: a request arrives at -0.001 s"),
        ("timestamp,input_length,output_length\n1,0,2\n", "a.csv", "'0' is not a number of tokens"),
        ("timestamp,contexttokens,generatedtokens\nmonday,2,2\n", "a.csv", "'monday' is not a date"),
        ("[1]\n", "a.jsonl", "a.jsonl:1: is not an object"),
        ("{\n", "a.jsonl", "a.jsonl:1: is not a line of JSON"),
        ("[" * 100_000, "a.jsonl", "a.jsonl:1: is not a line of JSON"),
        ("timestamp,input_length\n" + "9" * 200_000 + ",1\n", "a.csv", "a.csv:2: is not CSV"),
    ],
)
def test_faults_name_the_line(tmp_path: Path, text: str, name: str, message: str) -> None:
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        read(tmp_path, text, name)


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(1, 2**20), st.integers(1, 2**20)), min_size=1))
def test_both_forms_agree(tmp_path_factory: pytest.TempPathFactory, requests: list[tuple[int, int, int]]) -> None:
    folder = tmp_path_factory.mktemp("traces")
    columns = ("timestamp", "input_length", "output_length")
    table = "\n".join([",".join(columns), *(",".join(map(str, row)) for row in requests)])
    lines = "\n".join(str(dict(zip(columns, row, strict=True))).replace("'", '"') for row in requests)
    assert read(folder, table, "a.csv") == read(folder, lines, "a.jsonl")
