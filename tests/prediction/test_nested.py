"""Nested keys: distributions worked by hand, the bound on keys, and a history in which its distributions stand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env.prediction import History, Known, find_predictor
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance
from tests.prediction.histories import (
    BEGINS_S,
    MIDDLES_S,
    NAN,
    Job,
    events,
    histories,
    level,
    nested,
    nested_keys,
    nested_shares,
    played,
    workload_of,
)

PRIOR_S = float(MIDDLES_S.mean())


def smooth_s(run_s: float) -> float:
    """The mean of one run time, smoothed over five levels."""
    at = level(run_s)
    return float(np.array([1, 2, 3, 2, 1]) @ MIDDLES_S[at - 2 : at + 3]) / 9


def each(at_s: float, run_s: float, user: str = "", gang: int = 1, name: str = "", jobs: int = 1) -> list[Job]:
    """Jobs one after the other, the next when the last has ended."""
    return [Job(at_s + (run_s + 1) * job, run_s, gang, user, name, "", NAN) for job in range(jobs)]


@pytest.mark.parametrize("short_s", [0.0, 5e-7, 2e-6])
def test_a_run_time_is_of_the_last_level_that_it_reaches(short_s: float) -> None:
    for at in range(3, 59):
        reached = at - int(short_s > 1e-6)
        found = played("nested", [*each(0.0, BEGINS_S[at] - short_s, gang=1), *each(1e7, 1.0, gang=2)])[-1]
        assert found == pytest.approx((smooth_s(BEGINS_S[reached]) + 50 * PRIOR_S) / 51, rel=1e-12)


@pytest.mark.parametrize("shared", range(7))
def test_columns_narrow_in_order(shared: int) -> None:
    """One job has ended; the next shares so many columns, and not the next one, whatever follows.

    Distributions of the ended job's keys are drawn to its own by 1/51, then by 1/9 each.
    """
    first = [11.0, "queue a", "account a", "ann", 1, "name a"]
    other = [500.0, "queue b", "account b", "bob", 2, "name b"]
    rows = [first, [*first[:shared], *other[shared : shared + 1], *first[shared + 1 :]]]
    limit_s, queue, account, user, gang, name = (np.array(column) for column in zip(*rows, strict=True))
    jobs = [Job(0.0, 100.0, int(g), "", "", "", float(limit)) for g, limit in zip(gang, limit_s, strict=True)]
    attributes = {"queue": queue, "account": account, "user": user, "name": name}
    predictor = find_predictor("nested")(Known.of(workload_of(jobs).unchecked_replace(attributes=attributes)))
    assert np.isnan(predictor.predict(0))
    predictor.end(0, 100.0, False)
    own = smooth_s(100.0)
    assert predictor.predict(1) == pytest.approx(own + (PRIOR_S - own) * 50 / 51 * (8 / 9) ** shared, rel=1e-9)


@pytest.mark.parametrize("untold", range(1, 16))
def test_a_column_that_is_not_told_is_skipped(untold: int) -> None:
    """Keys of what is told stay: each of them draws by 1/9, as do those of jobs that tell all."""
    told, empty = [10.0, "vc1", "ann", "train"], [NAN, "", "-1", ""]
    limit_s, queue, user, name = (empty[at] if untold >> at & 1 else told[at] for at in range(4))
    found = played("nested", [Job(at, 100.0, 8, user, name, queue, limit_s) for at in (0.0, 200.0)])[-1]
    own = smooth_s(100.0)
    depth = 5 - untold.bit_count()
    assert found == pytest.approx(own + (PRIOR_S - own) * 50 / 51 * (8 / 9) ** depth, rel=1e-9)


def test_an_unknown_user_is_of_all_jobs_and_known_ones_of_their_own() -> None:
    """Both have run so many jobs that their weights are 1 / 0.05 = 20; keys are the user, and the user with a gang."""
    history = [job for at in range(1500) for job in (*each(2e4 * at, 100.0, "ann"), *each(2e4 * at, 1e4, "bob"))]
    last = [each(3e7, 1.0, user, gang) for user, gang in (("ann", 1), ("bob", 1), ("cat", 1), ("cat", 8), ("", 8))]
    ann_s, bob_s, *strangers = (played("nested", [*history, *one])[-1] for one in last)
    short_s, long_s = smooth_s(100.0), smooth_s(1e4)
    all_s = (1500 * (short_s + long_s) + 50 * PRIOR_S) / 3050
    assert strangers == pytest.approx([all_s] * 3, rel=1e-9)
    assert ann_s == pytest.approx(short_s + (all_s - short_s) * (8 / 28) ** 2, rel=1e-9)
    assert bob_s == pytest.approx(long_s + (all_s - long_s) * (8 / 28) ** 2, rel=1e-9)
    assert ann_s < all_s / 10 < all_s < bob_s


def test_old_run_times_fade() -> None:
    """40 ends after ann's jobs have changed, 0.95**40 = 0.13 of what was before remains."""
    history = [*each(0.0, 100.0, "ann", jobs=2000), *each(1e6, 1e4, "ann", jobs=40), *each(1e7, 1.0, "ann")]
    short_s, long_s, kept = smooth_s(100.0), smooth_s(1e4), 0.95**40
    own_s = kept * short_s + (1 - kept) * long_s
    for jobs, own in ((2000, short_s), (2040, own_s)):
        all_s = (2000 * short_s + (jobs - 2000) * long_s + 50 * PRIOR_S) / (jobs + 50)
        found = played("nested", [*history[:jobs], history[-1]])[-1]
        assert found == pytest.approx(own + (all_s - own) * (8 / 28) ** 2, rel=1e-9)
    assert found == pytest.approx(1e4, rel=0.05)


def test_run_times_beyond_the_levels_are_of_the_outer_ones() -> None:
    """Of the smoothing, what lies beyond is lost: 6/9 remain."""
    for run_s, middles in ((1e-3, MIDDLES_S[:3]), (1e9, MIDDLES_S[:-4:-1])):
        found = played("nested", [*each(0.0, run_s, gang=1), *each(2e9, 1.0, gang=2)])[-1]
        assert found == pytest.approx((np.array([3, 2, 1]) / 9 @ middles + 50 * PRIOR_S) / (50 + 6 / 9), rel=1e-9)


@given(history=histories, most=st.integers(1, 12))
@settings(max_examples=100, deadline=None)
def test_keys_are_bounded(history: list[Job], most: int) -> None:
    """A job whose key has no room is of the last that exists; predictions of keys that exist stay."""
    keys = list(dict.fromkeys(key for job in history for key in nested_keys(job)))[:most]
    unbounded = played("nested", history)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpusched_env.prediction.nested.MOST_KEYS", most)
        predictor = find_predictor("nested")(Known.of(workload_of(history)))
        ended: list[Job] = []
        for _, ends, row in events(history):
            job = history[row]
            if ends:
                predictor.end(row, job.run_s, False)
                ended.append(job)
                continue
            found_s = predictor.predict(row)
            assert found_s == pytest.approx(nested(ended, job, keys), rel=1e-9, nan_ok=True)
            if nested_keys(job)[-1] in keys:
                np.testing.assert_array_equal(found_s, unbounded[row])
        predictor.renew()
    for job, at in zip(history, predictor.class_of.tolist(), strict=True):
        np.testing.assert_allclose(predictor.shares[at], nested_shares(ended, job, keys), rtol=1e-9)
    assert len(predictor.shares) <= most


def varied(jobs: int) -> list[Job]:
    """Users and names with run times of their own, at random; a third of a column is not told."""
    rng = np.random.default_rng(7)
    users, names = rng.integers(0, 3, jobs), rng.integers(0, 3, jobs)
    columns = [
        np.sort(rng.uniform(0.0, 1e6, jobs)),
        np.exp(rng.normal(3.0 + 2.0 * users + names, 0.5)),
        rng.choice([1, 2, 8], jobs),
        np.array(["", "ann", "bob"])[users],
        np.array(["", "eval", "train"])[names],
        rng.choice(["", "vc1", "vc2"], jobs),
        rng.choice([NAN, 600.0, 86_400.0], jobs),
    ]
    return [Job(*one) for one in zip(*(column.tolist() for column in columns), strict=True)]


@pytest.mark.parametrize("most", [16, 10_000])
def test_a_history_gives_the_distribution_at_submission(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of all jobs, until 25 have ended. It is not given up, as its columns tell much."""
    monkeypatch.setattr("gpusched_env.prediction.nested.MOST_KEYS", most)
    history = varied(200)
    keys = list(dict.fromkeys(key for job in history for key in nested_keys(job)))[:most]
    seen, ended = History(Instance(Cluster.parse("2x8"), workload_of(history)), "nested"), list[Job]()
    for _, ends, row in events(history):
        if ends:
            seen.end(row, history[row].run_s, False)
            ended.append(history[row])
        else:
            seen.arrive(row)
            wanted = nested_shares(ended, history[row], keys if len(ended) >= 25 else [()])
            np.testing.assert_allclose(seen.shares[seen.class_of[row]], wanted, rtol=1e-9)
    assert seen.given_up == 0
