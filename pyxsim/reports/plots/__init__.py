"""Plots with matplotlib: single plots of results (`result.plot`), the figure of a run, drawings of networks."""
