"""Compiled loops and ``decide`` give equal logs in every scenario."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers import asked, linked_scenario, random_instance, unit_instance
from list_policies_decide import reference

from gpusched_env.baselines import make_scheduler
from gpusched_env.baselines.list_policies.policy import HEAD, LINES, LIST
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance
from gpusched_env.sharing import Sharing
from gpusched_env.simulator import Outcome, Simulation, simulate

LISTED = (
    "fifo", "fifo:variant=skip", "fifo:variant=skip,placement=consolidate", "fifo:variant=skip,placement=contention",
    "fifo:variant=skip,placement=least-busy-servers", "fifo:placement=random", "sjf", "sjf:strict=true", "ssf", "srtf",
    "srtf:placement=consolidate", "srsf", "las", "las:round_s=50", "las-2d:placement=consolidate", "tiresias",
    "tiresias:thresholds=50/400,incumbents_first=true", "tiresias:packlimit=0,placement=spread",
    "tiresias:thresholds=20/40/90/200,placement=random", "tiresias:packlimit=inf,thresholds=20/60",
    "srtf:placement=most-free", "tiresias-g", "tiresias-g:thresholds=50/400,incumbents_first=true",
    "tiresias-g:packlimit=inf,thresholds=20/60,history=30/10/200/90", "tiresias-g:packlimit=0,placement=random",
)  # fmt: skip
FEW = ("free preemption", "checkpoints", "links", "sharing")
RARE = (
    "tiresias:knob=3", "tiresias-g:knob=8,thresholds=50/400", "tiresias:policy=entry,thresholds=50/400,knob=9",
    "tiresias:policy=entry,demote_on=held,incumbents_first=true", "fifo-easy", "fifo-easy:estimator=noisy",
    "fifo-easy:placement=consolidate", "lpt", "lpt:strict=true,key=gpu-time", "ssf:estimator=noisy",
    "srtf:estimator=noisy", "fifo:placement=share-first-fit", "sjf:placement=share-best-benefit",
    "fifo-easy:placement=share-first-fit", "srtf:placement=share-first-fit",
)  # fmt: skip


def check_plays_alike(instance: Instance, spec: str, name: str = "") -> None:
    """The player, ``decide`` and the reference in Python give the same log."""
    digest = simulate(instance, make_scheduler(spec)).digest()
    assert digest == simulate(instance, asked(make_scheduler(spec))).digest(), (spec, name)
    assert digest == simulate(instance, reference(spec)).digest(), (spec, name)


def thirds() -> Instance:
    """More jobs than fit, long after time 0, whose ends differ by rounding at most."""
    rng = np.random.default_rng(22)
    arrival_s = np.sort(rng.integers(0, 200, 150) / 3 * 10) + 1e6 * (np.arange(150) > 10)
    duration_s = rng.integers(1, 30, 150) * 10 / 3
    return unit_instance(arrival_s, rng.choice([1, 2, 3, 4, 8], 150, p=(0.5, 0.2, 0.1, 0.1, 0.1)), duration_s, "2x4")


def instances() -> dict[str, Instance]:
    """Instances that cover each feature of a compiled loop."""
    racks = Cluster.parse("4x4/2")
    return {
        "free preemption": random_instance(0, 60, racks, checkpoint_s=0.0, restore_s=0.0),
        "checkpoints": random_instance(1, 60, racks, checkpoint_s=20.0, restore_s=35.0),
        "rounds": random_instance(2, 40, racks, round_s=60.0),
        "types": random_instance(3, 40, Cluster.parse("2x4@V100,2x4@K80")),
        "skipped by rule": random_instance(4, 40, racks, queue="skip"),
        "links": linked_scenario("maxmin").instance(200_000),
        "links that fill up": linked_scenario("maxmin", 60).instance(91),
        "sharing": Instance(racks, random_instance(5, 40, racks).workload, sharing=Sharing(2, 1.3)),
        "too much": unit_instance(
            np.repeat(np.arange(20) * 15.0, 4),
            [1, 3, 2, 4, 1] * 16,
            np.tile([30.0, 80.0, 45.0, 30.0], 20),
            "2x4",
            checkpoint_s=5.0,
            restore_s=0.0,
        ),
        "thirds of seconds": thirds(),
        "one machine": random_instance(7, 80, Cluster.parse("1x4"), checkpoint_s=0.0, restore_s=0.0),
        "many at once": unit_instance(np.repeat([0.0, 50.0], 30), [1, 2, 4] * 20, np.tile([30.0, 80.0], 30), "2x4"),
    }


@pytest.mark.parametrize("spec", LISTED)
def test_the_compiled_loop_gives_the_log_of_decide(spec: str) -> None:
    for name, instance in instances().items():
        check_plays_alike(instance, spec, name)


@pytest.mark.parametrize("spec", RARE)
def test_rare_options_give_the_log_of_decide(spec: str) -> None:
    for name in FEW:
        check_plays_alike(instances()[name], spec, name)


@pytest.mark.parametrize(("spec", "seed"), [("srtf", 3), ("srtf", 6), ("srsf", 1)])
def test_keys_much_larger_than_the_clock_are_compared_exactly(spec: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    arrival_s = np.sort(rng.random(40) * 100)
    left_s = 5e10 + rng.integers(0, 4, 40) * 2 * np.spacing(5e10)  # ends differ by rounding only
    duration_s = left_s - arrival_s * rng.integers(0, 2, 40)
    instance = unit_instance(arrival_s, rng.choice([1, 2, 3], 40), duration_s, "2x4", time_limit_s=200.0)
    check_plays_alike(instance, spec)


@pytest.mark.parametrize(
    ("spec", "along"),
    [
        ("fifo", HEAD),
        ("fifo:variant=skip", LINES),
        ("fifo:variant=skip,placement=least-busy-servers", LIST),
        ("sjf:placement=consolidate", LINES),
        ("srtf", LINES),
        ("srtf:placement=consolidate", LIST),
        ("srtf:placement=most-free", LINES),
        ("las", LINES),
        ("tiresias", LIST),  # some models are skewed, so placement matters
        ("tiresias:packlimit=inf", LINES),
        ("tiresias-g:packlimit=inf", LIST),  # the index of a running job changes with time
    ],
)
def test_waiting_jobs_are_kept_in_one_line_for_each_gang_size_where_that_changes_nothing(spec: str, along: int) -> None:
    simulation = Simulation(random_instance(0, 10))
    scheduler = make_scheduler(spec)
    assert scheduler.begin(simulation, alone=True).memory["along"] == along
    assert scheduler.begin(simulation, alone=False).memory["along"] == LIST


@pytest.mark.parametrize(
    "spec",
    [
        "sjf-ffs",
        "sjf-ffs:strict=true",
        "sjf-ffs:placement=bsbf",
        "sjf-ffs:placement=bsbfs",
        "sjf-bsbf",
        "sjf-bsbf:placement=bsbfs,running_time=measured",
        "sjf-bsbf:strict=true,placement=bsbf",
        "sjf-bsbf:round_s=60,order=fifo,sub_batch_search=false",
    ],
)
def test_the_compiled_loop_gives_the_log_of_decide_where_jobs_share_gpus(spec: str) -> None:
    for name in ("sharing", "free preemption", "rounds", "skipped by rule", "links"):
        check_plays_alike(instances()[name], spec, name)


@pytest.mark.parametrize("spec", ["fifo", "srtf", "las", "tiresias", "sjf-bsbf"])
def test_a_stop_at_an_arrival_changes_nothing(spec: str) -> None:
    """Arrivals are decision points anyway, so a stop there does not change the log."""
    instance = random_instance(6, 40, checkpoint_s=0.0, restore_s=0.0)
    simulation = Simulation(instance)
    player = make_scheduler(spec).player(simulation)
    assert player is not None
    for time_s in np.unique(instance.workload.jobs["arrival_s"])[5:40:7]:
        assert player.play(float(time_s)) is Outcome.DECIDE
        assert simulation.now_s == time_s
    assert player.play(math.inf) is Outcome.DONE
    assert simulation.log().digest() == simulate(instance, make_scheduler(spec)).digest()
