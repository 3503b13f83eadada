"""Errors, losses and retries of each link (docs/faults.md)."""

from __future__ import annotations

from pyxsim.results.backend_dataset import add_backend_table
from pyxsim.results.dataset import Column
from pyxsim.results.datasets.links import LINK, LINK_SPECS, WINDOW

WHEN = "with faults that lose flits, bit errors, or `[network.retry]`"
LINK_NAME = LINK_SPECS[:2]
COUNTS = (
    Column("errors", "flits", "flits that arrived corrupted"),
    Column("flits_lost", "flits", "flits lost on the wire when the link went down"),
    Column("resent", "flits", "flits retransmitted"),
    Column("timeouts", "1", "timeouts of the sender, without an answer in time"),
    Column("stall_replay", "cycles", "cycles in which a flit waited because the replay buffer was full"),
)
REPLAY_MEAN = Column(
    "replay_mean",
    "flits",
    "mean number of flits in the replay buffer, until their answers, which may follow the run",
    "float64",
)

add_backend_table(
    "link_faults",
    "Errors, losses and retries of each link over the whole run.",
    (*COUNTS, Column("replay_max", "flits", "maximum number of flits in the replay buffer"), REPLAY_MEAN),
    LINK,
    when=WHEN,
    links=LINK_NAME,
)
add_backend_table(
    "link_fault_windows",
    "Errors, losses and retries of each link in each time window.",
    (*COUNTS, REPLAY_MEAN),
    WINDOW,
    when=WHEN,
    links=LINK_NAME,
)
