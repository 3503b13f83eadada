"""The script `pyxsim-astra`: `pyxsim astra` in one word, which can stand for the name of ASTRA-sim's binary."""

from __future__ import annotations

import sys

from pyxsim.cli.app import main as pyxsim


def main() -> int:
    """Run `pyxsim astra` with the words of the command line and return its exit code."""
    return pyxsim(["astra", *sys.argv[1:]])
