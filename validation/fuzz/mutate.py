"""Mutators of bytes, of text, and of trees such as those of TOML and JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

INTEGERS = (
    *(0, 1, -1, 2, 3, 5, 7, 8, 16, 63, 64, 100, 255, 256, 1000, 65535, 65536, 10**6, 10**9),
    *(2**31 - 1, 2**31, -(2**31), 2**32, 2**40, 2**53, 2**62, 2**63 - 1, 2**63, -(2**63), 2**64, 10**30, -(10**30)),
)
NUMBERS = (
    "1e-999999999",
    "1e999999999",
    "1e308",
    "-1e400",
    "1e-60",
    "0.1",
    "1.5",
    "nan",
    "inf",
    "-0",
    "1/3",
    "9" * 500,
)
QUANTITIES = (
    *("0 B", "1 B", "4 KiB", "1 MiB", "3 GB", "1 PB", "4611686018427387904 B", "1e60 GB", "-1 B", "0.5 B", "1 bit"),
    *("0 ns", "1 cycle", "1099511627776 cycles", "1 fs", "1e-60 s", "1e9 s", "250 ns", "1/7 us", "3 ms"),
    *("1 B/s", "1e-60 GB/s", "450 GB/s", "4611686018427387904 B/s", "1 Gb/s", "1 GHz", "1e15 Hz", "1 Hz", "1 FLOP/s"),
)
TEXTS = (
    *("", " ", "\0", "a\0b", "\ud800", "x\udc80y", "\u202e", "\U0001f600", "\n", "a\nb", "\x1b[31m", "%s%n%d"),
    *("..", "/", "/dev/zero", "/dev/stdin", "/dev/null", "../../etc/passwd", "/proc/self/mem", "-", "--", "*", "**"),
    *("evil.py", "./evil.py:run", "evil.py:run", "evil.et", "x" * 300, "x" * 70000, "'" * 9, '"', "{", "[" * 3000),
    *("<script>alert(1)</script>", "=cmd()", "@SUM(A1)", "a,b;c", "1,2,3", "0-7", "7-0", "0-999999999", "1:0", "::"),
    *("(", "(((", "lambda:", "__import__('os')", "1+", "a[", "true", "null", "None"),
)


@lru_cache(maxsize=1)
def words() -> tuple[str, ...]:
    """Return the words of the settings: keys and names, from the page that lists them."""
    text = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    return tuple(sorted(set(re.findall(r"`([A-Za-z][\w.:-]{1,30})`", text))))


def scalar(rng: Random, value: object = None) -> Any:
    """Draw a value: a hostile or plausible one, mostly of another kind than `value`."""
    draws: tuple[Callable[[], Any], ...] = (
        lambda: rng.choice(INTEGERS),
        lambda: rng.choice(NUMBERS),
        lambda: rng.choice(QUANTITIES),
        lambda: rng.choice(TEXTS),
        lambda: rng.choice(words()),
        lambda: rng.choice((True, False, 0.5, -1.5, 1e300, [], {}, [[]], [0], {"a": 1}, float("nan"), float("inf"))),
        lambda: value * 1000003 if type(value) is int else value,
        lambda: value + rng.randint(-3, 3) if type(value) is int else value,
        lambda: text(rng, value) if isinstance(value, str) else value,
    )
    return rng.choice(draws)()


def _paths(tree: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(tree, dict):
        pairs: Sequence[tuple[Any, Any]] = list(tree.items())
    elif isinstance(tree, list):
        pairs = list(enumerate(tree[:50]))
    else:
        return [at]
    return [*([at] if at else []), *(path for key, each in pairs for path in _paths(each, (*at, key)))]


def tree(rng: Random, root: Any) -> Any:
    """Change one place of nested dicts and lists; the input is not copied."""
    paths = _paths(root)
    if not paths or not isinstance(root, dict | list):
        return scalar(rng, root)
    path = rng.choice(paths)
    if not path:
        return scalar(rng)
    place = root
    for key in path[:-1]:
        place = place[key]
    key, value = path[-1], place[path[-1]]
    kind = rng.randrange(10)
    if kind <= 4:
        place[key] = scalar(rng, value)
    elif kind == 5:
        del place[key]
    elif kind == 6:
        # A list of equal lists grows by what is put into one of them, and a file of 80 MB takes long to write.
        short = isinstance(value, int | float) or (isinstance(value, str) and len(value) < 100)
        most = 3000 if short else 30
        place[key] = rng.choice((lambda: [value], lambda: {"a": value}, lambda: [value] * rng.choice((2, 9, most))))()
    elif kind == 7:
        count = rng.choice((2, 17, 5000))
        place[key] = rng.choice((list(range(count)), [scalar(rng, value) for _ in range(min(count, 20))]))
    elif kind == 8 and isinstance(place, dict):
        place[rng.choice(words()).rpartition(".")[2]] = scalar(rng, value)
    else:
        deep: Any = value
        for _ in range(rng.choice((3, 60, 2000))):
            deep = [deep]
        place[key] = deep
    return root


def tokens(rng: Random, source: str) -> str:
    """Replace a number, a word or a text in quotes."""
    found = list(re.finditer(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|[A-Za-z_][\w-]*|\"[^\"\n]*\"", source))
    if not found:
        return source + str(scalar(rng))
    match = rng.choice(found)
    other = rng.choice((scalar(rng), scalar(rng), rng.choice(found)[0]))
    shown = other if isinstance(other, str) else json.dumps(other)
    return source[: match.start()] + shown + source[match.end() :]


def text(rng: Random, source: str) -> str:
    """Change a text: tokens, lines, characters."""
    kind = rng.randrange(8)
    if kind <= 3:
        return tokens(rng, source)
    lines = source.splitlines(keepends=True) or [""]
    at = rng.randrange(len(lines))
    if kind == 4:
        del lines[at]
    elif kind == 5:
        lines.insert(at, rng.choice(lines) * rng.choice((1, 1, 3, 200)))
    elif kind == 6:
        other = rng.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    else:
        at = rng.randrange(len(source) + 1)
        return source[:at] + str(rng.choice((*TEXTS, *NUMBERS))) + source[at + rng.randrange(3) :]
    return "".join(lines)


def data(rng: Random, source: bytes) -> bytes:
    """Change bytes: flip, cut, insert, repeat, overwrite."""
    out = bytearray(source)
    for _ in range(rng.choice((1, 1, 2, 5, 30))):
        at = rng.randrange(len(out) + 1)
        size = rng.choice((1, 2, 4, 8, 100))
        kind = rng.randrange(6)
        if kind == 0 and at < len(out):
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            out[at : at + size] = rng.randbytes(size)
        elif kind == 2:
            out[at:at] = rng.choice((b"\0" * size, b"\xff" * size, rng.randbytes(size), b"\xed\xa0\x80"))
        elif kind == 3:
            del out[at : at + size]
        elif kind == 4:
            out[at:at] = out[at : at + size] * rng.choice((1, 2, 50))
        else:
            number = rng.choice(INTEGERS) & (2**64 - 1)
            raw = number.to_bytes(8, "little")[: rng.choice((1, 2, 4, 8))]
            out[at : at + len(raw)] = raw
    if rng.random() < 0.15:
        del out[rng.randrange(len(out) + 1) :]
    return bytes(out)


def repeated(rng: Random, mutator: Callable[[Random, Any], Any], value: Any) -> Any:
    """Apply a mutator one to four times."""
    for _ in range(rng.choice((1, 1, 1, 2, 2, 4))):
        value = mutator(rng, value)
    return value


def written(value: str) -> bytes:
    """Encode a text; lone surrogates become bytes that are not UTF-8."""
    return value.encode("utf-8", "surrogatepass")
