"""Files and behaviour of other simulators."""
