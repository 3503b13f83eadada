"""Names of the links of a product network, made when they are read: strings would take most of its memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import chain, cycle
from typing import Any, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pyxsim.arrays import Int32Array


class LinkNames(Sequence[str]):
    """The names "label:router->router" of links whose labels repeat.

    Parameters
    ----------
    labels
        The labels of each part of the links, which its groups repeat.
    sizes
        Links of each part.
    src, dst
        int32[links]: routers at the ends.
    routers
        Names of the routers.
    """

    def __init__(
        self,
        labels: Sequence[Sequence[str]],
        sizes: Sequence[int],
        src: Int32Array,
        dst: Int32Array,
        routers: Sequence[str],
    ) -> None:
        self._labels, self._src, self._dst, self._routers = labels, src, dst, routers
        self._first = [sum(sizes[:part]) for part in range(len(sizes) + 1)]

    def __len__(self) -> int:
        return self._first[-1]

    @overload
    def __getitem__(self, link: int) -> str: ...
    @overload
    def __getitem__(self, link: slice) -> list[str]: ...

    def __getitem__(self, link: int | slice) -> str | list[str]:
        if isinstance(link, slice):
            return [self[number] for number in range(*link.indices(len(self)))]
        number = range(len(self))[link]
        part = bisect_right(self._first, number) - 1
        labels = self._labels[part]
        label = labels[(number - self._first[part]) % len(labels)]
        return f"{label}:{self._routers[self._src[number]]}->{self._routers[self._dst[number]]}"

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(map(self._of_part, range(len(self._labels))))

    def _of_part(self, part: int) -> list[str]:
        routers, (first, end) = self._routers, self._first[part : part + 2]
        ends = zip(
            cycle(self._labels[part]), self._src[first:end].tolist(), self._dst[first:end].tolist(), strict=False
        )
        return [f"{label}:{routers[src]}->{routers[dst]}" for label, src, dst in ends]

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(list(self), object if dtype is None else dtype)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(other) == len(self) and all(map(str.__eq__, self, other))

    __hash__ = None  # type: ignore[assignment]
