"""Credits as messages of each link and VC (docs/credits.md)."""

from __future__ import annotations

from pyxsim.results.backend_dataset import add_backend_table
from pyxsim.results.dataset import Column
from pyxsim.results.datasets.links import LINK, LINK_SPECS, WINDOW

WHEN = "with `[network.credits]`"
LINK_NAME = LINK_SPECS[:2]
COUNTS = (
    Column("messages", "1", "messages that carried credits of the link, on the link in the opposite direction"),
    Column("riding", "flits", "flits of the opposite direction that carried credits of the link"),
    Column("returned", "flits", "credits that were sent back, including lost ones that were sent again"),
    Column("lost", "flits", "credits lost on their way back"),
)
RESTORED = Column("restored", "flits", "lost credits that were sent again")
SHARE = Column(
    "share", "1", "share of the time of the link taken by messages with credits of the opposite direction", "float64"
)

add_backend_table(
    "link_credits",
    "Returned credits of each link over the whole run.",
    (
        *COUNTS,
        RESTORED,
        Column("resent", "1", "messages retransmitted, with `[network.retry]`"),
        Column("credits_per_message", "flits", "credits per message or flit that carried any", "float64"),
        SHARE,
    ),
    LINK,
    when=WHEN,
    links=LINK_NAME,
)
add_backend_table(
    "link_credit_windows",
    "Returned credits of each link in each time window.",
    (*COUNTS, SHARE),
    WINDOW,
    when=WHEN,
    links=LINK_NAME,
)
add_backend_table(
    "vc_credits",
    "Returned credits of each VC of each link over the whole run.",
    (
        Column("vc", "1", "number of the VC on its link", dims=("vc",)),
        Column("messages", "1", "messages and flits that carried credits of the VC"),
        Column("returned", "flits", "credits that were sent back"),
        Column("lost", "flits", "credits lost on their way back"),
        RESTORED,
        Column("without_credits", "cycles", "time during which the sender had no credit of the VC"),
    ),
    (*LINK, "vc"),
    when=WHEN,
    links=LINK_NAME,
)
