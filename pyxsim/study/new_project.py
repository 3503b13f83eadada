"""A starting project: a folder with experiments, a library of its own parts, and the commands that run them."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pyxsim.errors import InputError
from pyxsim.results.table import Facts

PathLike = str | os.PathLike[str]

_TORUS = """\
[network]
topology = "torus"
shape = [4, 4]
bandwidth = "100 GB/s"
latency = "100 ns"
"""
_FAT_TREE = """\
[network]
topology = "leaf-spine"
options = { npus = 4, leaves = 4, spines = 2 }
bandwidth = "100 GB/s"
latency = "100 ns"
"""
_EXPERIMENT = """
[collective]
kind = "all-reduce"
size = "1 MiB"
"""
_SWEEP = """
[collective]
kind = "all-reduce"
size = "1 MiB"

[sweep]
backend = ["packet", "analytical"]
"collective.size" = ["64 KiB", "256 KiB", "1 MiB"]
"""
_TRAFFIC = """
[traffic]
pattern = "halfway"    # library/patterns/halfway.py
load = 0.05            # flits per node and cycle
packet_flits = 4
warmup = 500
measure = 2000
"""
_TRAINING = """\
[[network.dims]]       # the GPUs of a node
block = "switch"
npus = 4
bandwidth = "150 GB/s"
latency = "250 ns"

[[network.dims]]       # the nodes
block = "switch"
npus = 2
bandwidth = "12.5 GB/s"
latency = "1 us"

[system]
all_reduce = "ring"
scheduling = "LIFO"    # the gradients of the first layers are ready last and needed first

[system.npu]
device = "v100"
efficiency = 0.5

[workload]
model = "resnet50"
batch = 256            # 32 images per GPU
"""
_PATTERN = '''\
"""A traffic pattern of this project; `pattern = "halfway"` selects it."""

import numpy as np

from pyxsim.registry import patterns
from pyxsim.traffic import PatternContext, Permutation


@patterns.register("halfway")
def halfway(context: PatternContext) -> Permutation:
    """The node half of all nodes further."""
    nodes = np.arange(context.npus, dtype=np.int64)
    return Permutation((nodes + context.npus // 2) % context.npus)
'''
_COMMANDS = {
    "experiment.toml": (
        "one all-reduce, packet by packet",
        "pyxsim run experiment.toml -o experiment.h5\npyxsim report experiment.h5",
    ),
    "sweep.toml": (
        "three sizes on two backends",
        "pyxsim sweep sweep.toml -o sweep --plot size time_ns backend",
    ),
    "traffic.toml": (
        "a load-latency curve under the pattern of `library/patterns/halfway.py`",
        "pyxsim curve traffic.toml --loads 0.05,0.1,0.2 --library library -o curve.h5",
    ),
    "training.toml": (
        "a training step of ResNet-50 on 8 GPUs",
        "pyxsim run training.toml --backend analytical -o training.h5",
    ),
}
_LIBRARY = "library/patterns/halfway.py"
TEMPLATES = {
    "torus": tuple(_COMMANDS),
    "fat-tree": tuple(_COMMANDS),
    "training": ("training.toml",),
    "traffic": ("traffic.toml",),
}


@dataclass(frozen=True, repr=False)
class NewProject(Facts):
    """A written project: its folder, its template, and its files below the folder."""

    folder: str
    template: str
    files: tuple[str, ...]

    def json(self) -> dict[str, object]:
        """Return the project as one JSON object."""
        return {"folder": self.folder, "template": self.template, "files": list(self.files)}


def new(folder: PathLike = "pyxsim-project", *, template: str = "torus") -> NewProject:
    """Write a starting project, without overwriting files.

    Parameters
    ----------
    folder
        The project's folder, which is created if necessary; an existing folder must be empty.
    template
        "torus" or "fat-tree": an experiment, a sweep, a traffic curve and a training step, those without nodes of GPUs
        on this network; "training" or "traffic": this one only.

    Raises
    ------
    InputError
        If the template is unknown, or the folder contains files.
    """
    if template not in TEMPLATES:
        raise InputError(f"unknown template '{template}'", key="template", allowed=list(TEMPLATES), given=template)
    place = Path(folder)
    try:
        if place.exists() and (not place.is_dir() or any(place.iterdir())):
            problem = "is a folder that contains files" if place.is_dir() else "is a file"
            raise InputError(problem, file=os.fspath(folder), key="folder", allowed="a new or an empty folder")
        files = _files(template)
        _write(place, files)
    except OSError as error:
        problem = f"cannot be written: {os.strerror(error.errno or 0)}"
        raise InputError(problem, file=os.fspath(folder), key="folder") from error
    return NewProject(os.fspath(folder), template, tuple(files))


def _write(place: Path, files: dict[str, str]) -> None:
    """Write all files or, where that fails, none."""
    try:
        for name, text in files.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(text, encoding="utf-8")
    except OSError:
        for name in files:
            with suppress(OSError):
                (place / name).unlink()
        raise


def _files(template: str) -> dict[str, str]:
    """The files of a template by name."""
    network = _FAT_TREE if template == "fat-tree" else _TORUS
    texts = {
        "experiment.toml": network + _EXPERIMENT,
        "sweep.toml": network + _SWEEP,
        "traffic.toml": network + _TRAFFIC,
        "training.toml": _TRAINING,
    }
    files = {name: f"# {_COMMANDS[name][0]}\n{texts[name]}" for name in TEMPLATES[template]}
    if "traffic.toml" in files:
        files[_LIBRARY] = _PATTERN
    return {"README.md": _readme(template), **files}


def _readme(template: str) -> str:
    lines = ["# A pyxsim project", "", "Run these commands in this folder:"]
    for name in TEMPLATES[template]:
        text, commands = _COMMANDS[name]
        lines += ["", f"`{name}`: {text}", "", "```sh", commands, "```"]
    check = f"`pyxsim check {TEMPLATES[template][0]}` proves an experiment and estimates its time without running it."
    return "\n".join([*lines, "", check, ""])
