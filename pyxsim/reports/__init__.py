"""Reports of results: text on the terminal and in notebooks, plots, HTML pages, timelines.

Importing this package registers the views of results, such as `result.plot` and the notebook display; each is imported
when it is first used.
"""

from __future__ import annotations

from pyxsim.plugins import imported
from pyxsim.results import comparison_file
from pyxsim.results.comparison import Comparison
from pyxsim.results.curve import Curve
from pyxsim.results.result import Result
from pyxsim.results.sweep import Sweep

Result.views["plot"] = imported("pyxsim.reports.plots.figure:Plots")
Result.views["html"] = imported("pyxsim.reports.text.summary:html")
Comparison.views["plot"] = imported("pyxsim.reports.plots.backend_ratios:ratios")
Curve.views["plot"] = imported("pyxsim.reports.plots.load_latency:load_latency")
Sweep.views["plot"] = imported("pyxsim.reports.plots.sweep_lines:number_over")
comparison_file.KINDS[".json"] = imported("pyxsim.reports.text.comparison_tables:json_file")
comparison_file.KINDS[".md"] = imported("pyxsim.reports.text.comparison_tables:markdown_file")
