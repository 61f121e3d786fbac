"""The grade of a twin: its limits, and what is refused under a twin that is not usable."""

import dataclasses
import math

import numpy as np
import pytest
from typer.testing import CliRunner

from gpusched_env.cli import app
from gpusched_env.errors import GpuschedError
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.workload import Workload
from gpusched_env.twin import GroupScore, Pool, Remainder, Score, Twin, write_twin
from gpusched_env.twin.fitting import fit_twin
from gpusched_env.twin.grading import GOOD, NOT_USABLE, USABLE, check_usable, grade_of


def row(recorded=600.0, predicted=600.0, rank=0.9, distance=0.05, jobs=500, partition="all", size="all"):
    return GroupScore(partition, size, jobs, 0.0, 0.0, recorded, predicted, 0.0, 0.0, 0.0, rank, distance)


def scored(*more, held=0.8, unseen=True, **changes):
    return Score((row(**changes), *more), 0.01, held, held, unseen)


def twin_of(score, **fields):
    return Twin("slurm:x", "fifo", (Pool("all", Cluster.parse("1x2").groups),), score=score, **fields)


@pytest.mark.parametrize(
    ("changes", "word", "reason"),
    [
        ({}, GOOD, "the mean wait is 0% off"),
        ({"predicted": 660.0}, GOOD, "9% off"),  # (660 + 60) / (600 + 60)
        ({"predicted": 700.0}, USABLE, "15% off"),
        ({"predicted": 400.0}, NOT_USABLE, "43% off"),  # 660 / 460: too short is as bad as too long
        ({"recorded": 1236.0, "predicted": 4500.0, "rank": -0.065}, NOT_USABLE, "252% off"),
        ({"rank": 0.5}, USABLE, "0.50"),
        ({"rank": 0.3}, NOT_USABLE, "0.30"),
        ({"rank": math.nan}, GOOD, "0.05 apart"),  # no waits differ: nothing to rank
        ({"distance": 0.3}, USABLE, "0.30 apart"),
        ({"distance": 0.4}, NOT_USABLE, "0.40 apart"),
        ({"jobs": 29}, NOT_USABLE, "only 29 jobs"),
        ({"held": 1.246}, NOT_USABLE, "124.6% of its GPUs"),
        ({"unseen": False}, NOT_USABLE, "no part of the log was held back"),
        ({"recorded": math.nan, "rank": math.nan, "distance": math.nan}, NOT_USABLE, "could not be compared"),
    ],
)
def test_a_grade_follows_from_the_score(changes, word, reason):
    grade = grade_of(twin_of(scored(**changes)))
    assert grade.word == word
    assert reason in str(grade)
    assert str(grade).startswith(f"twin: {word.upper()}")


def test_a_twin_without_a_score_is_not_usable():
    assert grade_of(twin_of(Score())).word == NOT_USABLE


def test_the_grade_is_that_of_the_worst_partition_with_enough_jobs():
    bad = {"recorded": 60.0, "predicted": 6000.0, "partition": "debug"}
    grade = grade_of(twin_of(scored(row(partition="gpu"), row(jobs=800, **bad), jobs=5000)))
    assert grade.word == NOT_USABLE
    assert "partition debug, 800 jobs: the mean wait is" in str(grade)
    for other in (row(jobs=29, **bad), row(size="1", **bad)):  # too few, or a size
        assert grade_of(twin_of(scored(row(partition="gpu"), other, jobs=5000))).word == GOOD


def test_a_log_that_held_more_gpus_than_the_machines_have_is_not_usable():
    for hours, word in ((40 / 3600, GOOD), (2.5, NOT_USABLE)):  # clocks of whole seconds may differ
        over = Remainder("jobs held more GPUs than the machines have", 0, hours, "h")
        grade = grade_of(twin_of(scored(), remainders=(over,)))
        assert grade.word == word
    assert "for 2.5 h: machines are missing" in str(grade)


def test_answers_of_a_twin_that_is_not_usable_need_anyway(tmp_path):
    twin = twin_of(scored(predicted=6000.0))
    with pytest.raises(GpuschedError, match=r"NOT USABLE .*--anyway"):
        check_usable(twin, anyway=False)
    assert check_usable(twin, anyway=True).word == NOT_USABLE
    write_twin(twin, tmp_path / "twin.json")
    for words in (
        ("compare", tmp_path / "twin.json", "--add-nodes", "1x2"),
        ("forecast", "--snapshot", "now.json", "--history", "slurm:x", "--twin", tmp_path / "twin.json"),
        ("slurm-conf", tmp_path / "twin.json", "--conf", "slurm.conf", "--output", tmp_path / "part.conf"),
    ):
        result = CliRunner().invoke(app, ["twin", *map(str, words)])
        assert result.exit_code != 0
        assert "NOT USABLE" in str(result.exception) + result.output
    assert not (tmp_path / "part.conf").exists()


def log(gpus, arrival, run, wait=0.0):
    jobs = Workload.from_columns(arrival, gpus, run)
    return dataclasses.replace(jobs, attributes={"wait_s": np.full(len(gpus), float(wait))})


def test_machines_that_are_fewer_than_what_ran_at_once_are_refused():
    pools = (Pool("all", Cluster.parse("1x4").groups),)
    crowded = log([2, 2, 2], [0, 10, 20], [1000, 1000, 1000])
    more = 10_000 + 1000 * np.arange(60)  # on average, jobs hold less than the machines have
    long = log([2] * 63, [0, 10, 20, *more], [1000] * 3 + [10] * 60)
    with pytest.raises(GpuschedError, match=r"pool 'all' has 4 GPUs, but its jobs held up to 6 at once"):
        fit_twin(crowded, pools)
    assert "for 0.3 h: machines are missing" in str(grade_of(fit_twin(long, pools, fit_part=0.1, anyway=True)))
    # clocks of whole seconds may let jobs overlap for a moment
    fit_twin(log([2, 2, 2], [0, 10, 970], [1000, 1000, 1000]), pools)


def test_a_gang_that_ran_but_fits_no_machines_is_refused():
    with pytest.raises(GpuschedError, match=r"job 1 on 8\. Name all machines"):
        fit_twin(log([2, 8], [0, 5000], [1000, 1000]), (Pool("all", Cluster.parse("1x4").groups),))
