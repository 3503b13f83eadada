"""Credits as messages: how the credits of a link return on the opposite one (docs/router.md)."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol

from pyxsim.core.engine_options import CreditReturns
from pyxsim.reference import draws
from pyxsim.reference.retry import FLIT_ERROR, ErrorDraws, Retry, Sent


class Sender(Protocol):
    """The upstream end of a VC, as its credits see it."""

    number: int
    credits: int
    borrowed: int


class Wire(Protocol):
    """A link whose credits return, or that carries them."""

    number: int
    s: Fraction
    delay: int
    credit_delay: int
    down: bool
    clear: Fraction
    end: Fraction
    bound: Fraction | None
    flits: int
    errors: ErrorDraws
    retry: Retry | None
    returning: deque[tuple[int, int]]
    new_flit_at: int
    new_flit_arrives: int
    new_flit_wrong: bool

    @property
    def outputs(self) -> Sequence[Sender]:
        """The upstream ends of its VCs."""

    def available(self, t: int) -> bool:
        """Return whether a flit can start in cycle `t`."""

    def launch(self, flit: Any, vc: int, t: int) -> None:
        """Send a flit in cycle `t`."""

    def repeat_message(self, sent: Sent, t: int) -> None:
        """Send a message with credits in cycle `t` that was sent before."""

    def sort_returning(self) -> None:
        """Put the credits in the order of their arrival, after one more has started."""


@dataclass(eq=False)
class CreditMessage:
    """A message with credits; in a replay buffer it takes the slot of a flit."""

    vc: int = -1


@dataclass(eq=False)
class VcCredits:
    """The credits of a VC at its receiving end."""

    number: int
    since: int = -1  # cycle of the first slot that has been emptied since the last message
    pending: int = 0  # emptied slots whose credits wait
    lost: int = 0  # credits lost on their way back
    forced: bool = False  # due, however few
    returned: int = 0
    carried: int = 0
    destroyed: int = 0
    restored: int = 0
    empty: int = 0  # cycles in which its sender had no credit

    def add(self, count: int, t: int) -> None:
        """Collect the credits of slots that are emptied in cycle `t`."""
        if not self.pending:
            self.since = t
        self.pending += count

    def restore(self, t: int) -> None:
        """Send lost credits again, as soon as possible."""
        if self.lost:
            self.add(self.lost, t)
            self.restored += self.lost
            self.lost, self.forced = 0, True

    def take(self, *, cumulative: bool) -> int:
        """Take the credits into a message; return how many."""
        count = self.pending
        if cumulative:
            count += self.lost
            self.restored += self.lost
            self.lost = 0
        if count:
            self.pending, self.forced = 0, False
            self.returned += count
            self.carried += 1
        return count

    def lose(self, count: int) -> None:
        """Note that credits have been destroyed."""
        self.lost += count
        self.destroyed += count


@dataclass(eq=False)
class CreditReturn:
    """The receiving end of `link`, which returns credits on the link `out`. `timeout`: of a batch."""

    link: Wire
    out: Wire
    rules: CreditReturns
    timeout: int
    links: int  # in the network
    bound: int = 0  # a draw below it is a bit error in a message on `out`
    vcs: list[VcCredits] = field(default_factory=list)
    due_at: int | None = None
    pointer: int = 0
    launched: int = 0
    messages: int = 0
    riding: int = 0
    destroyed: int = 0
    busy: Fraction = Fraction(0)
    reset: bool = False  # `link` is down, has lost its flits, and exchanges credits when it is up

    def __post_init__(self) -> None:
        self.vcs = [VcCredits(out.number) for out in self.link.outputs]
        if self.rules.advertise:
            self.advertise(0)

    @property
    def seconds(self) -> Fraction:
        """Cycles that a message takes."""
        return self.out.s * self.rules.share

    @property
    def timed(self) -> bool:
        """Whether credits will return by themselves."""
        waiting = any(vc.pending or (vc.lost and self.rules.resync) for vc in self.vcs)
        return waiting and not (self.out.down and self.rules.share)

    def advertise(self, t: int) -> None:
        """Take all credits of the sender, and send them again."""
        for vc, sender in zip(self.vcs, self.link.outputs, strict=True):
            if sender.credits > 0 and not sender.borrowed:
                vc.add(sender.credits, t)
                vc.forced = True
                sender.credits = 0
            vc.restore(t)

    def collect(self, vc: int, t: int) -> None:
        """Note that a slot is emptied in cycle `t`."""
        self.vcs[vc].add(1, t)

    def due(self, vc: VcCredits, t: int) -> bool:
        """Return whether credits of a VC are to be returned."""
        if not vc.pending:
            return False
        return vc.forced or vc.pending >= self.rules.batch or t >= vc.since + self.timeout

    def any_due(self, t: int) -> bool:
        return any(self.due(vc, t) for vc in self.vcs)

    def step(self, t: int) -> None:
        """Do step 5: piggyback credits on the flit that `out` has launched, or launch messages."""
        rules = self.rules
        if rules.resync and t % rules.resync == 0:
            for vc in self.vcs:
                vc.restore(t)
        if rules.wait >= 0 and self.out.new_flit_at == t and self.any_due(t):
            self.ride(t)
            self.due_at = None
        while self.any_due(t):
            if self.due_at is None:
                self.due_at = t
            if t < self.due_at + max(rules.wait, 0) or not self.may_start(t):
                return
            self.launch(t)
            self.due_at = None
        self.due_at = None

    def may_start(self, t: int) -> bool:
        """Return whether a message may be launched at the end of cycle `t`."""
        if not self.rules.share:
            return True
        if self.out.down or self.out.clear >= t + (1 if self.rules.data_first else 2):
            return False
        return self.out.retry is None or self.out.retry.accepts(t)

    def fill(self, t: int) -> Counter[int]:
        """Take the credits of a message."""
        chosen = self.vcs
        if not self.rules.all_vcs:
            turns = [self.vcs[(self.pointer + k) % len(self.vcs)] for k in range(len(self.vcs))]
            chosen = [next(vc for vc in turns if self.due(vc, t))]
            self.pointer = chosen[0].number + 1
        return Counter({vc.number: vc.take(cumulative=self.rules.cumulative) for vc in chosen})

    def arrive(self, credits: Counter[int], arrival: int) -> None:
        """Let credits arrive at the sender in cycle `arrival`."""
        for vc in credits.elements():
            self.link.returning.append((arrival, vc))
            self.link.sort_returning()

    def lose(self, credits: Counter[int]) -> None:
        """Note that what carried credits was destroyed."""
        for vc, count in credits.items():
            self.vcs[vc].lose(count)

    def ride(self, t: int) -> None:
        """Piggyback credits on the flit that `out` has launched in this cycle."""
        self.riding += 1
        credits = self.fill(t)
        if self.out.retry is not None:
            sent = self.out.retry.buffer[-1]
            sent.credits = credits
            if sent.arrival >= 0:
                self.arrive(credits, sent.arrival)
        elif self.out.new_flit_wrong:
            self.destroyed += 1
            self.lose(credits)
        else:
            self.arrive(credits, self.out.new_flit_arrives)

    def launch(self, t: int) -> None:
        """Launch a message at the end of cycle `t`."""
        self.messages += 1
        if not self.rules.share:
            self.arrive(self.fill(t), t + self.link.credit_delay)
        elif self.out.retry is not None:
            sent = Sent(CreditMessage(), -1, t, credits=self.fill(t))
            self.out.retry.enter(sent)
            self.transmit(sent, t)
        else:
            arrival = self.occupy(t)
            credits = self.fill(t)
            number, self.launched = self.launched, self.launched + 1
            if draws.error(self.out.errors.seed, self.links + self.link.number, number, FLIT_ERROR) < self.bound:
                self.destroyed += 1
                self.lose(credits)
            else:
                self.arrive(credits, arrival)

    def occupy(self, t: int) -> int:
        """Let a message take the link; return when it arrives."""
        self.out.clear = max(Fraction(t), self.out.clear) + self.seconds
        self.out.end, self.out.bound = self.out.clear, self.out.clear + self.out.delay
        self.busy += self.seconds
        return math.ceil(self.out.clear) + self.link.credit_delay - 1

    def transmit(self, sent: Sent, t: int) -> None:
        """Launch a message of the replay buffer, for the first time or again."""
        retry, launch = self.out.retry, self.out.flits + self.launched
        assert retry is not None
        arrival = self.occupy(t)
        self.launched += 1

        def wrong() -> bool:
            hit = draws.error(self.out.errors.seed, self.out.number, launch, FLIT_ERROR) < self.bound
            self.destroyed += hit
            return hit

        if retry.accepted(self.out, sent, launch, arrival, math.ceil(self.out.clear), wrong):
            self.arrive(sent.credits, arrival)

    def wreck(self) -> None:
        """`out` has gone down, and the messages on its wire are lost."""
        if not self.rules.share:
            return
        if self.out.retry is None:
            self.lose(Counter(vc for _, vc in self.link.returning))
        self.link.returning.clear()

    def counted(self) -> None:
        """Count the VCs whose sender has no private credit in this cycle."""
        for vc, sender in zip(self.vcs, self.link.outputs, strict=True):
            vc.empty += sender.credits <= 0
