"""`python under_way.py FILE WORDS ...`: the command `pyxsim WORDS ...`, which makes FILE once a long run is under way.

A test that ends a run has to see that it has begun: how long that takes is up to the machine.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

from pyxsim.runner import hooks

LONG = 2**30  # bytes: the run that the test means to end, not a short one before it


def main() -> None:
    file, tick = Path(sys.argv[1]), hooks.ProgressHooks._tick

    def touching_tick(self: hooks.ProgressHooks, prepared: Any) -> None:
        tick(self, prepared)
        if not file.exists():
            now = hooks.progress_of(prepared)
            if now.bytes_total >= LONG and now.router_visits:
                file.touch()

    hooks.ProgressHooks._tick = touching_tick  # type: ignore[method-assign]
    del sys.argv[1]
    runpy.run_module("pyxsim", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
