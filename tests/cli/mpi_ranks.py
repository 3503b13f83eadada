"""One rank of MPI: run every experiment of a folder, and say with which exit code. Started by test_mpi.py.

`python tests/cli/mpi_ranks.py FOLDER [FAILING]`: rank FAILING raises an error in the middle of each run.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pyxsim.cli.app import main
from pyxsim.network.packet.mpi_world import MpiWorld, mpi_world

ENOUGH = 20  # exchanges before the error


class FailingWorld(MpiWorld):
    def exchange(self, mails: Any) -> list[Any]:
        if self.messages > ENOUGH:
            raise OSError(5, "out of order", "disk")
        return super().exchange(mails)


def run(folder: Path) -> None:
    world = mpi_world()
    for file in sorted(folder.glob("*.toml")):
        output = folder / f"{file.stem}-{world.size}.h5"
        code = main(["run", str(file), "--mpi", "--allow-deadlock", "--quiet", "-o", str(output)])
        if world.rank == 0:
            print(file.stem, code, flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 2 and mpi_world().rank == int(sys.argv[2]):
        mpi_world().__class__ = FailingWorld
    run(Path(sys.argv[1]))
