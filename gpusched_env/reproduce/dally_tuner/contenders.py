"""Programs of the card of Dally's delay timers: contenders, which set the timers (docs/delay_timers.md, Protocol)."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any, Final

import numpy as np

from gpusched_env.agents.learned_timers import shipped
from gpusched_env.agents.timer_network import TimerNetwork
from gpusched_env.network import Network
from gpusched_env.reproduce.dally_tuner.grid import COARSE_GRID_S, pair_action, pairs, rows
from gpusched_env.reproduce.dally_tuner.problems import (
    INSENSITIVE,
    NON_STATIONARY,
    REPLAYED,
    STATIONARY,
    TEST_SEEDS,
    problem,
)
from gpusched_env.scenarios import Scenario

__all__ = ["NON_STATIONARY", "STATIONARY", "TEST_SEEDS"]
HAND, LEARNED, NO_WAIT, FULL = "hand tuner", "learned", "noWait", "fullyConsolidated"
BEST_PAIR, BY_CLASS, ORACLE = "best static pair", "best static per class", "oracle static"
FREE: Final = "free network, noWait"  # gangs are never slowed down, which is about the largest possible gain of timers
FIXED: Final = {
    NO_WAIT: "dally:tuner=off,rack_wait=0,nw_wait=0",
    FULL: "dally:tuner=off,rack_wait=inf,nw_wait=inf",
    "manual 1/2": "dally:tuner=off,rack_wait=1,nw_wait=2",
    "manual 6/12": "dally:tuner=off,rack_wait=6,nw_wait=12",
    "manual 12/24": "dally:tuner=off,rack_wait=12,nw_wait=24",
    HAND: "dally:tuner=hand",
    LEARNED: "dally:tuner=learned",
}
CONTENDERS: Final = (*FIXED, BEST_PAIR, BY_CLASS)
STATIC: Final = tuple(name for name in CONTENDERS if name not in (HAND, LEARNED))  # the oracle may choose these as well
CEILINGS: Final = (ORACLE, FREE)
LONE: Final = "lone gangs"  # low load and uplinks at 1/10 of the usual rate, so waiting for close GPUs always pays
SANITY: Final = {INSENSITIVE: NO_WAIT, LONE: FULL}  # problem -> the contender that a tuner must come close to
PROBLEMS: Final = (*STATIONARY, *NON_STATIONARY, *REPLAYED)


def problem_of(label: str) -> Scenario:
    """Return the scenario of a problem."""
    return problem("dally-poisson-v1:oversubscription=40,load=0.3" if label == LONE else label)


def free_network(label: str) -> Scenario:
    """Return the scenario of a problem in which communication costs nothing."""
    scenario = problem(label)
    return dataclasses.replace(scenario, name=f"{scenario.name}, free network", network=Network("none"))


def statics() -> Mapping[str, Any]:
    """Read the timers that ``python -m studies.delay_timers.static_timers`` found on training seeds."""
    found: Mapping[str, Any] = json.loads(files(__package__).joinpath("statics.json").read_text(encoding="utf-8"))
    return found


def best_static(label: str) -> str:
    """Return the static contender that was better on the training seeds of a problem."""
    own = statics()["problems"][label]
    return BY_CLASS if own["by_class"]["score"] < own["pair"]["score"] else BEST_PAIR


def contests(label: str, seed: int) -> Iterator[dict[str, str]]:
    """Yield contender and spec of the runs on one draw; the oracle takes the best of the pairs of a grid."""
    own = statics()["problems"][label]
    table = {key: f"dally:tuner=static,timers={own[key]['timers']}" for key in ("pair", "by_class")}
    specs = FIXED | {BEST_PAIR: table["pair"], BY_CLASS: table["by_class"], FREE: FIXED[NO_WAIT]}
    for name, spec in specs.items():
        yield {"contender": name, "spec": spec}
    instance = problem(label).instance(seed)
    for pair in pairs(COARSE_GRID_S):
        written = " + ".join("inf" if math.isinf(seconds) else f"{seconds / 3600:g} h" for seconds in pair)
        spec = f"dally:tuner=static,timers={rows(pair_action(pair), instance)}"
        yield {"contender": ORACLE, "pair": written, "spec": spec}


def best_of(tried: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """float64 [seeds]: of pairs of arrays, on each seed the second value of the pair whose first is the smallest."""
    by, found = (np.array(each) for each in zip(*tried, strict=True))
    return found[np.argmin(by, axis=0), np.arange(found.shape[1])]


def spent() -> Iterator[tuple[str, int, str]]:
    """Yield the number of simulated jobs used to choose timers, on training and validation seeds only."""
    found = statics()
    seeds = f"{found['seeds'][0]} to {found['seeds'][-1]}"
    for label, own in found["problems"].items():
        for key, what in (("pair", BEST_PAIR), ("by_class", BY_CLASS)):
            yield f"{what}, {label} ({own[key]['trials']} trials)", own[key]["simulated_jobs"], seeds
    about = TimerNetwork.load(shipped()).about
    training, validation = about["training_seeds"], about["validation_seeds"]
    written = f"{training[0]} to {training[-1]}, {validation[0]} to {validation[-1]}"
    yield f"learned, all problems ({about['learner']})", about["simulated_jobs"], written
