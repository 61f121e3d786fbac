"""Predictors agree with their definitions, and never know of what has not ended."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import log_ndtr

from gpusched_env import Simulation, Start
from gpusched_env.errors import SchedulerError
from gpusched_env.prediction import PREDICTORS, History, Known, predictor
from gpusched_env.prediction.tobit import Tobit, censored_fit
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance
from gpusched_env.simulator import Outcome
from tests.prediction.histories import (
    KEYS,
    MOST,
    NAN,
    REFERENCES,
    UNKNOWN,
    Job,
    alike,
    expected,
    histories,
    played,
    rolling,
    similar,
    statistics,
    workload_of,
)

EVERY = 4
FITTED = ("gbdt", "qssf", "tobit")
each = pytest.mark.parametrize("name", [*REFERENCES, *FITTED])


@pytest.fixture(scope="module", autouse=True)
def early() -> Iterator[None]:
    """Models are fitted after 4 ends, and after 4 more, and fewer run times of a key count: small histories suffice."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PREDICTORS["quantile"], "MOST", MOST)
        for name in FITTED:
            patch.setattr(PREDICTORS[name], "EVERY", EVERY)
        yield


def need(name: str) -> None:
    if name in ("gbdt", "qssf"):
        pytest.importorskip("sklearn", reason="scikit-learn is not here: pip install 'gpusched-env[predict]'")


@pytest.mark.parametrize("name", REFERENCES)
@given(history=histories)
def test_a_prediction_is_that_of_a_scan_over_all_ended_jobs(name: str, history: list[Job]) -> None:
    found, wanted = played(name, history), expected(REFERENCES[name], history)
    assert found == pytest.approx(wanted, rel=1e-9, nan_ok=True)


@given(history=histories)
@settings(max_examples=50)
def test_qssf_without_trees_is_the_mean_of_similar_names(history: list[Job]) -> None:
    need("qssf")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PREDICTORS["qssf"], "EVERY", 1000)
        found = played("qssf", history)
    assert found == pytest.approx(expected(rolling, history), rel=1e-9, nan_ok=True)


def boosted(history: list[Job], helios: bool) -> list[float]:
    """Boosted trees over features at submission: fitted as the definition says, by scikit-learn itself."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    codes = {column: list(dict.fromkeys(getattr(job, column) for job in history if getattr(job, column) not in UNKNOWN))
             for column in ("user", "name", "queue")}  # fmt: skip
    clusters: dict[str, int] = {}
    seen: dict[int, list[float]] = {}
    trees, due, rows = None, EVERY, {id(job): row for row, job in enumerate(history)}
    ended_before: list[Job] = []

    def reference(ended: list[Job], job: Job) -> float:
        nonlocal trees, due
        while len(ended_before) < len(ended):
            ended_before.append(ended[len(ended_before)])
            if len(ended_before) == due:
                due += max(EVERY, len(ended_before) // 10)
                table = [seen[rows[id(one)]] for one in ended_before]
                trees = HistGradientBoostingRegressor(early_stopping=False, random_state=0).fit(
                    np.array(table), np.log([one.run_s for one in ended_before])
                )
        number = {c: codes[c].index(getattr(job, c)) if getattr(job, c) not in UNKNOWN else -1 for c in codes}
        hour, day = job.arrival_s // 3600 % 24, job.arrival_s // 86400 % 7
        limit = -1.0 if math.isnan(job.limit_s) else job.limit_s
        told = [number["user"], -1, number["name"], number["queue"], job.gang, limit, hour, day]
        told += [-1.0 if math.isnan(one) else one for one in statistics(ended, job)]
        if helios:
            if job.name not in clusters:
                near = similar(ended, job)
                clusters[job.name] = clusters[near[0]] if near else number["name"]
            told = [number["user"], number["queue"], clusters[job.name], job.gang, hour, day]
        seen[rows[id(job)]] = [float(one) for one in told]
        if trees is None:
            return NAN
        y = round(float(trees.predict(np.array([seen[rows[id(job)]]]))[0]), 2)
        return min(max(math.exp(y), 1e-3), 1e9)

    return expected(reference, history)


@pytest.mark.parametrize("name", ["gbdt", "qssf"])
@given(history=histories.filter(lambda history: len(history) > 12))
@settings(max_examples=12, deadline=None)
def test_trees_are_those_of_scikit_learn_on_what_was_known(name: str, history: list[Job]) -> None:
    need(name)
    history = [job._replace(arrival_s=30_000.0 * job.arrival_s) for job in history]  # over several days
    found, trees = played(name, history), boosted(history, name == "qssf")
    other = expected(rolling if name == "qssf" else REFERENCES["quantile"], history)
    for said, tree, fallback in zip(found, trees, other, strict=True):
        mixed = 0.1 * fallback + 0.9 * tree if name == "qssf" else tree
        assert said == pytest.approx(fallback if math.isnan(tree) else mixed, rel=1e-9, nan_ok=True)


def test_qssf_prefers_the_gang_then_the_name_then_similar_names() -> None:
    """Worked by hand: each job is the last; EVERY keeps the trees away."""
    need("qssf")
    ended = [
        Job(0.0, 1.0, 1, "ann", "train-a", "", NAN),
        Job(0.0, 2.0, 8, "ann", "train-a", "", NAN),
        Job(0.0, 4.0, 1, "bob", "train-b", "", NAN),
        Job(0.0, 8.0, 1, "bob", "eval", "", NAN),
    ]
    wanted = {
        ("ann", "train-a", 8): 2.0,  # the gang
        ("ann", "train-a", 2): 1.5,  # no such gang: the name
        ("bob", "train-a", 2): 1.5,  # not his name: everybody's
        ("ann", "train-c", 1): 1.0,  # similar to both, of which she has one; of these the gang
        ("cat", "train-c", 1): 7.0 / 3.0,  # everybody's jobs of both names
        ("bob", "zzz", 1): 6.0,  # no similar name: the user
        ("cat", "", 1): 15.0 / 4.0,  # all
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PREDICTORS["qssf"], "EVERY", 1000)
        for (user, name, gang), mean in wanted.items():
            assert played("qssf", [*ended, Job(20.0, 1.0, gang, user, name, "", NAN)])[-1] == pytest.approx(mean)


def test_models_are_fitted_again_after_a_tenth_more_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    fits: list[int] = []
    monkeypatch.setattr(Tobit, "EVERY", 10)
    monkeypatch.setattr(Tobit, "fit", lambda self: fits.append(len(self.rows)))
    monkeypatch.setattr(Tobit, "model", lambda self, features: 0.0)
    played("tobit", [Job(float(at), 0.5, 1, "", "", "", NAN) for at in range(150)])
    assert fits == [10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 121, 133, 146]


def test_texts_are_numbered_by_their_first_jobs() -> None:
    history = [Job(0.0, 1.0, 1, user, "", "", NAN) for user in ("zoe", "", "ann", "-1", "zoe", "bob")]
    assert Known.of(workload_of(history)).user.tolist() == [0, -1, 1, -1, 0, 2]


def test_numbers_are_users_too_and_nan_is_unknown() -> None:
    workload = workload_of([Job(0.0, 1.0, 1, "", "", "", NAN)] * 4)
    users = np.array([7.0, NAN, -1.0, 3.0])
    known = Known.of(workload.unchecked_replace(attributes={"user": users}))
    assert known.user.tolist() == [0, -1, -1, 1]
    for column in ("arrival_s", "gpus", "limit_s", "user"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(known, column)[0] = 5


def test_tobit_predicts_as_quantile_while_all_jobs_have_been_killed() -> None:
    """Of run times that are only known to be longer, the likelihood grows without end."""
    history = [Job(10.0 * at, run, 1, "", "", "", run) for at, run in enumerate([1.0, 2.0, 5.0, 7.0] * 60)]
    assert played("tobit", history) == pytest.approx(played("quantile", history), nan_ok=True)


@pytest.mark.parametrize("killed", [0.0, 0.3, 0.9])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 3.0])
def test_tobit_finds_the_greatest_likelihood(killed: float, scale: float) -> None:
    rng = np.random.default_rng(5)
    z = np.column_stack([np.ones(300), rng.normal(size=(300, 3))])
    logs = z @ [6.0, 1.0, -2.0, 0.0] + scale * rng.normal(size=300)
    limit = np.quantile(logs, 1.0 - killed)
    censored = logs > limit
    logs = np.minimum(logs, limit)

    def loss(told: np.ndarray) -> float:
        """Minus ln(likelihood) of b / s and ln s."""
        mean, s = z @ told[:-1] * np.exp(told[-1]), np.exp(told[-1])
        e = (logs - mean) / s
        free = -0.5 * e[~censored] ** 2 - told[-1]
        return -float(free.sum() + log_ndtr(-e[censored]).sum() - 1e-3 / 2 * (told[:-1] ** 2).sum())

    found = np.array(censored_fit(z, logs, censored))
    began = np.append(found / scale, math.log(scale))
    best = min((minimize(loss, start, method="BFGS") for start in (began, began * 1.1)), key=lambda one: one.fun)
    assert found == pytest.approx(best.x[:-1] * math.exp(best.x[-1]), abs=2e-3 * max(scale, 0.5))


def test_tobit_does_not_take_killed_jobs_for_short_ones() -> None:
    """Of a law with median 1,000 s, jobs are killed at 1,000 s: the geometric mean of what has run is 450 s."""
    rng = np.random.default_rng(1)
    runs = np.exp(np.log(1000.0) + 2.0 * rng.normal(size=2000))
    history = [Job(1e7 * at, min(run, 1000.0), 1, "", "", "", 1000.0) for at, run in enumerate(runs.tolist())]
    assert played("tobit", history)[-1] == pytest.approx(1000.0, rel=0.15)
    assert np.exp(np.log(np.minimum(runs, 1000.0)).mean()) == pytest.approx(450.0, rel=0.1)


@given(history=histories)
@settings(max_examples=50, deadline=None)
def test_features_of_tobit_are_means_drawn_to_those_of_wider_keys(history: list[Job]) -> None:
    means: list[list[float]] = []

    def reference(ended: list[Job], job: Job) -> float:
        every = [math.log(one.run_s) for one in ended]
        found = [sum(every) / max(len(every), 1)]
        for key in KEYS[-2::-1]:
            own = [math.log(one.run_s) for one in alike(ended, job, *key) or []]
            found.append((sum(own) + 3 * found[-1]) / (len(own) + 3))
        limit = 0.0 if math.isnan(job.limit_s) else math.log(job.limit_s) - found[0]
        means.append([1.0, limit, math.log(job.gang), *np.diff(found)])
        return NAN

    expected(reference, history)
    seen: list[list[float]] = []
    with pytest.MonkeyPatch.context() as patch:
        features = Tobit.features
        patch.setattr(Tobit, "features", lambda self, row: seen.append(features(self, row)) or seen[-1])
        played("tobit", history)
    assert np.array(seen) == pytest.approx(np.array(means), abs=1e-9)


@each
@given(history=histories, until_s=st.integers(0, 45), data=st.data())
@settings(max_examples=25, deadline=None)
def test_the_future_changes_no_prediction(name: str, history: list[Job], until_s: int, data: st.DataObject) -> None:
    """Run times of all jobs that have not ended are taken away, or permuted such that none ends before."""
    need(name)
    before = played(name, history)
    late = [row for row, job in enumerate(history) if job.end_s >= until_s]
    order = data.draw(st.permutations(late))
    for changed in (
        [job._replace(run_s=NAN) if row in late else job for row, job in enumerate(history)],
        [
            job._replace(run_s=max(history[order[late.index(row)]].run_s, until_s - job.arrival_s))
            if row in late
            else job
            for row, job in enumerate(history)
        ],
    ):
        after = played(name, changed, of=history)
        for job, said, again in zip(history, before, after, strict=True):
            assert job.arrival_s > until_s or said == again or (math.isnan(said) and math.isnan(again))


@each
@given(history=histories.filter(lambda history: len(history) > 1))
@settings(max_examples=15, deadline=None)
def test_later_jobs_change_no_prediction(name: str, history: list[Job]) -> None:
    """A log that is longer numbers users and names as the shorter one does."""
    need(name)
    half = len(history) // 2
    end_s = history[half].arrival_s
    first = [job for job in history if job.arrival_s < end_s]
    if first:
        np.testing.assert_array_equal(played(name, history)[: len(first)], played(name, first))


@each
@given(history=histories)
@settings(max_examples=10, deadline=None)
def test_a_history_that_is_told_at_once_equals_one_that_follows(name: str, history: list[Job]) -> None:
    need(name)
    history = [job._replace(run_s=min(job.run_s, 1e6)) for job in history]
    instance = Instance(Cluster.parse("2x8"), workload_of(history))
    simulation = Simulation(instance)
    following, late = History(instance, name), History(instance, name)
    while simulation.advance() == Outcome.DECIDE:
        following.follow(simulation.arrays)
        for row in range(len(history)):
            simulation.apply(Start(row, "pack"))
    for one in (following, late):
        one.follow(simulation.arrays)
    for field in ("predicted_s", "class_of", "shares"):
        np.testing.assert_array_equal(getattr(following, field), getattr(late, field))


@pytest.mark.parametrize("ends_first", [False, True])
def test_an_arrival_does_not_see_an_end_at_its_instant(ends_first: bool) -> None:
    """The other order shows that the end would have been seen."""
    ended = [Job(float(at), 5.0, 1, "ann", "", "", NAN) for at in (0, 1, 3)]
    history = [*ended, Job(8.0, 5.0, 1, "ann", "", "", NAN)]  # the third ends at 8 s
    assert played("quantile", history, ends_first=ends_first)[-1] == pytest.approx(
        5.0 if ends_first else NAN, nan_ok=True
    )


def test_a_history_does_not_see_an_end_at_the_instant_of_an_arrival() -> None:
    history = [*(Job(float(at), 5.0, 1, "ann", "", "", NAN) for at in (0, 1, 3)), Job(8.0, 5.0, 1, "ann", "", "", NAN)]
    instance = Instance(Cluster.parse("1x8"), workload_of([*history, history[-1]._replace(arrival_s=8.5)]))
    simulation, seen = Simulation(instance), History(instance, "quantile")
    while simulation.advance() == Outcome.DECIDE:
        seen.follow(simulation.arrays)
        for row in range(5):
            simulation.apply(Start(row, "pack"))
    assert math.isnan(seen.predicted_s[3])
    assert seen.predicted_s[4] == 5.0


@each
def test_one_job_is_predicted_from_nothing(name: str) -> None:
    need(name)
    for run_s in (1e-3, 1e9):
        assert played(name, [Job(0.0, run_s, 1, "ann", "x", "vc1", NAN)]) == pytest.approx([NAN], nan_ok=True)


def test_names_in_use_are_refused() -> None:
    for name in ("quantile", "user"):
        with pytest.raises(SchedulerError, match="exists already"):
            predictor(name)(PREDICTORS["limit"])


def test_the_error_without_scikit_learn_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    with pytest.raises(SchedulerError, match=r"gpusched-env\[predict\]"):
        played("qssf", [Job(0.0, 1.0, 1, "", "", "", NAN)])
