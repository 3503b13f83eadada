"""One run of a case, or of traffic given as JSON, with a line of JSON on stdout. benchmarks.measure starts it."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from benchmarks.cases import CASES
from benchmarks.measure import EVERY
from benchmarks.traffic import Open, simulate
from pyxsim.peak_memory import peak_mb

if __name__ == "__main__":
    word, *more = sys.argv[1:]
    run = simulate(Open(**json.loads(word))) if word.startswith("{") else CASES[word].run(skip=EVERY not in more)
    print(json.dumps({**asdict(run), "peak_rss_mb": peak_mb()}))
