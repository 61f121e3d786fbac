"""Imitation: which actions stand for a scheduler's decisions, and how close a cloned network comes to its teacher."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from gpusched_env.agents.cloning import ask, imitate
from gpusched_env.agents.evaluation import evaluate_policy
from gpusched_env.agents.learned import LearnedScheduler
from gpusched_env.agents.network import TokenNetwork
from gpusched_env.agents.teachers import check_teacher, right_actions
from gpusched_env.agents.tokens import Layout
from gpusched_env.agents.training import TrainingConfig, train
from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.envs.windows import Windows
from gpusched_env.errors import GpuschedError, SchedulerError
from gpusched_env.evaluation import evaluate
from gpusched_env.metrics import paired_ratio
from gpusched_env.simulator import Decision, Lease, Preempt, Start, Wait

# Actions: job 7 by pack, by spread (0, 1), job 5 (2, 3), empty slot (4, 5), preempt job 3, job 9 (6, 7), wait (8).
WINDOWS = Windows(queue_window=3, running_window=2, rules=("pack", "spread"))
QUEUE, RUNNING = np.array([7, 5, -1]), np.array([3, 9])
ALL = np.array([1, 1, 1, 1, 0, 0, 1, 1, 1], bool)


@pytest.mark.parametrize(
    ("decisions", "actions"),
    [
        ([Start(5, "spread")], [3]),
        ([Preempt(9), Start(7, "pack")], [7, 0]),
        ([Start(5, "consolidate")], [2, 3]),  # the agent has no such rule
        ([Start(7, gpus=(0, 1))], [0, 1]),
        ([Start(6, "pack"), Preempt(4)], [8]),  # in no slot
        ([Lease(3, 60.0), Wait(60.0)], [8]),
        ([], [8]),
    ],
)
def test_actions_that_stand_for_decisions(decisions: list[Decision], actions: list[int]) -> None:
    assert right_actions(decisions, WINDOWS, ALL, QUEUE, RUNNING) == actions


def test_a_start_on_free_gpus_stands_for_the_whole_batch() -> None:
    """Two sub-batches: a rule that shares GPUs chooses one itself, so both count as right."""
    windows = Windows(queue_window=1, running_window=0, rules=("pack", "share-best-benefit"), sub_batches=2)
    for start, actions in (
        (Start(7, "pack"), [0]),
        (Start(7, "share-best-benefit"), [2, 3]),
        (Start(7, gpus=(0, 1), share=True), [0, 1, 2, 3]),
    ):
        assert right_actions([start], windows, np.ones(5, bool), QUEUE[:1], RUNNING[:0]) == actions


def test_an_infeasible_action_is_never_right() -> None:
    mask = ALL.copy()
    mask[[0, 7]] = False
    assert right_actions([Start(7, "pack"), Preempt(9)], WINDOWS, mask, QUEUE, RUNNING) == [8]
    assert right_actions([Start(7, "pack"), Start(5, "pack")], WINDOWS, mask, QUEUE, RUNNING) == [2]


def test_a_scheduler_that_repeats_a_decision_is_asked_no_further() -> None:
    def stubborn() -> Iterator[Decision]:
        while True:
            yield Start(7, "pack")

    assert right_actions(stubborn(), WINDOWS, ALL, QUEUE, RUNNING) == [0]


def network_of(environment: ClusterEnv) -> TokenNetwork:
    torch.manual_seed(0)
    environment.reset(seed=0)
    shapes = {name: array.shape for name, array in environment.encoder.take()[0].items()}
    return TokenNetwork(Layout.of(shapes, environment.windows))


def test_a_teacher_whose_decisions_all_have_actions_plays_its_own_schedule() -> None:
    """FIFO starts only the first jobs of the queue, so the answers, played one after another, are its run."""
    environment = ClusterEnv("tiny-v1", queue_window=4, running_window=0)
    parts = ask("fifo", environment, [3], network_of(environment), network_plays=False)
    starts = sum(int((part.right[:, :4].any(dim=1)).sum()) for part in parts)
    assert starts == len(environment.scenario.instance(3).workload)
    for part in parts:
        assert part.right.any(dim=1).all()
        assert not (part.right & ~part.masks).any()


def test_a_cloned_network_takes_the_actions_of_its_teacher() -> None:
    """On workloads that it has not seen, played by itself, its likeliest action is right in 9 of 10 steps."""
    config = TrainingConfig(teacher="sjf:placement=consolidate", teacher_episodes=12, running_window=0)
    environment = ClusterEnv(config.scenario, **dataclasses.asdict(config.windows))
    network = network_of(environment)
    rng = np.random.default_rng(0)
    imitate(network, config, environment, lambda count: rng.integers(100_000, size=count).tolist())
    parts = ask(config.teacher, environment, range(100_000, 100_004), network, network_plays=True)
    with torch.inference_mode():
        right = [
            part.right.gather(1, network(part.inputs).masked_fill(~part.masks, -torch.inf).argmax(1, keepdim=True))
            for part in parts
        ]
    assert float(torch.cat(right).float().mean()) > 0.9


def test_training_keeps_the_cloned_network_as_its_first_candidate(tmp_path: Path) -> None:
    config = TrainingConfig(
        teacher="sjf:placement=consolidate", teacher_episodes=4, running_window=0, steps=1_000, workloads=1, copies=2,
        validations=1, validation_seeds=2, learning_rate=1e-5, greedy=True,
    )  # fmt: skip
    model = train(config, tmp_path)
    header, initial, cloned, _ = (line.split(",") for line in (tmp_path / "learning.csv").read_text().split())
    assert [initial[0], cloned[0], cloned[2]] == ["0", "0", "1"]
    assert float(cloned[1]) < float(initial[1])
    agent = LearnedScheduler(str(model), cloned=True)
    assert agent.name == "cloned"
    results = evaluate_policy(agent, config.scenario, range(100_000, 100_002))
    assert np.mean([result.metrics[header[1].removeprefix("validation_")] for result in results]) == pytest.approx(
        float(cloned[1]), abs=1e-3
    )
    teacher = evaluate(config.scenario, [config.teacher], range(200_000, 200_008), progress=False)
    results = evaluate_policy(agent, config.scenario, range(200_000, 200_008))
    jct = np.array([result.metrics["mean_jct_s"] for result in results + teacher]).reshape(2, -1)
    assert paired_ratio(jct[0], jct[1]).low < 1.05


def test_a_teacher_needs_a_known_name() -> None:
    with pytest.raises(GpuschedError, match="unknown scheduler 'sjff'"):
        TrainingConfig(teacher="sjff")


@pytest.mark.parametrize("teacher", ["dally", "gandiva-lite", "sjf-bco", "hadare", "tiresias-dally", "edf-admission"])
def test_a_scheduler_that_relies_on_its_decisions_is_no_teacher(teacher: str) -> None:
    environment = ClusterEnv("tiny-v1", queue_window=4, running_window=0)
    with pytest.raises(SchedulerError, match=f"{teacher} cannot be a teacher: it relies on its decisions"):
        ask(teacher, environment, [0], network_of(environment), network_plays=False)


@pytest.mark.parametrize("teacher", ["las", "las-2d:round_s=30"])
def test_a_scheduler_that_preempts_in_rounds_of_its_own_is_no_teacher(teacher: str, tmp_path: Path) -> None:
    """The environment asks at arrivals and completions, which no round meets."""
    config = TrainingConfig(scenario="tiny-v1", teacher=teacher, steps=0)
    with pytest.raises(SchedulerError, match=r"in 4 episodes it preempts running jobs \d+ times, but 0 times where"):
        train(config, tmp_path)
    assert not list(tmp_path.glob("*.npz"))


def test_what_no_window_shows_is_not_taught() -> None:
    check_teacher("srtf", ClusterEnv("tiny-v1", running_window=8), range(20))
    with pytest.raises(SchedulerError, match="running_window"):
        check_teacher("srtf", ClusterEnv("tiny-v1", running_window=0), range(20))


def test_a_start_on_a_list_of_gpus_is_a_decision_like_others() -> None:
    start = Start(7, gpus=[0, 1])  # type: ignore[arg-type] # direct runs accept it
    assert right_actions([start, start], WINDOWS, ALL, QUEUE, RUNNING) == [0, 1]


def test_a_run_without_a_teacher_leaves_no_clone_of_an_earlier_run(tmp_path: Path) -> None:
    config = TrainingConfig(
        scenario="tiny-v1", teacher="sjf", teacher_episodes=2, steps=100, workloads=1, copies=2, validations=1,
        validation_seeds=1,
    )  # fmt: skip
    model = train(config, tmp_path)
    assert LearnedScheduler(str(model)).references() == ["initial", "cloned", "untrained"]
    train(dataclasses.replace(config, teacher=""), tmp_path)
    assert LearnedScheduler(str(model)).references() == ["initial", "untrained"]
