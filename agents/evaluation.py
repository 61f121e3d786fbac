"""Evaluation of a trained agent: many seeds at once; a comparison with baselines as table, picture and files."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from rich.console import Console

from gpusched_env.agents.episodes import Episodes
from gpusched_env.agents.learned import LearnedScheduler
from gpusched_env.baselines import BASELINES, list_baselines
from gpusched_env.baselines.domains import needs_met
from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.errors import GpuschedError
from gpusched_env.evaluation import (
    RunResult,
    by_scheduler,
    evaluate,
    plot_runs,
    print_comparison,
    write_csv,
    write_json,
)
from gpusched_env.evaluation.runner import Task, result_of
from gpusched_env.evaluation.tables import X_BOUND, metric_words
from gpusched_env.metrics import LEAST_SEEDS, Window, lower_bounds, paired_ratio
from gpusched_env.problem.instance import Instance
from gpusched_env.scenarios import Scenario, get_scenario
from gpusched_env.support.consoles import console as file_console
from gpusched_env.support.figures import can_draw
from gpusched_env.support.tables import BOUND

METRICS: Final = ("mean_jct_s", X_BOUND, "p99_jct_s", "preemptions_per_job")  # of the table; results.csv has all
PLOTTED: Final = ("srtf", "tiresias", "sjf", "random", "fifo")
WIDTH: Final = 150  # [characters] of table.txt
TRAINED: Final = "trained"  # rows of the new networks: the scheduler `learned` is an agent of the package
RANDOM: Final = "random"  # a row of every table


def evaluate_policy(
    agent: LearnedScheduler | str | Path,
    scenario: str | Scenario,
    seeds: Iterable[int],
    window: Window | None = None,
    keep_logs: bool = False,
) -> list[RunResult]:
    """Play an agent on all seeds at once: the results of :func:`~gpusched_env.evaluation.evaluate`, but faster.

    One call of the network chooses an action in every run, and one native batch of environments plays them.

    Parameters
    ----------
    agent : a learned scheduler, or the path of a model
    scenario : a scenario or the name of a registered one
    seeds : seeds of the scenario
    window : tracked arrival ranks ``first <= rank < last``; default: the scenario's tracked window
    keep_logs : keep each event log in its result (large)

    Returns
    -------
    list : one result per seed; ``wall_s`` is an equal part of the time of all
    """
    player = agent if isinstance(agent, LearnedScheduler) else LearnedScheduler(str(agent))
    scenario = get_scenario(scenario) if isinstance(scenario, str) else scenario
    drawn = list(seeds)
    if not drawn:
        raise GpuschedError("evaluate_policy: give at least one seed")
    begin = time.perf_counter()
    episodes = _played(player, scenario, drawn)
    logs = [simulation.log() for simulation in episodes.simulations]
    wall_s = (time.perf_counter() - begin) / len(drawn)
    tracked = scenario.tracked_window if window is None else window
    fingerprint = scenario.fingerprint()
    results = []
    for seed, instance, log in zip(drawn, episodes.instances, logs, strict=True):
        task = Task(scenario, fingerprint, player, seed, tracked, keep_logs)
        results.append(result_of(task, player, instance, lower_bounds(instance, tracked), log, wall_s))
    return results


def _played(player: LearnedScheduler, scenario: Scenario, seeds: Sequence[int]) -> Episodes:
    """Play one episode of each seed."""
    episodes = Episodes(ClusterEnv(scenario, **dataclasses.asdict(player.windows)), seeds, keep_logs=True)
    for _ in decisions_of(player, episodes):
        pass
    return episodes


def decisions_of(player: LearnedScheduler, episodes: Episodes) -> Iterator[int]:
    """Play all episodes side by side, with a random generator for each; yield the number of decisions of each step."""
    player.prepare(episodes.shapes)
    generators = [np.random.default_rng(player.seed) for _ in episodes.instances]
    while len(rows := episodes.waiting()):
        observations, masks = episodes.seen(rows)
        episodes.play(rows, player.choose(observations, masks, [generators[b] for b in rows]))
        yield len(rows)


def evaluate_agents(
    models: Sequence[Path],
    scenario: Scenario,
    output: Path,
    report_seeds: int,
    workers: int,
    console: Console,
    baselines: Sequence[str] | None = None,
    rivals: Sequence[str] = (),
    metric: str = "mean_jct_s",
) -> list[RunResult]:
    """Compare trained agents with baselines on the scenario's report seeds; print and save the results.

    Some rows are references: ``random`` draws among all waiting jobs; ``untrained`` draws among the feasible actions
    of the agent's own windows, and so measures the effect of the windows alone; ``initial`` is the agent's network at
    its initial weights, and ``cloned`` the network that has imitated its teacher. These are of the first model.

    ``models`` has one per training seed; ``baselines`` None = :func:`default_baselines` and ``rivals``; ``random`` is
    always one; ``metric`` is the one for which the agents were trained.
    """
    seeds = chosen_seeds(scenario, report_seeds)
    instance = scenario.instance(seeds[0])
    if baselines is None:
        baselines, left_out = default_baselines(scenario, instance)
        for name in left_out:
            console.print(f"{name} is left out: it plans again at every arrival, which is slow; --schedulers adds it")
        baselines = [*baselines, *rivals]
    baselines = list(dict.fromkeys([RANDOM, *baselines]))
    results: list[RunResult] = []
    agents = [LearnedScheduler(str(model)) for model in models]
    agents += [agents[0].reference(name) for name in agents[0].references()]
    learned = []
    for number, agent in enumerate(agents):
        several = f" {number + 1}" if len(models) > 1 else ""
        learned.append(f"{TRAINED}{several}" if number < len(models) else agent.name)
        played = evaluate_policy(agent, scenario, seeds, keep_logs=True)
        results += [dataclasses.replace(result, name=learned[-1]) for result in played]
    results += evaluate(scenario, baselines, seeds, workers=workers, keep_logs=True)
    write_json(results, output / "results.json")
    write_csv(results, output / "results.csv")

    logs = {one.label: one.log for one in results if one.seed == seeds[0] and one.log}
    if can_draw(console):
        plot_runs(
            instance,
            {name: logs[name] for name in (learned[0], *PLOTTED) if name in logs},
            output / "comparison.png",
            title=f"{scenario.name}, report seed {seeds[0]}",
            window=scenario.tracked_window,
        )
    metrics = tuple(dict.fromkeys([metric, *METRICS]))
    print_comparison(results, metrics, console)
    verdicts = compare_to(results, learned[: len(models)], metric)
    for line in verdicts:
        console.print(line)
    with (output / "table.txt").open("w", encoding="utf-8") as stream:
        file = file_console(stream, WIDTH)
        print_comparison(results, metrics, file)
        file.print("\n".join(verdicts))
    return results


def chosen_seeds(scenario: Scenario, count: int) -> range:
    """Return the first ``count`` report seeds."""
    first, end = scenario.seeds.report
    if not 1 <= count <= end - first:
        raise GpuschedError(f"report_seeds is {count}: scenario {scenario.name} has {end - first} of them")
    return range(first, first + count)


def default_baselines(scenario: Scenario, instance: Instance) -> tuple[list[str], list[str]]:
    """Return the baselines that suit a scenario, and those left out because they plan again at every arrival.

    Those that run only gangs that fit on one node do not suit a scenario with larger gangs.
    """
    met = needs_met(instance) - ({"node-gangs"} if scenario.variation is not None else set())  # other draws may not
    suited = list_baselines(met, variants=False)
    arrives_at_once = len(np.unique(instance.workload.jobs["arrival_s"])) == 1
    left_out = [name for name in suited if BASELINES[name].plans_ahead and not arrives_at_once]
    return [name for name in suited if name not in left_out], left_out


def compare_to(results: list[RunResult], names: Sequence[str], metric: str = "mean_jct_s") -> list[str]:
    """Return lines that compare a metric of some schedulers with its bound and that of each other one, paired by seed.

    With several names, such as networks of several training seeds, the interval is that over the names: over the
    geometric means of their ratios.
    """
    groups = by_scheduler(results)
    bounds = {BOUND: [result.bounds[metric] for result in groups[names[0]] if metric in result.bounds]}
    own = [[result.metrics[metric] for result in groups.pop(name)] for name in names]
    others = bounds | {name: [result.metrics[metric] for result in runs] for name, runs in groups.items()}
    over = "seeds" if len(names) == 1 else f"seeds and {len(names)} networks"
    interval = "95 % interval" + (" over the networks" if len(names) > 1 else "")
    lines = [f"{metric_words(metric)} of {TRAINED} / that of the others (geometric mean over {over}, {interval}):"]
    for other, reference in others.items():
        if not reference:
            continue  # a metric without a bound
        ratios = [paired_ratio(one, reference) for one in own]
        ratio = ratios[0] if len(ratios) == 1 else paired_ratio([one.mean for one in ratios], [1.0] * len(ratios))
        ends = f"  [{ratio.low:.3f}, {ratio.high:.3f}]" if ratio.count >= LEAST_SEEDS else ""
        lines.append(f"  {other:<26} {ratio.mean:.3f}{ends}")
    return lines
