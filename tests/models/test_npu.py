"""How long NPUs take: by hand, and against the closed forms of the literature."""

from __future__ import annotations

from fractions import Fraction
from importlib.metadata import PackageNotFoundError

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pyxsim.errors import InputError
from pyxsim.models import Part, Share, device, devices, load_model, processor, roofline, scalesim, state_bytes
from pyxsim.models.layer import Work
from pyxsim.settings.npu import Npu

TERA, GIGA = 10**12, 10**9


def of(**settings: object) -> Npu:
    return Npu.model_validate(settings)


def test_a_product_takes_what_is_longer() -> None:
    npu = processor(of(peak="2 TFLOP/s", memory_bandwidth="1 TB/s", efficiency=0.5))
    square = Work(1000, 1000, 1000, 1, 3 * 10**6)  # 2 GFLOP at 1 TFLOP/s; 6 MB at 1 TB/s
    row = Work(1, 1000, 1000, 1, 10**6 + 2000)  # 2 MFLOP; 2.004 MB
    copy = Work(elements=500)
    assert npu.seconds([square], 2) == Fraction(2, 1000)
    assert npu.seconds([row], 2) == Fraction(2_004_000, TERA)
    assert npu.seconds([copy], 2) == Fraction(1000, TERA)
    assert npu.seconds([square, row, copy], 2) == Fraction(2, 1000) + Fraction(2_005_000, TERA)


def test_a_device_has_its_own_numbers_and_others_may_stand_for_them() -> None:
    assert roofline(of(device="a100-80gb")).peak == 312 * TERA
    assert roofline(of(device="a100-80gb", precision="tf32")).peak == 156 * TERA
    assert roofline(of(device="v100")).peak == 125 * TERA  # it has no bf16
    assert roofline(of(device="a100-80gb")).bandwidth == 2039 * GIGA
    assert roofline(of(device="a100-80gb", memory_bandwidth="1 TB/s")).bandwidth == TERA
    assert roofline(of(device="a100-80gb", peak="100 TFLOP/s")).peak == 100 * TERA
    assert roofline(of(device="a100-80gb", efficiency="1/3")).peak == 104 * TERA


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"device": "a100"}, "device: unknown device 'a100'; allowed: v100, a100-40gb"),
        ({"device": "v100", "precision": "bf16"}, "precision: the device 'v100' has no peak for bf16; allowed: fp64"),
    ],
)
def test_what_there_is_not_is_refused(settings: dict[str, object], text: str) -> None:
    with pytest.raises(InputError) as caught:
        processor(of(**settings))
    assert str(caught.value).startswith(text)


ARRAY = {"rows": 8, "columns": 8, "clock": "1 GHz"}


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({}, "is missing"),
        ({"peak": "1 TFLOP/s"}, "is missing"),
        ({"memory_bandwidth": "1 TB/s"}, "is missing"),
        ({"peak": "1 TFLOP/s", "memory_bandwidth": "1 TB/s", "precision": "fp8"}, "has no effect with `peak`"),
        ({"device": "v100", "peak": "1 TFLOP/s", "precision": "fp16"}, "cannot be combined with `peak`"),
        ({"device": "v100", "efficiency": 0}, "0 is not a fraction"),
        ({"device": "v100", "efficiency": 1.1}, "1.1 is not a fraction"),
        ({"device": "v100", "array": ARRAY}, "has no effect"),
        ({"device": "v100", "compute": "systolic"}, "is missing"),
        ({"compute": "systolic", "array": ARRAY}, "is missing"),
        ({"device": "v100", "compute": "systolic", "array": ARRAY, "efficiency": 0.5}, "has no effect with an array"),
        ({"device": "v100", "compute": "systolic", "array": ARRAY, "precision": "fp16"}, "has no effect with an array"),
        ({"device": "v100", "compute": "systolic", "array": ARRAY, "peak": "1 TFLOP/s"}, "has no effect with an array"),
        ({"device": "v100", "compute": "systolic", "array": ARRAY, "roofline": True}, "has no effect with an array"),
        (
            {"device": "v100", "compute": "systolic", "array": {**ARRAY, "sram": {"words_per_cycle": 4}}},
            "has no effect",
        ),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings: dict[str, object], text: str) -> None:
    with pytest.raises(ValidationError, match=text):
        of(**settings)


def test_an_optimizer_moves_its_states() -> None:
    npu = processor(of(peak="1 TFLOP/s", memory_bandwidth="1 TB/s"))
    # Adam in mixed precision: gradient 2 and parameter 2, three states of 4 in and out.
    assert npu.update_seconds(10**9, 2) == Fraction(28 * 10**9, TERA)
    assert npu.update_seconds(10**9, 4) == Fraction(28 * 10**9, TERA)
    assert (state_bytes(1, 2), state_bytes(1, 4)) == (12, 8)  # ZeRO: 16 bytes with parameter and gradient


def test_systolic_arrays_of_a_tpu_make_its_peak() -> None:
    """Four arrays of 128 x 128 at 940 MHz are TPU v3's 123 TFLOP/s; a long product nearly reaches them."""
    array = {"rows": 128, "columns": 128, "count": 4, "clock": "940 MHz"}
    npu = processor(of(device="tpu-v3", compute="systolic", array=array))
    long = Work(10**6, 512, 128, 1, 0)
    reached = long.flops / npu.seconds([long], 2)
    peak = device("tpu-v3").peak(None)
    assert Fraction(999, 1000) * peak < reached < Fraction(1003, 1000) * peak


def test_scalesim_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(scalesim, "version", missing)
    npu = processor(of(device="tpu-v3", compute="scalesim", array={"rows": 5, "columns": 3, "clock": "1 GHz"}))
    with pytest.raises(InputError) as caught:
        npu.seconds([Work(7, 9, 11, 1, 0)], 2)
    assert (
        str(caught.value)
        == "system.npu.compute: SCALE-Sim is not installed; allowed: after pip install 'pyxsim[scalesim]'"
    )


def test_a_step_of_gpt3_takes_six_operations_for_each_parameter_and_token() -> None:
    """6 N D (Kaplan et al. 2020), and 2 for each pair of tokens in the attention: all but some thousandths."""
    model = load_model("gpt3-175b")
    npu = processor(of(peak="1 PFLOP/s", memory_bandwidth="4000 PB/s"))
    parts = (Part.FORWARD, Part.INPUT_GRADIENT, Part.WEIGHT_GRADIENT)
    seconds = sum(npu.seconds(layer.work(part, 8), 2) for layer in model.layers for part in parts)
    dense = model.parameters - 2048 * 12288  # positions are no matrix
    expected = Fraction(6 * dense * 8 * 2048 + 12 * 96 * 2048**2 * 12288 * 8, 10**15)
    assert abs(seconds / expected - 1) < Fraction(1, 1000)


@given(
    tensor=st.sampled_from((1, 2, 4, 8)),
    samples=st.integers(1, 4),
    part=st.sampled_from((Part.FORWARD, Part.INPUT_GRADIENT, Part.WEIGHT_GRADIENT)),
)
def test_tensor_parallelism_divides_the_products(tensor: int, samples: int, part: Part) -> None:
    """A block of GPT-3 comes out even: each of the NPUs has its share of the operations and of the parameters."""
    model = load_model("gpt3-175b", 128)
    for layer in model.layers[1:3]:
        alone = sum(work.flops for work in layer.work(part, samples))
        shared = sum(work.flops for work in layer.work(part, samples, Share(tensor)))
        assert shared * tensor == alone
        others, _ = layer.held(Share(tensor))
        assert others == layer.parameters.whole + layer.parameters.divided // tensor


def test_devices_tell_where_they_are_from() -> None:
    for each in devices().values():
        assert each.source
        assert each.memory >= 16 * GIGA
        assert each.peak(None) > 0
