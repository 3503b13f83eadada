"""The engine: the interface of the core to Python. engine_arrays.pyx owns its arrays, engine.pyi documents it."""

import sys

import numpy as np

from libc.stdint cimport INT64_MAX, int16_t, int32_t, int64_t, uint8_t

from pyxsim.core.cycle cimport DELIVERED, NO_MEMORY, UNTIL, Reason, run_cycles, still_until
from pyxsim.core.fast_forward.jump_control cimport (
    end_of_jump,
    look_for_periods,
    skip_ahead,
    skipped_cycles,
    totals_ahead,
)
from pyxsim.core.fast_forward.period_detector cimport deciding_state, shift_time
from pyxsim.core.fast_path.vc_masks cimport rebuild_masks
from pyxsim.core.latency.latency_records cimport MOST_TAGS
from pyxsim.core.parallel.epoch cimport begin_run, decide_next_epoch, run_part, summarise_parts
from pyxsim.core.parallel.mail cimport MailHeader, read_mail, write_mail
from pyxsim.core.parallel.partition cimport (
    MOST_PARTS,
    Team,
    add_message,
    collect_totals,
    create_team,
    destroy_team,
    distribute_state,
    gather_state,
    has_remote_parts,
)
from pyxsim.core.parallel.worker_threads cimport run_team, start_workers, stop_workers
from pyxsim.core.record_tables cimport arrivals, launches, notes, splits, stays, take_delivered, waits
from pyxsim.core.router.interface cimport add_waiting
from pyxsim.core.router.link_changes cimport change_link
from pyxsim.core.router.reroute cimport (
    choose_anew,
    discard_waiting,
    has_open_packets,
    lose_holders,
    route_anew,
    wake_lanes,
)
from pyxsim.core.router.retry cimport held_until
from pyxsim.core.router.stall_counters cimport settle_counters
from pyxsim.core.state.engine_arrays cimport EngineArrays
from pyxsim.core.state.inspection cimport calendar_entries, packets_of, pending_messages, prove_invariants, stuck_flits
from pyxsim.core.state.network_state cimport State, new_message
from pyxsim.core.state.records cimport NONE, Message
from pyxsim.core.state.state_io cimport load_state, save_state

from pyxsim.core.state.engine_arrays import LONGEST_DELAY, MOST_DIGITS
from pyxsim.core.state.large_pages import release
from pyxsim.core.engine_options import Links, RouterOptions, Routes, Stop
from pyxsim.core.state.record_dtypes import COUNTERS, COUNTING, DERIVED

__all__ = ["Engine", "Links", "RouterOptions", "Routes", "Stop", "build_info", "LONGEST_DELAY"]

cdef extern from *:
    """
    #ifdef PYXSIM_DEBUG
    #define pyxsim_debug 1
    #else
    #define pyxsim_debug 0
    #endif
    """
    int DEBUG "pyxsim_debug"

build_info = {"kind": "debug" if DEBUG else "release", "python": sys.version.split()[0]}

REASONS = ("until", "delivered", "window", "idle", "deadlock", "memory", "repeats")


cdef class Engine(EngineArrays):
    """One network. docs/router.md is the contract; engine.pyi documents the methods."""

    cdef Team team        # the partitions, if the network is divided
    cdef list scratch     # their scratch arrays
    cdef object exchange  # swaps the mail of all processes, if the others have the other partitions
    cdef int64_t skipped_before   # cycles skipped before this engine was restored

    def __dealloc__(self):
        stop_workers(&self.team)
        destroy_team(&self.team)

    def __reduce__(self):
        return engine_again, (self.made_of, self.snapshot())

    # -- use --

    cdef int64_t _send(
        self, int inject, int eject, int dst, int plane, int packets, int flits, int last_flits, int64_t at, int klass,
        int64_t tag
    ) except -1:
        cdef State* s = &self.s
        cdef Message* m
        cdef int32_t index
        if not (0 <= inject < s.links.injection and 0 <= eject < s.links.count - s.links.network - s.links.injection):
            raise IndexError(f"no lanes {inject} -> {eject}")
        if not 0 <= dst < s.routes.nodes or packets < 1 or flits < 1 or last_flits < 1:
            raise ValueError(
                f"invalid message: {packets} packets of {flits} flits (the last of {last_flits}) to node {dst}")
        if plane < -1 or (plane < 0 and not s.routes.ways) or (
            (<int64_t> plane + 1) * s.routers.count * s.routes.dims > len(self.arrays["own"])
        ):
            raise IndexError(f"no plane {plane}")
        if not 0 <= klass < s.config.classes:
            raise IndexError(f"no message class {klass}")
        if s.config.attribution and not 0 <= tag < MOST_TAGS:
            raise IndexError(f"tag {tag} is not below {MOST_TAGS}")
        if at < s.now:
            raise ValueError(f"cycle {at} is in the past: the current cycle is {s.now}")
        index = new_message(s)
        if s.failed:
            raise MemoryError
        m = &s.pools.messages[index]
        m.lane = s.links.network + inject
        m.eject = s.links.network + s.links.injection + eject
        m.exit = s.ports.eject_router[eject]
        m.dst, m.plane, m.packets, m.flits, m.last_flits = dst, plane, packets, flits, last_flits
        m.opened = m.delivered = m.lost = 0
        m.klass = klass
        m.tag = tag
        m.next = NONE
        m.serial = s.stats.messages_sent
        m.at, m.first, m.last, m.hops = at, -1, -1, 0
        s.stats.messages_sent += 1
        if self.team.divided:
            add_message(&self.team, index)
        else:
            add_waiting(s, index)
        if s.failed:
            raise MemoryError
        return m.serial

    def send(self, int inject, int eject, int dst, int plane, int packets, int flits, int last_flits, int64_t at,
             int klass=0, int64_t tag=0):
        return self._send(inject, eject, dst, plane, packets, flits, last_flits, at, klass, tag)

    def send_many(self, inject, eject, dst, plane, packets, flits, last_flits, at, klass, tag=0):
        cdef int64_t first = self.s.stats.messages_sent
        columns = np.broadcast_arrays(inject, eject, dst, plane, packets, flits, last_flits, at, klass, tag)
        cdef int64_t[:, ::1] rows = np.ascontiguousarray(np.stack(columns, axis=-1).reshape(-1, 10), dtype=np.int64)
        cdef Py_ssize_t i
        for i in range(rows.shape[0]):
            self._send(rows[i, 0], rows[i, 1], rows[i, 2], rows[i, 3], rows[i, 4], rows[i, 5], rows[i, 6], rows[i, 7],
                       rows[i, 8], rows[i, 9])
        return first

    def divide(self, part_of, int rank=NONE, exchange=None):
        cdef Team* team = &self.team
        cdef int32_t number
        cdef int32_t parts = int(np.max(part_of, initial=0)) + 1
        cdef int16_t[::1] numbers = np.append(part_of, 0).astype(np.int16)   # never empty
        if len(part_of) != self.s.routers.count or np.min(part_of, initial=0) < 0 or parts > MOST_PARTS:
            raise ValueError(
                f"expected the partition of each of {self.s.routers.count} routers, from 0 to {MOST_PARTS - 1}")
        if not self.divisible:
            raise ValueError("a network with attribution or a watched packet cannot be partitioned")
        if rank != NONE and (not 0 <= rank < parts or self.s.stats.messages_sent):
            raise ValueError(f"a part of {parts} that has sent nothing is expected, not part {rank}")
        self._whole()
        stop_workers(team)
        destroy_team(team)
        create_team(team, &self.s, &numbers[0], parts, rank)
        self.exchange = exchange
        arrays, deciding, self.scratch = self.arrays, self.deciding, []
        for number in range(team.first, team.beyond):
            self.arrays, self.deciding = {}, {}
            self._allocate_scratch(&team.part[number].state)
            self.scratch.append(self.arrays)
        self.arrays, self.deciding = arrays, deciding
        if has_remote_parts(team):
            distribute_state(team)
            self._release_others()

    cdef int _release_others(self) except -1:
        """Release the records that only other processes use. Their counters stay 0."""
        cdef Team* team = &self.team
        cdef int32_t count = self.s.links.count
        cdef int32_t link
        held = np.zeros(count, dtype=bool)
        for link in range(count):
            held[link] = team.sender[link] == team.first or team.receiver[link] == team.first
        of_vcs = held[self.records["vc"]["link"]]
        if not self.s.routes.choose:   # else routes through links of others are compared
            release(self.records["link"], held)
        for kind in ("vc", "out", "ranges"):
            release(self.records[kind], of_vcs)
        return 0

    @property
    def divisible(self):
        return not self.s.config.attribution and self.s.trace.watch_serial < 0

    @property
    def lookahead(self):
        return self.team.across

    @property
    def epochs(self):
        return self.team.epochs

    cdef int _whole(self) except -1:
        """Gather all moving state from the partitions, for inspection."""
        if has_remote_parts(&self.team):
            raise ValueError("the state of the other partitions is in other processes")
        gather_state(&self.team)
        if self.s.failed:
            raise MemoryError
        return 0

    cdef Reason _run(self, int64_t until, int64_t slack, int64_t window, bint apart) except *:
        cdef Reason reason
        if has_remote_parts(&self.team):
            reason = self._run_with_others(until, slack, window)
        elif apart:
            start_workers(&self.team)
            with nogil:
                reason = run_team(&self.team, until, slack, window)
        else:
            self._whole()
            with nogil:
                reason = run_cycles(&self.s, until, slack, window)
        if self.users is not None and self.users.error is not None:
            raise self.users.error
        return reason

    cdef Reason _run_with_others(self, int64_t until, int64_t slack, int64_t window) except *:
        """As `run_team`, with one partition in each process."""
        cdef Team* team = &self.team
        distribute_state(team)
        begin_run(team, until, slack, window)
        if not team.epochs:   # later, all processes know the summaries since the last barrier
            self._exchange_mail()
        decide_next_epoch(team)
        while not team.done:
            with nogil:
                run_part(team, team.first)
            self._exchange_mail()
            decide_next_epoch(team)
        collect_totals(team)
        return team.reason

    cdef int _exchange_mail(self) except -1:
        """The barrier of processes."""
        cdef Team* team = &self.team
        cdef int32_t number
        cdef char[::1] mail
        summarise_parts(team)
        write_mail(team)
        if team.part[team.parts - 1].mail == NULL:
            raise MemoryError
        mails = [<char[:(<MailHeader*> team.part[number].mail).bytes]> team.part[number].mail
                 for number in range(team.parts)]
        for number, mail in enumerate(self.exchange(mails)):
            if not read_mail(team, number, &mail[0], mail.shape[0]):
                raise RuntimeError(f"rank {number} simulates something else than rank {team.first}")
        return 0

    def run(self, int64_t until, *, int64_t slack=0, int64_t window=0, int64_t repeats_until=0, bint apart=False,
            bint patient=False):
        cdef State* s = &self.s
        cdef Reason reason
        if apart and (not self.team.parts or not self.divisible or repeats_until):
            raise ValueError("a partitioned run needs partitions, and excludes a watched packet and repeats_until")
        s.patient = patient
        look_for_periods(s, self.arrays, self.records, repeats_until, window)
        if DEBUG and not has_remote_parts(&self.team):   # check the invariants after every cycle
            while True:
                reason = self._run(min(until, s.now + s.arrived), INT64_MAX // 2, window, apart)
                self.check()
                if s.arrivals.delivered_count:
                    until = min(until, s.arrivals.delivered_at[0] + slack)
                if reason not in (UNTIL, DELIVERED) or s.now >= until:
                    break
        else:
            reason = self._run(until, slack, window, apart)
        if reason == NO_MEMORY:
            raise MemoryError("the network's state does not fit into memory")
        return Stop(REASONS[<int> reason], s.now, *take_delivered(s))

    def change_links(self, links, num, delay, credit_delay, down, *, lose=False, error_bound=0, nack_bound=0,
                     credit_bound=0):
        cdef State* s = &self.s
        cdef Team* team = &self.team
        cdef Py_ssize_t i
        if not self.varies:
            raise ValueError("links change only where links.varies is set")
        if not s.arrived:
            raise ValueError("the arrivals of this cycle have not been processed: run to it first")
        columns = np.broadcast_arrays(links, num, delay, credit_delay, down, lose)
        cdef int64_t[:, ::1] rows = np.ascontiguousarray(np.stack(columns, axis=-1).reshape(-1, 6), dtype=np.int64)
        if s.config.lossy:
            self.arrays["error_bound"][links] = error_bound
            self.arrays["nack_bound"][links] = nack_bound
            if s.config.credits:
                self.arrays["credit_bound"][links] = credit_bound
        elif np.any(lose) or np.any(error_bound):
            raise ValueError("flits are lost only where links.lossy is set")
        if has_remote_parts(team):
            s = &team.part[team.first].state
        else:
            self._whole()
        den = np.asarray(self.made_of[0][1].s_den)
        for i in range(rows.shape[0]):
            change_link(s, <int32_t> rows[i, 0], rows[i, 1], <int32_t> rows[i, 2], <int32_t> rows[i, 3],
                        rows[i, 4], rows[i, 5])
            if team.parts:
                team.longest_ejection = max(team.longest_ejection, -(-rows[i, 1] // int(den[rows[i, 0]])) + rows[i, 2])
        if s.failed:
            raise MemoryError

    def change_routes(self, routes, *, drops, discard, abandoned=(), broken=(), bint anew=True, bint paused=False):
        cdef State* s = &self.s
        cdef int64_t lost, moved
        cdef int32_t first = s.links.network, beyond = s.links.network + s.links.injection
        if not s.config.lossy:
            raise ValueError("routes change only where links.lossy is set")
        if not s.arrived:
            raise ValueError("the arrivals of this cycle have not been processed: run to it first")
        if np.shape(routes.digits)[1] > MOST_DIGITS:
            raise ValueError(f"routes that follow others have up to {MOST_DIGITS} digits")
        self._whole()
        cdef uint8_t[::1] left = np.zeros(s.links.count + 1, dtype=np.uint8)
        cdef uint8_t[::1] dead = np.zeros(s.links.count + 1, dtype=np.uint8)
        cdef int32_t[::1] sinks = np.append(discard, NONE).astype(np.int32)
        np.asarray(left)[np.asarray(abandoned, dtype=np.int64)] = 1
        np.asarray(dead)[np.asarray(broken, dtype=np.int64)] = 1
        cdef bint closed = s.paused or np.any(self.arrays["link_drops"][first:beyond])
        self.arrays["link_drops"][:s.links.count] = drops
        lost = lose_holders(s, &dead[0])
        (routers, links, known, options), more = self.made_of
        if routes is not known:
            self._read_routes(routes)
            self._share_routes()
            self.made_of = (routers, links, routes, options), more
        if anew:
            choose_anew(s)
            moved = route_anew(s)
        else:
            moved = discard_waiting(s, &left[0], &sinks[0])
        if (closed and not paused) or s.config.attribution:   # what lanes wait for is recorded anew
            wake_lanes(s)
        s.paused = paused
        return moved, lost

    cdef int _share_routes(self) except -1:
        """The partitions read the same routes, and keep their scratch."""
        cdef State* p
        cdef int32_t number
        cdef int64_t draws
        cdef int32_t* links
        cdef int32_t* classes
        for number in range(self.team.first, self.team.beyond):
            p = &self.team.part[number].state
            draws, links, classes = p.routes.draws, p.routes.candidate_link, p.routes.candidate_class
            p.routes = self.s.routes
            p.routes.draws, p.routes.candidate_link, p.routes.candidate_class = draws, links, classes
            p.config.va_limited = self.s.config.va_limited
        return 0

    @property
    def empty(self):
        self._whole()
        return not (self.s.in_flight or has_open_packets(&self.s))

    def still_until(self, bint patient):
        self._whole()
        self.s.patient = patient
        return still_until(&self.s)

    def retries(self):
        cdef int32_t link
        replay = self.records["replay"]
        held = np.array([held_until(&self.s, link, self.s.now) for link in range(len(replay))], np.int64)
        return {name: replay[name].copy() for name in ("resent", "timeouts", "full", "count_most")} | {"held": held}

    @property
    def ahead(self):
        return end_of_jump(&self.s)

    def totals_ahead(self, cycles, int links):
        return totals_ahead(&self.s, cycles, links)

    def skip(self):
        skip_ahead(&self.s)

    cdef bint _has_detector(self) except *:
        """Make the detector, whose visitor knows the deciding state; not all options have one."""
        look_for_periods(&self.s, self.arrays, self.records, INT64_MAX // 2, 0)
        return self.s.detector != NULL and not self.messages_pending

    def deciding_state(self):
        return deciding_state(&self.s) if self._has_detector() else None

    def shift_time(self, int64_t cycles):
        if not self._has_detector():
            raise ValueError("messages are under way, or the router is not one that fast-forward knows")
        shift_time(&self.s, cycles)
        if self.s.failed:
            raise MemoryError

    def take_peaks(self):
        peaks = self.buffer_max()
        self.records["vc"]["occupancy_max"] = self.records["vc"]["occupancy"]
        return peaks

    @property
    def skipped(self):
        return self.skipped_before + skipped_cycles(&self.s)

    @property
    def nbytes(self):
        return self.size_in_bytes()

    @property
    def now(self):
        return self.s.now

    @property
    def flits_in_flight(self):
        return self.s.in_flight

    @property
    def router_visits(self):
        return self.s.stats.router_visits

    @property
    def messages_pending(self):
        return self.s.stats.messages_sent - self.s.stats.messages_delivered

    def counters(self):
        settle_counters(&self.s)
        return {name: self.records["link"][name].copy() for name in COUNTERS}

    def buffer_max(self):
        return self.records["vc"]["occupancy_max"][self.listed]

    def totals(self):
        cdef State* s = &self.s
        return {
            "messages": s.stats.messages_sent,
            "messages_delivered": s.stats.messages_delivered,
            "packets": s.stats.packets_delivered,
            "flits": s.stats.flits_delivered,
            "router_visits": s.stats.router_visits,
            "latency_sum": s.stats.latency_sum,
            "network_latency_sum": s.stats.network_latency_sum,
            "hops_sum": s.stats.hops_sum,
            "packets_lost": s.stats.packets_lost,
            "flits_lost": s.stats.flits_lost,
        }

    def message_times(self, int message):
        if self.s.config.recycling or not 0 <= message < self.s.stats.messages_sent:
            raise IndexError(f"no message {message}")
        cdef Message* m = &self.s.pools.messages[message]
        return m.at, m.first, max(m.last, -1)

    def packets_left(self, messages):
        cdef int64_t[::1] numbers = np.ascontiguousarray(messages, dtype=np.int64)
        cdef int64_t[:, ::1] left = np.empty((4, numbers.shape[0]), dtype=np.int64)
        cdef Message* m
        cdef Py_ssize_t i
        if self.s.config.recycling:
            raise IndexError("records of delivered messages are recycled")
        for i in range(numbers.shape[0]):
            if not 0 <= numbers[i] < self.s.stats.messages_sent:
                raise IndexError(f"no message {numbers[i]}")
            m = &self.s.pools.messages[numbers[i]]
            left[0, i], left[1, i] = m.packets - m.opened, m.packets - m.delivered
            left[2, i], left[3, i] = -2 - m.last if m.opened == m.packets else self.s.now, m.last_flits
        return np.asarray(left)

    @property
    def independent_ports(self):
        return self.choice.independent_ports

    @property
    def router(self):
        return self.choice.kind.name.lower().replace("_", "-"), self.choice.unmet

    def deliveries(self):
        return arrivals(&self.s)

    def waits(self):
        return waits(&self.s)

    def splits(self):
        if self.s.config.recycling or not self.s.config.attribution:
            raise ValueError("splits need attribution, and records that are not recycled")
        return splits(&self.s)

    def stays(self):
        return stays(&self.s)

    def watch(self, int64_t message, int packet):
        self.s.trace.watch_serial = message
        self.s.trace.watch_packet = packet

    @property
    def watching(self):
        return self.s.trace.watch_serial >= 0

    def watched(self):
        return notes(&self.s)

    def trace(self):
        return launches(&self.s)

    def state(self, deciding=None):
        cdef State* s = &self.s
        self._whole()
        names = [name for name in self.arrays if deciding is None or self.deciding[name] == deciding]
        copies = {name: self.arrays[name].copy() for name in names}
        for kind, records in self.records.items():
            for name in records.dtype.names:
                decides = name not in COUNTING[kind] and name not in DERIVED.get(kind, ())
                if deciding is None or decides == deciding:
                    copies[f"{kind}.{name}"] = records[name].copy()
        if deciding is None or deciding:
            copies["calendar"] = np.array(calendar_entries(s), dtype=np.int64).reshape(-1, 3)
            copies["fifo"] = np.array(
                [(vc, packet) for vc in range(s.vcs.count)
                 for packet in packets_of(s, vc)], dtype=np.int64).reshape(-1, 2)
            copies["pending"] = np.array(pending_messages(s), dtype=np.int64)
        return copies

    def snapshot(self):
        self._whole()
        return {
            "arrays": dict(self.arrays),
            "records": {kind: records.view(np.uint8) for kind, records in self.records.items()},   # padding included
            "state": save_state(&self.s),
            "allocators": None if self.users is None else self.users.at,
            "skipped": self.skipped,
        }

    def restore(self, snapshot):
        for name, values in snapshot["arrays"].items():
            array = self.arrays[name]
            if (array != values).any():   # constant arrays may belong to the caller
                array[:] = values
        for kind, values in snapshot["records"].items():
            self.records[kind].view(np.uint8)[:] = values
        if self.users is not None:
            self.users.at = snapshot["allocators"]
        self.skipped_before = snapshot["skipped"]
        load_state(&self.s, snapshot["state"])

    # -- looking inside --

    def check(self):
        self._whole()
        prove_invariants(&self.s)
        self._prove_derived()

    def _prove_derived(self):
        """Check that derived state matches what it follows from."""
        cdef State* s = &self.s
        names = [(kind, name) for kind, fields in DERIVED.items() for name in fields]
        kept = [self.records[kind][name].copy() for kind, name in names]
        requests = self.arrays["requests"].copy()
        masks = {name: self.arrays[name].copy() for name in ("busy_outputs", "blocked")}
        rebuild_masks(s)
        for (kind, name), values in zip(names, kept, strict=True):
            # The last words receive credits of VCs without a holder.
            same = (values[: s.masks.words] if kind == "inputs" else values) == (
                self.records[kind][name][: s.masks.words] if kind == "inputs" else self.records[kind][name])
            if not np.all(same):
                raise AssertionError(f"{kind}.{name} is wrong in cycle {s.now}")
        if (requests != self.arrays["requests"]).any():
            raise AssertionError(f"output requests are wrong in cycle {s.now}")
        # a link that is available from this cycle on may not have been unblocked yet
        for name, values in masks.items():
            if (self.arrays[name] & ~values).any() or s.arrived and (self.arrays[name] != values).any():
                raise AssertionError(f"{name} is wrong in cycle {s.now}")
            self.arrays[name][:] = values

    def slots(self):
        credit, occupancy = self.records["out"]["credit"], self.records["vc"]["occupancy"]
        return credit[self.listed], occupancy[self.listed], self.records["link"]["pool_left"].copy()

    def waiting(self):
        if has_remote_parts(&self.team):   # those of this partition
            return stuck_flits(&self.team.part[self.team.first].state)
        self._whole()
        return stuck_flits(&self.s)


def engine_again(made_of, snapshot):
    """Make an engine from its pickle. Raises what the constructor raises."""
    arguments, options = made_of
    engine = Engine(*arguments, **options)
    engine.restore(snapshot)
    return engine
