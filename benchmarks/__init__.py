"""The speed of the simulator on fixed cases. `pyxsim bench` runs some; benchmarks/run.py all of them."""
