"""The readable router: docs/router.md in plain Python, and the backend `reference` that runs experiments on it.

Read `engine.py` for the order of a cycle, then `router.py`, `lane.py` and `components.py`.
"""

from pyxsim.reference import backend as backend
