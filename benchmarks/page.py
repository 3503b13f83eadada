"""docs/performance.md: prose by hand, and between marks the tables of the last measurement."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.cases import CASES
from benchmarks.curves import CURVES
from benchmarks.measure import skipped
from benchmarks.recorded import RECORDED
from pyxsim.errors import InputError
from pyxsim.reports.text.facts import percent, rounded

MARK = "<!-- measured: {} -->\n"
YARDSTICK = re.compile(r"(?<=yardstick of the tables: )[\d.]+")
MARKED = re.compile(r"<!-- measured: (\w+) -->\n.*?<!-- end -->", re.DOTALL)

Told = dict[str, Any]


def write(page: Path, told: Told) -> None:
    """Update the tables that a session has measured. Raises InputError for a page without marks."""
    try:
        text = page.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=str(page), key="--write") from error
    page.write_text(render(text, told, str(page)), encoding="utf-8")


def render(text: str, told: Told, file: str = "") -> str:
    """The page with the tables of a session between its marks."""
    tables = {name: list(make(told)) for name, make in TABLES.items() if told.get(name)}
    missing = sorted(tables.keys() - set(MARKED.findall(text)))
    if missing:
        raise InputError(f"no place for {', '.join(missing)}", file=file, allowed=f"{MARK.format('cases').strip()} ..")

    def replaced(match: re.Match[str]) -> str:
        name = match[1]
        if name not in tables:
            return match[0]
        return "".join([MARK.format(name), *(f"{line}\n" for line in tables[name]), "<!-- end -->"])

    text = MARKED.sub(replaced, text)
    yardstick = told.get("yardstick") if "cases" in tables else None
    return text if yardstick is None else YARDSTICK.sub(f"{yardstick['mb_per_s']['median']:.0f}", text)


def _where(told: Told) -> str:
    """Return the machine, without its name, and the version."""
    machine = told["machine"].rpartition(" (")[0]
    what = f"Python {told['python']}, {told['build']} build, `{told['commit']}`"
    yardstick = told.get("yardstick")
    rate = f"; yardstick {yardstick['mb_per_s']['median']:.1f} MB/s" if yardstick else ""
    return f"Measured {told['date'][:10]} on {machine}, {what}{rate}."


def _cases(told: Told) -> Iterator[str]:
    yield from (_where(told), "")
    paired = any("against" in row for row in told["cases"])
    extra = " against before |" if paired else ""
    yield f"| case | work | CPU s: median (least to most) | with set-up | per CPU second | peak MB |{extra}"
    yield "|---|---|---|---|---|---|" + "---|" * paired
    for row in told["cases"]:
        case, seconds = CASES[row["name"]], row["cpu_s"]
        work = row[case.key]
        times = f"{seconds['median']:.3f} ({seconds['min']:.3f} to {seconds['max']:.3f})"
        what = f"{rounded(work, '')} {case.unit.rpartition(' ')[2]}"
        if skipped(row):
            what += f", {percent(skipped(row))} of the cycles skipped"
        rate, whole = rounded(work / seconds["median"], ""), f"{row['whole_cpu_s']['median']:.2f}"
        ratio = f" {row['against']['median']:.2f} |" if "against" in row else " |" * paired
        yield f"| `{row['name']}` | {what} | {times} | {whole} | {rate} | {row['peak_rss_mb']:.0f} |{ratio}"
        for other in RECORDED:
            if other.case == row["name"]:
                least, most = other.scaled(work)
                peak = "" if other.peak_mb is None else f"{other.peak_mb:.0f}"
                rate = rounded(work / most, "")
                yield f"| *{other.what}, recorded* | | {_range(least, most)} | | {rate} | {peak} |" + " |" * paired


def _range(least: float, most: float) -> str:
    return f"{least:.1f}" if least == most else f"{least:.1f} to {most:.1f}"


def _peers(told: Told) -> Iterator[str]:
    yield from (_where(told), "")
    yield "| simulator | packets | mean latency, cycles | CPU s: median (least to most) | CPU time over ours |"
    yield "|---|---|---|---|---|"
    for row in told["peers"]:
        if "install" in row:
            yield f"| {row['name']} | not installed | | | |"
            continue
        seconds = row["cpu_s"]
        times = f"{seconds['median']:.3f} ({seconds['min']:.3f} to {seconds['max']:.3f})"
        cells = (f"{row['name']} {row['version']}", f"{row['packets']:,}", f"{row['latency']:.1f}", times)
        yield f"| {' | '.join(cells)} | {row['ratio']:.1f} |"


def _curves(told: Told) -> Iterator[str]:
    yield _where(told)
    for name, points in told["curves"].items():
        yield from ("", *_transposed(CURVES[name].label, points))


def _transposed(label: str, points: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Return a table with one column per point."""
    rows: tuple[tuple[str, Callable[[dict[str, Any]], str]], ...] = (
        (label, lambda point: f"{point['x']:g}"),
        ("CPU ns per visit", lambda point: f"{point['ns_per_visit']['median']:.0f}"),
        ("mean latency, cycles", lambda point: f"{point['packet_latency']:.0f}"),
        ("network, MB", lambda point: f"{point['network_mb']:.1f}"),
    )
    for number, (head, cell) in enumerate(rows):
        yield f"| {head} | {' | '.join(cell(point) for point in points)} |"
        if number == 0:
            yield "|---" * (len(points) + 1) + "|"


TABLES: dict[str, Callable[[Told], Iterator[str]]] = {"cases": _cases, "peers": _peers, "curves": _curves}
