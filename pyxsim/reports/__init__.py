"""Results for people: the summary on the terminal, tables in notebooks, plots.

Importing it teaches every Result to show itself: `result.plot`, and its face in notebooks.
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
