"""Write pyxsim/settings/networks.py: a function for each topology of the shelf, with its options.

`python -m pyxsim.cli.network_functions pyxsim/settings/networks.py` updates the file; a test compares it.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyxsim import library
from pyxsim.registry import Entry, topologies

HEAD = '''"""A function for each topology of the shelf. Written by pyxsim.cli.network_functions."""

# ruff: noqa: N802  they read like classes: pyxsim.Torus([4, 4])

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Unpack

from pyxsim.settings.network import Network
from pyxsim.settings.network_keywords import NetworkSettings, network_of, show_keywords
'''
_SPELLED = {"hyperx": "HyperX"}


def function_name(topology: str) -> str:
    """Return the name of the function: "k-ary-n-tree" -> "KAryNTree"."""
    return "".join(_SPELLED.get(part, part[:1].upper() + part[1:]) for part in topology.split("-"))


def source() -> str:
    """Return the text of the module."""
    library.load_all()
    entries = [entry for entry in topologies.entries if entry.module.startswith("pyxsim_library.")]
    names = sorted(function_name(entry.name) for entry in entries)
    listed = "".join(f'    "{name}",\n' for name in names)
    functions = "".join("\n\n" + "\n".join(_function(entry)) + "\n" for entry in entries)
    return (
        f"{HEAD}\n__all__ = [\n{listed}]\n{functions}\n\nfor _name in __all__:\n    show_keywords(globals()[_name])\n"
    )


def _function(entry: Entry[Callable[..., Any]]) -> Iterator[str]:
    function = entry.value
    parameters = list(inspect.signature(function).parameters.values())
    required = [parameter for parameter in parameters if parameter.default is parameter.empty]
    options = [parameter for parameter in parameters if parameter.default is not parameter.empty]
    words = [f"{name.name}: {_type(name)}" for name in required]
    words += ["*"] if options else []
    words += [f"{option.name}: {_type(option)} = {option.default!r}".replace("'", '"') for option in options]
    words.append("**settings: Unpack[NetworkSettings]")
    yield f"def {function_name(entry.name)}("
    yield from (f"    {word}," if "**" not in word else f"    {word}" for word in words)
    yield ") -> Network:"
    doc = inspect.getdoc(function) or inspect.getdoc(sys.modules[entry.module]) or ""
    first = " ".join(doc.partition("\n\n")[0].split()) or f"The topology {entry.name}."
    yield f'    """{_wrapped(first)}"""'
    yield f'    return network_of("{entry.name}", {function_name(entry.name)}, locals())'


def _type(parameter: inspect.Parameter) -> str:
    text = inspect.formatannotation(parameter.annotation)
    return text.replace("collections.abc.", "").replace("pathlib.Path", "str | PathLike[str]")


def _wrapped(text: str) -> str:
    import textwrap

    if len(text) <= 109:
        return text
    return "\n    ".join(textwrap.wrap(text, 112)) + "\n    "


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(source(), encoding="utf-8")
