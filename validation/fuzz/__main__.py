"""`python -m validation.fuzz`: run cases, print the faults; exit code 1 if there are any."""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ["PYXSIM_TRACEBACK"] = "1"

from validation.fuzz import sandbox, seeds
from validation.fuzz.findings import findings


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m validation.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000, metavar="N")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="number of the first case")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--jobs", type=int, default=min(4, len(os.sched_getaffinity(0))), metavar="N")
    parser.add_argument("--only", default="", metavar="WORD", help="only recipes whose name contains this word")
    parser.add_argument(
        "--keep", metavar="DIR", help="write the files and the command of each fault into a folder here"
    )
    parser.add_argument("--show", action="store_true", help="print the output of each case")
    parser.add_argument("--list", action="store_true", help="print the damaged inputs and their commands, and end")
    given = parser.parse_args()
    began = time.monotonic()
    sandbox.import_everything()
    with tempfile.TemporaryDirectory(prefix="pyxsim-fuzz-seeds-") as name:
        folder = Path(name)
        every = seeds.recipes(folder)
        if given.list:
            for recipe in every:
                print(f"{recipe.name}: {', '.join(recipe.targets) or 'the words of the command'}")
                print(*(f"    {command}" for command in dict.fromkeys(recipe.commands)), sep="\n")
            return 0
        unknown = [word for recipe in every for word in recipe.targets if word not in recipe.files]
        assert not unknown, unknown
        numbers = range(given.first, given.first + given.cases)
        chosen = [n for n in numbers if given.only in seeds.recipe_of(n, given.seed, folder)[1].name]

        def draw(number: int) -> seeds.Case:
            return seeds.draw(number, given.seed, folder)

        faults = 0
        old = [] if given.only or given.first else list(findings(folder))
        for index, outcome in sandbox.run_cases(range(len(old)), old.__getitem__, given.jobs):
            if outcome.fault or outcome.code not in old[index].codes:
                faults += 1
                print(
                    f"{old[index].name}: {outcome.fault or outcome.code}: {sandbox.fault_line(outcome.text)}",
                    flush=True,
                )
        codes: Counter[int] = Counter()
        most_mb = most_s = 0.0
        for number, outcome in sandbox.run_cases(chosen, draw, given.jobs):
            codes[outcome.code] += 1
            most_mb, most_s = max(most_mb, outcome.rss_mb), max(most_s, outcome.cpu_s)
            if outcome.fault or given.show:
                faults += bool(outcome.fault)
                case = draw(number)
                command = " ".join(case.argv)[:150]
                print(f"{number}: {outcome.fault or outcome.code}: {case.name}: pyxsim {command!r}", flush=True)
                print(
                    f"    {outcome.cpu_s:.1f} s, {outcome.rss_mb:.0f} MB, {sandbox.fault_line(outcome.text)}",
                    flush=True,
                )
                if given.keep:
                    _keep(Path(given.keep) / str(number), case, outcome.text)
    cpu = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    exits = ", ".join(f"{count} with exit code {code}" for code, count in sorted(codes.items()))
    print(f"{sum(codes.values())} cases: {exits}; {faults} faults")
    print(
        f"at most {most_s:.1f} CPU s and {most_mb:.0f} MB; {cpu / 60:.1f} CPU min in {time.monotonic() - began:.0f} s"
    )
    return int(faults > 0)


def _keep(folder: Path, case: seeds.Case, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in case.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    (folder / "command.txt").write_text(
        "pyxsim " + " ".join(case.argv) + "\n\n" + text, encoding="utf-8", errors="replace"
    )


if __name__ == "__main__":
    sys.exit(main())
