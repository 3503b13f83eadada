"""Task graphs and training loops in ASTRA-sim's order of events."""
