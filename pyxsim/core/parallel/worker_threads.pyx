"""One thread per partition; the caller's runs partition 0. They meet at a barrier after every epoch; the last one
plans.

Between two calls the workers wait at the barrier that the caller has not reached. A waiting thread spins briefly, then
yields, then sleeps until it is woken: a thread without a core must not delay the others.
"""

from cpython.pythread cimport (
    WAIT_LOCK,
    PyThread_acquire_lock,
    PyThread_allocate_lock,
    PyThread_free_lock,
    PyThread_release_lock,
    PyThread_start_new_thread,
)
from libc.stdint cimport int32_t
from libc.stdlib cimport free, malloc

from pyxsim.core.parallel.atomics cimport add, getpid, load, pause, sched_yield, swap
from pyxsim.core.parallel.epoch cimport begin_run, decide_next_epoch, run_part, summarise_parts
from pyxsim.core.parallel.partition cimport Part, collect_totals, distribute_state


cdef enum:
    LOOKS = 2000     # some tens of microseconds
    YIELDS = 50


cdef struct WorkerStart:
    # Arguments of a new thread.
    Team* team
    int32_t number


cdef void barrier_wait(Team* team, int32_t number) noexcept nogil:
    """Wait for all threads; the last one to arrive plans the next epoch."""
    cdef int before = load(&team.round)
    cdef int32_t other
    if add(&team.there, 1) < team.parts:
        wait_for_round(team, &team.part[number], before)
        return
    team.there = 0
    if team.leave:   # set for all here, so that they leave after the same barrier
        team.over = 1
    else:
        summarise_parts(team)
        decide_next_epoch(team)
    swap(&team.round, before + 1)
    for other in range(team.parts):
        if swap(&team.part[other].asleep, 0):
            PyThread_release_lock(team.part[other].lock)


cdef void wait_for_round(Team* team, Part* part, int before) noexcept nogil:
    """Wait until the barrier opens."""
    cdef int32_t _turn
    for _turn in range(LOOKS):
        if load(&team.round) != before:
            return
        pause()
    for _turn in range(YIELDS):
        if load(&team.round) != before:
            return
        sched_yield()
    while load(&team.round) == before:   # a thread that wakes others late may wake this one for the previous barrier
        swap(&part.asleep, 1)
        if load(&team.round) != before and swap(&part.asleep, 0):
            return   # the barrier is open, and no thread has seen this one asleep
        PyThread_acquire_lock(part.lock, WAIT_LOCK)


cdef void worker_main(void* argument) noexcept nogil:
    """Main loop of a worker thread."""
    cdef WorkerStart* place = <WorkerStart*> argument
    cdef Team* team = place.team
    cdef int32_t number = place.number
    free(place)
    while True:
        barrier_wait(team, number)
        if team.over:
            break
        if not team.done:
            run_part(team, number)
    add(&team.left, 1)


cdef Reason run_team(Team* team, int64_t until, int64_t slack, int64_t window) noexcept nogil:
    """As `run_cycles`, for all partitions."""
    distribute_state(team)
    begin_run(team, until, slack, window)
    while True:
        barrier_wait(team, 0)
        if team.done:
            break
        run_part(team, 0)
    collect_totals(team)
    return team.reason


cdef int start_workers(Team* team) except -1:
    """Start the workers unless they run. A forked process has none of its parent's threads."""
    cdef int32_t number
    cdef WorkerStart* place
    if team.started and team.process == getpid():
        return 0
    team.there = team.left = team.leave = team.over = 0
    team.process = getpid()
    for number in range(team.parts):
        if team.part[number].lock == NULL:
            team.part[number].lock = <void*> PyThread_allocate_lock()
            if team.part[number].lock == NULL:
                raise MemoryError
            PyThread_acquire_lock(team.part[number].lock, WAIT_LOCK)
    for number in range(1, team.parts):
        place = <WorkerStart*> malloc(sizeof(WorkerStart))
        if place == NULL:
            raise MemoryError
        place.team, place.number = team, number
        if <long> PyThread_start_new_thread(worker_main, place) == -1:
            raise RuntimeError("can't start new thread")
        team.started += 1
    return 0


cdef void stop_workers(Team* team) noexcept:
    cdef int32_t number
    if team.started and team.process == getpid():
        team.leave = 1
        with nogil:
            add(&team.there, team.parts - 1 - team.started)   # those that could not be started
            barrier_wait(team, 0)
            while load(&team.left) < team.started:
                sched_yield()
    for number in range(team.parts):
        if team.part[number].lock != NULL:
            PyThread_release_lock(team.part[number].lock)
            PyThread_free_lock(team.part[number].lock)
    team.started = 0
