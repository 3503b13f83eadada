"""From the words of an experiment file to a Topology: names are looked up on the shelves."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from pyxsim.errors import InputError, PyxsimError
from pyxsim.registry import Registry, blocks, topologies
from pyxsim.topology.block import Block
from pyxsim.topology.product import product
from pyxsim.topology.shape import check_npus
from pyxsim.topology.topology import Topology

T = TypeVar("T")


def build(
    name: str | None,
    shape: Sequence[int] | None = None,
    dims: Sequence[Mapping[str, Any]] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Topology:
    """The network of an experiment: a topology by name with a shape and options, or a product of blocks.

    dims: one table per dimension with `block`, `npus` and the options of the block; an option that is None counts as
    not given. The shelves must have been loaded (`library.load_all`). Raises InputError.
    """
    if name is not None and dims:
        raise InputError("both a topology and dims are given", key="network.topology", allowed="one of them")
    if dims:
        if shape is not None:
            raise InputError("dims say how many NPUs there are: a shape has no place", key="network.shape")
        return product(" x ".join(str(dim.get("block")) for dim in dims), [_block(i, d) for i, d in enumerate(dims)])
    if name is None:
        raise InputError("there is no network", key="network.topology", allowed="a name on the shelf, or network.dims")
    generator = _find(topologies, name, "network.topology")
    if shape is None:
        raise InputError("the shape is missing", key="network.shape", allowed="a list of numbers such as [4, 4, 4]")
    given = _options(generator, options or {}, "network.options")
    return _made(generator, (shape,), given, Topology, f"the topology '{name}'")


def _block(index: int, dim: Mapping[str, Any]) -> Block:
    key = f"network.dims[{index}]"
    for wanted in ("block", "npus"):
        if dim.get(wanted) is None:
            raise InputError(f"'{wanted}' is missing", key=key)
    name = str(dim["block"])
    generator = _find(blocks, name, f"{key}.block")
    npus = check_npus(dim["npus"], f"{key}.npus")
    given = _options(generator, {k: v for k, v in dim.items() if k not in ("block", "npus")}, key)
    block = _made(generator, (npus,), given, Block, f"the block '{name}'")
    if block.npus != npus:
        raise InputError(f"the block '{name}' was asked for {npus} NPUs and has {block.npus}", key=f"{key}.npus")
    return block


def _find(registry: Registry[Callable[..., Any]], name: str, key: str) -> Callable[..., Any]:
    try:
        return registry.get(name)
    except InputError as error:
        raise error.at(key=key) from None


def _options(generator: Callable[..., Any], options: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Options that are not None, each one a parameter of the generator and of its type."""
    parameters = list(inspect.signature(generator, eval_str=True).parameters.values())[1:]
    known = {p.name: p.annotation for p in parameters}
    given = {k: v for k, v in options.items() if v is not None}
    for parameter in parameters:
        if parameter.default is parameter.empty and parameter.name not in given:
            raise InputError(f"the option '{parameter.name}' is missing", key=key)
    for name, value in given.items():
        if name not in known:
            raise InputError("unknown option", key=f"{key}.{name}", allowed=known, given=name)
        wanted = known[name]
        # True is an int to Python, but not to the author of an experiment.
        if wanted in (bool, int, str) and (not isinstance(value, wanted) or (wanted is int and value is True)):
            raise InputError(f"{value!r} is no {wanted.__name__}", key=f"{key}.{name}", allowed=_words[wanted])
    return given


_words = {bool: "true or false", int: "a whole number", str: "a text"}


def _made(
    generator: Callable[..., Any], size: tuple[Any, ...], options: Mapping[str, Any], kind: type[T], what: str
) -> T:
    """What a generator of the shelf makes; whatever goes wrong in it is told of its file, which may be a user's."""
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
