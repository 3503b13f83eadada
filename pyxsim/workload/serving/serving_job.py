"""Requests on instances of a model as a job: each iteration starts when the one before has ended in the network."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from pyxsim.collective.checker import prove
from pyxsim.collective.plan import make_plan
from pyxsim.settings import Workload
from pyxsim.settings.algorithms import algorithm_key
from pyxsim.units import rounded, to_cycles
from pyxsim.workload.job import IssuedCollective, Job
from pyxsim.workload.serving.kv_move import kv_messages
from pyxsim.workload.serving.measures import Iteration, record_of
from pyxsim.workload.serving.plan import Exchange, InstancePlan
from pyxsim.workload.serving.requests import Request, make_requests
from pyxsim.workload.serving.scheduler import Batch, Scheduler
from pyxsim.workload.serving.stage_run import StageRun
from pyxsim.workload.serving_record import ServingRecord
from pyxsim.workload.system_services import SystemServices

MOST_COLLECTIVES = 2**19  # of a run: 10 kB each with all that is recorded of them
KV = "KV cache"


class ServingJob(Job):
    """Serves all requests.

    Parameters
    ----------
    plans
        The instances: those that get requests first, then those that get keys and values from them, if any.
    memory
        Bytes of an NPU; None if unknown.

    Raises
    ------
    InputError
        If requests cannot be read, or weights and a block of KV cache do not fit.
    """

    planned = False
    issues_later = True

    def __init__(
        self, workload: Workload, plans: Sequence[InstancePlan], clock: Fraction, memory: int | None, folder: Path
    ) -> None:
        assert workload.serving is not None
        self.serving = workload.serving
        self.plans = list(plans)
        self.clock = clock
        self.requests, self.notes = make_requests(self.serving, clock, folder)
        self.collectives: list[IssuedCollective] = []
        self.traffic: list[str] = []
        self.kv_blocks = [plan.kv_blocks(memory) for plan in self.plans]
        self.memory = memory
        self.instances = [
            Instance(self, plan, number, blocks)
            for plan, blocks in zip(self.plans, self.kv_blocks, strict=True)
            for number in range(plan.instances.count)
        ]
        for number, each in enumerate(self.instances):
            each.number = number
        self.iterations: list[Iteration] = []
        self.until = None if self.serving.until is None else to_cycles(self.serving.until, clock)[0]
        self.overhead = to_cycles(self.serving.overhead, clock)[0]
        self._first = [each for each in self.instances if each.plan is self.plans[0]]
        self._second = [each for each in self.instances if each.plan is not self.plans[0]]
        self._moving: deque[Request] = deque()  # with keys and values that no decode instance has room for
        self._moves: dict[int, int] = {}  # messages of a request that have not arrived
        self._turn = 0
        self._last = 0
        self._stopped = ""
        self._rows: dict[str, IssuedCollective] = {}
        self._tags: dict[str, int] = {}
        self._reject()

    def _reject(self) -> None:
        """Reject requests that no instance can ever serve."""
        most = self.plans[0].description.positions
        first, last = self._first[0].scheduler, (self._second or self._first)[0].scheduler
        for request in self.requests:
            tokens = request.most_cached
            if most and tokens > most:
                request.rejected = f"{tokens} tokens, but the model has {most} positions"
            elif not self.serving.chunked_prefill and tokens > self.serving.max_tokens:
                request.rejected = f"up to {tokens} tokens in one iteration, but max_tokens is smaller"
            elif not (first.fits(request.prompt) and (request.output == 1 or last.fits(tokens))):
                request.rejected = f"the KV cache has no room for {tokens} tokens"

    # -- the job --

    def begin(self, system: SystemServices) -> None:
        """Prove the schedules, and let the requests arrive. Raises InputError for algorithms that do not fit."""
        self._system: Any = system
        seen = set()
        for plan in self.plans:
            for kind, npus in plan.exchanges():
                group = system.communicator(npus)
                names = tuple(system.options.algorithms_for(kind, group))
                key = kind, group.shape, names
                if key not in seen:
                    seen.add(key)
                    made = make_plan(
                        kind,
                        len(group),
                        group.shape,
                        names,
                        optimization=system.options.optimization,
                        key=f"system.{algorithm_key(kind)}",
                    )
                    for phase in made.phases:
                        prove(phase.schedule())
        self._arrive(0)

    @property
    def end(self) -> int:
        """Cycle in which the last iteration or move ended."""
        return self._last

    def stuck_report(self) -> list[str]:
        """Return a line per request that waits, unless the run was meant to stop before."""
        if self._stopped:
            return []
        left = [request for request in self.requests if not request.done and not request.rejected]
        return [f"request {request.number} has {request.generated} of {request.output} tokens" for request in left]

    def serving_record(self) -> ServingRecord:
        """Return what was measured of requests and iterations."""
        notes = [*self.notes, *([self._stopped] if self._stopped else [])]
        return record_of(self.requests, self.iterations, self.serving, self.clock, self._last, notes)

    def footprint_text(self) -> str:
        """Return the memory of an NPU of each role, and the tokens for which its KV cache has room."""
        texts = []
        for plan, blocks in zip(self.plans, self.kv_blocks, strict=True):
            stages, tokens = range(plan.instances.pipeline), blocks * self.serving.kv_block
            terms = max(map(plan.footprint, stages), key=lambda each: sum(each.values()))
            shown = ", ".join(f"{term} {rounded(size, 'B')}" for term, size in terms.items() if size)
            cache = rounded(tokens * max(map(plan.kv_bytes, stages)), "B")
            texts.append(f"{plan.role}: {shown}; KV cache {cache} for {tokens} tokens")
        return "; ".join(texts)

    # -- services of stages --

    def now(self) -> int:
        """Return the current cycle."""
        return int(self._system.cycle)

    def at(self, cycle: int, action: Callable[[], None]) -> None:
        """Call an action in a cycle."""
        self._system.at(cycle, action)

    def issue(self, role: str, exchange: Exchange, group: int, npus: Sequence[int], joined: Callable[..., None]) -> Any:
        """Issue an open collective of one group of an exchange."""
        name = f"{role}: {exchange.what}"
        issued = self._system.issue(
            exchange.kind,
            exchange.sizes[group],
            communicator=self._system.communicator(npus),
            name=name,
            tag=self._tag(name),
            open=True,
            joined=joined,
            matrix=None if exchange.matrices is None else exchange.matrices[group],
        )
        if name not in self._rows:
            key = f"system.{algorithm_key(exchange.kind)}"
            self._rows[name] = IssuedCollective(name, key, role, repeated=True)
            self.collectives.append(self._rows[name])
        self._rows[name].per_group.append(issued)
        return issued

    def enter(self, collective: Any, npu: int) -> None:
        """Let an NPU enter a collective."""
        self._system.enter(collective, npu)

    def send(self, src: int, dst: int, size: int, name: str, done: Callable[[Any], None]) -> None:
        """Send a message now."""
        message = self._system.send(src, dst, size, name=name, tag=self._tag(name), open=True, done=done)
        self._system.hand_over(message)

    def _tag(self, name: str) -> int:
        if name not in self._tags:
            self._tags[name] = len(self.traffic)
            self.traffic.append(name)
        return self._tags[name]

    # -- requests --

    def _arrive(self, number: int) -> None:
        """Let all requests of this cycle arrive, and wait for the next one."""
        now = self.now()
        while number < len(self.requests) and self.requests[number].arrival <= now:
            request = self.requests[number]
            number += 1
            if not request.rejected:
                instance = self._choose()
                request.instance = instance.number
                instance.scheduler.waiting.append(request)
                instance.wake()
        if number < len(self.requests):
            self.at(self.requests[number].arrival, partial(self._arrive, number))

    def _choose(self) -> Instance:
        if self.serving.balance == "round-robin":
            self._turn += 1
            return self._first[(self._turn - 1) % len(self._first)]
        return min(self._first, key=lambda each: each.scheduler.load + each.leaving)

    def may_start(self) -> bool:
        """Return whether iterations may start; notes why not."""
        if self.until is not None and self.now() > self.until:
            self._stopped = "workload.serving.until: requests are unfinished"
        if len(self._system.collectives) > MOST_COLLECTIVES:
            problem = f"the run stopped after {MOST_COLLECTIVES} collectives"
            self._stopped = f"{problem}; workload.serving.blocks reduces them"
        return not self._stopped

    def iteration_ended(self, instance: Instance, batch: Batch, begun: int) -> None:
        """Count the tokens of an iteration; finished requests leave, and prompts of prefill instances move on."""
        now = self._last = self.now()
        scheduler = instance.scheduler
        held = max(scheduler.held)
        for request, tokens in batch.work:
            request.busy = False
            if not request.computed(tokens, now):
                continue
            request.token_times.append(now)
            if request.done:
                scheduler.leave(request)
                scheduler.release(request)
            elif self._second and instance.plan is self.plans[0]:
                scheduler.leave(request)
                instance.leaving += 1
                self._moving.append(request)
        self.iterations.append(
            Iteration(
                instance.number,
                begun,
                now,
                len(batch.work),
                batch.prompt_tokens,
                batch.outputs,
                held,
                len(scheduler.waiting),
            )
        )
        self.move()
        instance.wake()

    def move(self) -> None:
        """Send keys and values to decode instances, the oldest first, as long as one has room."""
        while self._moving:
            request = self._moving[0]
            target = max(self._second, key=lambda each: (each.free, -each.number))
            source, rank, held = self.instances[request.instance], request.rank, request.blocks
            if not target.scheduler.admit(request, target.scheduler.wanted(request)):
                return
            self._moving.popleft()
            request.decoder, request.sent = target.number, self.now()
            target.coming += 1
            rows = kv_messages(source.plan, target.plan, request.cached)
            self._moves[request.number] = len(rows)
            done = partial(self._moved, request, rank, held)
            for origin, at, stage, position, size in rows:
                src = source.npus(origin)[rank * source.plan.instances.tensor + at]
                dst = target.npus(stage)[request.rank * target.plan.instances.tensor + position]
                self.send(src, dst, size, KV, done)

    def _moved(self, request: Request, rank: int, held: int, message: Any) -> None:
        self._moves[request.number] -= 1
        if self._moves[request.number]:
            return
        del self._moves[request.number]
        self._last = request.received = self.now()
        source, target = self.instances[request.instance], self.instances[request.decoder]
        source.scheduler.release(request, held, rank)
        source.leaving -= 1
        target.coming -= 1
        target.scheduler.running.append(request)
        source.wake()
        target.wake()


class Instance:
    """An instance: its scheduler, and the iterations in its pipeline."""

    def __init__(self, job: ServingJob, plan: InstancePlan, place: int, blocks: int) -> None:
        self.job, self.plan, self.place = job, plan, place
        self.scheduler = Scheduler(job.serving, plan.instances.expert, blocks, moves=plan.role == "prefill")
        self.number = 0  # among all instances
        self.leaving = self.coming = 0  # requests whose keys and values wait for a move or are on it
        self._in_progress = 0
        self._first_stage_busy = False
        self._woken = False
        self._count = 0  # iterations so far

    @property
    def free(self) -> int:
        """Free blocks of the rank with most of them."""
        return self.scheduler.blocks - min(self.scheduler.held)

    def npus(self, stage: int) -> range:
        """Return the NPUs of a stage."""
        return self.plan.npus(self.place, stage)

    def wake(self) -> None:
        """Look for work at the end of what happens in this cycle."""
        if not self._woken:
            self._woken = True
            self.job.at(self.job.now(), self._look)

    def _look(self) -> None:
        self._woken = False
        if self._first_stage_busy or self._in_progress == self.plan.instances.pipeline or not self.job.may_start():
            return
        batch = self.scheduler.batch()
        if batch is None:
            return
        now = self.job.now()
        for request, _ in batch.work:
            if request.scheduled < 0:
                request.scheduled = now
        self._in_progress += 1
        self._first_stage_busy = True
        IterationRun(self, batch, self._count, now).begin(self.job.overhead)
        self._count += 1

    def first_stage_ended(self) -> None:
        """Let the next iteration enter the pipeline."""
        self._first_stage_busy = False
        self.wake()

    def ended(self, batch: Batch, begun: int) -> None:
        """Note the end of an iteration."""
        self._in_progress -= 1
        self.job.iteration_ended(self, batch, begun)


class IterationRun:
    """One iteration on its way through the stages of an instance."""

    def __init__(self, instance: Instance, batch: Batch, number: int, begun: int) -> None:
        self.instance, self.batch, self.number, self.begun = instance, batch, number, begun
        plan = instance.plan
        self._stages: list[StageRun | None] = [None] * plan.instances.pipeline
        self._left = [plan.instances.tensor * plan.instances.expert] * plan.instances.pipeline

    def begin(self, overhead: int) -> None:
        """Let the NPUs of the first stage begin."""
        job = self.instance.job
        for position in range(self._left[0]):
            if overhead:
                job.at(job.now() + overhead, partial(self._enter, 0, position))
            else:
                self._enter(0, position)

    def _enter(self, stage: int, position: int, message: Any = None) -> None:
        run = self._stages[stage]
        if run is None:
            plan = self.instance.plan
            steps = plan.steps(stage, self.batch.parts, self.number)
            done = partial(self._through, stage)
            run = StageRun(self.instance.job, plan.role, self.instance.npus(stage), steps, done)
            self._stages[stage] = run
        run.begin(position)

    def _through(self, stage: int, position: int) -> None:
        """An NPU is through with a stage: it sends its activations to the next one."""
        self._left[stage] -= 1
        instance, plan = self.instance, self.instance.plan
        if stage + 1 < plan.instances.pipeline:
            size = plan.activations(self.batch.parts[position // plan.instances.tensor])
            enter = partial(self._enter, stage + 1, position)
            if size:
                src, dst = instance.npus(stage)[position], instance.npus(stage + 1)[position]
                instance.job.send(src, dst, size, f"{plan.role}: activations", enter)
            else:
                enter()
        if self._left[stage]:
            return
        self._stages[stage] = None
        if stage == 0:
            instance.first_stage_ended()
        if stage == plan.instances.pipeline - 1:
            instance.ended(self.batch, self.begun)
