"""Impossible sizes are refused in one line, before memory is allocated."""

from __future__ import annotations

import copy
import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gpusched_env.cli import app
from gpusched_env.cli.parsing import MOST_SEEDS, chosen_seeds
from gpusched_env.envs.windows import Windows
from gpusched_env.errors import GpuschedError
from gpusched_env.problem.cluster import MOST_GPUS, Cluster, NodeGroup
from gpusched_env.problem.instance import Semantics
from gpusched_env.problem.workload import MOST_JOBS
from gpusched_env.scenarios import WorkloadSpec, get_scenario, load_scenario
from gpusched_env.sharing import Sharing
from gpusched_env.traces import generate_workload

HUGE = 10**9
BEYOND = 10**20  # does not fit into 64 bits either
FIFO = ("--scenario", "tiny-v1", "--scheduler", "fifo")


@pytest.mark.parametrize("count", [HUGE, BEYOND])
def test_too_large_parts_are_refused(count: int) -> None:
    for build, reason in (
        (lambda: NodeGroup(count, 8), "at most 1,000,000 in all"),
        (lambda: NodeGroup(1, count), "at most 1,000,000 in all"),
        (lambda: Cluster.parse(f"{count}x8"), "at most 1,000,000 in all"),
        (lambda: WorkloadSpec("synthetic:poisson", jobs=count), "at most 50,000,000"),
        (lambda: generate_workload("poisson", 0, count), "at most 50,000,000"),
        (lambda: Sharing(limit=count), "from 1 to 64"),
        (lambda: Semantics(max_copies=BEYOND), "from 1 to 1000000"),
        (lambda: Semantics(round_s=1 / count), r"at least 0\.001 seconds"),
        (lambda: Windows(queue_window=count), "at least 1 and at most 50000000"),
        (lambda: chosen_seeds(f"0:{count}", get_scenario("tiny-v1")), "at most 100,000"),
        (lambda: generate_workload("poisson", 0, 5, mean_duration_s=10 * count), r"at most 1e\+09"),
        (lambda: generate_workload("philly", 0, 5, rate_scale=1 / count), r"at least 0\.001"),
    ):
        with pytest.raises(GpuschedError, match=reason):
            build()


def test_the_largest_allowed_sizes() -> None:
    assert Cluster([NodeGroup(MOST_GPUS // 1_000 - 1, 1_000), NodeGroup(1, 1_000)]).gpus == MOST_GPUS
    with pytest.raises(GpuschedError, match="1,000,001 GPUs"):
        Cluster([NodeGroup(MOST_GPUS // 1_000, 1_000), NodeGroup(1, 1)])
    assert WorkloadSpec("synthetic:poisson", jobs=MOST_JOBS).jobs == MOST_JOBS
    assert len(chosen_seeds(f"0:{MOST_SEEDS}", get_scenario("tiny-v1"))) == MOST_SEEDS
    assert Sharing(limit=64).limit == 64


@pytest.mark.parametrize(
    ("place", "told"),
    [
        (("groups", 0, "count"), "mine.json.groups[0]: cluster has 4,000,000,000 GPUs"),
        (("groups", 0, "gpus"), "mine.json.groups[0]: cluster has 2,000,000,000 GPUs"),
        (("workload", "jobs"), "mine.json.workload: workload has 1,000,000,000 jobs"),
        (("sharing", "limit"), "mine.json.sharing: sharing.limit is 1000000000"),
    ],
)
def test_a_file_is_refused_with_the_field(tmp_path: Path, place: tuple[Any, ...], told: str) -> None:
    data = copy.deepcopy(get_scenario("tiny-v1").replace(sharing=Sharing()).as_dict())
    part = data
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = HUGE
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(data))
    with pytest.raises(GpuschedError) as refused:
        load_scenario(path)
    assert told in str(refused.value)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--cluster", "999999999x8"), "7,999,999,992 GPUs"),
        (("--cluster", "99999999999999999999x8"), "at most 1,000,000 in all"),
        (("--jobs", "99999999999"), "at most 50,000,000"),
        (("--sharing", "limit=1000000"), "sharing.limit is 1000000"),
        (("--load", "1e-308"), "load is 1e-308: jobs would arrive over more than 1e+15 s; raise it"),
        (("--load", "1e-300"), "raise it"),
    ],
)
def test_options_are_refused_in_one_line(options: tuple[str, ...], told: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = CliRunner().invoke(app, ["run", *FIFO, *options])
    assert result.exit_code == 2
    assert told in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert result.stdout == ""


def test_a_memory_error_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def evaluate(*_: object, **__: object) -> None:
        raise MemoryError("Unable to allocate 745. GiB")

    monkeypatch.setattr("gpusched_env.evaluation.evaluate", evaluate)
    result = CliRunner().invoke(app, ["run", *FIFO])
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        "gpusched: not enough memory (Unable to allocate 745. GiB): choose fewer jobs, GPUs or workers"
    ]
