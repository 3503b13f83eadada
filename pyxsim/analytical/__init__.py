"""Delay models: what a message takes, and the order in which messages arrive. Arrays only; knows no topology."""
