"""Traffic that follows a matrix from a file."""

from __future__ import annotations

from pyxsim.errors import InputError
from pyxsim.registry import patterns
from pyxsim.traffic.matrix import MatrixPattern, read_matrix
from pyxsim.traffic.pattern import PatternContext


@patterns.register("matrix")
def matrix(context: PatternContext, file: str) -> MatrixPattern:
    """The matrix of a file: row i is the traffic from node i to each node, in any unit; the load scales it."""
    if not isinstance(file, str) or not file.strip():
        raise InputError(f"{file!r} is not a file name", key="pattern_options.file", allowed="a string in quotes")
    try:
        return MatrixPattern(read_matrix(context.folder / file, context.npus))
    except InputError as error:
        raise error.named_by("pattern_options.file") from None
