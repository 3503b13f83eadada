"""Keep episodes across runs, in the cache on disk (pyxsim/cache.py; docs/folding.md).

A file holds the states and episodes of engines with one description, as arrays of numbers:

    magic, digest   "pyxsim episodes 1\\n"; SHA-256 of what follows, compressed
    arrays          an uncompressed .npz of `ARRAYS`, without pickles

The state of an engine is not stored: an engine is brought into a state by simulating the episodes that lead to it. What
a file says of a state is compared whole: the description of the engine, and the deciding state at the beginning and at
the end of each episode. A file that is damaged, too large, or of another version of the engine is ignored, and replaced
after the run.
"""

from __future__ import annotations

import hashlib
import io
import zlib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyxsim import cache as files
from pyxsim import core
from pyxsim.arrays import IntArray
from pyxsim.core.engine import Engine
from pyxsim.network.packet import episode_book, episodes
from pyxsim.network.packet.episode_book import AT, COLUMNS, Cause, Episode, EpisodeBook, RestState, Totals

KIND = "episodes"
MAGIC = b"pyxsim episodes 1\n"
DIGEST = hashlib.sha256().digest_size
MOST_BYTES = 1 << 29  # of all files together
MOST_FILE_BYTES = 1 << 26  # of one, uncompressed
MOST_KEPT = 4096  # episodes in a file


class Shelf(NamedTuple):
    """The arrays of a file; texts and lists of several states or episodes are joined, with their ends.

    Attributes
    ----------
    description
        uint8: of the engines.
    deciding, deciding_end
        uint8; int64[states]: of each state; the first one is that of a new engine.
    settles, origin
        int64[states] each: cycles until idle, and the number of an episode that ends in the state; -1 for none.
    begin, gap, end
        int64[episodes] each: numbers of states, and the gap.
    rows, rows_end
        int64[messages, columns]; int64[episodes].
    arrivals, arrivals_end
        int64[arrivals, 2]; int64[episodes].
    counted, peaks
        int64[episodes, counts]; int32[episodes, VCs].
    """

    description: NDArray[np.uint8]
    deciding: NDArray[np.uint8]
    deciding_end: IntArray
    settles: IntArray
    origin: IntArray
    begin: IntArray
    gap: IntArray
    end: IntArray
    rows: IntArray
    rows_end: IntArray
    arrivals: IntArray
    arrivals_end: IntArray
    counted: IntArray
    peaks: NDArray[np.int32]


BYTES, INTS = ("description", "deciding"), ("peaks",)
WIDTH = {"rows": COLUMNS, "arrivals": 2}


def recall_episodes(book: EpisodeBook, engine: Engine) -> None:
    """Add what earlier runs have kept to a book; `engine`: a new one of its description."""
    found = _read(book.description)
    deciding = engine.deciding_state()
    if found is None or deciding is None:
        return
    counts = Totals.of(engine)
    if (found.counted.shape[1], found.peaks.shape[1]) != (len(counts.counts), len(engine.buffer_max())):
        return
    texts = [part.tobytes() for part in _parts(found.deciding, found.deciding_end)]
    if texts[0] == deciding and len(set(texts)) == len(texts):
        book.add(*_unpacked(found, texts, counts.names))


def remember_episodes(book: EpisodeBook) -> None:
    """Keep the episodes of a book after a run.

    What other processes have kept meanwhile stays, unless they write in the same moment: their additions are then
    simulated again by a later run.
    """
    name = _name(book.description)
    if name is None or not book.new:
        return
    recall_episodes(book, book.engine_in(book.first))
    shelf = _packed(book)
    if shelf is not None:
        files.remember_bytes(KIND, name, _written(shelf))
        files.trim(KIND, MOST_BYTES)


# -- the file --


def _name(description: bytes) -> str | None:
    """The name of the file of a description; None if the version of the engine is unknown."""
    try:
        return hashlib.sha256(_version() + description).hexdigest()
    except OSError:
        return None


@cache
def _version() -> bytes:
    """A digest of the engine and of the code that defines episodes."""
    folder = Path(core.__file__).parent
    engine = [file for file in sorted(folder.rglob("*")) if file.suffix in (".so", ".pyd", ".py")]
    digest = hashlib.sha256(MAGIC)
    for file in (*engine, Path(episode_book.__file__), Path(episodes.__file__)):
        digest.update(file.read_bytes())
    return digest.digest()


def _written(shelf: Shelf) -> bytes:
    target = io.BytesIO()
    np.savez(target, **shelf._asdict())
    body = zlib.compress(target.getvalue(), 1)
    return MAGIC + hashlib.sha256(body).digest() + body


def _read(description: bytes) -> Shelf | None:
    """The arrays of the file of a description; None if there is none, or it is damaged."""
    name = _name(description)
    data = None if name is None else files.recall_bytes(KIND, name)
    if data is None or not data.startswith(MAGIC):
        return None
    body = data[len(MAGIC) + DIGEST :]
    if hashlib.sha256(body).digest() != data[len(MAGIC) : len(MAGIC) + DIGEST]:
        return None
    unpacker = zlib.decompressobj()
    try:
        text = unpacker.decompress(body, MOST_FILE_BYTES)
        if not unpacker.eof:
            return None
        with np.load(io.BytesIO(text), allow_pickle=False) as loaded:
            found = Shelf(*(loaded[name] for name in Shelf._fields))
    except (zlib.error, OSError, ValueError, KeyError, EOFError):
        return None
    return found if _is_sound(found) and found.description.tobytes() == description else None


def _is_sound(found: Shelf) -> bool:
    """Whether all arrays have the types and lengths of `Shelf`, and all numbers are of something that is there."""
    for name, values in found._asdict().items():
        type_ = np.uint8 if name in BYTES else np.int32 if name in INTS else np.int64
        if values.dtype != type_ or values.ndim != (2 if name in (*WIDTH, "counted", "peaks") else 1):
            return False
        if name in WIDTH and values.shape[1] != WIDTH[name]:
            return False
    states, count = len(found.deciding_end), len(found.begin)
    columns: list[NDArray[Any]] = [found.gap, found.end, found.rows_end, found.arrivals_end, found.counted, found.peaks]
    if not states or any(len(column) != count for column in columns):
        return False
    if not len(found.settles) == len(found.origin) == states:
        return False
    joined: list[tuple[IntArray, NDArray[Any]]]
    joined = [(found.deciding_end, found.deciding), (found.rows_end, found.rows), (found.arrivals_end, found.arrivals)]
    if any(not _are_ends(ends, len(values)) for ends, values in joined):
        return False
    sent = np.diff(found.rows_end, prepend=0)
    if (sent != np.diff(found.arrivals_end, prepend=0)).any() or (found.arrivals[:, 1] >= np.repeat(sent, sent)).any():
        return False  # each message arrives
    numbers = [(found.begin, 0, states), (found.end, 0, states), (found.origin[1:], 0, count), (found.gap, 0, FAR)]
    numbers += [(found.settles, -1, FAR), (found.rows[:, 1 + AT], 0, FAR), (found.arrivals, 0, FAR)]
    if any(((values < low) | (values >= high)).any() for values, low, high in numbers):
        return False
    # Each state follows from an earlier one, so that all can be reached.
    made = np.arange(1, states)
    return bool((found.begin[found.origin[1:]] < made).all() and (found.end[found.origin[1:]] == made).all())


FAR = 1 << 60  # cycles


def _are_ends(ends: IntArray, length: int) -> bool:
    """Whether these are the ends of parts that are not empty, and the last one is the end of all."""
    return bool((np.diff(ends, prepend=0) > 0).all()) and (int(ends[-1]) if len(ends) else 0) == length


# -- books and arrays --


def _parts(joined: NDArray[Any], ends: IntArray) -> list[NDArray[Any]]:
    return np.split(joined, ends[:-1]) if len(ends) else []


def _unpacked(
    found: Shelf, texts: Sequence[bytes], names: tuple[str, ...]
) -> tuple[list[RestState], dict[Cause, Episode], dict[RestState, Cause]]:
    """The states, episodes and origins of a file, from the deciding states."""
    settles = [None if cycles < 0 else cycles for cycles in found.settles.tolist()]
    states = [RestState(text, settles=cycles) for text, cycles in zip(texts, settles, strict=True)]
    columns = found.begin.tolist(), found.gap.tolist(), _parts(found.rows, found.rows_end)
    causes = [Cause(states[begin], gap, rows.tobytes()) for begin, gap, rows in zip(*columns, strict=True)]
    origins = {state: causes[origin] for state, origin in zip(states[1:], found.origin[1:].tolist(), strict=True)}
    arrivals = [
        [(cycle, message) for cycle, message in each.tolist()] for each in _parts(found.arrivals, found.arrivals_end)
    ]
    known = {}
    for number, cause in enumerate(causes):
        counted = Totals(found.counted[number], names)
        end = states[int(found.end[number])]
        known[cause] = Episode(arrivals[number], counted, found.peaks[number], end, recalled=True)
    return states, known, origins


def _packed(book: EpisodeBook) -> Shelf | None:
    """The last used episodes of a book, with the states that they need; None without any."""
    origin = _origins(book)
    chosen = _chosen(book, origin)
    if not chosen:
        return None
    ends = {book.episodes[cause].state for cause in chosen}
    states = [state for state in origin if state is book.first or state in ends]
    number = {state: place for place, state in enumerate(states)}
    place = {cause: at for at, cause in enumerate(chosen)}
    known = [book.episodes[cause] for cause in chosen]
    rows = [cause.table for cause in chosen]
    arrivals = [np.array(episode.arrivals, np.int64) for episode in known]
    deciding = [np.frombuffer(state.deciding, np.uint8) for state in states]
    return Shelf(
        description=np.frombuffer(book.description, np.uint8),
        deciding=np.concatenate(deciding),
        deciding_end=_ends(deciding),
        settles=np.array([-1 if state.settles is None else state.settles for state in states], np.int64),
        origin=np.array([-1 if (cause := origin[state]) is None else place[cause] for state in states], np.int64),
        begin=np.array([number[cause.state] for cause in chosen], np.int64),
        gap=np.array([cause.gap for cause in chosen], np.int64),
        end=np.array([number[episode.state] for episode in known], np.int64),
        rows=np.concatenate(rows),
        rows_end=_ends(rows),
        arrivals=np.concatenate(arrivals),
        arrivals_end=_ends(arrivals),
        counted=np.stack([episode.counted.counts for episode in known]),
        peaks=np.stack([episode.peaks for episode in known]),
    )


def _ends(parts: Sequence[NDArray[Any]]) -> IntArray:
    return np.cumsum([len(part) for part in parts], dtype=np.int64)


def _origins(book: EpisodeBook) -> dict[RestState, Cause | None]:
    """The states that can be reached from the first one, with the last episode of a shortest way; nearest first.

    Of several ways, the last used one counts.
    """
    leaving: dict[RestState, list[Cause]] = {}
    for cause in reversed(book.episodes):
        leaving.setdefault(cause.state, []).append(cause)
    origin: dict[RestState, Cause | None] = {book.first: None}
    reached = [book.first]
    for state in reached:
        for cause in leaving.get(state, ()):
            end = book.episodes[cause].state
            if end not in origin:
                origin[end] = cause
                reached.append(end)
    return origin


def _chosen(book: EpisodeBook, origin: Mapping[RestState, Cause | None]) -> list[Cause]:
    """The last used episodes that fit into a file, with those that lead to their states."""
    chosen: dict[Cause, None] = {}
    room = MOST_FILE_BYTES // 2
    for cause in reversed(book.episodes):
        if cause.state not in origin:
            continue
        needed = [cause]
        for state in (cause.state, book.episodes[cause].state):
            while (before := origin[state]) is not None and before not in chosen:
                needed.append(before)
                state = before.state
        new = [each for each in dict.fromkeys(needed) if each not in chosen]
        room -= sum(_bytes(each, book.episodes[each]) for each in new)
        if room < 0 or len(chosen) + len(new) > MOST_KEPT:
            break
        chosen.update(dict.fromkeys(new))
    return list(chosen)


def _bytes(cause: Cause, episode: Episode) -> int:
    """The memory of an episode in a file, about, with its state."""
    state = len(episode.state.deciding)
    return state + len(cause.rows) + 16 * len(episode.arrivals) + episode.counted.counts.nbytes + episode.peaks.nbytes
