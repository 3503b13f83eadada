"""Bit errors of a link, and its replay buffer (docs/router.md, "Bit errors" and "Retry")."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from pyxsim.reference import draws

FLIT_ERROR, NACK_ERROR = range(2)


class Wire(Protocol):
    """The link that retries, as its sender sees it."""

    delay: int
    credit_delay: int
    errors: ErrorDraws

    def available(self, t: int) -> bool:
        """Return whether a flit can start in cycle `t`."""

    def launch(self, flit: Any, vc: int, t: int) -> None:
        """Send a flit in cycle `t`."""

    def repeat_message(self, sent: Sent, t: int) -> None:
        """Send a message with credits in cycle `t` that was sent before."""


@dataclass(eq=False)
class ErrorDraws:
    """The draws of link `link`: a draw of 64 bits below its bound is an error. `count`: flits with one."""

    link: int
    seed: int = 0
    bounds: tuple[int, int] = (0, 0)  # of flits, of nacks
    count: int = 0

    def hits(self, launch: int, purpose: int) -> bool:
        """Return whether a launch has an error."""
        hit = draws.error(self.seed, self.link, launch, purpose) < self.bounds[purpose]
        self.count += hit and purpose == FLIT_ERROR
        return hit


@dataclass(eq=False)
class Sent:
    """A flit in the replay buffer, or a message with credits (`vc` is -1).

    `arrival`, `acked`: of the launch that the receiver accepts; -1: none yet.
    """

    flit: Any
    vc: int
    entered: int
    arrival: int = -1
    acked: int = -1
    credits: Counter[int] = field(default_factory=Counter)  # that it carries, by VC


@dataclass(eq=False)
class Retry:
    """The sending end of a link with retry: `slots` flits, an acknowledgment takes `ack` cycles beyond a credit."""

    slots: int
    ack: int
    timeout: int
    buffer: deque[Sent] = field(default_factory=deque)
    again: deque[Sent] = field(default_factory=deque)  # flits to retransmit, a part of the buffer
    rewind: tuple[int, Sent] | None = None  # the cycle in which the sender goes back, and to which flit
    most: int = 0
    resent: int = 0
    timeouts: int = 0
    full: int = 0
    full_at: int = -1
    held: int = 0  # total of the cycles that acknowledged flits were in the buffer

    @property
    def waiting(self) -> bool:
        """Whether a flit has not been accepted."""
        return any(sent.arrival < 0 for sent in self.buffer)

    def answered(self, t: int) -> bool:
        """Return whether an acknowledgment arrives in cycle `t` or later."""
        return any(sent.acked >= t for sent in self.buffer)

    def drop(self, t: int) -> None:
        """Remove the acknowledged flits at the beginning of the buffer."""
        while self.buffer and 0 <= self.buffer[0].acked <= t:
            sent = self.buffer.popleft()
            self.held += sent.acked - sent.entered

    def accepts(self, t: int) -> bool:
        """Return whether a new flit may start in cycle `t`, if the link is available."""
        self.drop(t)
        return not self.again and len(self.buffer) < self.slots

    def stalls(self, link: Wire, t: int) -> None:
        """Note that a flit lacks nothing but the link: count the cycle if only the buffer keeps it from it."""
        if link.available(t) and not self.again and len(self.buffer) == self.slots and self.full_at != t:
            self.full_at = t
            self.full += 1

    def enter(self, sent: Sent) -> None:
        """Put a new flit into the buffer."""
        self.buffer.append(sent)
        self.most = max(self.most, len(self.buffer))

    def next_again(self) -> Sent:
        """Remove the next flit to retransmit."""
        sent = self.again.popleft()
        self.resent += sent.vc >= 0  # else it is a message of credits
        return sent

    def launched(self, link: Wire, flit: Any, vc: int, t: int, launch: int, end: int) -> tuple[Sent, bool]:
        """Note that a flit is launched, which leaves the sender by cycle `end`: does the receiver accept it?"""
        if self.again:
            sent = self.next_again()
        else:
            sent = Sent(flit, vc, t)
            self.enter(sent)
        wrong = partial(link.errors.hits, launch, FLIT_ERROR)
        return sent, self.accepted(link, sent, launch, end + link.delay, end, wrong)

    def accepted(self, link: Wire, sent: Sent, launch: int, arrival: int, end: int, wrong: Callable[[], bool]) -> bool:
        """Return whether the receiver accepts a launch, which reaches it in cycle `arrival`; `wrong`: has it errors?"""
        sent.arrival = sent.acked = -1
        if self.rewind is not None:
            return False
        answer = arrival + link.credit_delay + self.ack
        if wrong():
            if link.errors.hits(launch, NACK_ERROR):
                answer = end + self.timeout
                self.timeouts += 1
            self.rewind = answer, sent
            return False
        sent.arrival, sent.acked = arrival, answer
        return True

    def send_again(self, link: Wire, t: int) -> bool:
        """Do step 1: go back if that is due, and launch the next flit to retransmit. Return whether there was one."""
        if self.rewind is not None and self.rewind[0] <= t:
            first, self.rewind = self.rewind[1], None
            self._rewind_to(first)
        if not self.again or not link.available(t):
            return False
        if self.again[0].vc < 0:
            link.repeat_message(self.next_again(), t)
        else:
            link.launch(self.again[0].flit, self.again[0].vc, t)
        return True

    def _rewind_to(self, first: Sent) -> None:
        flits = list(self.buffer)
        self.again = deque(flits[flits.index(first) :])

    def lose(self, t: int) -> None:
        """All flits on the wire in cycle `t` are lost: retransmit from the first one that has not arrived."""
        self.rewind = None
        self.again.clear()
        for sent in self.buffer:
            if sent.arrival > t or sent.arrival < 0:
                sent.arrival = sent.acked = -1
                if not self.again:
                    self._rewind_to(sent)

    def held_until(self, cycle: int) -> int:
        """Return the total of the cycles that flits have been in the buffer up to a cycle."""
        return self.held + sum((cycle if s.acked < 0 else min(s.acked, cycle)) - s.entered for s in self.buffer)
