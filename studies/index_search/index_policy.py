"""The search for the weights of an index policy (extra ``tuning``).

``python -m studies.index_search.index_policy LOGS --seed 0`` searches on the training windows of the study of
unseen logs, and finds the agent ``general``. With ``--scenario NAME`` instead of LOGS, it searches on the first
training seeds of a scenario.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import numpy as np
import typer

from gpusched_env.agents.index_policy.rule import INPUTS, TERMS, IndexRule
from gpusched_env.agents.index_policy.scheduler import IndexPolicy
from gpusched_env.errors import GpuschedError
from gpusched_env.portable import arrays
from gpusched_env.portable.elementary import log
from gpusched_env.problem.instance import Instance
from gpusched_env.simulator import Simulation
from gpusched_env.support.commands import run_script
from studies.index_search.rule_search import Settings, search, training_problems
from studies.unseen_logs.windows import TRAINING, list_windows

LARGEST: Final = 32  # nodes of the largest cluster of the search
TAIL_WEIGHT: Final = 0.15  # weight of the logarithm of the 99th percentile of JCT, relative to that of the mean
# What the search begins at, in units in which a step of 1 changes the schedule about equally: queues near the bounds
# that Optuna found for Tiresias, arrival order within each, and similar jobs ahead of unknown ones.
START: Final[Mapping[str, tuple[float, ...]]] = {
    "linear": (1.0, 0.0, 0.5, 0.0, 0.0),
    "bounds": (1.5, 2.125, 2.75),
    "heights": (1.0, 1.0, 1.0),
    "hold": (2.5,),
    "least_run_s": (-1.0,),
    "aging": (1.0,),
    "patience_s": (0.0, 1.0, 0.0, 0.0),
    "links_factor": (2.5,),
    "move_factor": (-1.0,),
}


def start_vector(seed: int, hidden: int) -> np.ndarray:
    """Return the vector at which a search begins: START, and random hidden units that do not matter yet."""
    inner = np.random.default_rng(seed).normal(0.0, 0.5, (len(INPUTS), hidden))
    parts = [inner.ravel(), np.zeros(2 * hidden), *(np.array(values) for values in START.values())]
    return np.concatenate(parts)


def rule_of(vector: np.ndarray) -> IndexRule:
    """Return the rule of a vector; times and factors are powers of 4."""
    at, fixed = 0, sum(map(len, START.values()))
    hidden = (len(vector) - fixed) // (len(INPUTS) + 2)

    def take(count: int) -> np.ndarray:
        nonlocal at
        at += count
        return vector[at - count : at].copy()

    inner = take(len(INPUTS) * hidden).reshape(len(INPUTS), hidden)
    bias, outer = take(hidden), take(hidden)
    parts = {name: take(len(values)) for name, values in START.items()}
    per_excess, constant = np.split(_power_of_4(parts["patience_s"]), 2)
    return IndexRule(
        linear=parts["linear"] * np.array([1.0, 1.0, 1.0, 5.0, 1.0])[: len(TERMS)],
        inner=inner,
        bias=bias,
        outer=3.0 * outer,
        bounds=4.0 * parts["bounds"],
        heights=10.0 * parts["heights"],
        hold=2.0 * max(float(parts["hold"][0]), 0.0),
        least_run_s=60.0 * float(_power_of_4(parts["least_run_s"])[0]),
        aging=0.5 * max(float(parts["aging"][0]), 0.0),
        patience_s=np.stack([7_200.0 * per_excess, 60.0 * constant], axis=1),
        links_factor=float(_power_of_4(parts["links_factor"])[0]),
        move_factor=max(10.0 * float(_power_of_4(parts["move_factor"])[0]), 1.0),
    )


def _power_of_4(exponents: np.ndarray) -> np.ndarray:
    """Four to the power of bounded exponents."""
    return arrays.power(4.0, np.clip(exponents, -5.0, 5.0))


def log_jct(rule: IndexRule, instance: Instance) -> tuple[float, float]:
    """Return the logarithms of mean and 99th percentile of the JCT of a rule [s]."""
    simulation = Simulation(instance)
    simulation.run(IndexPolicy.playing(rule))
    jobs = simulation.arrays.jobs
    jct_s = jobs["finish_s"] - jobs["arrival_s"]
    return log(arrays.mean(jct_s)), log(float(np.quantile(jct_s, 0.99)))


def score(rule: IndexRule, instances: Sequence[Instance]) -> float:
    """Return what the search makes small: a mean over problems, so ratios between rules count equally in each."""
    means, tails = np.array([log_jct(rule, instance) for instance in instances]).T
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
    scenario: str = ""
    """Instead of logs: search on training seeds of this scenario."""
    hidden: int = 8
    """Hidden units; 0 = a linear rule."""


def main(settings: PolicySettings) -> None:
    """Search, and save the rule."""
    if (settings.logs is None) == (not settings.scenario):
        raise GpuschedError("give either LOGS, a folder, or --scenario NAME")
    if settings.logs is None:
        problems, about = training_problems(settings.scenario, settings.problems), {"scenario": settings.scenario}
    else:
        windows = [window for window in list_windows(TRAINING) if window.nodes <= LARGEST]
        problems, about = [window.instance(settings.logs) for window in windows], {}
    start = start_vector(settings.seed, settings.hidden)
    best, found = search(start, lambda vector, chosen: score(rule_of(vector), chosen), problems, settings)
    rule_of(best).save(settings.output, about | found)
    print(f"saved {settings.output}: {found}")


if __name__ == "__main__":
    run_script(main)
