"""When packets are created: rates, bursts, mixes, and that nothing but the seed decides."""

from __future__ import annotations

import math
from dataclasses import fields
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.errors import InputError
from pyxsim.settings.traffic import Traffic
from pyxsim.traffic import Arrivals, PatternContext, Source
from pyxsim.traffic.draws import random_below, stream, weighted
from pyxsim.traffic.process import (
    RARE_PACKETS,
    Bernoulli,
    OnOff,
    Rare,
    bernoulli_process,
    binomial_cdf,
    block_cycles,
    states,
)
from tests.examples import part_of

PLACE = PatternContext(64, (8, 8))


def source(place: PatternContext = PLACE, **settings: Any) -> Source:
    return Source(Traffic(**settings).resolved, place)


def equal(one: Arrivals, other: Arrivals) -> bool:
    return all(np.array_equal(getattr(one, each.name), getattr(other, each.name)) for each in fields(Arrivals))


def test_the_load_is_what_is_created() -> None:
    found = source(load=0.3, packet_flits=5).until(20_000)
    # A trial of p = 0.06 per node and cycle; four standard deviations.
    trials = 20_000 * 64
    assert abs(len(found) - 0.06 * trials) < 4 * np.sqrt(trials * 0.06 * 0.94)
    assert set(found.flits.tolist()) == {5}
    assert (np.diff(found.cycle) >= 0).all()
    assert found.cycle[-1] < 20_000


def test_at_full_load_a_packet_in_every_cycle() -> None:
    found = source(load=5, packet_flits=5, place=PatternContext(4, (4,))).until(100)
    assert found.cycle.tolist() == np.repeat(np.arange(100), 4).tolist()
    assert found.src.tolist() == [0, 1, 2, 3] * 100


def test_a_mix_of_sizes() -> None:
    found = source(load=0.3, packet_flits=[1, 5], packet_weights=[3, 1]).until(20_000)
    # Three packets of one flit for each of five: two flits on average.
    assert abs((found.flits == 5).mean() - 0.25) < 0.01
    assert abs(found.flits.sum() / 64 / 20_000 - 0.3) < 0.005


@settings(max_examples=part_of(25))
@given(st.lists(st.integers(0, 900), max_size=8), st.integers(0, 2**63 - 1))
def test_spans_do_not_matter(cuts: list[int], seed: int) -> None:
    settings: dict[str, Any] = {
        "classes": [
            {"load": 0.2, "pattern": "tornado"},
            {"load": 0.1, "packet_flits": [1, 4], "injection": {"process": "on-off", "alpha": 0.1, "beta": 0.2}},
        ]
    }
    place = PatternContext(700, (7, 100), seed=seed)  # blocks of 128 cycles
    pieces = source(place, **settings)
    parts = [pieces.until(cycle) for cycle in [*sorted(cuts), 900]]
    whole = source(place, **settings).until(900)
    assert equal(Arrivals.concatenate(parts), whole)
    assert (np.diff(whole.cycle) >= 0).all()
    # Inside a cycle by class, then by node: so a message has the same number whatever the span.
    order = (whole.cycle * 2 + whole.klass) * 700 + whole.src
    assert (np.diff(order) > 0).all()


def test_the_seed_decides() -> None:
    one, same, other = (source(PatternContext(16, (4, 4), seed=seed), load=0.3).until(1000) for seed in (1, 1, 2))
    assert equal(one, same)
    assert not np.array_equal(one.cycle, other.cycle)


def test_a_pattern_does_not_move_the_times() -> None:
    uniform, tornado = (source(load=0.3, pattern=name).until(1000) for name in ("uniform", "tornado"))
    assert np.array_equal(uniform.cycle, tornado.cycle)
    assert np.array_equal(uniform.src, tornado.src)


def test_these_draws_are_the_same_on_every_machine() -> None:
    # The first block of philox4x64-10 for a counter and a key of zeros, as its authors published it (Random123,
    # kat_vectors). numpy counts up before it draws.
    last = np.full(4, 2**64 - 1, dtype=np.uint64)
    raw = np.random.Philox(counter=last, key=np.zeros(2, dtype=np.uint64)).random_raw(4)
    published = [0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B]
    assert raw.tolist() == published
    # A stream is that generator with key (seed, class) and counter (0, 0, purpose, block), 53 bits for a double.
    key, counter = np.array([7, 3], dtype=np.uint64), np.array([0, 0, 2, 9], dtype=np.uint64)
    raw = np.random.Philox(counter=counter, key=key).random_raw(100)
    doubles = [(int(word) >> 11) / 2**53 for word in raw]
    assert stream(7, 3, 2, 9).random(100).tolist() == doubles
    assert random_below(stream(7, 3, 2, 9), 1000, 100).tolist() == [int(1000 * double) for double in doubles]


def test_weights() -> None:
    found = weighted(stream(1, 0, 0), np.array([0.0, 2.0, 0.0, 6.0, 0.0]), 10_000)
    assert set(found.tolist()) == {1, 3}
    assert abs((found == 3).mean() - 0.75) < 0.02


def test_requests_know_their_reply() -> None:
    replies = {"read_request": 1, "read_reply": 4, "write_request": 3, "write_reply": 2, "write_share": 0.25}
    settings = Traffic(load=0.5, replies=replies)
    # Reads bring 1 + 4 flits, writes 3 + 2.
    assert settings.resolved[0].mean_flits == 5
    found = Source(settings.resolved, PLACE).until(5000)
    assert set(zip(found.flits.tolist(), found.reply.tolist(), strict=True)) == {(1, 4), (3, 2)}
    assert abs((found.flits == 3).mean() - 0.25) < 0.02
    assert abs(len(found) - 0.1 * 64 * 5000) < 4 * np.sqrt(0.1 * 64 * 5000)


@settings(max_examples=part_of(30))
@given(st.integers(1, 300), st.fractions(0, Fraction(1, 4)))
def test_how_many_trials_succeed(count: int, chance: Fraction) -> None:
    """Against binomial coefficients, exactly."""
    found = binomial_cdf(count, float(chance))
    exact, so_far = Fraction(float(chance)), Fraction(0)
    for number, upto in enumerate(found):
        so_far += math.comb(count, number) * exact**number * (1 - exact) ** (count - number)
        assert upto == pytest.approx(float(so_far), rel=1e-9)
    assert found[-1] == pytest.approx(1, rel=1e-9)


@pytest.mark.parametrize("rate", [1e-4, 1e-6])  # a block alone, and some together
def test_rare_packets_are_the_same_trials(rate: float) -> None:
    """How many a block has, and where, against what trials one by one would be; each node with its own rate."""
    npus, blocks = 8, 20_000
    rates = np.array([1, 0, 2, 1, 4, 1, 1, 0]) * rate
    length = block_cycles(npus)
    process = bernoulli_process(3, 0, npus, rates)
    assert isinstance(process, Rare)
    found = [process.block(number) for number in range(blocks)]
    for cycle, node in found:
        assert (np.diff(cycle * npus + node) > 0).all()
        assert ((cycle >= 0) & (cycle < length)).all()
    nodes = np.bincount(np.concatenate([node for _, node in found]), minlength=npus)
    wanted = blocks * length * rates
    assert (np.abs(nodes - wanted) <= 4.5 * np.sqrt(wanted)).all()
    assert nodes[[1, 7]].tolist() == [0, 0]
    counts = np.array([len(cycle) for cycle, _ in found])
    mean = length * rates.sum()
    assert abs(counts.mean() - mean) < 4 * np.sqrt(mean / blocks)
    assert counts.var() == pytest.approx(mean, rel=0.06)
    cycles = np.concatenate([cycle for cycle, _ in found])
    in_sixteenths = np.bincount(cycles * 16 // length, minlength=16)
    assert (np.abs(in_sixteenths - len(cycles) / 16) < 4.5 * np.sqrt(len(cycles) / 16)).all()
    again = bernoulli_process(3, 0, npus, rates).block(7)  # whatever was drawn before
    assert np.array_equal(again, found[7])


def test_which_way_is_taken() -> None:
    """By the mean number of packets in a block: what is not rare is drawn as it always was."""
    limit = RARE_PACKETS / (block_cycles(64) * 64)
    assert isinstance(bernoulli_process(1, 0, 64, limit), Rare)
    assert isinstance(bernoulli_process(1, 0, 64, 1.01 * limit), Bernoulli)
    assert isinstance(bernoulli_process(1, 0, 64, np.full(64, limit) * np.arange(64)), Bernoulli)
    assert len(bernoulli_process(1, 0, 64, 0.0).block(0)[0]) == 0


def test_a_rare_load_is_what_is_created() -> None:
    found = source(load=1e-5, packet_flits=5).until(10_000_000)
    mean = 10_000_000 * 64 * 2e-6
    assert abs(len(found) - mean) < 4 * np.sqrt(mean)
    assert (np.diff(found.cycle) >= 0).all()
    pieces = source(load=1e-5, packet_flits=5)
    assert equal(Arrivals.concatenate([pieces.until(cycle) for cycle in (1, 70_000, 3_000_000, 10_000_000)]), found)


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        # rate = r1 * alpha / (alpha + beta) = 0.1 in each case.
        ({"alpha": 0.02, "beta": 0.06}, {"r1": 0.4}),
        ({"alpha": 0.02, "r1": 0.4}, {"beta": 0.06}),
        ({"beta": 0.06, "r1": 0.4}, {"alpha": 0.02}),
    ],
)
def test_bursts(given_: dict[str, float], expected: dict[str, float]) -> None:
    process = OnOff(1, 0, 64, 0.1, **{"alpha": None, "beta": None, "r1": None, **given_})
    (name, value) = next(iter(expected.items()))
    np.testing.assert_allclose(getattr(process, f"_{name}"), value)
    packets = np.zeros((8 * block_cycles(64), 64))
    for block in range(8):
        cycle, node = process.block(block)
        packets[cycle + block * block_cycles(64), node] = 1
    assert abs(packets.mean() - 0.1) < 0.01
    # Bursts: packets a cycle apart are correlated, with (1 - alpha - beta) * (r1 - rate) / (1 - rate) of it left.
    rest = packets - 0.1
    correlation = (rest[1:] * rest[:-1]).mean() / (0.1 * 0.9)
    assert abs(correlation - 0.92 * 0.3 / 0.9) < 0.05


@pytest.mark.parametrize("given_", [{"alpha": 0.5, "beta": 0.5}, {"alpha": 0.1, "r1": 0.2}, {"beta": 1.0, "r1": 0.4}])
def test_bursts_that_cannot_be(given_: dict[str, float]) -> None:
    with pytest.raises(InputError, match=r"traffic\.injection: .* cannot create 0\.6 packets"):
        source(load=0.6, injection={"process": "on-off", **given_})


@given(st.integers(0, 2**32), st.floats(0, 1), st.floats(0, 1))
def test_chains_of_states(seed: int, alpha: float, beta: float) -> None:
    draws = np.random.default_rng(seed)
    before = draws.random(3) < 0.5
    off, on = draws.random((40, 3)) < alpha, draws.random((40, 3)) >= beta
    found, state = states(before, off, on), before
    for cycle in range(40):
        state = np.where(state, on[cycle], off[cycle])
        assert np.array_equal(found[cycle], state)


def test_faults_name_the_class() -> None:
    with pytest.raises(InputError) as caught:
        source(load=0.1, classes=[{}, {"pattern": "hotspot"}])
    assert (
        str(caught.value) == "traffic.classes[1].pattern_options.nodes: is missing; the pattern 'hotspot' requires it"
    )


@pytest.mark.parametrize(
    ("traffic", "key"),
    [
        ({"classes": [{"load": 0.1, "pattern": "hotspt"}]}, "traffic.classes[0].pattern"),
        ({"load": 0.1, "pattern": "hotspt", "classes": [{}, {}]}, "traffic.pattern"),
        ({"load": 0.1, "pattern": "hotspot", "classes": [{}, {}]}, "traffic.pattern_options.nodes"),
        (
            {"load": 0.6, "classes": [{"injection": {"process": "on-off", "alpha": 0.5, "r1": 0.1}}]},
            "traffic.classes[0].injection",
        ),
    ],
)
def test_a_fault_is_told_where_it_was_written(traffic: dict[str, Any], key: str) -> None:
    with pytest.raises(InputError) as caught:
        Source(Traffic.model_validate(traffic).resolved, PatternContext(16, (4, 4)))
    assert caught.value.key == key
