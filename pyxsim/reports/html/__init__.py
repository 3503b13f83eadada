"""One page in HTML of results: everything is inside of it, so it opens on any machine, without a network.

`parts.py` says what a page consists of; `files.py` reads what is to be shown; `result.py` makes the chapter of a
result, of the sections that the other modules make; `render.py` makes the page.
"""

from __future__ import annotations

from pyxsim.reports.html.page_files import chapters, of_results
from pyxsim.reports.html.render import check_page, save

__all__ = ["chapters", "check_page", "of_results", "save"]
