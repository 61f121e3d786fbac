"""Behaviour cloning of a tuner: a linear network fitted to the best static timers of each problem."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from gpusched_env.agents.learned_timers import LearnedTimers
from gpusched_env.agents.timer_network import INPUTS, TimerNetwork
from gpusched_env.baselines.dally.run import DelayRun
from gpusched_env.baselines.dally.scheduler import Dally
from gpusched_env.delay_timers.observer import Observation
from studies.delay_timers.playing import drawn

if TYPE_CHECKING:
    from collections.abc import Sequence

RIDGE: Final = 1e-3  # ridge penalty of the weights, in units of the mean square of an input


class _Recorder(LearnedTimers):
    """Set the timers by a network, and record its inputs."""

    def __init__(self, network: TimerNetwork) -> None:
        super().__init__(network)
        self.seen: list[np.ndarray] = []

    def tune(self, run: DelayRun) -> None:
        """Observe, record, and set the timers."""
        observation = self._observer.observe(run.waits_s, run.simulation.now_s)
        self.seen.append(inputs(observation))
        self._actions.carry_out(self.network.act(observation), run)


def inputs(observation: Observation) -> np.ndarray:
    """float64 [D, INPUTS]: inputs of the network for each class."""
    classes, cluster = (np.asarray(observation[key], np.float64) for key in ("classes", "cluster"))
    return np.concatenate([classes, np.broadcast_to(cluster, (len(classes), len(cluster)))], axis=1)


def clone(
    teachers: Mapping[str, np.ndarray], seeds: Sequence[int], start: TimerNetwork, rounds: int = 2
) -> tuple[TimerNetwork, int]:
    """Fit a linear network to constant actions, one for each problem, by DAgger.

    Observations depend on the network that sets the timers. The first round records observations while ``start`` plays,
    each later round also while the network of the round before plays. The labels are always the teacher's actions.

    Parameters
    ----------
    teachers : [D, 2] action of each problem
    seeds : seeds played on each problem
    start : network that plays in the first round
    rounds : number of rounds

    Returns
    -------
    network : the fitted network
    simulated_jobs : number of jobs played to fit it

    References
    ----------
    S. Ross, G. Gordon, D. Bagnell, "A reduction of imitation learning and structured prediction to no-regret online
    learning", AISTATS 2011.
    """
    student, jobs = start, 0
    gram, product = np.zeros((INPUTS + 1, INPUTS + 1)), np.zeros((INPUTS + 1, 2))
    for _ in range(rounds):
        for name, action in teachers.items():
            for seed in seeds:
                recorder = _Recorder(student)
                run = DelayRun(drawn(name, seed), Dally(), timers=recorder)
                run.play()
                jobs += len(run.simulation.instance.workload)
                seen = np.array(recorder.seen)  # [intervals, D, INPUTS]
                rows = np.concatenate([seen, np.ones((*seen.shape[:2], 1))], axis=2).reshape(-1, INPUTS + 1)
                wanted = np.broadcast_to(action, (*seen.shape[:2], 2)).reshape(-1, 2)
                # every run has the same weight, whatever its length
                gram += rows.T @ rows / len(rows)
                product += rows.T @ wanted / len(rows)
        scale = RIDGE * np.trace(gram) / len(gram)
        penalty = scale * np.eye(len(gram))
        penalty[-1, -1] = 0.0  # no penalty on the biases
        solution = np.linalg.solve(gram + penalty, product)
        student = TimerNetwork([(solution[:-1], solution[-1])], start.classes, False, start.interval_s)
    return student, jobs
