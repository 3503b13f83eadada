"""The engine of one MPI rank: it simulates a partition, and answers for the whole network (docs/threads.md)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import Int32Array
from pyxsim.core.engine import Engine
from pyxsim.core.engine_options import LONGEST_EPOCH, MOST_PARTS, Links, RouterOptions, Routes
from pyxsim.errors import InputError
from pyxsim.network.packet.mpi_world import MpiWorld
from pyxsim.network.packet.router_partition import cut


class RankEngine(Engine):
    """The partition of a rank, with the interface of the engine of the whole network.

    All ranks make the same calls. Totals and deliveries are known to all ranks at the end of each call; what is asked
    about links and VCs is combined from the ranks that have them.

    Raises
    ------
    InputError
        If the network has too few routers for the ranks.
    """

    def __init__(
        self, world: MpiWorld, routers: int, links: Links, routes: Routes, options: RouterOptions, **more: Any
    ) -> None:
        super().__init__(routers, links, routes, options, **more)
        partition = cut(routers, links, world.size, LONGEST_EPOCH)
        if world.size > MOST_PARTS or partition.count < world.size:
            most = min(partition.count, MOST_PARTS)
            raise InputError(
                f"{world.size} ranks cannot divide this network", key="--mpi", allowed=f"up to {most} ranks here"
            )
        self.world = world
        self.divide(partition.part_of, world.rank, world.exchange)
        src, dst = np.asarray(links.src), np.asarray(links.dst)
        owner = partition.part_of == world.rank
        self._sends = owner[np.where(src < 0, dst, src)]  # links whose beginning is in this partition
        self._receives = owner[np.where(dst < 0, src, dst)]
        self._vcs = np.asarray(links.vcs)

    def counters(self) -> dict[str, NDArray[np.int64]]:
        mine = super().counters()
        return dict(zip(mine, self.world.sum(np.stack(list(mine.values()))), strict=True))

    def losses(self) -> dict[str, NDArray[np.int64]]:
        mine = super().losses()
        return dict(zip(mine, self.world.sum(np.stack(list(mine.values()))), strict=True))

    def retries(self) -> dict[str, NDArray[np.int64]]:
        mine = {name: values.astype(np.int64) for name, values in super().retries().items()}
        return dict(zip(mine, self.world.sum(np.stack(list(mine.values()))), strict=True))

    def credit_returns(self) -> dict[str, NDArray[Any]]:
        mine = super().credit_returns()
        if "vc_empty" in mine:  # what the beginning of a link counts, the rest is of its end
            mine["vc_empty"] = mine["vc_empty"] * np.repeat(self._sends, self._vcs)
            for name in ("vc_pending", "vc_lost"):
                mine[name] = mine[name] * np.repeat(self._receives, self._vcs)
        return {name: self.world.sum(values) for name, values in mine.items()}

    def buffer_max(self) -> NDArray[np.int32]:
        return self.world.max(super().buffer_max())

    def waiting(self) -> list[dict[str, Any]]:
        return sorted(self.world.gather(super().waiting()), key=lambda entry: (entry["link"], entry["vc"]))

    def slots(self) -> tuple[Int32Array, Int32Array, Int32Array]:
        credit, occupancy, pool_left = super().slots()
        credit *= np.repeat(self._sends, self._vcs)
        occupancy *= np.repeat(self._receives, self._vcs)
        return self.world.sum(credit), self.world.sum(occupancy), self.world.sum(pool_left * self._sends)
