"""The entry of the command `pyxsim`."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
from collections.abc import Sequence

_INTERRUPTED = 130  # exit code
# Allocations between two runs of the garbage collector. A command makes few reference cycles; Python's default of
# 700 costs a tenth of the start-up time.
_UNSEEN = 50_000


def main(words: Sequence[str] | None = None) -> int:
    """Run a command line (`sys.argv` by default) and return its exit code.

    Nothing heavy is imported outside the `try`: Ctrl-C may arrive while Python still imports.
    """
    if words is None:  # the process runs this command only
        gc.set_threshold(_UNSEEN, *gc.get_threshold()[1:])
    # A stream that the shell has closed is None, and `print` would write messages to stdout.
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    try:
        from pyxsim.errors import PyxsimError

        PyxsimError.in_command = True
        from pyxsim.cli.commands import app
        from pyxsim.cli.usage import command_line

        code = command_line(app, words)
        sys.stdout.flush()
        return code
    except SystemExit:
        raise
    except BaseException as error:
        try:
            from pyxsim.cli.exit_codes import tell, unwrapped

            return tell(unwrapped(error))
        except KeyboardInterrupt:  # another signal, while the first one is reported
            return _INTERRUPTED
    finally:
        if words is None:
            _end_quietly()
        elif "pyxsim.errors" in sys.modules:
            sys.modules["pyxsim.errors"].PyxsimError.in_command = False


def _end_quietly() -> None:
    """Ignore further signals: the command has ended, and a KeyboardInterrupt would replace its exit code.

    One that arrived while a dataclass was made has left the `exec` of a text; `python -m` would then end by SIGINT,
    unless another `exec` of a text ends well.
    """
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        with contextlib.suppress(AttributeError):  # Windows has no SIGHUP
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    exec("")
