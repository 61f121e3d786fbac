"""The runs of the comparison: contenders, which set the timers, on problems (docs/delay_timers.md, Protocol)."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any, Final

from gpusched_env.network import Network
from gpusched_env.reproduce.card import Run
from gpusched_env.reproduce.dally_tuner.grid import COARSE_GRID_S, pair_action, pairs, rows
from gpusched_env.reproduce.dally_tuner.problems import INSENSITIVE, NON_STATIONARY, REPLAYED, STATIONARY, problem

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
_LONE_SCENARIO: Final = "dally-poisson-v1:oversubscription=40,load=0.3"


def statics() -> Mapping[str, Any]:
    """Read the timers that ``python -m studies.delay_timers.static_timers`` found on training seeds."""
    found: Mapping[str, Any] = json.loads(files(__package__).joinpath("statics.json").read_text(encoding="utf-8"))
    return found


def best_static(label: str) -> str:
    """Return the static contender that was better on the training seeds of a problem."""
    own = statics()["problems"][label]
    return BY_CLASS if own["by_class"]["score"] < own["pair"]["score"] else BEST_PAIR


def contests(label: str, seed: int) -> Iterator[Run]:
    """Yield the runs of all contenders on one draw, and of a grid of pairs from which the oracle takes the best."""
    scenario = problem(label)
    own = statics()["problems"][label]
    table = {key: f"dally:tuner=static,timers={own[key]['timers']}" for key in ("pair", "by_class")}
    specs = FIXED | {BEST_PAIR: table["pair"], BY_CLASS: table["by_class"]}
    for name, spec in specs.items():
        yield Run(scenario, spec, seed, {"problem": label, "contender": name})
    free = dataclasses.replace(scenario, name=f"{scenario.name}, free network", network=Network("none"))
    yield Run(free, FIXED[NO_WAIT], seed, {"problem": label, "contender": FREE})
    instance = scenario.instance(seed)
    for pair in pairs(COARSE_GRID_S):
        spec = f"dally:tuner=static,timers={rows(pair_action(pair), instance)}"
        yield Run(scenario, spec, seed, {"problem": label, "contender": ORACLE, "pair": _written(pair)})


def sanity(label: str, seed: int) -> Iterator[Run]:
    """Yield the runs of the learned tuner and of the right timers, on problems where these are known."""
    scenario = problem(label if label == INSENSITIVE else _LONE_SCENARIO)
    for name in (LEARNED, SANITY[label]):
        yield Run(scenario, FIXED[name], seed, {"problem": label, "contender": name})


def _written(pair: tuple[float, float]) -> str:
    return " + ".join("inf" if math.isinf(seconds) else f"{seconds / 3600:g} h" for seconds in pair)
