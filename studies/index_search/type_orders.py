"""The search for the weights of an order search on several GPU types, on training seeds (extra ``tuning``).

python -m studies.index_search.type_orders --seed 0 --output type-orders-0.npz
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from gpusched_env.agents.type_order_search import DEFAULTS, NAMES, RIVAL, TypeOrderSearch
from gpusched_env.baselines.registry import make_scheduler
from gpusched_env.portable import arrays
from gpusched_env.portable.elementary import log
from gpusched_env.problem.instance import Instance
from gpusched_env.simulator import ClairvoyantView, Simulation
from gpusched_env.support.commands import run_script
from studies.index_search.rule_search import Settings, search, training_problems
from studies.index_search.saving import save_weights

SCENARIO: Final = "hadar-60gpu-v1"
REHEARSALS: Final = 12  # of a play in the training
HARD: Final = 1.001  # makespan of the rival / longest run time above which orders can be better
WORST: Final = 1.02  # an order that is worse than so many times the rival counts as much as one that is as bad
SETTINGS: Final = Settings(Path("type_order_search.npz"), problems=12, generations=4, population=6, batch=3, sigma=0.7)


def weights_of(vector: np.ndarray) -> tuple[float, ...]:
    """Return the weights of a vector, to four decimals; 0 = the defaults."""
    price, gang, gang_spread, noise, patience, first, jump = DEFAULTS
    factors = arrays.exp(0.5 * vector[[0, 2, 3, 4, 6]])
    found = np.array([price, gang_spread, noise, patience, jump]) * factors
    share = np.clip(first + 0.2 * vector[5], 0.05, 1.0)
    every = np.array([found[0], gang + vector[1], *found[1:4], share, found[4]])
    weights: list[float] = np.round(every, 4).tolist()
    return tuple(weights)


def end_of_rival_s(instance: Instance) -> float:
    """Return when the rival ends [s]."""
    simulation = Simulation(instance)
    simulation.run(make_scheduler(RIVAL))
    return float(simulation.arrays.jobs["finish_s"].max())


def end_of_orders_s(weights: tuple[float, ...], instance: Instance, rival_s: float) -> float:
    """Return when the best rehearsed order ends [s]; the rival itself is not among them."""
    policy = TypeOrderSearch.playing(weights, rehearsals=REHEARSALS)
    simulation = Simulation(instance)
    simulation.advance()
    view = simulation.view_for(policy)
    assert isinstance(view, ClairvoyantView)
    policy.reset(view)
    return policy.search_orders(view, rival_s).end_s


def hard_problems(count: int) -> tuple[list[Instance], dict[int, float]]:
    """Return the training problems on which the rival is not perfect, and when it ends on each of them [s], by id."""
    every = training_problems(SCENARIO, count)
    ends_s = {id(one): end_of_rival_s(one) for one in every}
    return [one for one in every if ends_s[id(one)] > HARD * float(one.ideal_s.max())], ends_s


def main(settings: Settings = SETTINGS) -> None:
    """Search, and save the weights."""
    problems, ends_s = hard_problems(settings.problems)

    def score(vector: np.ndarray, instances: Sequence[Instance]) -> float:
        logs = []
        for one in instances:
            rival_s = ends_s[id(one)]
            logs.append(log(min(end_of_orders_s(weights_of(vector), one, rival_s) / rival_s, WORST)))
        return arrays.mean(logs)

    best, about = search(np.zeros(len(NAMES)), score, problems, settings, REHEARSALS)
    save_weights(TypeOrderSearch, settings.output, weights_of(best), {"scenario": SCENARIO} | about)
    print(f"saved {settings.output}: {about}, {weights_of(best)}")


if __name__ == "__main__":
    run_script(main)
