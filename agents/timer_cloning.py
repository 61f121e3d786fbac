"""One tuner from many: a linear network that says on each problem what the best static timers of that problem are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from gpusched_env.agents.learned_timers import LearnedTimers
from gpusched_env.agents.timer_network import INPUTS, TimerNetwork
from gpusched_env.agents.timer_problems import drawn
from gpusched_env.baselines.dally.run import DelayRun
from gpusched_env.baselines.dally.scheduler import Dally
from gpusched_env.envs.delay_timers.observer import Observation

if TYPE_CHECKING:
    from collections.abc import Sequence

RIDGE: Final = 1e-3  # penalty of the weights, in units of the mean square of an input


class _Recorder(LearnedTimers):
    """Set the timers as a network says, and remember what was seen."""

    def __init__(self, network: TimerNetwork) -> None:
        super().__init__(network)
        self.seen: list[np.ndarray] = []

    def tune(self, run: DelayRun) -> None:
        """Look, remember, set."""
        observation = self._observer.observe(run.waits_s, run.simulation.now_s)
        self.seen.append(inputs(observation))
        self._actions.carry_out(self.network.act(observation), run)


def inputs(observation: Observation) -> np.ndarray:
    """float64 [D, INPUTS]: what the network gets for each class."""
    classes, cluster = (np.asarray(observation[key], np.float64) for key in ("classes", "cluster"))
    return np.concatenate([classes, np.broadcast_to(cluster, (len(classes), len(cluster)))], axis=1)


def clone(
    teachers: Mapping[str, np.ndarray], seeds: Sequence[int], start: TimerNetwork, rounds: int = 2
) -> tuple[TimerNetwork, int]:
    """Fit a linear network to constant actions, one for each problem.

    What is seen depends on who sets the timers: the first round looks while ``start`` plays, each later one also while
    the network of the round before plays, and the labels are the teacher's (DAgger).

    Parameters
    ----------
    teachers : [D, 2] action of each problem
    seeds : played on each problem

    Returns
    -------
    network : the fitted one
    simulated_jobs : that were played for it

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
                # each run counts alike, however long it is
                gram += rows.T @ rows / len(rows)
                product += rows.T @ wanted / len(rows)
        scale = RIDGE * np.trace(gram) / len(gram)
        penalty = scale * np.eye(len(gram))
        penalty[-1, -1] = 0.0  # the biases are free
        solution = np.linalg.solve(gram + penalty, product)
        student = TimerNetwork([(solution[:-1], solution[-1])], start.classes, False, start.interval_s)
    return student, jobs
