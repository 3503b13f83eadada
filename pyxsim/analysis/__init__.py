"""What a result means: bounds, theory, statistics, verdicts."""
