"""`make coverage`: combine what its runs have measured, print the coverage of each room, write the pages."""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

from coverage import Coverage


def main(config: str, data: str, html: str) -> None:
    coverage = Coverage(data_file=f"{data}/combined", config_file=config)
    coverage.combine([str(path) for path in Path(data).iterdir()], keep=True)
    coverage.save()
    rooms: dict[str, dict[str, list[int]]] = defaultdict(lambda: {"py": [0, 0], "pyx": [0, 0]})
    for name in coverage.get_data().measured_files():
        path = Path(name).resolve().relative_to(Path.cwd().resolve())
        language = path.suffix.removeprefix(".")
        if path.parts[0] != "pyxsim" or language not in ("py", "pyx"):
            continue
        _, lines, _, missing, _ = coverage.analysis2(name)
        for room in (path.parts[1] if len(path.parts) > 2 else "pyxsim", "all"):
            counts = rooms[room][language]
            counts[0] += len(lines)
            counts[1] += len(lines) - len(missing)
    print(f"{'room':<14}{'Python lines':>14}{'reached':>9}{'Cython lines':>14}{'reached':>9}")
    for room in (*sorted(rooms.keys() - {"all"}), "all"):
        columns = "".join(_columns(*rooms[room][language]) for language in ("py", "pyx"))
        print(f"{room:<14}{columns}".rstrip())
    coverage.html_report(directory=html)


def _columns(lines: int, reached: int) -> str:
    return f"{lines:>14,}{reached / lines:>9.1%}" if lines else " " * 23


if __name__ == "__main__":
    main(*sys.argv[1:])
