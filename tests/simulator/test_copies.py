"""Copies of a gang: a job trains on several sets of GPUs at once, and iterations of the copies add up."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import Script, begin, play
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env.errors import ScenarioError, ScheduleError
from gpusched_env.event_log import EventLog
from gpusched_env.metrics import job_times, lower_bounds, validate
from gpusched_env.network import Network, TopologySpec
from gpusched_env.problem.cluster import Cluster, NodeGroup
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.workload import Profiles, Workload
from gpusched_env.simulator import Preempt, Start, Wait, simulate

SPEEDS = (10.0, 6.5, 2.0)  # [iterations / s] of one GPU of each type


def three_nodes(iterations: list[float], gpus: list[int] | None = None, size: int = 1, **rules: float) -> Instance:
    """Three nodes of three GPU types; preemption is free unless ``rules`` say otherwise."""
    groups = [NodeGroup(1, size, name) for name in "abc"]
    rows = [dict(name="m", batch=1, gradient_bytes=0.0, memory_bytes=0.0, skew=0.0, overlap=1.0,
                 compute_s=tuple(1.0 / speed for speed in SPEEDS))]  # fmt: skip
    count = len(iterations)
    workload = Workload.from_columns(
        np.zeros(count), gpus or [1] * count, iterations=np.array(iterations),
        profiles=Profiles.from_rows(rows, tuple("abc")), profile=[0] * count,
    )  # fmt: skip
    free = {"checkpoint_s": 0.0, "restore_s": 0.0, "max_copies": 3}
    return Instance(Cluster(groups), workload, Network("none"), Semantics(**(free | rules)))  # type: ignore[arg-type]


def test_rates_of_copies_add_up() -> None:
    """10,000 iterations at 10 + 6.5 + 2 a second, 15 s lost in each slot of 360 s: the job ends at 570.5405 s."""
    instance = three_nodes([10_000.0], restore_s=10.0, start_s=10.0, merge_s=5.0)
    again = {360.0: [Preempt(0), Start(0, gpus=(0, 1, 2))]}
    log = play(instance, Script({0.0: [Start(0, gpus=(0, 1, 2)), Wait(360.0)]} | again))
    assert job_times(instance, log)["finish_s"][0] == pytest.approx(360 + 15 + (10_000 - 345 * 18.5) / 18.5, rel=1e-12)
    assert job_times(instance, log)["finish_s"][0] == pytest.approx(570.5405, abs=5e-5)


def test_one_copy_alone_is_slower() -> None:
    """The same job on the fastest node, with one restart: 1,010 s."""
    instance = three_nodes([10_000.0], start_s=10.0, merge_s=5.0)
    log = play(instance, Script({0.0: [Start(0, gpus=(0,))]}))
    assert job_times(instance, log)["finish_s"][0] == 1010.0


def test_a_copy_of_a_gang_runs_at_its_slowest_gpu() -> None:
    """Two copies of two GPUs: (a, b) runs at 6.5 a second, (c, c) at 2."""
    instance = three_nodes([85.0], [2], size=2)
    log = play(instance, Script({0.0: [Start(0, gpus=(0, 2, 4, 5))]}))
    assert job_times(instance, log)["finish_s"][0] == pytest.approx(10.0, rel=1e-12)


def test_refusals() -> None:
    simulation = begin(three_nodes([10.0, 10.0], [1, 2], size=2, max_copies=2))
    wrong = "the number of explicit GPUs is neither the job's gang size nor an allowed multiple of it"
    assert simulation.apply(Start(0, gpus=(0, 1, 2))) == wrong
    assert simulation.apply(Start(0, gpus=())) == wrong
    assert simulation.apply(Start(1, gpus=(0, 1, 2))) == wrong
    assert simulation.apply(Start(1, gpus=(0, 1, 1, 2))).startswith("an explicit GPU does not exist")
    assert simulation.apply(Start(1, gpus=(0, 1, 2, 3))) == ""
    assert simulation.apply(Start(0, gpus=(4, 5))) == ""
    with pytest.raises(ScenarioError, match=r"semantics\.max_copies"):
        Semantics(max_copies=0)
    instance = three_nodes([1.0])
    links = Network("topology", topology=TopologySpec("single-switch"))
    with pytest.raises(ScenarioError, match="cannot price copies of a gang"):
        Instance(instance.cluster, instance.workload, links, instance.semantics)


def test_rules_that_change_nothing_leave_older_fingerprints_alone() -> None:
    assert not {"max_copies", "merge_s", "start_s"} & set(Semantics().as_dict())


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_iterations_are_conserved_over_copies_and_preemptions(seed: int) -> None:
    """Random numbers of copies on random GPUs, preempted at random times:
    the validator accounts for every iteration.
    """
    rng = np.random.default_rng(seed)
    rules = dict(restore_s=float(rng.choice([0, 7])), checkpoint_s=float(rng.choice([0, 5])), merge_s=3.0, start_s=2.0)
    instance = three_nodes(rng.uniform(10, 2_000, 6).tolist(), rng.integers(1, 3, 6).tolist(), size=4, **rules)

    class Restless(Script):
        def decide(self, view):  # type: ignore[no-untyped-def]
            if rng.random() < 0.5:
                yield from [Preempt(job) for job in view.running.tolist() if rng.random() < 0.5]
            for job in view.waiting.tolist():
                free = rng.permutation(np.flatnonzero(view.holders < 0))
                gang = int(view.gpus[job])
                copies = min(int(rng.integers(1, 4)), len(free) // gang)
                if copies:
                    yield Start(job, gpus=tuple(free[: copies * gang].tolist()))

    log = simulate(instance, Restless({}))
    validate(instance, log)
    times = job_times(instance, log)
    bounds = lower_bounds(instance)
    assert times["finish_s"].max() >= bounds["makespan_s"] * (1 - 1e-9)
    assert times["jct_s"].mean() >= bounds["mean_jct_s"] * (1 - 1e-9)


def test_the_validator_counts_copies() -> None:
    instance = three_nodes([100.0])
    log = play(instance, Script({0.0: [Start(0, gpus=(0, 1, 2))]}))
    single = Instance(instance.cluster, instance.workload, instance.network, Semantics(checkpoint_s=0.0, restore_s=0.0))
    with pytest.raises(ScheduleError, match="wrong size"):
        validate(single, log)
    late = log.events.copy()
    late["time_s"][-1] += 1.0
    with pytest.raises(ScheduleError, match="iterations"):
        validate(instance, EventLog(late, log.gpus))
