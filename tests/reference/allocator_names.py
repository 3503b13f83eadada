"""Registered names of the built-in allocators."""

ROTATING, INPUT_FIRST, ISLIP = "rotating", "separable-input-first", "islip"
WAVEFRONT, AGE = "wavefront", "age"
UNRANKED = ("islip-unranked", "rr-wavefront", "pim", "loa", "max-size")
