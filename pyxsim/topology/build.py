"""Build the Topology that an experiment names: topologies and blocks come from the registries of the shelves."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from pyxsim import library
from pyxsim.errors import InputError, PyxsimError
from pyxsim.library import file_of, place_of
from pyxsim.registry import Registry, blocks, topologies
from pyxsim.settings import Network
from pyxsim.topology.block import Block
from pyxsim.topology.options import checked_options
from pyxsim.topology.product import product
from pyxsim.topology.shape import check_npus
from pyxsim.topology.topology import Topology

T = TypeVar("T")


def network_of(settings: Network, folder: str | Path = ".") -> Topology:
    """Return the network of the settings, with its host links and the routing that they name. Raises InputError.

    The shelves must have been loaded (`library.load_all`). Relative file names start in `folder`.
    """
    dims = [dim.model_dump(exclude={"bandwidth", "latency"}) for dim in settings.dims or ()]
    try:
        topology = build(settings.topology, settings.shape, dims or None, settings.options, folder)
    except InputError as error:
        if settings.name is None or error.key != "network.topology":
            raise
        # The name may come from the named system instead of the experiment file.
        problem = f"{error.problem}, which the system '{settings.name}' uses"
        raise InputError(problem, key=error.key, allowed=error.allowed, given=error.given) from None
    topology = replace(topology, name=settings.name or topology.name)
    if settings.has_host_links:
        topology = topology.with_hosts()
    return topology.routed(settings.router.routing, settings.router.routing_options)


def build(
    name: str | None,
    shape: Sequence[int] | None = None,
    dims: Sequence[Mapping[str, Any]] | None = None,
    options: Mapping[str, Any] | None = None,
    folder: str | Path = ".",
) -> Topology:
    """Build a topology by name, or a product of blocks.

    The shelves must have been loaded (`library.load_all`).

    Parameters
    ----------
    name
        Name of a topology; None with `dims`.
    shape
        NPUs per dimension, for a topology with a parameter `shape`.
    dims
        One table per dimension with `block`, `npus` and the options of the block.
    options
        Options of the topology; None counts as not given.
    folder
        Folder in which relative file names of options start.

    Raises
    ------
    InputError
        For an unknown name or option, or a wrong value.
    """
    if name is not None and dims:
        raise InputError("both a topology and dims are given", key="network.topology", allowed="one of them")
    if dims:
        if shape is not None:
            raise InputError("both shape and dims are given", key="network.shape", allowed="one of them")
        return product(" x ".join(str(dim.get("block")) for dim in dims), [_block(i, d) for i, d in enumerate(dims)])
    if name is None:
        raise InputError(
            "the network has neither topology nor dims",
            key="network.topology",
            allowed="a name on the shelf, or network.dims",
        )
    generator = _find(topologies, name, "network.topology", library.data_files)
    size: tuple[Any, ...] = ()
    if "shape" in inspect.signature(generator).parameters:
        if shape is None:
            raise InputError("the shape is missing", key="network.shape", allowed="a list of numbers such as [4, 4, 4]")
        size = (shape,)
    elif shape is not None:
        known = ", ".join(inspect.signature(generator).parameters)
        raise InputError(
            f"the topology '{name}' has no shape", key="network.shape", allowed=f"network.options: {known}"
        )
    arguments = checked_options(generator, options or {}, "network.options", len(size), folder)
    return _generate(generator, size, arguments, Topology, f"the topology '{name}'")


def _block(index: int, dim: Mapping[str, Any]) -> Block:
    key = f"network.dims[{index}]"
    for required in ("block", "npus"):
        if dim.get(required) is None:
            raise InputError(f"'{required}' is missing", key=key)
    name = str(dim["block"])
    generator = _find(blocks, name, f"{key}.block")
    npus = check_npus(dim["npus"], f"{key}.npus")
    given = checked_options(generator, {k: v for k, v in dim.items() if k not in ("block", "npus")}, key, 1)
    block = _generate(generator, (npus,), given, Block, f"the block '{name}'")
    if block.npus != npus:
        raise InputError(f"the block '{name}' has {block.npus} NPUs instead of {npus}", key=f"{key}.npus")
    return block


def _find(
    registry: Registry[Callable[..., Any]], name: str, key: str, more: Callable[[], Iterable[str]] = tuple
) -> Callable[..., Any]:
    """The function registered under a name; `more` lists other allowed names for the error message."""
    if name in registry:
        return registry.get(name)
    raise registry.unknown(name, *more(), key=key)


def _generate(
    generator: Callable[..., Any], size: tuple[Any, ...], options: Mapping[str, Any], kind: type[T], what: str
) -> T:
    """Call a generator of the shelf; errors name its file and line."""
    try:
        value = generator(*size, **options)
    except (PyxsimError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        problem = f"{what} failed: {type(error).__name__}: {error}"
        raise InputError(problem, file=place_of(error, generator)) from error
    if not isinstance(value, kind):
        problem = f"{what} returned {type(value).__name__} instead of {kind.__name__}"
        raise InputError(problem, file=file_of(generator))
    return value
