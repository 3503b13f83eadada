"""Why no periods are detected in a run."""

from __future__ import annotations

from pyxsim.core.engine_options import RouterOptions
from pyxsim.plugins import allocators


def why_every_cycle(
    skip: bool, open_traffic: bool, background: bool, threads: int | None, ranks: int, options: RouterOptions
) -> str:
    """Return why periods are not detected, as known before the run; "" if they are."""
    if not skip:
        return "run.skip = false (--no-skip)"
    if open_traffic:
        return "open traffic does not repeat"
    if background:
        return "background traffic does not repeat"
    for name in (options.va_allocator, options.sa_allocator):
        if callable(allocators.get(name)) and not allocators.traits(name).stateless:
            return f"the allocator '{name}' is not registered as stateless"
    if ranks > 1:
        return "several MPI ranks (--mpi) skip nothing"
    return f"run.threads = {threads} (--threads): several threads skip nothing" if threads not in (None, 1) else ""
