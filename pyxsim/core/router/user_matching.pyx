"""Find the allocators of an engine by name; call those of users, which are Python objects.

A router calls its object, with the GIL, in every tick with requests. The first error ends the run after this cycle
(`fault`); until then no allocator of a user grants anything.
"""

from cpython.pycapsule cimport PyCapsule_CheckExact, PyCapsule_GetPointer
from libc.stdint cimport int32_t

from pyxsim.core.router.allocators.matching cimport clear_matches, place_match
from pyxsim.core.state.network_state cimport MatchFunction
from pyxsim.core.state.records cimport Request, RequestMatrix, Router

from pyxsim.core.user_allocator import UserAllocator, UserAllocators
from pyxsim.plugins import allocators

STAGES = ("sa", "va")


cdef int set_allocators(State* s, options) except -1:
    """Set the traits and matching functions of both stages. Raises InputError for an unknown name."""
    va, sa = allocators.traits(options.va_allocator), allocators.traits(options.sa_allocator)
    s.config.va_rotating, s.config.sa_separable = "va" in va.direct, "sa" in sa.direct
    s.config.va_by_age, s.config.sa_by_age = va.by_age, sa.by_age
    s.config.va_match = pointer_of(allocators.get(options.va_allocator))
    s.config.sa_match = pointer_of(allocators.get(options.sa_allocator))
    return 0


cdef object make_user_allocators(State* s, options):
    """Return the `UserAllocators`, which the caller keeps; None if the network has none."""
    names = {"sa": (options.sa_allocator, options.sa_iterations), "va": (options.va_allocator, options.va_iterations)}

    def make(stage, int router):
        cdef Router* r = &s.routers.router[router]
        inputs, outputs = (r.input_vcs, r.output_vcs) if stage == "va" else (
            (r.in_end - r.in_start) * s.config.input_speedup, (r.out_end - r.out_start) * s.config.output_speedup)
        name, iterations = names[stage]
        return UserAllocator(name, stage, router, inputs, outputs, iterations, s.config.seed)

    stages = [stage for stage in STAGES
              if callable(allocators.get(names[stage][0])) and (stage == "sa" or s.config.va)]
    users = UserAllocators(stages, s.routers.count, make) if stages else None
    s.config.users = <void*> users
    return users


cdef MatchFunction pointer_of(value):
    """The function of a compiled allocator; the one that calls Python for a user's; NULL without a request matrix."""
    if value is None:
        return NULL
    if PyCapsule_CheckExact(value):
        return <MatchFunction> PyCapsule_GetPointer(value, NULL)
    return match_by_user


cdef int32_t match_by_user(State* s, RequestMatrix* m) noexcept with gil:
    cdef int32_t granted = 0
    cdef int32_t i
    cdef Request* r
    users = <object> s.config.users
    clear_matches(s, m)
    if users.error is not None:
        return 0
    try:
        rows = []
        for i in range(m.count):
            r = &s.matching.requests[i]
            rows.append((r.i, r.o, r.rank, bool(r.empty), i))
        rows.sort()
        for number in users.at[STAGES[m.in_va]][m.router].grant([row[:4] for row in rows]):
            granted = place_match(s, rows[number][4], granted)
    except BaseException as error:   # `Engine.run` raises it
        users.error = error
        s.matching.fault = 1
    return granted
