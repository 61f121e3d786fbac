"""Play with extreme numbers in every field of scenarios, decisions, options and actions: each plays or is refused.

    python -m soak.extremes [SECONDS] [SEED] [KIND ...]

A number is refused by one line that names it, or the run ends, can be stopped, and has a valid log. Anything else is a
finding: a traceback, a loop that does not return to Python, an observation outside its space, a log that the validator
refuses.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import math
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

import msgspec
import numpy as np

from gpusched_env.baselines.registry import BASELINES, LEARNED
from gpusched_env.core.handle import set_listener
from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.errors import GpuschedError
from gpusched_env.metrics import summarise, validate
from gpusched_env.scenarios import get_scenario, scenario_from_dict
from gpusched_env.simulator import (
    Decision,
    Lease,
    Outcome,
    Preempt,
    Refuse,
    Resize,
    Simulation,
    Start,
    Wait,
)
from gpusched_env.support.warmup import Teller

VALUES: Final[tuple[Any, ...]] = (
    0, 0.0, -0.0, 5e-324, 1e-300, 1e-15, 1e-9, 1e-3, 0.5, 1, 1.0, 3, 1e6, 2**31 - 1, 2**31, 2.0**53, 2**53 + 1, 1e11,
    1e12, 1e15, 2**63 - 1, 2**63, 1e18, 1e300, sys.float_info.max, math.inf, math.nan, -1, -1.0, -1e-300, -1e300,
    -math.inf, 10**400,
)  # fmt: skip
# Small problems, one for each part of the rules: rounds, links, GPU types, sharing, sizes, tenants, deadlines, copies.
SCENARIOS: Final = (
    "tiny-v1", "leaf-spine-256-v1", "hadar-60gpu-v1", "bsbf-sim-240-v1", "pollux-64-v0", "cohort-256-v0", "slo-v0",
    "hadare-lab-v0", "dally-poisson-v1", "rar-160-v0", "family-v1",
)  # fmt: skip
JOBS: Final = 12
STEPS: Final = 25  # of an environment, and decision points with extreme decisions
TRIAL_S: Final = 2.0  # [CPU s] after which a trial is stopped
RETURN_S: Final = 3.0  # [CPU s] within which it then stops
POLICIES: Final = ("fifo", "srtf", "tiresias", "random")  # of scenarios
# Fields that the drawing of a problem, and not its play, takes long for.
COUNTS: Final = ("jobs", "count", "gpus", "nodes", "most", "racks", "ports", "uplinks", "links", "spines", "leaves")


class Stopped(BaseException):
    """The time of a trial is up."""


@dataclass
class Report:
    """What was tried.

    Attributes
    ----------
    trials, refused, stopped : number of trials by kind, of those that were refused, and of those that were stopped
        because they took long
    findings : what was wrong -> the first trial in which it was; a trial must play or be refused
    """

    trials: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    stopped: Counter[str] = field(default_factory=Counter)
    findings: dict[str, str] = field(default_factory=dict)

    def find(self, what: str, trial: str) -> None:
        """Add a finding."""
        self.findings.setdefault(what, trial)

    def __str__(self) -> str:
        """Return a line for each kind, and one for each finding."""
        lines = [
            f"{kind}: {count:,} trials, {self.refused[kind]:,} refused, {self.stopped[kind]:,} stopped"
            for kind, count in sorted(self.trials.items())
        ]
        found = [f"{what}: {trial[:400]}" for what, trial in self.findings.items()]
        return "\n".join([*lines, f"{len(found)} findings", *found])


def play_extremes(
    seed: int, seconds: float, kinds: Sequence[str] = (), tell: Callable[[str], None] | None = None
) -> Report:
    """Try extreme numbers for some time.

    Parameters
    ----------
    seed : equal seeds give equal trials
    seconds : CPU time [s], of compiling kernels too, beside the rest of the last trial
    kinds : names of KINDS; empty = all
    tell : called with a description before each trial, so that a caller knows which one never returned
    """
    rng, report = np.random.default_rng(seed), Report()
    end_s = time.process_time() + seconds
    names = list(kinds or KINDS)
    while time.process_time() < end_s:
        kind = names[int(rng.integers(len(names)))]
        what, trial = KINDS[kind](rng)
        if tell is not None:
            tell(f"{kind}: {what}")
        report.trials[kind] += 1
        begin_s, limit = time.process_time(), TimeLimit()
        try:
            with limit:
                trial()
        except GpuschedError as error:
            report.refused[kind] += 1
            if "\n" in str(error):
                report.find("an error of several lines", f"{kind}: {what}: {error!r}")
        except Stopped:
            report.stopped[kind] += 1
            if time.process_time() - begin_s > TRIAL_S + RETURN_S and not limit.compiled:
                report.find("it stops late", f"{kind}: {what}: after {time.process_time() - begin_s:.0f} s")
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{place.filename.rpartition('gpusched_env/')[2]}:{place.lineno}"
            report.find(f"{type(error).__name__} at {where}", f"{kind}: {what}: {error}")
    return report


class TimeLimit:
    """Raise Stopped after some CPU time; Python's handler runs when a kernel has returned. Not on Windows.

    Time in which kernels are compiled does not count, and ``compiled`` says that there was some.
    """

    compiled = _compiling = False

    def __enter__(self) -> Self:
        set_listener(self._listen)
        if hasattr(signal, "setitimer"):
            signal.signal(signal.SIGPROF, self._stop)
            signal.setitimer(signal.ITIMER_PROF, TRIAL_S)
        return self

    def __exit__(self, *_: object) -> None:
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_PROF, 0.0)
        set_listener(Teller())

    def _listen(self, done: int, missing: int, name: str) -> None:
        self.compiled, self._compiling = True, done < missing

    def _stop(self, *_: object) -> None:
        if not self._compiling:
            raise Stopped
        signal.setitimer(signal.ITIMER_PROF, TRIAL_S)


Trial = tuple[str, Callable[[], None]]


def _drawn(rng: np.random.Generator) -> Any:
    return VALUES[int(rng.integers(len(VALUES)))]


@functools.cache
def _plain(name: str) -> dict[str, Any]:
    """Plain data of a scenario with few jobs, and with partitions and a reservation where its rules allow them."""
    scenario = get_scenario(name)
    if scenario.workload.jobs is None or scenario.workload.jobs > JOBS:
        scenario = scenario.replace(workload=dataclasses.replace(scenario.workload, jobs=JOBS))
    data = scenario.as_dict()
    if name == "tiny-v1":
        half = {
            "name": "half",
            "default": True,
            "max_time_s": 1e6,
            "default_time_s": 1e5,
            "max_gpus": 8,
            "grace_s": 5.0,
        }
        closed = {"name": "closed", "start_s": 900.0, "end_s": 1800.0, "nodes": "0"}
        data["partitions"] = {"partitions": [half], "reservations": [closed]}
        data["semantics"] |= {"round_s": 60.0, "slot_s": 0.0, "resize_s": 5.0, "start_s": 1.0, "step_iterations": 0}
    return data


def _numbers(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all numbers in plain data."""
    if isinstance(data, dict | list):
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from _numbers(value, (*path, key))
    elif isinstance(data, int | float) and not isinstance(data, bool):
        yield path


def _changed(rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    """Draw a scenario and change one or two of its numbers."""
    name = SCENARIOS[int(rng.integers(len(SCENARIOS)))]
    data = copy.deepcopy(_plain(name))
    paths, told = list(_numbers(data)), [name]
    for _ in range(int(rng.integers(1, 3))):
        path = paths[int(rng.integers(len(paths)))]
        place: Any = data
        for key in path[:-1]:
            place = place[key]
        value = place[path[-1]]
        plain = abs(value) < 1e18  # not changed before
        value = type(value)(value * 10.0 ** int(rng.integers(-9, 10))) if plain and rng.random() < 0.5 else _drawn(rng)
        if path[-1] in COUNTS and isinstance(value, int) and value > 1000:
            value = 1000  # a problem of that size is no error, and takes long to draw
        place[path[-1]] = value
        told.append(f"{'.'.join(map(str, path))} = {_short(value)}")
    return ", ".join(told), data


def _short(value: Any) -> str:
    return "10**400" if isinstance(value, int) and value > 10**100 else repr(value)


def scenarios(rng: np.random.Generator) -> Trial:
    """A scheduler plays a scenario with extreme numbers."""
    what, data = _changed(rng)
    policy, seed = POLICIES[int(rng.integers(len(POLICIES)))], int(rng.integers(1000))

    def trial() -> None:
        _play(scenario_from_dict(data).instance(seed), policy)

    return f"{what}, {policy}, seed {seed}", trial


def environments(rng: np.random.Generator) -> Trial:
    """An environment with extreme options, or of a scenario with extreme numbers; actions may be infeasible."""
    options: dict[str, Any] = {}
    what, data = ("tiny-v1", _plain("tiny-v1")) if rng.random() < 0.5 else _changed(rng)
    if what == "tiny-v1":
        name = ("lease_s", "least_run_s", "delays_s", "refusal_cost", "reward", "step_limit", "sizes")[
            int(rng.integers(7))
        ]
        value = _drawn(rng)
        options[name] = {"delays_s": (value,), "reward": {"jct": value}, "sizes": (value,)}.get(name, value)
        what = f"{name} = {_short(value)}"
        data = copy.deepcopy(data)
        data["semantics"]["round_s"] = 0.0 if name == "delays_s" or rng.random() < 0.5 else 60.0
    seed = int(rng.integers(1000))

    def trial() -> None:
        env = ClusterEnv(scenario_from_dict(data), queue_window=6, running_window=3, **options)
        draws = np.random.default_rng(seed)
        observation, info = env.reset(seed=seed)
        for _ in range(STEPS):
            assert env.observation_space.contains(observation), "an observation outside its space"
            feasible = np.flatnonzero(info["action_mask"])
            if not len(feasible):
                break
            if draws.random() < 0.1 and not 0 <= (wrong := _drawn(draws)) < env.windows.actions:
                with contextlib.suppress(GpuschedError):
                    env.step(wrong)
                    raise AssertionError(f"action {_short(wrong)} was accepted")
            observation, reward, terminated, truncated, info = env.step(int(draws.choice(feasible)))
            assert math.isfinite(reward), f"reward {reward}"
            if terminated or truncated:
                break
        validate(env.simulation.instance, env.event_log(), complete=False)

    return f"{what}, seed {seed}", trial


def decisions(rng: np.random.Generator) -> Trial:
    """Extreme numbers in every field of a decision."""
    name = ("tiny-v1", "pollux-64-v0", "bsbf-sim-240-v1")[int(rng.integers(3))]
    seed = int(rng.integers(1_000_000))

    def trial() -> None:
        draws = np.random.default_rng(seed)
        simulation = Simulation(scenario_from_dict(copy.deepcopy(_plain(name))).instance(seed))
        for _ in range(STEPS):
            if simulation.advance() is not Outcome.DECIDE:
                break
            for decision in (_decision(draws) for _ in range(8)):
                with contextlib.suppress(GpuschedError):
                    simulation.apply(decision)
            simulation.apply(Start(int(draws.integers(JOBS))))
        validate(simulation.instance, simulation.log(), complete=False)

    return f"{name}, seed {seed}", trial


def _decision(rng: np.random.Generator) -> Decision:
    """Draw a decision in which about half of all numbers are extreme."""

    def number(usual: float) -> Any:
        return _drawn(rng) if rng.random() < 0.5 else usual

    job, kind = number(int(rng.integers(JOBS))), int(rng.integers(7))
    gpus = tuple(number(int(rng.integers(8))) for _ in range(int(rng.integers(1, 5))))
    if kind == 0:
        return Start(job, gpus=gpus)
    if kind == 1:
        return Start(job, sub_steps=number(1), size=number(2))
    if kind == 2:
        return Resize(job, number(2), gpus=gpus if rng.random() < 0.3 else None)
    if kind == 3:
        return Preempt(job)
    if kind == 4:
        return Lease(job, number(1000.0))
    return Refuse(job) if kind == 5 and rng.random() < 0.1 else Wait(number(500.0))


@functools.cache
def _recorded(name: str) -> tuple[Any, dict[str, Any]]:
    """A problem and the columns of a run's decisions, as an entry of the leaderboard has them."""
    from gpusched_env.baselines import make_scheduler
    from gpusched_env.leaderboard import record

    instance = scenario_from_dict(copy.deepcopy(_plain(name))).instance(0)
    spec = {"hadar-60gpu-v1": "hadar", "slo-v0": "elasticflow"}.get(name, "dally")
    return instance, msgspec.structs.asdict(record(instance, make_scheduler(spec))[1])


def entries(rng: np.random.Generator) -> Trial:
    """An entry of the leaderboard with an extreme number in its decisions; its schema allows finite numbers only."""
    from gpusched_env.leaderboard import replay
    from gpusched_env.leaderboard.entry import Decisions
    from gpusched_env.leaderboard.replaying import Budget

    name = ("hadar-60gpu-v1", "slo-v0", "dally-poisson-v1")[int(rng.integers(3))]
    instance, columns = _recorded(name)
    column = str(rng.choice([key for key, value in columns.items() if isinstance(value, list) and value]))
    at, value = int(rng.integers(len(columns[column]))), _drawn(rng)
    changed = list(columns[column])
    value = value if abs(value) < 1e301 else math.inf  # NaN too
    if column == "until_s":
        changed[at] = None if value == math.inf else float(value)
    else:
        changed[at] = int(value) if abs(value) < 2**40 else 2**40
    what = f"{name}, {column}[{at}] = {changed[at]!r}"
    return what, lambda: _replayed(replay, instance, Decisions(**columns | {column: changed}), Budget(10.0))


def _replayed(replay: Any, instance: Any, decisions: Any, budget: Any) -> None:
    validate(instance, replay(instance, 0, decisions, budget))


@functools.cache
def _options() -> list[tuple[str, str, Any]]:
    """Every scheduler's parameters that are numbers, or may be: (scheduler, parameter, default)."""
    from gpusched_env.baselines import make_scheduler

    found: list[tuple[str, str, Any]] = []
    for name in (one for one in BASELINES if one != LEARNED):
        scheduler: Any = make_scheduler(name)
        for one in dataclasses.fields(scheduler) if dataclasses.is_dataclass(scheduler) else ():
            numbers = isinstance(one.default, int | float | tuple) and not isinstance(one.default, bool)
            if one.init and (numbers or (one.default is None and "float" in str(one.type))):
                found.append((name, one.name, one.default))
    return found


def schedulers(rng: np.random.Generator) -> Trial:
    """A scheduler with an extreme parameter."""
    from gpusched_env.baselines import make_scheduler

    options = _options()
    name, parameter, default = options[int(rng.integers(len(options)))]
    value = _drawn(rng)
    given = (*default[:-1], value) if isinstance(default, tuple) else value
    fit = {"hadare": "hadare-lab-v0", "sjf-bsbf": "bsbf-sim-240-v1", "sjf-ffs": "bsbf-sim-240-v1"}
    scenario = fit.get(name, ("tiny-v1", "dally-poisson-v1", "pollux-64-v0", "cohort-256-v0")[int(rng.integers(4))])
    seed = int(rng.integers(1000))

    def trial() -> None:
        data = copy.deepcopy(_plain(scenario))
        data.pop("partitions", None)
        make = functools.partial(make_scheduler, name, **{parameter: given})
        _play(scenario_from_dict(data).instance(seed), make())

    return f"{name}:{parameter}={_short(value)} on {scenario}, seed {seed}", trial


def _play(instance: Any, scheduler: Any) -> None:
    """Simulate, validate the log, and summarise it."""
    from gpusched_env.baselines import make_scheduler
    from gpusched_env.simulator import simulate

    log = simulate(instance, make_scheduler(scheduler) if isinstance(scheduler, str) else scheduler)
    validate(instance, log)
    told = summarise(instance, log)
    assert not any(math.isinf(value) for name, value in told.items() if name.startswith("mean")), told


KINDS: Final[dict[str, Callable[[np.random.Generator], Trial]]] = {
    "scenarios": scenarios,
    "environments": environments,
    "decisions": decisions,
    "entries": entries,
    "schedulers": schedulers,
}


def main() -> None:
    """Play for some time, and print what was tried and found; the last line of stderr names a trial that hangs."""
    seconds, seed, *kinds = [*sys.argv[1:], *["60", "0"][len(sys.argv) - 1 :]]

    def tell(what: str) -> None:
        print(what, file=sys.stderr, flush=True)

    report = play_extremes(int(seed), float(seconds), kinds, tell)
    print(report)
    sys.exit(1 if report.findings else 0)


if __name__ == "__main__":
    main()
