"""The entry of the command `pyxsim`."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence

# Objects that are made before the collector of garbage looks at them. A command makes few circles of objects that it
# then forgets; to look for some at every 700, as Python has it, is a tenth of the time that a start takes.
_UNSEEN = 50_000


def main(words: Sequence[str] | None = None) -> int:
    """Run a command line (`sys.argv` by default) and return its exit code.

    Nothing heavy is imported outside the `try`: Ctrl-C may arrive while Python still imports.
    """
    if words is None:  # the process is for this command alone
        gc.set_threshold(_UNSEEN, *gc.get_threshold()[1:])
    # A stream that the shell has closed is None, and `print` would then write people's text to stdout.
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    try:
        from pyxsim.cli.commands import command_line

        code = command_line(words)
        sys.stdout.flush()
        return code
    except SystemExit:
        raise
    except BaseException as error:
        from pyxsim.cli.exit_codes import tell

        return tell(error)


def astra() -> int:
    """`pyxsim astra`, as a command of one word."""
    return main(["astra", *sys.argv[1:]])
