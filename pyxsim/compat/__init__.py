"""L9.5, the wings: each subpackage reproduces another simulator and registers what it offers (pyxsim/plugins.py)."""
