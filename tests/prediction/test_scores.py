"""``gpusched predict``: its scores are those of plain counting, and a schedule decides when run times are known."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr
from typer.testing import CliRunner, Result

from gpusched_env.cli import app
from gpusched_env.prediction import STARTS_S, History
from gpusched_env.prediction.scoring import replay
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance
from tests.prediction.histories import NAN, Job, events, played, workload_of


def drawn(jobs: int, seed: int = 3) -> list[Job]:
    """Users with run times of their own, Poisson arrivals."""
    rng = np.random.default_rng(seed)
    at = np.cumsum(rng.exponential(600.0, jobs)).tolist()
    users = rng.integers(0, 4, jobs).tolist()
    runs = np.exp(rng.normal(4.0 + 1.5 * np.array(users), 0.5)).tolist()
    gangs = (2 ** rng.integers(0, 4, jobs)).tolist()
    return [Job(t, x, g, f"user{u}", "", "", NAN) for t, x, g, u in zip(at, runs, gangs, users, strict=True)]


def scored(history: list[Job], name: str) -> dict[str, float]:
    runs = np.array([job.run_s for job in history])
    ends = np.array([job.end_s for job in history])
    return replay(Instance(Cluster.parse("1x8"), workload_of(history)), name, ends, runs)


def gpusched(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.mark.parametrize("name", ["quantile", "recency", "none"])
def test_scores_are_those_of_plain_counting(name: str) -> None:
    history = drawn(400)
    found, said = scored(history, name), played(name, history)
    pairs = [(p, job.run_s, job.gang) for p, job in zip(said, history, strict=True) if not math.isnan(p)]
    assert found["without"] == pytest.approx(1.0 - len(pairs) / len(history))
    if pairs:
        for most in (2, 10):
            near = sum(p <= most * x and x <= most * p for p, x, _ in pairs) / len(pairs)
            assert found[f"within_{most}"] == pytest.approx(near)
        assert found["too_short"] == pytest.approx(sum(p < x for p, x, _ in pairs) / len(pairs))
        p, x, g = np.array(pairs).T
        assert found["rank"] == pytest.approx(spearmanr(p, x)[0])
        assert found["rank_gpu_time"] == pytest.approx(spearmanr(p * g, x * g)[0])
    else:
        assert math.isnan(found["rank"])
    seen = History(Instance(Cluster.parse("1x8"), workload_of(history)), name)
    loss, below = 0.0, [0, 0, 0]
    for _, ends, row in events(history):
        x = history[row].run_s
        if ends:
            seen.end(row, x, False)
            continue
        seen.arrive(row)
        total = before = 0.0  # the distribution function at the end of each level, and at the run time
        for level, share in enumerate(seen.shares[seen.class_of[row]].tolist()):
            begin, end = STARTS_S[level], STARTS_S[level + 1] if level + 1 < len(STARTS_S) else math.inf
            before += share * min(max((x - begin) / (end - begin), 0.0), 1.0)
            total += share
            loss += (total - (x < end)) ** 2
        below = [count + (before < q) for count, q in zip(below, (0.1, 0.5, 0.9), strict=True)]
    assert found["rps"] == pytest.approx(loss / len(history))
    assert [found[f"below_q{q}"] for q in (10, 50, 90)] == [count / len(history) for count in below]


def test_distributions_of_a_fixed_law_are_calibrated_and_users_tell_more() -> None:
    history = drawn(3000)
    none, users = scored(history, "none"), scored(history, "recency")
    assert [none[f"below_q{q}"] for q in (10, 50, 90)] == pytest.approx([0.1, 0.5, 0.9], abs=0.03)
    assert users["below_q50"] == pytest.approx(0.5, abs=0.03)
    assert 0.03 < users["below_q10"] < 0.1 < 0.9 < users["below_q90"] < 0.97  # smoothing widens narrow distributions
    assert users["rps"] < 0.5 * none["rps"]
    assert not users["given_up"]


def test_a_predictor_that_tells_nothing_is_given_up() -> None:
    rng = np.random.default_rng(0)
    history = [job._replace(user=f"user{rng.integers(40)}") for job in drawn(1500)]
    assert scored(history, "recency")["rps"] == pytest.approx(scored(history, "none")["rps"], rel=0.02)


@pytest.fixture
def log(tmp_path: Path) -> str:
    rows = "".join(f"{60 * at},1,{600 if at % 2 else 60},{'ab'[at % 2]}\n" for at in range(40))
    (tmp_path / "log.csv").write_text("submit_time,gpus,run_time,user\n" + rows)
    return f"csv:{tmp_path / 'log.csv'}"


def test_a_schedule_decides_when_run_times_are_known(log: str) -> None:
    """On one GPU, jobs wait for hours: more of them are submitted before anything has ended."""
    told = {}
    for more in ((), ("--scheduler", "fifo", "--cluster", "1x1")):
        result = gpusched("predict", log, "--predictor", "quantile", *more, "--json")
        assert result.exit_code == 0, result.output
        (table,) = json.loads(result.stdout)["tables"]
        told[bool(more)] = {row["predictor"]: row for row in table["rows"]}
    free, played = told[False], told[True]
    # The first three end at 60, 180 and 300 s; the sixth job, which arrives at 300 s, does not know of the third end.
    assert free["quantile"]["without"] == 6 / 40
    assert played["quantile"]["without"] > 0.3
    assert free["none"]["loss_to_none"] == 1.0


def test_the_table_names_each_predictor_once_after_none(log: str) -> None:
    result = gpusched("predict", log, "--predictor", "limit", "--predictor", "recency", "--predictor", "limit")
    assert result.exit_code == 0, result.output
    names = [line.split()[0] for line in result.stdout.splitlines() if "│" in line]
    assert names == ["none", "limit", "recency"]
    assert "no waits" in result.stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--predictor", "quantil"), "did you mean 'quantile'"),
        (("--scheduler", "fifo"), "give both --scheduler and --cluster"),
        (("--load", "0.9"), "--load needs them"),
    ],
)
def test_bad_options_say_what_to_write(log: str, words: tuple[str, ...], told: str) -> None:
    result = gpusched("predict", log, *words)
    assert result.exit_code == 2
    assert told in " ".join(result.output.split())
