"""Theorem 1 of SJF-BSBF: closed forms against every start time, the worked cases, and the simulator itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sharing_play import pair

from gpusched_env.core.sharing.theorem import mean_in_sequence, mean_sharing
from gpusched_env.metrics import job_times, validate
from gpusched_env.simulator import Outcome, Simulation, Start

TIE = 1e-9  # of T_seq: a smaller gain is a tie, and ties do not share (ours, docs/sjf_bsbf.md)
TIMES = 400  # at which the second job may join

# docs/sjf_bsbf.md, Theorem 1, by hand: L_A, L_B, xi_A, xi_B, T_A, T_B, T_con, T_seq, share
CASES = [
    (600, 7, 1, 1, 600, 7, 303.5, 603.5, True),
    (100, 20, 1.2, 1.2, 104, 24, 64, 110, True),
    (100, 20, 2, 2, 120, 40, 80, 110, True),
    (30, 20, 2, 2, 50, 40, 45, 40, False),
    (40, 20, 2, 2, 60, 40, 50, 50, False),
    (100, 100, 1.5, 1.5, 150, 150, 150, 150, False),
    (101, 100, 1.5, 1.5, 151, 150, 150.5, 151, True),
    (20, 100, 1.4, 1.4, 28, 108, 68, 70, True),
    (20, 100, 1.5, 1.5, 30, 110, 70, 70, False),
    (20, 100, 1.6, 1.25, 32, 106.4, 69.2, 70, True),
    (20, 100, 1.7, 1.25, 34, 106.8, 70.4, 70, False),
    (60, 50, 1.1, 3, 66, 94, 80, 85, True),
    # the ratios of A and B exchanged
    (20, 100, 1.25, 1.7, 25, 110.294118, 67.647059, 70, True),
    (60, 50, 3, 1.1, 96.666667, 55, 75.833333, 85, True),
]


def ends(left_s, new_s, left_xi, new_xi, joins_s):
    """Ends of A and B if B joins at ``joins_s``: A alone, both together, one alone; arrays of any shape.

    Plays the three stretches one after the other, the rates being constant in each.
    """
    left = left_s - joins_s  # remaining work of A when B joins
    together = np.minimum(left * left_xi, new_s * new_xi)  # time until the first of them ends
    left_after = np.maximum(left - together / left_xi, 0.0)
    new_after = np.maximum(new_s - together / new_xi, 0.0)
    left_first = left * left_xi <= new_s * new_xi
    both = joins_s + together
    return both + np.where(left_first, 0.0, left_after), both + np.where(left_first, new_after, 0.0)


def shares(left_s: float, new_s: float, left_xi: float, new_xi: float) -> bool:
    sequence = mean_in_sequence(left_s, new_s)
    return sequence - mean_sharing(left_s, new_s, left_xi, new_xi) > TIE * sequence


def random_pairs(count: int) -> np.ndarray:
    """float64 [count, 4]: L_A, L_B, xi_A, xi_B; some ratios equal, some 1."""
    rng = np.random.default_rng(0)
    xi = 1.0 + rng.exponential(0.5, (count, 2))
    xi[: count // 4, 1] = xi[: count // 4, 0]
    xi[count // 4 : count // 3] = 1.0
    return np.concatenate([rng.lognormal(4.0, 1.5, (count, 2)), xi], axis=1)


def test_no_start_time_beats_the_better_of_now_and_after() -> None:
    """10,000 pairs x 400 joining times, followed from event to event; joining at once gives T_con."""
    pairs = random_pairs(10_000)
    columns = [column[:, None] for column in pairs.T]
    joins = columns[0] * np.linspace(0.0, 1.0, TIMES + 1)
    means = np.add(*ends(*columns, joins)) / 2.0
    sharing = np.array([mean_sharing(*row) for row in pairs.tolist()])
    sequence = np.array([mean_in_sequence(*row[:2]) for row in pairs.tolist()])
    np.testing.assert_allclose(means[:, 0], sharing, rtol=1e-12)
    np.testing.assert_allclose(means[:, -1], sequence, rtol=1e-12)
    assert (means.min(axis=1) >= np.minimum(sharing, sequence) * (1 - 1e-12)).all()
    assert (sharing < sequence).any()
    assert (sharing > sequence).any()


@pytest.mark.parametrize("case", CASES)
def test_worked_cases(case: tuple) -> None:
    left_s, new_s, left_xi, new_xi, left_end, new_end, sharing, sequence, share = case
    found = ends(left_s, new_s, left_xi, new_xi, 0.0)
    assert np.array(found) == pytest.approx([left_end, new_end], abs=5e-7)
    assert mean_sharing(left_s, new_s, left_xi, new_xi) == pytest.approx(sharing, abs=5e-7)
    assert mean_in_sequence(left_s, new_s) == sequence
    assert shares(left_s, new_s, left_xi, new_xi) == share


def jcts(case: tuple, gap_s: float, at_once: bool | None) -> np.ndarray:
    """JCT of A and B [s] in the simulator; B joins at its arrival, when A ends, or by share-best-benefit (None)."""
    left_s, new_s, left_xi, new_xi = case
    instance = pair((left_xi, new_xi), (left_s + gap_s, new_s), gap_s)
    simulation = Simulation(instance)
    while simulation.advance() is Outcome.DECIDE:
        simulation.apply(Start(0))
        if at_once is None:
            simulation.apply(Start(1, "share-best-benefit"))
        else:
            simulation.apply(Start(1, gpus=(0,), share=at_once))
    validate(instance, simulation.log())
    times: np.ndarray = job_times(instance, simulation.log())["jct_s"]
    return times - [gap_s, 0.0]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("gap_s", [0.0, 31.0])
def test_the_simulator_plays_the_worked_cases(case: tuple, gap_s: float) -> None:
    """Joining at once, after A, and by the rule of Theorem 1, for any progress of A."""
    left_s, new_s = case[:2]
    now = jcts(case[:4], gap_s, True)
    after = jcts(case[:4], gap_s, False)
    assert now == pytest.approx(ends(*case[:4], 0.0), rel=1e-9)
    assert after == pytest.approx([left_s, left_s + new_s], rel=1e-9)
    assert now.mean() == pytest.approx(mean_sharing(*case[:4]), rel=1e-9)
    assert after.mean() == pytest.approx(mean_in_sequence(left_s, new_s), rel=1e-9)
    chosen = jcts(case[:4], gap_s, None)
    np.testing.assert_allclose(chosen, now if case[-1] else after, rtol=1e-9)


seconds, ratios = st.floats(0.1, 1e4), st.floats(1.0, 5.0)


@settings(max_examples=25)
@given(seconds, seconds, ratios, ratios)
def test_the_simulator_plays_random_pairs(left_s: float, new_s: float, left_xi: float, new_xi: float) -> None:
    case = left_s, new_s, left_xi, new_xi
    now = jcts(case, 0.0, True)
    assert now == pytest.approx(ends(*case, 0.0), rel=1e-9)
    assert now.mean() == pytest.approx(mean_sharing(*case), rel=1e-9)


@settings(max_examples=200)
@given(seconds, seconds, ratios, ratios)
def test_properties(left_s: float, new_s: float, left_xi: float, new_xi: float) -> None:
    """Continuity where both end together, xi = 1, equal xi from 1.5 on, and the form without lengths."""
    together = new_xi * new_s / left_xi  # L_A at which both end together
    below, above = (mean_sharing(together * (1 + step), new_s, left_xi, new_xi) for step in (-1e-12, 1e-12))
    assert below == pytest.approx(above, rel=1e-10)
    if min(left_s, new_s) > 1e-6 * max(left_s, new_s):
        assert shares(left_s, new_s, 1.0, 1.0)
    xi = max(left_xi, 1.5)
    margin = left_s - 2 * (xi - 1) * new_s
    if abs(margin) > 1e-6 * (left_s + new_s):
        assert shares(left_s, new_s, xi, xi) == (margin > 0)
    gain = 2 * new_xi - left_xi * (2 * new_xi - 1)
    if left_xi * left_s < new_xi * new_s and abs(gain) * min(left_s, new_s) > 1e-6 * (left_s + new_s):  # A first
        assert shares(left_s, new_s, left_xi, new_xi) == (gain > 0)
