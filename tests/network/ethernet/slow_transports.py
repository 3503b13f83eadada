"""Congestion control of the slow network (slow_ethernet.py): none, DCTCP and DCQCN, from their papers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

MICROSECOND = 10**6
MEGABIT = 10.0**6


@dataclass
class SlowTransport:
    """No control. A window is one bandwidth-delay product, in proportion to the rate."""

    windowed: bool = True
    variable: bool = True

    def set_rate(self, flow: Any, rate: float) -> None:
        flow.rate = rate
        if not self.windowed:
            flow.window = 0
        elif self.variable:
            flow.window = max(int(flow.bdp * rate / flow.line), 1)
        else:
            flow.window = flow.bdp

    def begin(self, flow: Any) -> None:
        self.set_rate(flow, float(flow.line))

    def on_ack(self, flow: Any, marked: bool, now: int) -> None:
        pass

    def on_cnp(self, flow: Any, now: int) -> None:
        pass

    def on_due(self, flow: Any, now: int) -> None:
        pass


@dataclass
class SlowDctcp(SlowTransport):
    """Alizadeh et al., SIGCOMM 2010: alpha averages the share of marks in a window; a mark cuts by alpha / 2."""

    gain: float = 1 / 16
    additive: float = 1000 * MEGABIT
    least: float = 100 * MEGABIT

    def begin(self, flow: Any) -> None:
        super().begin(flow)
        flow.state = {"alpha": 1.0, "window_end": 0, "marks": 0, "packets": 0, "cut_until": None}

    def on_ack(self, flow: Any, marked: bool, now: int) -> None:
        state = flow.state
        state["marks"] += marked
        window_over = flow.una > state["window_end"]
        if window_over:
            if state["window_end"]:
                share = min(1.0, state["marks"] / state["packets"])
                state["alpha"] = (1 - self.gain) * state["alpha"] + self.gain * share
                state["marks"], state["packets"] = 0, flow.next - flow.una + 1
            else:
                state["packets"] = flow.next + 1
            state["window_end"] = flow.next
        if state["cut_until"] is not None and flow.una <= state["cut_until"]:
            return
        state["cut_until"] = None
        if marked:
            self.set_rate(flow, max(self.least, float(int(flow.rate * (1 - state["alpha"] / 2)))))
            state["cut_until"] = flow.next
        elif window_over:
            self.set_rate(flow, min(float(flow.line), flow.rate + self.additive))


@dataclass
class SlowDcqcn(SlowTransport):
    """Zhu et al., SIGCOMM 2015, section 3: cuts at most once per interval, recovery by a timer."""

    gain: float = 1 / 256
    alpha_interval: int = MICROSECOND
    decrease_interval: int = 4 * MICROSECOND
    increase_interval: int = 900 * MICROSECOND
    fast_recovery: int = 1
    additive: float = 50 * MEGABIT
    hyper: float = 100 * MEGABIT
    least: float = 100 * MEGABIT

    def on_ack(self, flow: Any, marked: bool, now: int) -> None:
        if marked:
            self.on_cnp(flow, now)

    def on_cnp(self, flow: Any, now: int) -> None:
        if flow.state is not None:
            flow.state["alpha_marked"] = flow.state["marked"] = True
            return
        flow.state = {
            "alpha": 1.0,
            "target": flow.rate,
            "alpha_marked": False,
            "marked": True,
            "alpha_at": now + self.alpha_interval,
            "decrease_at": now + self.decrease_interval + 1000,  # behind alpha
            "increase_at": math.inf,
            "stage": 0,
        }
        flow.due += [flow.state["alpha_at"], flow.state["decrease_at"]]

    def on_due(self, flow: Any, now: int) -> None:
        state = flow.state
        if state["alpha_at"] == now:
            state["alpha"] = state["alpha"] * (1 - self.gain) + self.gain * state["alpha_marked"]
            state["alpha_marked"] = False
            state["alpha_at"] = now + self.alpha_interval
            flow.due.append(state["alpha_at"])
        if state["increase_at"] == now:  # it is set longer before than the other, and so is first
            state["increase_at"] = now + self.increase_interval
            flow.due.append(state["increase_at"])
            if state["stage"] >= self.fast_recovery:
                step = self.additive if state["stage"] == self.fast_recovery else self.hyper
                state["target"] = min(state["target"] + step, float(flow.line))
            self.set_rate(flow, float(int(flow.rate / 2) + int(state["target"] / 2)))
            state["stage"] += 1
        if state["decrease_at"] == now:
            state["decrease_at"] = now + self.decrease_interval
            flow.due.append(state["decrease_at"])
            if state["marked"]:
                if state["stage"]:
                    state["target"] = flow.rate
                self.set_rate(flow, max(self.least, float(int(flow.rate * (1 - state["alpha"] / 2)))))
                state["stage"], state["marked"] = 0, False
                state["increase_at"] = now + self.increase_interval
                flow.due.append(state["increase_at"])
