"""Allocators of users: Python classes that match the requests of a router (docs/extending_allocator.md)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from pyxsim.errors import InputError, cut
from pyxsim.library import file_of
from pyxsim.plugins import allocators

MOST_EMPTY_CALLS = 10_000  # in a row without a grant


class Request(NamedTuple):
    """One entry of a request matrix; there is at most one per pair of input and output.

    Attributes
    ----------
    input, output : int
        In VA an input VC and an output VC of the router; in SA an input port and an output port.
    rank : int
        The smaller rank goes first: a speculative bid or an escape candidate has a larger one than any other request,
        then the priority of the message class counts, then, with `by_age`, the cycle in which the message was sent.
    wasted : bool
        SA: a speculative bid whose head got no VC. It competes, but a grant moves no flit: pointers should stay.
    """

    input: int
    output: int
    rank: int
    wasted: bool


@dataclass(frozen=True)
class AllocatorContext:
    """What an allocator is made for.

    Attributes
    ----------
    stage : str
        "va" (VC allocation) or "sa" (switch allocation).
    router : int
        Number of the router.
    inputs, outputs : int
        Size of the request matrix.
    iterations : int
        N of `NAME:N`; 1 without it.
    random : random.Random
        Seeded by `output.seed`, the router and the stage.
    """

    stage: str
    router: int
    inputs: int
    outputs: int
    iterations: int
    random: random.Random


class UserAllocator:
    """The allocator of a user at one router and stage, with checks of its grants."""

    def __init__(self, name: str, stage: str, router: int, inputs: int, outputs: int, iterations: int, seed: int):
        draws = random.Random(f"{seed} {stage} {router}")  # a text: the same on every machine
        self.name = name
        self.context = AllocatorContext(stage, router, inputs, outputs, iterations, draws)
        self.made_by = allocators.get(name)
        self.instance = self._call(self.made_by, self.context)
        self.empty_calls = 0  # without a grant, up to the last call
        if not callable(getattr(self.instance, "allocate", None)):
            raise self._fault("has no method allocate(requests)")

    def grant(self, rows: Iterable[tuple[int, int, int, bool]]) -> list[int]:
        """Return the indices of the granted requests.

        Parameters
        ----------
        rows
            The fields of each `Request`, in order of input, then output.

        Raises
        ------
        InputError
            If the grants are not a matching of the requests.
        """
        requests = [Request(*row) for row in rows]
        granted = self._call(self.instance.allocate, list(requests))
        if not isinstance(granted, Iterable):
            raise self._fault(f"returned {cut(repr(granted))}")
        numbers: list[int] = []
        taken: set[tuple[str, int]] = set()
        for grant in granted:
            try:
                number = requests.index(grant)
            except (TypeError, ValueError):  # ValueError: not in the list, or an array
                raise self._fault(f"granted {cut(repr(grant))}, which was not requested") from None
            ports = {("input", requests[number].input), ("output", requests[number].output)}
            if twice := sorted(ports & taken):
                raise self._fault(f"granted {twice[0][0]} {twice[0][1]} twice")
            taken |= ports
            numbers.append(number)
        self.empty_calls = 0 if numbers else self.empty_calls + 1
        if self.empty_calls == MOST_EMPTY_CALLS:
            raise self._fault(f"granted nothing in {MOST_EMPTY_CALLS:,} calls in a row")
        return sorted(numbers)

    def _call(self, function: Callable[..., Any], argument: object) -> Any:
        """Call code of the user. Raises InputError if the call itself fails, such as for a wrong signature."""
        try:
            return function(argument)
        except Exception as error:
            if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
                raise  # in the code of the user
            raise self._fault(f"fails: {type(error).__name__}: {error}") from error

    def _fault(self, problem: str) -> InputError:
        place = f"router {self.context.router}, {self.context.stage.upper()}"
        return InputError(
            f"the allocator '{self.name}' {problem} ({place})",
            file=file_of(self.made_by),
            allowed="a class whose allocate(requests) returns some of these Requests, at most one per input and output",
        )


class UserAllocators:
    """The allocators of users in one network, and the first error that one of them raised.

    `make`: (stage, router) -> the allocator there.
    """

    def __init__(self, stages: Iterable[str], routers: int, make: Callable[[str, int], UserAllocator]) -> None:
        self.at = {stage: [make(stage, router) for router in range(routers)] for stage in stages}
        self.error: BaseException | None = None
