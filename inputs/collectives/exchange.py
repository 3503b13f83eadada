"""Recursive doubling: in log2(N) rounds everybody exchanges all that it has with a partner 1, 2, 4, ... ranks away.

A program for one rank: it yields the steps of that rank, in order. More bytes than a ring, and fewer rounds.
"""

from pyxsim.collective.custom import Receive, Send
from pyxsim.registry import collectives


@collectives.register("exchange", kinds=("all-reduce",))
def exchange(kind, n, rank):
    if n & (n - 1):
        raise ValueError(f"{n} ranks: not a power of two")
    distance = 1
    while distance < n:
        yield Send(rank ^ distance, range(n))
        yield Receive(rank ^ distance, range(n), reduce=True)
        distance *= 2
