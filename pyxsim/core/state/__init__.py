"""State of one network: records and arrays, their allocation, saving and loading, invariants."""
