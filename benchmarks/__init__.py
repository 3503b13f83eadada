"""L8.5, bench: how fast the simulator is, on fixed cases. `pyxsim bench` runs some; benchmarks/run.py all of them."""
