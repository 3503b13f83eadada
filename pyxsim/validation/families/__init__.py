"""The families of cases: (name, title, further columns of its table, its cases), in the order of the page."""

from __future__ import annotations

from pyxsim.validation.families import (
    booksim,
    endurance,
    garnet,
    load_bound,
    queue,
    repeat,
    ring,
    switch,
    tests_of,
    zero_load,
)

ALL = (
    zero_load.FAMILY,
    booksim.FAMILY,
    load_bound.FAMILY,
    endurance.FAMILY,
    queue.FAMILY,
    ring.FAMILY,
    switch.FAMILY,
    garnet.FAMILY,
    tests_of.FAMILY,
    repeat.FAMILY,
)
