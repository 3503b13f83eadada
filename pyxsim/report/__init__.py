"""Results for people: the summary on the terminal, tables in notebooks, plots.

Importing it teaches every Result to show itself: `result.plot`, and its face in notebooks.
"""

from __future__ import annotations

from pyxsim.output.comparison import Comparison
from pyxsim.output.curve import Curve
from pyxsim.output.result import Result
from pyxsim.output.sweep import Sweep
from pyxsim.report.compare import ratios
from pyxsim.report.curve import load_latency
from pyxsim.report.plots import Plots
from pyxsim.report.summary import html
from pyxsim.report.sweep import number_over

Result.views["plot"] = Plots
Result.views["html"] = html
Comparison.views["plot"] = ratios
Curve.views["plot"] = load_latency
Sweep.views["plot"] = number_over
