"""What the time of a watched packet went to, below its log."""

from __future__ import annotations

import json
import re

import pytest

from pyxsim.core.engine_options import CAUSES
from tests.cli.inputs import Command

NUMBER = r"([\d,]+)"


def split(line: str, head: str) -> dict[str, int]:
    """The parts in a line "packet 2 of message 3 took 1,000 cycles: hops 900, credit 100", which make its cycles."""
    match = re.fullmatch(rf"{head} took {NUMBER} cycles(?:, as its last packet)?: (.*)", line)
    assert match is not None, line
    parts = dict(re.findall(rf"([a-z]+) {NUMBER}", match[2]))
    found = {name: int(cycles.replace(",", "")) for name, cycles in parts.items()}
    assert set(found) <= set(CAUSES)
    assert sum(found.values()) == int(match[1].replace(",", ""))
    return found


def test_a_packet_of_a_message_of_several(pyxsim: Command) -> None:
    ended = pyxsim("run", "small.toml", "--watch", "3.2")
    assert ended.code == 0
    begin = next(i for i, line in enumerate(ended.lines) if line.startswith("packet 2 of message 3 took"))
    whole = split(ended.lines[begin], "packet 2 of message 3")
    end = next(i for i in range(begin + 1, len(ended.lines)) if not re.match(r" +\d", ended.lines[i]))
    rows = [re.fullmatch(rf" *{NUMBER}  (.+?): (.*)", line) for line in ended.lines[begin + 1 : end]]
    assert all(rows)
    places = [row[2] for row in rows if row]
    assert places[0].startswith("injection lane")
    assert places[-1].startswith("ejection lane")
    assert sum(int(row[1].replace(",", "")) for row in rows if row) == sum(whole.values())
    # The message is as late as its last packet.
    message = split(ended.lines[end], "the message")
    assert sum(message.values()) >= sum(whole.values())


def test_the_same_for_scripts(pyxsim: Command) -> None:
    data = json.loads(pyxsim("run", "small.toml", "--watch", "3", "--json").out)
    first, *others = data["watched_stays"]
    assert first["place"].startswith("injection lane")
    assert first["cycles"] == sum(first[part] for part in CAUSES)
    launched = data["watched"][0][0]
    arrived = data["watched"][-1][0]
    assert arrived - launched <= sum(stay["cycles"] for stay in [first, *others])
    assert data["attribution"]["messages"]["hops"] > 0  # what is told of one is told of all


@pytest.mark.parametrize("level", ["off", "links", "messages"])
def test_whatever_the_settings_ask_for(pyxsim: Command, level: str) -> None:
    ended = pyxsim("run", "small.toml", "--watch", "0", "--set", f"output.attribution={level}")
    assert any(line.startswith("packet 0 of message 0 took") for line in ended.lines)


def test_a_packet_that_does_not_arrive_has_no_split(pyxsim: Command) -> None:
    ended = pyxsim("run", "deadlock.toml", "--allow-deadlock", "--watch", "1")
    told = [line for line in ended.lines if line.startswith("packet 0 of message 1")]
    assert told == ["packet 0 of message 1:", "packet 0 of message 1 has not arrived in this run"]
