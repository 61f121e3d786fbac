"""The packing index: which jobs run on worked numbers, its knapsack, and its files."""

from __future__ import annotations

import itertools
import pickle
from pathlib import Path

import numpy as np
import pytest
from helpers import finish, mixed_profiles, plain_python_digests, play, preemptions, random_instance, unit_instance
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env.agents.packing_index import DEFAULTS, NAMES, PackingIndex
from gpusched_env.baselines import make_scheduler
from gpusched_env.errors import SchedulerError
from gpusched_env.event_log import START
from gpusched_env.metrics import validate
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.workload import Workload
from gpusched_env.simulator import Simulation, simulate
from studies.index_search.packing_index import log_jct, weights_of
from studies.index_search.saving import save_weights


def index(**weights: float) -> PackingIndex:
    values = dict(zip(NAMES, DEFAULTS, strict=True)) | weights
    return PackingIndex.playing(tuple(values[name] for name in NAMES))


class Decided(PackingIndex):
    """Played by ``decide``."""

    def player(self, simulation: Simulation) -> None:
        return None


def digests() -> list[str]:
    """Logs of some instances; printed by a process without compilation, too."""
    policy = PackingIndex.playing((0.8, -0.8, 0.2, 0.2, 0.9))
    return [simulate(random_instance(seed, restore_s=20.0), policy).digest() for seed in range(3)]


def test_compiled_and_plain_python_give_the_same_logs() -> None:
    assert plain_python_digests("tests.agents.test_packing_index") == digests()


@given(st.integers(0, 2**31))
@settings(max_examples=20, deadline=None)
def test_the_compiled_loop_makes_the_decisions_of_decide(seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = weights_of(rng.normal(size=len(NAMES)))
    instance = random_instance(
        seed, checkpoint_s=float(rng.integers(2)) * 10.0, restore_s=float(rng.integers(2)) * 20.0
    )
    fast, slow = (simulate(instance, policy.playing(weights)) for policy in (PackingIndex, Decided))
    assert fast.digest() == slow.digest()
    validate(instance, fast)


@given(st.lists(st.tuples(st.integers(1, 8), st.integers(1, 50)), min_size=1, max_size=8))
@settings(max_examples=60, deadline=None)
def test_the_jobs_that_start_first_are_the_best_of_all_sets(jobs: list[tuple[int, int]]) -> None:
    """All jobs arrive at time 0 on eight GPUs, and the value of a job is 1 / run time."""
    gangs, seconds = (np.array(column) for column in zip(*jobs, strict=True))
    log = play(unit_instance(np.zeros(len(jobs)), gangs, seconds, "1x8"), index())
    first = log.events[(log.events["kind"] == START) & (log.events["time_s"] == 0.0)]["job"]
    sets = (np.array(one, bool) for one in itertools.product([False, True], repeat=len(jobs)))
    best = max((1.0 / seconds[one]).sum() for one in sets if gangs[one].sum() <= 8)
    assert (1.0 / seconds[first]).sum() == pytest.approx(best)


def test_two_jobs_are_worth_more_than_one_shorter_job() -> None:
    """On four GPUs, 1/12 + 1/12 > 1/10, so the gang of three waits; by remaining time alone it would go first."""
    jobs = unit_instance([0, 0, 0], [3, 2, 2], [10, 12, 12])
    assert finish(jobs, index()) == [22, 12, 12]
    assert finish(jobs, "srtf") == [10, 22, 22]


def test_a_shorter_job_preempts_unless_running_counts() -> None:
    """At 10 s, A has 90 s left and B has 40: ln(90 / 40) = 0.81."""
    jobs = unit_instance([0, 10], [4, 4], [100, 40])
    assert finish(jobs, index()) == [140, 50]
    assert finish(jobs, index(hold=0.8)) == [140, 50]
    assert finish(jobs, index(hold=0.82)) == [100, 140]


def test_a_job_near_its_end_is_kept_if_preemption_costs_time() -> None:
    """At 97 s, A has 3 s left and B has 1: ln 3 = 1.1; a preemption costs 1 s, and ln(1 + 10 / 3) = 1.47."""
    jobs = unit_instance([0, 97], [4, 4], [100, 1], restore_s=1.0)
    assert finish(jobs, index(near=0.7)) == [102, 98]
    assert finish(jobs, index(near=0.8)) == [100, 101]
    assert preemptions(play(unit_instance([0, 97], [4, 4], [100, 1]), index(near=0.8))) == 1  # here it costs nothing


def test_running_jobs_are_never_worth_less_than_waiting_ones() -> None:
    """Otherwise jobs take turns without progress: this run would not end."""
    instance = random_instance(0, checkpoint_s=10.0, restore_s=20.0)
    assert play(instance, index(hold=-2.0, near=-1.0)).digest() == play(instance, index()).digest()


@pytest.mark.parametrize(("weight", "first"), [({"gang": 1.0}, 0), ({"gang": -1.0}, 1), ({"square": 1.0}, 0)])
def test_gang_sizes_change_values(weight: dict[str, float], first: int) -> None:
    """Three GPUs for 8 s or two GPUs for 8 s; only one of the gangs fits."""
    starts = play(unit_instance([0, 0], [3, 2], [8, 8]), index(**weight)).events
    assert starts[starts["kind"] == START]["job"][0] == first


def test_a_gang_that_fits_into_a_machine_waits_for_one() -> None:
    """Three GPUs of each machine are busy until 50 s. A gang of two waits for one of them."""
    columns = [0, 0, 1], [3, 3, 2], [50, 60, 10]
    workload = Workload.from_columns(*columns, profiles=mixed_profiles(), profile=[2, 2, 0])
    log = play(Instance(Cluster.parse("2x4"), workload, None, Semantics()), index(time=0.0))
    starts = log.events[log.events["kind"] == START]
    assert starts["time_s"].tolist() == [0.0, 0.0, pytest.approx(50.0)]


def test_weights_are_saved_and_played(tmp_path: Path) -> None:
    save_weights(PackingIndex, tmp_path / "w.npz", (0.5, -0.4, 0.1, 0.2, 0.3), {})
    made = make_scheduler(f"learned:path={tmp_path / 'w.npz'}")
    assert isinstance(made, PackingIndex)
    assert made.clairvoyant
    assert made.rule == (0.5, -0.4, 0.1, 0.2, 0.3)
    expected = simulate(random_instance(1), made).digest()
    assert simulate(random_instance(1), pickle.loads(pickle.dumps(made))).digest() == expected


def test_missing_and_foreign_weights_are_named(tmp_path: Path) -> None:
    with pytest.raises(SchedulerError, match="packing index: give either agent or path"):
        PackingIndex()
    (tmp_path / "bad.npz").write_bytes(b"no archive")
    with pytest.raises(SchedulerError, match=r"bad\.npz: not a packing index"):
        PackingIndex(path=str(tmp_path / "bad.npz"))


def test_the_search_begins_at_the_defaults_and_scores_the_mean_jct() -> None:
    assert weights_of(np.zeros(len(NAMES))) == DEFAULTS
    jobs = unit_instance([0, 0, 0], [3, 2, 2], [10, 12, 12])
    assert log_jct(np.zeros(len(NAMES)), [jobs]) == pytest.approx(np.log((22 + 12 + 12) / 3))
