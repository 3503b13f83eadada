"""A worker process: it runs tasks until its pipe is closed. crew.py starts it; it imports everything once."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from multiprocessing.connection import Connection


def _end_with(lifeline: int) -> None:
    """End this process as soon as its parent ends."""
    os.read(lifeline, 1)  # returns when the other end is closed
    os._exit(1)


def main(tasks: int, lifeline: int) -> None:
    """Run tasks. `tasks`, `lifeline`: file descriptors of a connection, and of a pipe that closes with the parent."""
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()
    from pyxsim.study.sweep.task import carry_out

    home = Connection(tasks)
    with suppress(EOFError, OSError):  # the parent has ended
        home.send(None)  # report the start
        while True:
            home.send(carry_out(home.recv()))
