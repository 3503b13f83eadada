"""Reports of results: text on the terminal and in notebooks, plots, HTML pages, timelines.

Importing this package registers the views of results: `result.plot` and the notebook display.
"""

from __future__ import annotations

from pyxsim.reports.plots.backend_ratios import ratios
from pyxsim.reports.plots.figure import Plots
from pyxsim.reports.plots.load_latency import load_latency
from pyxsim.reports.plots.sweep_lines import number_over
from pyxsim.reports.text.comparison_tables import json_file, markdown_file
from pyxsim.reports.text.summary import html
from pyxsim.results import comparison_file
from pyxsim.results.comparison import Comparison
from pyxsim.results.curve import Curve
from pyxsim.results.result import Result
from pyxsim.results.sweep import Sweep

Result.views["plot"] = Plots
Result.views["html"] = html
Comparison.views["plot"] = ratios
Curve.views["plot"] = load_latency
Sweep.views["plot"] = number_over
comparison_file.KINDS.update({".json": json_file, ".md": markdown_file})
