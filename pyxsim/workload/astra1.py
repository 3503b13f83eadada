"""ASTRA-sim 1's workload text: a keyword, the number of layers, and a line per layer.

    MICRO
    1
    conv1 -1 5 NONE 0 5 NONE 0 5 ALLREDUCE 1048576 5

A layer: name, a dependency that nobody reads, then compute time, communication and bytes of the forward pass, of the
input gradient and of the weight gradient, and the time of the update. Times in ns, sizes in bytes.
Source of the format: Workload.cc of ASTRA-sim 1 (initialize_workload).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pyxsim.errors import InputError
from pyxsim.textfile import read_text

COLLECTIVES = {
    "NONE": None,
    "ALLREDUCE": "all-reduce",
    "ALLTOALL": "all-to-all",
    "ALLGATHER": "all-gather",
    "REDUCESCATTER": "reduce-scatter",
}
PARALLELISMS = (
    "MICRO",
    "DATA",
    "MODEL",
    "HYBRID_DATA_MODEL",
    "HYBRID_MODEL_DATA",
    "HYBRID_DLRM",
    "HYBRID_DLRM_ENHANCED",
    "HYBRID_TRANSFORMER",
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD",
    "HYBRID_CUSTOMIZED",
    "DISTRIBUTED_INFERENCE",
)
RUNNABLE = ("MICRO",)
_FIELDS = 12
_MOST = 2**62


@dataclass(frozen=True)
class Pass:
    """Compute time (ns), and what is communicated after it: a kind of collective (None: nothing) of some bytes."""

    compute: int
    kind: str | None
    size: int


@dataclass(frozen=True)
class Layer:
    """One layer of the model; `update` is the time (ns) of the optimizer after each collective."""

    name: str
    forward: Pass
    input_gradient: Pass
    weight_gradient: Pass
    update: int


@dataclass(frozen=True)
class TextWorkload:
    """A workload file: its parallelism keyword and its layers."""

    file: str
    parallelism: str
    layers: tuple[Layer, ...]


def read_text_workload(path: str | Path) -> TextWorkload:
    """Read a workload file. Raises InputError with the line."""
    file = str(path)
    lines = [(number, line.split()) for number, line in enumerate(read_text(path).splitlines(), 1) if line.split()]
    if not lines:
        raise InputError("is empty", file=file, allowed="a workload: a keyword, the number of layers, the layers")
    number, words = lines[0]
    if words[0] not in PARALLELISMS:
        raise InputError(
            f"unknown parallelism '{words[0]}'", file=f"{file}:{number}", allowed=PARALLELISMS, given=words[0]
        )
    if words[0] not in RUNNABLE:
        raise InputError(
            f"the parallelism {words[0]} is not in this version", file=f"{file}:{number}", allowed=RUNNABLE
        )
    if len(lines) < 2:
        raise InputError("the number of layers is missing", file=file, allowed="a whole number in the second line")
    number, words = lines[1]
    count = _whole(words[0], "number of layers", f"{file}:{number}")
    follow = len(lines) - 2
    if not 1 <= count <= follow:
        allowed = f"1 to {follow}" if follow > 1 else "1"
        problem = f"{count} layers are announced, {follow} follow"
        raise InputError(problem, file=f"{file}:{number}", allowed=allowed)
    layers = tuple(_layer(words, f"{file}:{number}") for number, words in lines[2 : 2 + count])
    return TextWorkload(file, lines[0][1][0], layers)


def _layer(words: Sequence[str], place: str) -> Layer:
    if len(words) < _FIELDS:
        raise InputError(f"a layer with {len(words)} fields", file=place, allowed=f"{_FIELDS} fields")
    name = words[0]
    forward, input_gradient, weight_gradient = (_pass(words[i : i + 3], place) for i in (2, 5, 8))
    return Layer(name, forward, input_gradient, weight_gradient, _whole(words[11], "update time", place))


def _pass(words: Sequence[str], place: str) -> Pass:
    compute, kind, size = words
    if kind not in COLLECTIVES:
        raise InputError(f"unknown communication '{kind}'", file=place, allowed=list(COLLECTIVES), given=kind)
    return Pass(_whole(compute, "compute time", place), COLLECTIVES[kind], _whole(size, "number of bytes", place))


def _whole(word: str, what: str, place: str) -> int:
    # Digits only: int() would also read "1_000" and Arabic digits.
    if not word.isascii() or not word.isdigit() or len(word) > 19 or int(word) > _MOST:
        raise InputError(f"'{word}' is no {what}", file=place, allowed=f"a whole number up to {_MOST}")
    return int(word)
