"""The harness of planted logs: small ones are found again, and wrong twins are graded so."""

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))  # its scripts import each other by their bare names
planted_logs = importlib.import_module("planted_logs")


@pytest.mark.parametrize(
    "case",
    [
        planted_logs.Case("2x8", 0.75, "slurm:backfill=none", jobs=400),
        planted_logs.Case("4x8", 0.7, "slurm:backfill=none,qos_weight=10000", several=True, limited=16, jobs=600),
    ],
)
def test_a_planted_log_is_found_again_and_wrong_twins_are_not_usable(case: Any) -> None:
    found = planted_logs.play(case, seed=1)
    assert found.met
    assert found.grade != "not usable"
    assert set(found.wrong) == {"half", "double", "policy"}
    assert set(found.wrong.values()) <= {"refused", "not usable"}


def test_the_logs_cover_what_they_promise(tmp_path: Path) -> None:
    sizes = [int(case.cluster.split("x")[0]) for case in planted_logs.CASES]
    assert (len(sizes), min(sizes), max(sizes)) == (12, 2, 128)
    assert {case.several for case in planted_logs.CASES} == {True, False}
    case = planted_logs.Case("6x8", 0.9, "slurm", several=True, jobs=200)
    jobs = planted_logs.jobs_of(case, 0)
    (problem,) = planted_logs.planted_twin(case, tmp_path).problems(jobs)
    assert len(problem.rows) == 200  # all fit
    nodes = jobs.attributes["max_nodes"]
    assert set(np.unique(nodes).tolist()) >= {1, 2, 3}
    assert (jobs.jobs["gpus"] <= 8 * nodes).all()
