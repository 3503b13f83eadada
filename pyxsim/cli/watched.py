"""`pyxsim run --watch PACKET`: what happens to one packet, cycle by cycle."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyxsim.errors import InputError
from pyxsim.network.open import OpenNetwork
from pyxsim.network.packet import PacketNetwork

WORDS = {
    "opened": "is opened on VC {vc} of {link}",
    "routed": "wants {link}",
    "granted": "is granted VC {vc} of {link}",
    "switched": "wins the switch, towards {link}",
    "wasted": "wins the switch for nothing: no VC of {link} was granted",
    "launched": "starts on {link}, VC {vc}",
    "arrives": "arrives by {link}, VC {vc}",
}


@dataclass(frozen=True)
class Watched:
    """A packet by its number: "17" is the only packet of message 17, or its first one, "17.2" its packet 2. Messages
    count from 0 in the order in which they are sent."""

    message: int
    packet: int = 0

    @classmethod
    def read(cls, text: str) -> Watched:
        """Raises InputError for a text that is no such number."""
        match = re.fullmatch(r"(\d{1,18})(?:\.(\d{1,9}))?", text, re.ASCII)
        if match is None:
            raise InputError(
                f"'{text}' is no packet", key="--watch", allowed="a message such as 17, or 17.2 for its packet 2"
            )
        return cls(int(match[1]), int(match[2] or 0))

    @property
    def name(self) -> str:
        return f"packet {self.packet} of message {self.message}"

    def begin(self, network: Any) -> None:
        """Watch it in the run to come. Raises InputError where there are no packets."""
        if not isinstance(network, PacketNetwork | OpenNetwork):
            raise InputError("this backend has no packets", key="--watch", allowed="with --backend packet")
        network.engine.watch(self.message, self.packet)

    def lines(self, network: Any) -> list[str]:
        """Its log."""
        rows = network.engine.watched()
        if not rows:
            return [f"{self.name} was not sent in this run"]
        width = max(5, len(f"{rows[-1][0]:,}"))
        told = [f"{'cycle':>{width}}  flit"]
        return [f"{self.name}:", *told, *(_line(row, width, network.link_name) for row in rows)]


def _line(row: tuple[int, str, int, int, int], width: int, name: Callable[[int], str]) -> str:
    cycle, event, link, vc, flit = row
    words = WORDS.get(event, event).format(link=name(link) if link >= 0 else "nothing", vc=vc)
    return f"{cycle:>{width},}  {flit if flit >= 0 else '':>4}  {words}"
