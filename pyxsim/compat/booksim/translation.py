"""BookSim2's configuration files as experiments: every key has an effect, a note, or is refused with a reason.

The result is an ordinary experiment (`resolved_toml` shows it). docs/booksim.md lists every key.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyxsim import library
from pyxsim.compat.booksim.config import Config
from pyxsim.compat.booksim.network import network_table
from pyxsim.compat.booksim.router import router_table
from pyxsim.compat.booksim.syntax import Entry, read_entries, read_overrides
from pyxsim.compat.booksim.traffic_options import packet_sizes, traffic_table
from pyxsim.errors import InputError
from pyxsim.settings import Experiment, load_experiment
from pyxsim.textfile import read_text

__all__ = ["Translation", "booksim_experiment", "sim_count", "translate"]


@dataclass(frozen=True)
class Translation:
    """The tables of an experiment, and notes on the translation."""

    tables: dict[str, Any]
    notes: tuple[str, ...]


def booksim_experiment(
    path: str | Path | None, words: Iterable[str] = (), overrides: Iterable[str] = (), text: str | None = None
) -> tuple[Experiment, tuple[str, ...]]:
    """Return the experiment of a configuration file (or of its `text`) and notes. Raises InputError.

    `words`: assignments `key=value` of the command line; `overrides`: of `--set`.
    """
    if text is None:
        text = "" if path is None else read_text(path, "a configuration of BookSim2")
    file = "stdin" if path in (None, "-") else str(path)
    entries = {**read_entries(text, file), **read_overrides(words)}
    if not entries:
        raise InputError("has no assignments", file=file, allowed="lines of BookSim2 such as 'topology = torus;'")
    translation = translate(entries, file)
    library.load_all()
    return load_experiment(translation.tables, overrides), translation.notes


def sim_count(path: str | Path | None, words: Iterable[str] = (), text: str | None = None) -> int:
    """Return the number of runs of a configuration. Raises InputError."""
    if text is None:
        text = "" if path is None else read_text(path, "a configuration of BookSim2")
    file = "stdin" if path in (None, "-") else str(path)
    entries = {**read_entries(text, file), **read_overrides(words)}
    config = Config({key: entry for key, entry in entries.items() if key == "sim_count"}, file)
    count = config.count("sim_count", least=1, most=1000)
    config.finish()
    return count


def translate(entries: Mapping[str, Entry | str | int | float], file: str | None = None) -> Translation:
    """Translate assignments into the tables of an experiment. Raises InputError with all faults."""
    config = Config({key: _entry(key, value) for key, value in entries.items()}, file)
    network, routing, nodes = network_table(config)
    router = router_table(config)
    traffic, virtual_networks = traffic_table(config, nodes)
    if virtual_networks is not None:
        router["virtual_networks"] = virtual_networks
        router["vcs"] = sum(virtual_networks)
    if any(vcs % 2 for vcs in virtual_networks or [router["vcs"]]) and "va_allocator" in router:
        router["vc_classes"] = "shared"  # the middle VC belongs to both halves
    network["router"] = {**router, **routing}
    largest = max(flits for c in range(_classes(traffic)) for flits in _flits(config, traffic, c))
    network["packet"] = f"{largest * int(network['flit'].split()[0])} B"
    seed = _seed(config)
    config.count("sim_count", least=1, most=1000)
    config.finish()
    return Translation({"network": network, "traffic": traffic, "output": {"seed": seed}}, tuple(config.notes))


def _entry(key: str, value: Entry | str | int | float) -> Entry:
    return value if isinstance(value, Entry) else Entry(str(value), key)


def _classes(traffic: Mapping[str, Any]) -> int:
    return len(traffic.get("classes", (traffic,)))


def _flits(config: Config, traffic: Mapping[str, Any], c: int) -> list[int]:
    """Sizes of all packets of a class, including replies."""
    table = traffic.get("classes", (traffic,))[c]
    if "replies" in table:
        return [flits for key, flits in table["replies"].items() if key.endswith(("request", "reply"))]
    return packet_sizes(config, c, _classes(traffic))[0]


def _seed(config: Config) -> int:
    if config.text("seed") == "time":
        seed = int(time.time())
        config.note("seed", f"{seed}, from the clock")
        return seed
    return config.count("seed")
