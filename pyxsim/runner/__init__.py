"""One experiment, from its description to its Result."""
