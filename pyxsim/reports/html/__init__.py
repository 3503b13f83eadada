"""HTML pages of results, curves, comparisons and sweeps; each page is one file that works offline.

`elements` defines what a page consists of and registers panels; `page_files` reads the files of a page; the chapter
modules make a chapter per kind of file; `panels/` holds the panels of a result; `render` writes the page.
"""

from __future__ import annotations

from pyxsim.reports.html.elements import Detail, Panel, html_panel
from pyxsim.reports.html.page_files import chapters, of_results
from pyxsim.reports.html.plotly_style import figure
from pyxsim.reports.html.render import check_page, save

__all__ = ["Detail", "Panel", "chapters", "check_page", "figure", "html_panel", "of_results", "save"]
