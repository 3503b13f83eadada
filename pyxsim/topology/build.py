"""From the words of an experiment file to a Topology: names are looked up on the shelves."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from pyxsim import library
from pyxsim.errors import InputError, PyxsimError
from pyxsim.registry import Registry, blocks, topologies
from pyxsim.settings import Network
from pyxsim.topology.block import Block
from pyxsim.topology.options import checked_options
from pyxsim.topology.product import product
from pyxsim.topology.shape import check_npus
from pyxsim.topology.topology import Topology

T = TypeVar("T")


def network_of(settings: Network, folder: str | Path = ".") -> Topology:
    """The network of settings, by the routing that they ask for. Raises InputError.

    The shelves must have been loaded (`library.load_all`). `folder`: where names of files start.
    """
    dims = [dim.model_dump(exclude={"bandwidth", "latency"}) for dim in settings.dims or ()]
    try:
        topology = build(settings.topology, settings.shape, dims or None, settings.options, folder)
    except InputError as error:
        if settings.name is None or error.key != "network.topology":
            raise
        # The experiment may not have that word: a system of the shelf does.
        problem = f"{error.problem}, which '{settings.name}' is made of"
        raise InputError(problem, key=error.key, allowed=error.allowed, given=error.given) from None
    topology = replace(topology, name=settings.name or topology.name)
    return topology.routed(settings.router.routing, settings.router.routing_options)


def build(
    name: str | None,
    shape: Sequence[int] | None = None,
    dims: Sequence[Mapping[str, Any]] | None = None,
    options: Mapping[str, Any] | None = None,
    folder: str | Path = ".",
) -> Topology:
    """The network of an experiment: a topology by name with its options, or a product of blocks. Raises InputError.

    The shelves must have been loaded (`library.load_all`).

    shape    for a topology that has one
    dims     one table per dimension with `block`, `npus` and the options of the block
    options  those of the topology; one that is None counts as not given
    folder   where an option that is the name of a file starts
    """
    if name is not None and dims:
        raise InputError("both a topology and dims are given", key="network.topology", allowed="one of them")
    if dims:
        if shape is not None:
            raise InputError("dims say how many NPUs there are: a shape has no place", key="network.shape")
        return product(" x ".join(str(dim.get("block")) for dim in dims), [_block(i, d) for i, d in enumerate(dims)])
    if name is None:
        raise InputError("there is no network", key="network.topology", allowed="a name on the shelf, or network.dims")
    generator = _find(topologies, name, "network.topology", library.data_files)
    size: tuple[Any, ...] = ()
    if "shape" in inspect.signature(generator).parameters:
        if shape is None:
            raise InputError("the shape is missing", key="network.shape", allowed="a list of numbers such as [4, 4, 4]")
        size = (shape,)
    elif shape is not None:
        known = ", ".join(inspect.signature(generator).parameters)
        raise InputError(
            f"the topology '{name}' has no shape of its own", key="network.shape", allowed=f"network.options: {known}"
        )
    given = checked_options(generator, options or {}, "network.options", len(size), folder)
    return _made(generator, size, given, Topology, f"the topology '{name}'")


def _block(index: int, dim: Mapping[str, Any]) -> Block:
    key = f"network.dims[{index}]"
    for wanted in ("block", "npus"):
        if dim.get(wanted) is None:
            raise InputError(f"'{wanted}' is missing", key=key)
    name = str(dim["block"])
    generator = _find(blocks, name, f"{key}.block")
    npus = check_npus(dim["npus"], f"{key}.npus")
    given = checked_options(generator, {k: v for k, v in dim.items() if k not in ("block", "npus")}, key, 1)
    block = _made(generator, (npus,), given, Block, f"the block '{name}'")
    if block.npus != npus:
        raise InputError(f"the block '{name}' was requested with {npus} NPUs and has {block.npus}", key=f"{key}.npus")
    return block


def _find(
    registry: Registry[Callable[..., Any]], name: str, key: str, more: Callable[[], Iterable[str]] = tuple
) -> Callable[..., Any]:
    """What is registered under a name. `more`: what else could be named there."""
    if name in registry:
        return registry.get(name)
    raise registry.unknown(name, *more(), key=key)


def _made(
    generator: Callable[..., Any], size: tuple[Any, ...], options: Mapping[str, Any], kind: type[T], what: str
) -> T:
    """Call a generator of the shelf; errors name its file."""
    try:
        value = generator(*size, **options)
    except PyxsimError:
        raise
    except (Exception, SystemExit) as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{last.filename}:{last.lineno}"
        raise InputError(f"{what} failed: {type(error).__name__}: {error}", file=place) from error
    if not isinstance(value, kind):
        raise InputError(f"{what} returned {type(value).__name__} and not {kind.__name__}")
    return value
