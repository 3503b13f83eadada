"""ASTRA-sim 1 and 2: input files, system layer, output tables."""
