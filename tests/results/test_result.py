from __future__ import annotations

import pickle
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.network.windows import Windows
from pyxsim.results.links import LinkTable
from pyxsim.results.result import Result
from pyxsim.results.traffic import Traffic

# design: "JSON keys that scripts rely on"
KEYS = {
    *("time_ns", "cycles", "npus", "messages", "packets", "flits", "flit_hops", "router_visits", "bytes_delivered"),
    *("sim_cpu_s", "total_cpu_s", "peak_rss_mb", "lower_bound_ns", "backend", "seed", "version"),
    *("optimum_ns", "optimum_limit"),
    *("skipped_cycles", "carried"),
    *("attribution", "not_skipped", "skipped_visits", "threads", "threads_why", "resumed"),
}


def one_link(flits: list[int], num: int, den: int, window: int, cycles: int | None = None) -> Result:
    """A result of one link that sent `flits` in successive windows."""
    counts = np.array(flits, dtype=np.uint64)[:, np.newaxis]
    zero: Any = np.zeros(1)
    links = LinkTable(["a"], zero, zero, zero, zero, zero, s_num=np.array([num]), s_den=np.array([den]))
    windows = Windows(np.arange(len(flits)) * window, window, {"flits": counts})
    totals = {"flits": counts.sum(axis=0).astype(np.int64)}
    return Result(len(flits) * window if cycles is None else cycles, Fraction(10**9), True, links, windows, totals)


def test_json_has_exactly_the_promised_keys(result: Result) -> None:
    summary = result.json()
    assert set(summary) == KEYS
    assert summary["time_ns"] == 250
    assert isinstance(summary["time_ns"], int)
    assert summary["flit_hops"] == 132
    assert summary["skipped_cycles"] == 0
    assert summary["lower_bound_ns"] == 200
    assert summary["backend"] == "packet"


def test_json_of_traffic_has_more(build: Callable[..., Result]) -> None:
    traffic = Traffic({"offered_load": 0.3, "saturated": False})
    summary = build(counts={"npus": np.int64(2)}, traffic=traffic).json()
    assert set(summary) == KEYS | {"offered_load", "saturated"}
    assert type(summary["npus"]) is int


def test_time_in_other_clocks(build: Callable[..., Result]) -> None:
    # 250 cycles of 800 MHz last 312.5 ns, of 500 MHz 500 ns
    assert build(clock_hz=Fraction(8 * 10**8)).time_ns == 312.5
    half = build(clock_hz=Fraction(5 * 10**8)).time_ns
    assert half == 500
    assert isinstance(half, int)


def test_bound_may_be_a_fraction(build: Callable[..., Result]) -> None:
    result = build(lower_bound_ns=Fraction(500, 4))
    assert result.lower_bound_ns == 125
    assert result.ratio == 2.0
    assert build(lower_bound_ns=None).ratio is None
    assert build(lower_bound_ns=0).ratio is None


def test_busy_is_flits_times_cycles_per_flit(result: Result) -> None:
    # Link 0: 39, 20, 10 flits of 5/2 cycles: 97.5, 147.5, 172.5 cycles since the start, in whole cycles 97, 147, 172.
    assert result.busy[:, 0].tolist() == [97, 50, 25]
    # Link 1: 1, 0, 2 flits: 2.5, 2.5, 7.5.
    assert result.busy[:, 1].tolist() == [2, 0, 5]
    assert result.busy[:, 3].tolist() == [10, 20, 30]
    assert result.busy.sum(axis=0).tolist() == result.busy_total.tolist() == [172, 7, 0, 60]


def test_utilization_counts_the_last_window_as_long_as_it_was(result: Result) -> None:
    assert result.window_cycles.tolist() == [100, 100, 50]
    assert result.utilization[:, 0].tolist() == [0.97, 0.5, 0.5]
    assert result.link_utilization.tolist() == [172 / 250, 7 / 250, 0, 60 / 250]


def test_a_flit_that_does_not_fit_its_window_goes_on_in_the_next() -> None:
    # 10 cycles a flit, windows of 4: two flits keep the link for 20 cycles.
    assert one_link([1, 0, 1, 0, 0, 0], 10, 1, window=4).busy[:, 0].tolist() == [4, 4, 4, 4, 4, 0]


def test_more_than_the_link_can_carry_is_told() -> None:
    result = one_link([10], 2, 1, window=10)
    assert result.utilization[0, 0] == 2.0


@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=30),
    st.integers(1, 40),
    st.integers(1, 7),
    st.integers(1, 60),
    st.integers(0, 59),
)
def test_busy_is_exact_to_a_cycle(flits: list[int], num: int, den: int, window: int, cut: int) -> None:
    cycles = (len(flits) - 1) * window + 1 + cut % window
    result = one_link(flits, num, den, window, cycles)
    busy = result.busy[:, 0]
    assert busy.sum() == sum(flits) * num // den == result.busy_total[0]
    assert (busy >= 0).all()
    assert (busy[:-1] <= window).all()
    # Never ahead of the work, and at work in every cycle of a window while some is left for the next.
    for t in range(len(flits) - 1):
        done, work = busy[: t + 1].sum(), sum(flits[: t + 1]) * num // den
        assert done <= work
        assert done == work or busy[t] == window


def test_busy_without_overflow() -> None:
    # 2^40 flits of (2^30 + 1) / 2^30 cycles: the product of the integers alone is beyond 64 bits.
    result = one_link([2**40], 2**30 + 1, 2**30, window=2**41)
    assert result.busy_total[0] == 2**40 + 2**10


def test_missing_counters_are_zero_and_missing_windows_one(build: Callable[..., Result]) -> None:
    none = Windows(np.zeros(0, dtype=np.int64), 1, {})
    result = build(windows=none)
    assert result.windows.counts["flits"].tolist() == [[69, 3, 0, 60]]
    assert result.windows.counts["stall_serial"].tolist() == [[0, 0, 0, 0]]
    assert result.totals["stall_serial"].tolist() == [0, 0, 0, 0]
    assert result.utilization.tolist() == [result.link_utilization.tolist()]


def test_empty(empty: Result) -> None:
    assert empty.busy.shape == empty.utilization.shape == (0, 0)
    assert empty.json()["time_ns"] == 0
    assert empty.title == "experiment"
    assert empty.rates is None


def test_arrays_of_wrong_length_are_refused(build: Callable[..., Result]) -> None:
    with pytest.raises(ValueError, match="for 4 links"):
        build(totals={"flits": np.zeros(3)})
    with pytest.raises(ValueError, match="chunks require the columns"):
        build(chunks={"chunk": np.zeros(3)})
    with pytest.raises(ValueError, match="link column src"):
        LinkTable(["a"], *([np.zeros(2)] * 7))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="does not belong to a result"):
        LinkTable.empty().to_xarray()


def test_rates_of_the_one_collective(build: Callable[..., Result]) -> None:
    # 1024 bytes in 250 ns; the bus bandwidth of an all-reduce of 2 is 2 * (2-1)/2 = 1 times that
    rates = build().rates
    assert rates is not None
    assert rates.algorithm == pytest.approx(1024 / 250e-9)
    assert rates.bus == pytest.approx(1024 / 250e-9)
    assert build(complete=False).rates is None
    assert build(collectives=[]).rates is None
    plain = {"start": 0, "end": 250, "bytes": 1024}
    assert build(collectives=[plain]).rates == rates  # the kind is in the settings, too
    assert build(collectives=[plain], experiment_toml="").rates is None


@pytest.mark.parametrize(
    ("toml", "title"),
    [
        ('[network]\ntopology="torus"\nshape=[4,4,2]\n[collective]\nkind="all-reduce"\nsize="1 MiB"',
         "torus 4x4x2, all-reduce of 1 MiB"),
        ('[network]\ndims=[{block="ring",npus=4},{block="switch",npus=8}]\n[collective]\nkind="all-gather"\nsize=2048',
         "ring 4 x switch 8, all-gather of 2 KiB"),
        ('[network]\ntopology="mesh"\nshape=[8]\n[traffic]\npattern="uniform"\nload=0.3',
         "mesh 8, uniform traffic at load 0.3"),
        ('[network]\ntopology="mesh"\nshape=[8]\n[workload]\nfile="dlrm.txt"', "mesh 8, dlrm.txt"),
        ("this is no TOML", "experiment"),
        ("", "experiment"),
    ],
)  # fmt: skip
def test_title(build: Callable[..., Result], toml: str, title: str) -> None:
    assert build(experiment_toml=toml).title == title


def test_dimensions(build: Callable[..., Result]) -> None:
    assert build().dimension_names == ["2 NPUs"]
    assert build(dimension_names=["ring 2"]).dimension_names == ["ring 2"]
    dims = 'network.dims = [{block = "ring", npus = 4}, {block = "switch", npus = 8}]'
    assert build(experiment_toml=dims).dimension_names == ["ring 4", "switch 8"]
    assert build(experiment_toml="").dimension_names == []


def test_pickles(result: Result) -> None:
    copy = pickle.loads(pickle.dumps(result))
    assert copy.json() == result.json()
    assert copy.busy.tolist() == result.busy.tolist()


def test_repr(build: Callable[..., Result]) -> None:
    assert repr(build(complete=False)) == "Result(ring 2, all-reduce of 1 KiB: 250 ns, incomplete)"
