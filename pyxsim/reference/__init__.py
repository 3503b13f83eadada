"""The readable router: docs/router.md in plain Python, and the backend `reference` that runs experiments on it.

Read `engine.py` for the order of a cycle, then `router.py`, `lane.py` and `components.py`.
"""

from pyxsim.plugins import Target, backends

backends.register("reference", cost=5, compared=False)(Target("pyxsim.reference.backend:ReferenceNetwork"))
