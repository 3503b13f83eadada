"""The families of cases: (name, title, further columns of its table, its cases), in the order of the page."""

from __future__ import annotations

from pyxsim.validation.families import (
    astra,
    booksim,
    collectives,
    contention_free,
    endurance,
    garnet,
    issue_370,
    load_bound,
    queue,
    repeat,
    ring,
    sizes,
    switch,
    tests_of,
    themis,
    times,
    verdict,
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
    contention_free.FAMILY,
    times.FAMILY,
    verdict.FAMILY,
    collectives.FAMILY,
    sizes.FAMILY,
    issue_370.FAMILY,
    garnet.FAMILY,
    astra.FAMILY,
    themis.FAMILY,
    tests_of.FAMILY,
    repeat.FAMILY,
)
