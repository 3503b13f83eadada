"""Custom collectives from files: Python, MSCCL XML, Chakra traces (docs/custom_collectives.md).

A program for one rank yields:

    from pyxsim.collective.custom import Receive, Send

    def ring(kind, n, rank):
        for step in range(n - 1):
            yield Send((rank + 1) % n, (rank - 1 - step) % n)
            yield Receive((rank - 1) % n, (rank - 2 - step) % n, reduce=True)
"""

from pyxsim.collective.custom.rank_generators import Blocks, Copy, Receive, Reduce, Send

__all__ = ["Blocks", "Copy", "Receive", "Reduce", "Send"]
