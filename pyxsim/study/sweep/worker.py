"""A process that carries out tasks until nobody sends more. Started by crew.py; it imports everything once."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from multiprocessing.connection import Connection


def _end_with(lifeline: int) -> None:
    """End this process, whatever it does, as soon as the one that started it is gone."""
    os.read(lifeline, 1)  # nobody writes: it returns when the other end is closed
    os._exit(1)


def main(tasks: int, lifeline: int) -> None:
    """`tasks`, `lifeline`: file descriptors, of a connection and of a pipe that only tells the end."""
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()
    from pyxsim.study.sweep.task import carry_out

    home = Connection(tasks)
    with suppress(EOFError, OSError):  # there is nobody any more who wants anything
        home.send(None)  # it could be begun
        while True:
            home.send(carry_out(home.recv()))
