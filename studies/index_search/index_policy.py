"""The weights of an index policy: a prior from training logs in closed form, the rest by a search (extra ``tuning``).

``python -m studies.index_search.index_policy LOGS --seed 0`` searches on the training windows of the study of
unseen logs, and finds the agent ``general``. With ``--users FOLDER``, those of the study of known users count as much.
With ``--scenario NAME`` instead of LOGS, it searches on the first training seeds of a scenario.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import numpy as np
import typer

from gpusched_env.agents.index_policy.rule import IndexRule
from gpusched_env.agents.index_policy.scheduler import IndexPolicy
from gpusched_env.errors import GpuschedError
from gpusched_env.portable import arrays
from gpusched_env.portable.elementary import log, power
from gpusched_env.prediction.levels import LEVELS, counts_of, levels_of, normalised
from gpusched_env.problem.instance import Instance
from gpusched_env.simulator import Simulation
from gpusched_env.support.commands import run_script
from studies.index_search.rule_search import Settings, search, training_problems
from studies.known_users import windows as known_users
from studies.unseen_logs.windows import TRAINING, list_windows, training_run_times_s

LARGEST: Final = 16  # nodes of the largest cluster of the search
TAIL_WEIGHT: Final = 0.15  # weight of the logarithm of the 99th percentile of JCT, relative to that of the mean
FLOOR: Final = 0.001  # part of a prior that is the same for each level
# What the search begins at, in units in which a step of 1 changes the schedule about equally: the weights of IndexRule.
START: Final[Mapping[str, tuple[float, ...]]] = {
    "gang": (1.0,),
    "hold": (0.5,),
    "patience": (0.0,),
    "move_factor": (0.0,),
}
START_VECTOR: Final = np.concatenate([np.array(values) for values in START.values()])


def prior_of(samples: Sequence[np.ndarray]) -> np.ndarray:
    """float64 [LEVELS]: mean of the distributions of samples of run times [s]."""
    counts = [counts_of(levels_of(sample), np.zeros(len(sample), np.int64), 1) for sample in samples]
    mean = normalised(np.cumsum([normalised(count) for count in counts], axis=0)[-1][0])
    return (1.0 - FLOOR) * mean + FLOOR / LEVELS


def rule_of(vector: np.ndarray, prior: np.ndarray | None = None) -> IndexRule:
    """Return the rule of a vector; factors are powers of 4. No prior = the same for each level."""
    gang, hold, patience, move_factor = vector.tolist()
    return IndexRule(
        prior=np.ones(LEVELS) if prior is None else prior,
        gang=gang,
        hold=2.0 * max(hold, 0.0),
        patience=_power_of_4(patience),
        move_factor=max(_power_of_4(move_factor), 1.0),
    )


def _power_of_4(exponent: float) -> float:
    """Four to the power of a bounded exponent."""
    return power(4.0, min(max(exponent, -5.0), 5.0))


def log_jct(rule: IndexRule, instance: Instance, first: int) -> tuple[float, float]:
    """Return the logarithms of mean and 99th percentile of the JCT of the jobs from row ``first`` on [s]."""
    simulation = Simulation(instance)
    simulation.run(IndexPolicy.playing(rule))
    jobs = simulation.arrays.jobs[first:]
    jct_s = jobs["finish_s"] - jobs["arrival_s"]
    return log(arrays.mean(jct_s)), log(float(np.quantile(jct_s, 0.99)))


def score(rule: IndexRule, instances: Sequence[Instance], first: Mapping[int, int]) -> float:
    """Return what the search makes small: a mean over problems, so ratios between rules count equally in each.

    ``first`` : by ``id`` of a problem, the row of its first job that counts; without one, all jobs count
    """
    found = [log_jct(rule, instance, first.get(id(instance), 0)) for instance in instances]
    means, tails = np.array(found).T
    return arrays.mean(means) + TAIL_WEIGHT * arrays.mean(tails)


@dataclass(frozen=True)
class PolicySettings(Settings):
    """Settings of the search for an index policy."""

    output: Path = Path("index_policy.npz")
    """File to write."""
    problems: int = 32
    """Number of training seeds of the scenario."""
    logs: Annotated[Path | None, typer.Argument()] = None
    """Folder of the logs."""
    users: Path | None = None
    """Folder of the logs that tell users."""
    scenario: str = ""
    """Instead of logs: search on training seeds of this scenario."""


def known_user_problems(users: Path) -> list[Instance]:
    """Return the training windows of the study of known users, with limits and without, in turn."""
    told = tuple(known_users.TOLD)
    windows = known_users.list_windows(TRAINING)
    return [window.instance(window.workload(users, told[i % 3])) for i, window in enumerate(windows)]


def main(settings: PolicySettings) -> None:
    """Search, and save the rule."""
    if (settings.logs is None) == (not settings.scenario):
        raise GpuschedError("give either LOGS, a folder, or --scenario NAME")
    first: dict[int, int] = {}
    if settings.logs is None:
        problems, about = training_problems(settings.scenario, settings.problems), {"scenario": settings.scenario}
        samples = [np.concatenate([instance.ideal_s for instance in problems])]
    else:
        windows = [window for window in list_windows(TRAINING) if window.nodes <= LARGEST]
        problems, about = [window.instance(settings.logs) for window in windows], {}
        samples = training_run_times_s(settings.logs)
    if settings.users is not None:
        more = known_user_problems(settings.users)
        first = {id(one): len(one.workload) - known_users.REPORTED for one in more}
        problems += more
    make = partial(rule_of, prior=prior_of(samples))
    best, found = search(START_VECTOR, lambda vector, some: score(make(vector), some, first), problems, settings)
    make(best).save(settings.output, about | found)
    print(f"saved {settings.output}: {found}")


if __name__ == "__main__":
    run_script(main)
