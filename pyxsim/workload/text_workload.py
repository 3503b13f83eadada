"""ASTRA-sim 1's workload text: a keyword, the number of layers, and a line per layer.

    HYBRID_TRANSFORMER model_parallel_NPU_group: 4
    1
    conv1 -1 5 NONE 0 5 NONE 0 5 ALLREDUCE 1048576 5

A layer: name, an unused dependency, then compute time, communication and bytes of the forward pass, of the input
gradient and of the weight gradient, and the time of the update. Times in ns, sizes in bytes. Some keywords have
arguments (see Header); with HYBRID_CUSTOMIZED each layer ends with its own parallelism.

SimAI's texts, which AICB writes, have more words: the sizes of parallel groups, and the group of a collective.

Sources of the format: Workload.cc of ASTRA-sim 1 and of SimAI (initialize_workload).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from pyxsim.errors import InputError
from pyxsim.garbage import without_collection
from pyxsim.textfile import read_text

COLLECTIVES = {
    "NONE": None,
    "ALLREDUCE": "all-reduce",
    "ALLTOALL": "all-to-all",
    "ALLGATHER": "all-gather",
    "REDUCESCATTER": "reduce-scatter",
}
UNKNOWN_TO_SIMAI = "BROADCAST"
"""AICB writes it and SimAI reads it as NONE."""
GROUPS = ("EP", "DP_EP")
"""The groups of SimAI's collectives with a suffix: ALLTOALL_EP; those without one are of TP or DP."""
SIZES = {
    "ep:": "expert",
    "pp:": "pipeline",
    "vpp:": "virtual",
    "ga:": "accumulation",
    "all_gpus:": "npus",
    "pp_comm": "pipeline_bytes",
    "pp_comm:": "pipeline_bytes",
}
"""SimAI's words of the header."""
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
DLRM = ("HYBRID_DLRM", "HYBRID_DLRM_ENHANCED")
RECOMPUTING = "HYBRID_TRANSFORMER_FWD_IN_BCKWD"
TRANSFORMER = ("HYBRID_TRANSFORMER", RECOMPUTING)
CUSTOMIZED = "HYBRID_CUSTOMIZED"
# Parallelism of a single layer; that of a transformer needs a number that applies to the whole file.
POLICIES = tuple(word for word in PARALLELISMS if word not in (*TRANSFORMER, CUSTOMIZED))
_GROUPED = {f"{kind}_{group}": (kind, group) for kind, name in COLLECTIVES.items() if name for group in GROUPS}
_GROUPED[UNKNOWN_TO_SIMAI] = ("NONE", "")
_FIELDS = 12
_MOST = 2**62


@dataclass(frozen=True)
class Pass:
    """Compute time (ns), then a collective of `kind` (None for none) and `size` bytes, in SimAI of a `group`."""

    compute: int
    kind: str | None
    size: int
    group: str = ""


@dataclass(frozen=True)
class Layer:
    """A layer of the model; `update` is the time (ns) of the optimizer after each collective."""

    name: str
    forward: Pass
    input_gradient: Pass
    weight_gradient: Pass
    update: int
    policy: str | None = None


@dataclass(frozen=True)
class Groups:
    """SimAI's sizes of parallel groups; `npus` of all pipeline stages, 0 if unknown.

    `virtual`, `accumulation`, `pipeline_bytes`: of the pipeline, which a text does not carry out.
    """

    expert: int = 1
    pipeline: int = 1
    virtual: int = 1
    accumulation: int = 1
    npus: int = 0
    pipeline_bytes: int = 0


@dataclass(frozen=True)
class Header:
    """The words before the layers.

    Attributes
    ----------
    last_bottom
        Of DLRM: the last layer before the embeddings are needed.
    model_npus
        Of a transformer: the NPUs that share one copy of the model.
    checkpoints, restarts
        With recomputation: layers whose results are kept, and layers before whose input gradient the forward pass is
        repeated from the previous checkpoint.
    groups
        Of SimAI.
    """

    parallelism: str
    last_bottom: int = 0
    model_npus: int = 1
    checkpoints: tuple[int, ...] = ()
    restarts: tuple[int, ...] = ()
    groups: Groups | None = None


@dataclass(frozen=True)
class TextWorkload:
    """A workload file: header and layers."""

    file: str
    header: Header
    layers: tuple[Layer, ...]

    @property
    def parallelism(self) -> str:
        """The keyword."""
        return self.header.parallelism

    @property
    def groups(self) -> Groups | None:
        """The groups of a text of SimAI; None for a text of ASTRA-sim 1."""
        return self.header.groups

    @property
    def kinds(self) -> set[str]:
        """The kinds of collectives that it can run."""
        return set(self.largest)

    @property
    def largest(self) -> dict[str, int]:
        """Bytes of the largest collective of each kind that it can run."""
        parts = [part for layer in self.layers for part in (layer.forward, layer.input_gradient, layer.weight_gradient)]
        if self.parallelism == "MICRO":
            parts = [self.layers[0].weight_gradient]
        largest: dict[str, int] = {}
        for part in parts:
            if part.kind is not None:
                largest[part.kind] = max(part.size, largest.get(part.kind, 0))
        return largest

    def checkpoint_of(self, layer: int) -> int:
        """Return the layer from which the forward pass is repeated for this one."""
        return max(kept for kept in self.header.checkpoints if kept < layer)


@without_collection
def read_text_workload(path: str | Path) -> TextWorkload:
    """Read a workload file. Raises InputError with the line."""
    file = str(path)
    lines = [(number, line) for number, line in enumerate(read_text(path).splitlines(), 1) if line.strip()]
    if not lines:
        raise InputError("is empty", file=file, allowed="a workload text: a keyword, the number of layers, the layers")
    head = _Head(file, lines)
    header = head.read()
    count = head.whole("the number of layers")
    lines = lines[head.line + 1 :]
    if not 1 <= count <= len(lines):
        allowed = f"1 to {len(lines)}" if len(lines) > 1 else "1"
        raise InputError(f"{count} layers are declared, but {len(lines)} follow", file=head.place, allowed=allowed)
    customized = header.parallelism == CUSTOMIZED
    grouped = header.parallelism in TRANSFORMER
    reader = _Layers(file, own=customized, grouped=grouped)
    layers = tuple(reader.read(lines[:count]))
    if header.groups is None and grouped and reader.of_simai:
        header = replace(header, groups=Groups())
    text = TextWorkload(file, header, layers)
    _check_layers(text, f"{file}:{head.first}")
    return text


class _Head:
    """Reads the words before the layers one by one; as in ASTRA-sim, line breaks between them do not matter."""

    def __init__(self, file: str, lines: Sequence[tuple[int, str]]) -> None:
        self.file = file
        self.first = lines[0][0]
        self.line = 0  # index of the line of the last word
        self._all = ((index, number, word) for index, (number, line) in enumerate(lines) for word in line.split())
        self._words: list[tuple[int, int, str]] = []  # those that were looked at
        self._next = 0

    def _ends(self) -> bool:
        """Whether no word is left; the next one is in `_words` otherwise."""
        if self._next == len(self._words):
            self._words += islice(self._all, 1)
        return self._next == len(self._words)

    @property
    def place(self) -> str:
        """File and line of the last word."""
        return f"{self.file}:{self._words[self._next - 1][1]}"

    def word(self, what: str, allowed: str) -> str:
        """Return the next word."""
        if self._ends():
            raise InputError(f"{what} is missing", file=self.file, allowed=allowed)
        self.line, _, word = self._words[self._next]
        self._next += 1
        return word

    def whole(self, what: str) -> int:
        """Return the next word as a number."""
        allowed = f"a whole number up to {_MOST}" if self.line else "a whole number in the second line"
        return _whole(self.word(what, allowed), what.removeprefix("the "), self.place)

    def named(self, name: str) -> int:
        """Return a number that follows its name."""
        allowed = f"'{name} ' and a whole number"
        word = self.word(f"'{name}'", allowed)
        if word != name:
            raise InputError(f"'{word}' instead of '{name}'", file=self.place, allowed=allowed)
        return self.whole(f"the number after {name}")

    def layers(self, name: str) -> tuple[int, ...]:
        """Return numbers of layers: a name, their count, the numbers."""
        return tuple(self.whole("the number of a layer") for _ in range(self.named(name)))

    def read(self) -> Header:
        """Return the header."""
        keyword = self.word("the keyword", "")
        if keyword not in PARALLELISMS:
            problem = f"unknown parallelism '{keyword}'"
            raise InputError(problem, file=self.place, allowed=PARALLELISMS, given=keyword)
        if keyword in DLRM:
            return Header(keyword, last_bottom=self.whole("the number of the last bottom layer"))
        if keyword not in TRANSFORMER:
            return Header(keyword)
        npus = self.named("model_parallel_NPU_group:")
        if not npus:
            raise InputError("the model has 0 NPUs", file=self.place, allowed="1 or more")
        sizes = self.sizes()
        if keyword != RECOMPUTING:
            return Header(keyword, model_npus=npus, groups=self.groups(npus, sizes))
        kept, restarts = (self.layers(name) for name in ("checkpoints:", "checkpoint_initiates:"))
        groups = self.groups(npus, sizes | self.sizes())
        return Header(keyword, model_npus=npus, checkpoints=kept, restarts=restarts, groups=groups)

    def sizes(self) -> dict[str, int]:
        """Return SimAI's sizes that stand next, in any order."""
        sizes = {}
        while not self._ends() and (name := self._words[self._next][2]) in SIZES:
            sizes[SIZES[name]] = self.named(name)
        return sizes

    def groups(self, tensor: int, sizes: dict[str, int]) -> Groups | None:
        """Return SimAI's groups, None for a header without them. Raises InputError for sizes that do not divide."""
        if not sizes:
            return None
        groups = Groups(**sizes)
        if not groups.expert or not groups.pipeline:
            raise InputError("a parallel group of 0 NPUs", file=self.place, allowed="1 or more")
        if groups.npus % (tensor * groups.pipeline * groups.expert):
            problem = (
                f"{groups.npus} NPUs are not a multiple of tp {tensor} x pp {groups.pipeline} x ep {groups.expert}"
            )
            raise InputError(problem, file=self.place, key="all_gpus:", allowed="a multiple")
        return groups


def _check_layers(text: TextWorkload, place: str) -> None:
    """Raise InputError for numbers of layers that the loop cannot use."""
    header, last = text.header, len(text.layers) - 1
    for number in (*header.checkpoints, *header.restarts):
        if number > last:
            raise InputError(f"there is no layer {number}", file=place, allowed=f"layers 0 to {last}")
    for number in header.restarts:
        earlier = [kept for kept in header.checkpoints if kept < number]
        # With any other numbers ASTRA-sim reads beyond its layers or skips some.
        if number in header.checkpoints or not earlier:
            problem = f"layer {number} restarts the forward pass, but no checkpoint precedes it"
            raise InputError(problem, file=place, allowed="a layer after a checkpoint that is not itself a checkpoint")
        if between := [other for other in header.restarts if earlier and max(earlier) <= other < number]:
            problem = f"layers {between[0]} and {number} restart from the same checkpoint {max(earlier)}"
            raise InputError(problem, file=place, allowed="one of them")


class _Layers:
    """Reads layers. Many have the same words: these are read once.

    `own`: they have a parallelism of their own. `grouped`: the text may be one of SimAI.
    """

    def __init__(self, file: str, *, own: bool, grouped: bool) -> None:
        self.file = file
        self.own = own
        self.fields = _FIELDS + own
        self.known = [*COLLECTIVES, *(_GROUPED if grouped else ())]
        self.of_simai = False  # whether a communication is one that only SimAI's texts have
        self.passes: dict[tuple[str, ...], Pass] = {}
        self.times: dict[str, int] = {}

    def read(self, lines: Iterable[tuple[int, str]]) -> Iterator[Layer]:
        """Yield the layers of numbered lines."""
        passes, times, policy = self.passes, self.times, None
        for number, line in lines:
            words = line.split()
            if not self.fields <= len(words) <= _FIELDS + 1:  # generators write the parallelism in any text
                allowed = f"{self.fields} fields"
                raise InputError(f"the layer has {len(words)} fields", file=self._place(number), allowed=allowed)
            parts = tuple(words[2:5]), tuple(words[5:8]), tuple(words[8:11])
            forward, inputs, weights = [passes.get(part) or self._pass(part, number) for part in parts]
            if self.own:
                policy = words[_FIELDS]
                if policy not in POLICIES:
                    problem = f"unknown parallelism '{policy}' of a layer"
                    raise InputError(problem, file=self._place(number), allowed=POLICIES, given=policy)
            update = times.get(words[11])
            if update is None:
                update = times[words[11]] = _whole(words[11], "update time", self._place(number))
            yield Layer(words[0], forward, inputs, weights, update, policy)

    def _place(self, number: int) -> str:
        return f"{self.file}:{number}"

    def _pass(self, words: tuple[str, ...], number: int) -> Pass:
        """Read a pass that is new."""
        compute, word, size = words
        place = self._place(number)
        if word not in self.known:
            raise InputError(f"unknown communication '{word}'", file=place, allowed=self.known, given=word)
        self.of_simai |= word in _GROUPED
        kind, group = _GROUPED.get(word, (word, ""))
        nbytes = _whole(size, "number of bytes", place)
        found = Pass(_whole(compute, "compute time", place), COLLECTIVES[kind], nbytes, group)
        self.passes[compute, word, size] = found
        return found


def _whole(word: str, what: str, place: str) -> int:
    # Digits only: int() would also read "1_000" and Arabic digits.
    if not word.isascii() or not word.isdigit() or len(word) > 19 or int(word) > _MOST:
        raise InputError(f"'{word}' is not a {what}", file=place, allowed=f"a whole number up to {_MOST}")
    return int(word)
