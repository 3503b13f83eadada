"""Other simulators on the same traffic; each file runs as a script of its own."""
