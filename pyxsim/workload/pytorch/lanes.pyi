"""Threads and streams of a trace: what becomes of nested events, and what follows what."""

from typing import Any

from numpy.typing import NDArray

from pyxsim.arrays import Int32Array, IntArray

HOST: int
DEVICE: int
GLOO: int
NOTHING: int

NO_TIME: int
"""Of an event that starts nothing, when that began."""

def pieces(
    thread: Int32Array,
    start: IntArray,
    end: IntArray,
    waits: NDArray[Any],
    calls: NDArray[Any],
    began: IntArray,
    ends: IntArray,
) -> tuple[IntArray, IntArray, IntArray, NDArray[Any], IntArray]:
    """Return the pieces of threads: start, end, row of the outermost event, what it waits for, row of its cause.

    Outermost events of a thread follow each other; events inside them are where they are cut. Where an operator calls
    no other one for a while, and a collective of gloo ends, it waits for it.

    Parameters
    ----------
    thread, start, end
        Of the events of the host, thread after thread; in each the earliest first, of these the longest.
    waits
        Whether the host waits for a device in an event.
    calls
        Whether an event is an operator of c10d.
    began
        When what an event started began; NO_TIME for none.
    ends
        When collectives of gloo ended, in order.
    """

def replay(
    order: IntArray,
    start: IntArray,
    end: IntArray,
    kind: NDArray[Any],
    lane: Int32Array,
    after: IntArray,
    waits: NDArray[Any],
    by_end: tuple[IntArray, IntArray, IntArray],
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Return the tasks of the activities of a rank, and what they wait for, as `before_start` and `before`.

    A task is the activity of a row, or with -1 the pause before the one of the next task; then its ns.

    Parameters
    ----------
    order
        Rows of activities: causes before effects.
    kind
        HOST, DEVICE or GLOO.
    lane
        Which activities follow each other.
    after
        The activity that started one; -1 for none.
    waits
        NOTHING, or of which kind the host waits for activities in it.
    by_end
        Rows of each kind, by their ends; those of HOST with those of GLOO.
    """
