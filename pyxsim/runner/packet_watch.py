"""`pyxsim run --watch PACKET`: log the events of one packet cycle by cycle, and attribute its latency."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyxsim.core.engine_options import CAUSES
from pyxsim.errors import InputError
from pyxsim.network.protocol import Backend
from pyxsim.settings import Experiment

WORDS = {
    "opened": "starts on VC {vc} of {link}",
    "routed": "wants {link}",
    "granted": "is granted VC {vc} of {link}",
    "switched": "wins the switch, towards {link}",
    "wasted": "wins the switch without a VC of {link}: the grant is wasted",
    "launched": "starts on {link}, VC {vc}",
    "arrives": "arrives over {link}, VC {vc}",
}


@dataclass(frozen=True)
class PacketWatch:
    """A packet by its number: "17" is the first packet of message 17, "17.2" its packet 2. Messages
    count from 0 in the order in which they are sent."""

    message: int
    packet: int = 0

    @classmethod
    def read(cls, text: str) -> PacketWatch:
        """Raises InputError for an invalid text."""
        match = re.fullmatch(r"(\d{1,18})(?:\.(\d{1,9}))?", text, re.ASCII)
        if match is None:
            raise InputError(
                f"'{text}' is not a packet", key="--watch", allowed="a message such as 17, or 17.2 for its packet 2"
            )
        return cls(int(match[1]), int(match[2] or 0))

    @property
    def name(self) -> str:
        """The packet and its message in words."""
        return f"packet {self.packet} of message {self.message}"

    @staticmethod
    def with_attribution(experiment: Experiment) -> Experiment:
        """Return the experiment with the attribution that explains the time of the packet."""
        if experiment.output.level:
            return experiment
        return experiment.model_copy(update={"output": experiment.output.model_copy(update={"attribution": "links"})})

    def begin(self, network: Backend) -> None:
        """Log the packet in the run that follows. Raises InputError for a backend without packets."""
        network.watch_packet(self.message, self.packet)

    def lines(self, network: Backend) -> list[str]:
        """Its log."""
        rows = network.watched_events()
        if not rows:
            return [f"{self.name} was not sent in this run"]
        width = max(5, len(f"{rows[-1][0]:,}"))
        lines = [f"{'cycle':>{width}}  flit"]
        log = [f"{self.name}:", *lines, *(_line(row, width, network.link_name) for row in rows)]
        return [*log, "", *self._splits(network, width)]

    def stays(self, network: Backend) -> list[dict[str, Any]]:
        """Yield its latency parts at each link of its route; none if it has not arrived."""
        records = network.attribution()
        if records is None:
            return []
        rows = records.stays()
        mine = rows[(rows[:, 0] == self.message) & (rows[:, 1] == self.packet)]
        names = [network.link_name(link) for link in mine[:, 2].tolist()]
        parts = [dict(zip(CAUSES, row, strict=True)) for row in mine[:, 3:].tolist()]
        return [{"place": name, "cycles": sum(part.values()), **part} for name, part in zip(names, parts, strict=True)]

    def _splits(self, network: Backend, width: int) -> list[str]:
        stays = self.stays(network)
        if not stays:
            return [f"{self.name} has not arrived in this run"]
        whole = {part: sum(stay[part] for stay in stays) for part in CAUSES}
        lines = [f"{self.name} took {sum(whole.values()):,} cycles: {_parts(whole)}"]
        lines += [f"{stay['cycles']:>{width},}  {stay['place']}: {_parts(stay)}" for stay in stays]
        split = network.message_split(self.message)
        if split is not None and min(split) >= 0 and split != list(whole.values()):
            parts = _parts(dict(zip(CAUSES, split, strict=True)))
            lines.append(f"the message took {sum(split):,} cycles, as its last packet: {parts}")
        return lines


def _parts(cycles: dict[str, Any]) -> str:
    """ "hops 40, credit 12"."""
    return ", ".join(f"{part} {cycles[part]:,}" for part in CAUSES if cycles[part]) or "nothing"


def _line(row: tuple[int, str, int, int, int], width: int, name: Callable[[int], str]) -> str:
    cycle, event, link, vc, flit = row
    text = WORDS.get(event, event).format(link=name(link) if link >= 0 else "nothing", vc=vc)
    return f"{cycle:>{width},}  {flit if flit >= 0 else '':>4}  {text}"
