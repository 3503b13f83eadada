"""Work on NPUs that stop or slow down, against its integral cycle by cycle."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pyxsim
from pyxsim.errors import StuckError
from pyxsim.network.fault_times import NEVER, FaultTimes
from pyxsim.system.options import ComputeFault
from pyxsim.workload.faulty_compute import end_of_work

faults = st.lists(
    st.builds(
        lambda start, length, gap, slow: ComputeFault(
            FaultTimes(start, length, length + gap if gap else 0, NEVER), slow
        ),
        start=st.integers(0, 40),
        length=st.integers(1, 15),
        gap=st.integers(0, 9),
        slow=st.sampled_from([Fraction(0), Fraction(2), Fraction(3, 2), Fraction(7)]),
    ),
    min_size=1,
    max_size=3,
)


@given(faults, st.integers(0, 60), st.integers(0, 40))
def test_work_ends_when_its_integral_is_reached(some: list[ComputeFault], start: int, ticks: int) -> None:
    done, now = Fraction(0), start
    while done < ticks and now < 2000:
        speed = Fraction(1)
        for fault in some:
            if fault.times.active(now):
                speed = speed / fault.slow if fault.slow else Fraction(0)
        done, now = done + speed, now + 1
    found = end_of_work(some, start, Fraction(ticks))
    assert found == now if now < 2000 else found >= 2000


LOOP = """HYBRID_DATA_MODEL
1
a -1 500 NONE 0 700 NONE 0 900 NONE 0 10
"""


def run(folder: Path, *faults: dict[str, Any], backend: str = "analytical") -> Any:
    (folder / "loop.txt").write_text(LOOP, encoding="utf-8")
    network = {"topology": "ring", "shape": [2], "latency": "500 ns"}
    workload = {"file": str(folder / "loop.txt")}
    return pyxsim.run({"network": network, "workload": workload, "faults": list(faults)}, backend=backend)


@pytest.mark.parametrize("backend", ["analytical", "flow", "packet"])
def test_an_npu_that_is_slow_for_a_time_computes_longer(tmp_path: Path, backend: str) -> None:
    # 100 cycles at a third of the speed do the work of 100 / 3.
    slow = run(tmp_path, {"npu": 1, "at": "50 ns", "for": "100 ns", "slow": 3}, backend=backend)
    sound = run(tmp_path, backend=backend)
    work = sound.npus["compute"].tolist()
    assert work[0] == work[1]
    assert slow.npus["compute"].tolist()[0] == work[0]
    assert slow.npus["compute"].tolist()[1] == work[1] + 67
    assert slow.time_cycles == sound.time_cycles + 67


def test_an_npu_that_stops_for_a_time_computes_as_much_later(tmp_path: Path) -> None:
    sound, paused = run(tmp_path), run(tmp_path, {"npu": "*", "at": "50 ns", "for": "1 us", "stop": True})
    assert paused.time_cycles == sound.time_cycles + 1000


def test_an_npu_that_stops_for_good_is_named(tmp_path: Path) -> None:
    with pytest.raises(StuckError, match="NPU 0 has stopped") as caught:
        run(tmp_path, {"npu": 0, "at": "50 ns", "stop": True})
    assert not caught.value.result.complete


def test_computing_faults_after_the_end_change_nothing(tmp_path: Path) -> None:
    assert run(tmp_path, {"npu": 0, "at": "1 s", "stop": True}).time_cycles == run(tmp_path).time_cycles
