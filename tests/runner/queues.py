"""Networks that are queues: packets wait for one server, first come, first served; by hand, without an engine."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyxsim.arrays import IntArray


class QueueNetwork:
    """All packets go through one server; one of n flits keeps it busy for n cycles, and arrives `latency` later."""

    def __init__(self, npus: int, latency: int = 0, servers: int = 1) -> None:
        self.npus = npus
        self.now = 0
        self.latency = latency
        self.servers = servers
        self.sent = 0
        self._free = np.zeros(servers, dtype=np.int64)
        self._waiting: list[dict[str, IntArray]] = []
        self._served = _none()
        self._got = _none()

    def inject(self, at: Any, src: Any, dst: Any, flits: Any, klass: Any = 0, **_: Any) -> int:
        at = np.asarray(at, dtype=np.int64)
        assert (at >= self.now).all()
        like = np.zeros_like(at)
        columns = {"at": at, "src": src + like, "dst": dst + like, "flits": flits + like, "klass": klass + like}
        columns["serial"] = self.sent + np.arange(len(at))
        self._waiting.append(columns)
        self.sent += len(at)
        return self.sent - len(at)

    def run(self, until: int, *, slack: int | None = None) -> bool:
        waiting = {key: np.concatenate([part[key] for part in self._waiting] or [_EMPTY]) for key in _KEYS}
        if slack is None:
            self._serve(waiting, until)
        else:  # one cycle at a time: what arrives may be answered
            while self.now < until:
                first = int(self._served["last"].min()) if len(self._served["last"]) else until
                born = int(waiting["at"].min()) if len(waiting["at"]) else until
                if min(first, born) >= until:
                    break
                if first <= born:
                    self.now = max(self.now, min(until, first + slack))
                    self._serve(waiting, self.now)
                    return self._deliver(self.now)
                self._serve(waiting, born + 1)
                waiting = {key: values[waiting["at"] > born] for key, values in waiting.items()}
                self._waiting = [waiting]
        self.now = max(self.now, until)
        return self._deliver(until)

    def _serve(self, waiting: dict[str, IntArray], until: int) -> None:
        """Whoever comes before `until` joins the queue, in order of (cycle, number)."""
        order = np.lexsort((waiting["serial"], waiting["at"]))
        mine = order[waiting["at"][order] < until]
        later = order[waiting["at"][order] >= until]
        at, flits, server = waiting["at"][mine], waiting["flits"][mine], waiting["dst"][mine] % self.servers
        start = np.zeros_like(at)
        for number in np.unique(server):
            part = server == number
            # Lindley: the server is free when all work before is done, counted from the last idle time.
            work = np.concatenate([[0], np.cumsum(flits[part])])
            begin = np.maximum(np.maximum.accumulate(at[part] - work[:-1]), self._free[number])
            start[part] = begin + work[:-1]
            self._free[number] = int(start[part][-1] + flits[part][-1])
        new = {key: values[mine] for key, values in waiting.items()}
        new |= {"first": start, "last": start + flits + self.latency, "hops": np.ones_like(at)}
        new["packets"] = np.ones_like(at)
        self._served = {key: np.concatenate([self._served[key], new[key]]) for key in _OUT}
        self._waiting = [{key: values[later] for key, values in waiting.items()}]

    def _deliver(self, until: int) -> bool:
        done = self._served["last"] <= until
        arrived = {key: values[done] for key, values in self._served.items()}
        order = np.lexsort((arrived["serial"], arrived["last"]))
        self._got = {key: np.concatenate([self._got[key], arrived[key][order]]) for key in _OUT}
        self._served = {key: values[~done] for key, values in self._served.items()}
        return bool(len(self._served["last"]) or sum(len(part["at"]) for part in self._waiting))

    def deliveries(self) -> dict[str, IntArray]:
        got, self._got = self._got, _none()
        return got


_KEYS = ("at", "src", "dst", "flits", "klass", "serial")
_OUT = (*_KEYS, "first", "last", "hops", "packets")
_EMPTY = np.zeros(0, dtype=np.int64)


def _none() -> dict[str, IntArray]:
    return dict.fromkeys(_OUT, _EMPTY)
