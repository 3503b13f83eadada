"""What kind of file is to be shown, and the chapters that it makes."""

from __future__ import annotations

import os
from collections.abc import Sequence

from pyxsim.errors import InputError, InputErrors, raise_all
from pyxsim.output.result import Result
from pyxsim.report.page import result
from pyxsim.report.page.parts import Chapter


def chapters(paths: Sequence[str]) -> list[Chapter]:
    """The chapters of a page of these files. Raises InputError with a line for each that cannot be read."""
    faults: list[InputError] = []
    results: list[tuple[str, Result]] = []
    for path in paths:
        try:
            results.append((path, Result.load(path)))
        except InputError as error:
            faults += error.faults if isinstance(error, InputErrors) else [error]
    raise_all(faults)
    return [result.chapter(each, os.path.basename(path)) for path, each in results]
