"""The lower bound on the makespan that knows GPU types and slots."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers import random_instance, two_types, unit_instance

from gpusched_env.baselines import make_scheduler
from gpusched_env.errors import GpuschedError
from gpusched_env.metrics import job_times, lower_bounds
from gpusched_env.network import Network
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.workload import Profiles, Workload
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import simulate
from gpusched_env.support.commands import flattened, run_script
from gpusched_env.traces.elastic import amdahl, make_elastic
from studies.index_search import makespan_headroom
from studies.index_search.makespan_headroom import main, makespan_bound_of_types


def typed_instance() -> Instance:
    """Two jobs of two GPUs that take 12 s on two GPUs of type A, or 24 s on two of type B; one of each type fits."""
    row = dict(name="m", batch=1, gradient_bytes=0.0, memory_bytes=0.0, skew=0.0, overlap=np.inf, compute_s=(1.0, 2.0))
    workload = Workload.from_columns(
        [0, 0], [2, 2], [12, 12], profiles=Profiles.from_rows([row], ("A", "B")), profile=[0, 0]
    )
    return Instance(two_types((1, 1), (2, 2)), workload, Network("none"))


def test_two_jobs_on_a_fast_and_a_slow_type() -> None:
    """A does twice the work of B, so the two jobs need 2 x 12 / 1.5 = 16 s; a bound without types says 12 s."""
    instance = typed_instance()
    assert lower_bounds(instance)["makespan_s"] == pytest.approx(12.0)
    assert makespan_bound_of_types(instance) == pytest.approx(16.0)


@pytest.mark.parametrize(("slot_s", "bound_s"), [(0.0, 10.0), (2.5, 12.5), (3.0, 12.0), (10.0, 10.0)])
def test_only_whole_iterations_count_in_a_slot(slot_s: float, bound_s: float) -> None:
    """Iterations of 1 s: two in 2.5 s, so ten take 12.5 s; three in 3 s, so ten take 10 s, and a slot ends at 12 s."""
    instance = unit_instance([0], [1], [10], "1x1", slot_s=slot_s)
    assert instance.iteration_s.min() == 1.0
    assert makespan_bound_of_types(instance) == pytest.approx(bound_s)


def test_arrivals_count() -> None:
    assert makespan_bound_of_types(unit_instance([5, 25], [1, 1], [10, 10], "1x4")) == pytest.approx(30.0)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("scheduler", ["srtf", "fifo", "lpt"])
def test_no_schedule_is_below_the_bound(seed: int, scheduler: str) -> None:
    for instance in (random_instance(seed), random_instance(seed, 20, two_types())):
        times = job_times(instance, simulate(instance, make_scheduler(scheduler)))
        makespan_s = times["finish_s"].max() - instance.workload.jobs["arrival_s"].min()
        bound_s = makespan_bound_of_types(instance)
        assert lower_bounds(instance)["makespan_s"] <= bound_s <= makespan_s * (1 + 1e-9)


def test_the_longest_job_first_reaches_the_bound_on_a_seed_of_ring_all_reduce() -> None:
    instance = get_scenario("rar-160-v0").instance(0)
    times = job_times(instance, simulate(instance, make_scheduler("lpt:placement=consolidate,strict=true")))
    assert times["finish_s"].max() == pytest.approx(makespan_bound_of_types(instance)) == 229.0


def test_elastic_jobs_are_refused() -> None:
    jobs = make_elastic(Workload.from_columns([0], [1], [10]), amdahl(0.1), most=8)
    with pytest.raises(GpuschedError, match="rigid jobs"):
        makespan_bound_of_types(Instance(Cluster.parse("1x8"), jobs))


def test_the_command_prints_the_ratio(capsys: pytest.CaptureFixture[str]) -> None:
    main(makespan_headroom.Settings("tiny-v1", "lpt", seeds=2))
    heading, line = capsys.readouterr().out.splitlines()
    assert heading == "makespan of lpt / lower bound, tiny-v1, seeds 200000:200002"
    assert 1.0 <= float(line.split()[1].rstrip(",")) < 3.0


def test_the_command_of_a_study_ends_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [makespan_headroom.__file__, "nowhere", "fifo"])
    with pytest.raises(SystemExit) as ended:
        run_script(main)
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("gpusched: unknown scenario 'nowhere'")

    def stopped(settings: makespan_headroom.Settings) -> None:
        raise KeyboardInterrupt

    with pytest.raises(SystemExit) as ended:
        run_script(stopped)
    assert ended.value.code == 130
    assert capsys.readouterr().err == "gpusched: interrupted\n"


def test_every_study_is_a_command_with_options() -> None:
    folder, found = Path(makespan_headroom.__file__).parents[1], 0
    for path in folder.rglob("*.py"):
        _, main_part, command = path.read_text(encoding="utf-8").partition('if __name__ == "__main__":\n    ')
        if main_part:
            assert (call := re.fullmatch(r"run_script\((\w+)\)\n", command)), path
            module = importlib.import_module(".".join(("studies", *path.relative_to(folder).with_suffix("").parts)))
            assert inspect.signature(flattened(getattr(module, call[1]))).parameters
            found += 1
    assert found > 15
