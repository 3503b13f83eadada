"""Plots with matplotlib: single plots of results (`result.plot`), the one-page figure of a run, drawings of networks."""
