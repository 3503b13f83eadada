"""The readable router: docs/router.md in plain Python, and the backend `reference` that runs experiments on it.

Read `engine.py` for the order of a cycle, then `router.py`, `lane.py` and `components.py`; `transaction_state.py` is
docs/memory_traffic.md.
"""

from pyxsim.plugins import Target, backends

_TRANSACTIONS = Target("pyxsim.reference.transaction_backend:ReferenceTransactionNetwork")
backends.register("reference", transactions=_TRANSACTIONS, cost=5, compared=False)(
    Target("pyxsim.reference.backend:ReferenceNetwork")
)
