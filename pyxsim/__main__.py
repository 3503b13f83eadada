"""`python -m pyxsim` is the command `pyxsim`."""

from __future__ import annotations

import sys

from pyxsim.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
