"""Put an agent that a search of rules has found into the package: measure it on report seeds, then write its card.

    python -m studies.shipping.rules network-sensitive-blind seed-0.npz

For maintainers: it writes checkpoint and card to the folder of the package.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Annotated, Final

import typer

from gpusched_env import __version__
from gpusched_env.agents.cards import Card, kind_of_file, put
from gpusched_env.agents.checkpoints import checkpoint, format_of
from gpusched_env.agents.measuring import measured_ratios
from gpusched_env.baselines.registry import GENERAL_AGENT
from gpusched_env.errors import GpuschedError, unknown_name
from gpusched_env.scenarios import get_scenario
from gpusched_env.support.commands import run_script
from gpusched_env.support.files import sha256_of

SEEDS: Final = 20


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What the card of an agent says beside what its file says.

    Attributes
    ----------
    environment, scenario, clairvoyant, metric, summary, intended_use, limits, data : see
        :class:`~gpusched_env.agents.cards.Card`
    rivals : schedulers that it is compared with
    made_by : command of the search; ``{seed}`` stands for its seed
    """

    environment: str
    scenario: str
    clairvoyant: bool
    metric: str = "mean_jct_s"
    rivals: tuple[str, ...]
    made_by: str
    summary: str
    intended_use: str
    limits: str
    data: str = ""


RULES: Final = {
    GENERAL_AGENT: Rule(
        environment="gpusched/Cluster-v0",
        scenario="philly-256-v1",
        clairvoyant=False,
        rivals=(
            "dally",
            "tiresias:placement=consolidate",
            "las-2d:placement=consolidate",
            "fifo-skip:placement=consolidate",
        ),
        made_by="python -m studies.index_search.index_policy LOGS --users USERS --generations 0 --seed {seed}",
        summary="small mean JCT on any cluster: Gittins indices of classes of jobs, learned while it runs",
        intended_use="Clusters of 64 GPUs and more, with tiers or with links that gangs share. It needs no run times, "
        "and learns from limits, queues, users and names where jobs tell them. docs/unseen_logs.md compares it.",
        limits="It is made for mean JCT: the p99 of JCT may be above that of Tiresias. It knows neither GPU types nor "
        "GPU sharing.",
        data="logs: run times of Philly before 2017-11-01 and of Venus before 2020-06-15, in closed form. Its weights "
        "are 1: of Gittins indices per GPU, of patience and moves as in renting skis, and of one doubling for those "
        "that run. Those nearby are no better on training windows",
    ),
    "elastic": Rule(
        environment="gpusched/Elastic-v0",
        scenario="pollux-64-v0",
        clairvoyant=False,
        rivals=("pollux", "max-min", "afs", "afs-p"),
        made_by="python -m studies.index_search.size_index --seed {seed}",
        summary="small mean JCT of elastic jobs without run times: which job gets the next GPUs",
        intended_use="Elastic jobs whose speed at each size is known, and whose run times nobody knows.",
        limits="It knows the true speeds at all sizes, also of jobs that have never run, as afs-p does; pollux knows "
        "them of jobs that have run, and max-min only sizes. One of its weights knows an application by its speed on "
        "one GPU, so it is made for the applications of Pollux. It divides by numbers: a rule of its own places the "
        "jobs.",
    ),
    "network-sensitive-blind": Rule(
        environment="gpusched/NetworkSensitive-v0",
        scenario="dally-poisson-v1",
        clairvoyant=False,
        rivals=(
            "dally",
            "delay-zaharia",
            "tiresias-dally",
            "tiresias:placement=consolidate",
            "las-2d:placement=consolidate",
            "learned",
        ),
        made_by="python -m studies.index_search.index_policy --scenario dally-poisson-v1 --generations 0 --seed {seed}",
        summary="small mean JCT where gangs contend for uplinks, without run times: order, preemption, patience",
        intended_use="Leaf-spine clusters with oversubscribed uplinks, jobs that arrive one by one and whose run times "
        "nobody knows, such as dally-poisson-v1.",
        limits="It learned 256 GPUs in 32 machines at load 0.9 with exponential run times, where the time that a job "
        "has run says nothing about the rest. On logs, take the agent general.",
    ),
    "sharing-partners": Rule(
        environment="gpusched/Sharing-v0",
        scenario="bsbf-sim-240-v1",
        clairvoyant=True,
        rivals=("sjf-bsbf", "sjf-ffs", "sjf"),
        made_by="python -m studies.index_search.sharing_index --seed {seed}",
        summary="small mean JCT without preemption: beside which partners a job starts, and in which order jobs start",
        intended_use="Clusters whose jobs may share GPUs and must not be preempted, with known run times: "
        "bsbf-sim-240-v1.",
        limits="It knows run times. Where jobs may be preempted, srsf and the agent sharing are much better.",
    ),
    "sharing-packing": Rule(
        environment="gpusched/Sharing-v0",
        scenario="bsbf-sim-240-v1",
        clairvoyant=True,
        rivals=("srsf:placement=consolidate", "srsf", "srtf:placement=consolidate", "sjf-bsbf"),
        made_by="python -m studies.index_search.packing_index --seed {seed}",
        summary="small mean JCT with preemption: which set of gangs runs, chosen by a knapsack of learned values",
        intended_use="Clusters of up to some hundred GPUs whose jobs may be preempted, with known run times and large "
        "gangs: bsbf-sim-240-v1.",
        limits="It knows run times. It never shares GPUs, although its environment could. It learned 64 GPUs in 16 "
        "machines only; on philly-64-v1, srtf:placement=consolidate is better.",
    ),
    "ring-all-reduce-orders": Rule(
        environment="gpusched/RingAllReduce-v0",
        scenario="rar-160-v0",
        clairvoyant=True,
        metric="makespan_s",
        rivals=("lpt:placement=consolidate,strict=true", "lpt:placement=pack,strict=true", "sjf-bco", "fifo"),
        made_by="python -m studies.index_search.orders --seed {seed}",
        summary="small makespan of gangs that all wait at time 0: it rehearses orders in a copy of the run",
        intended_use="Batches of ring-all-reduce jobs with known run times, all there at the beginning: rar-160-v0.",
        limits="It knows run times, and simulates up to 100 schedules at the beginning. On most seeds, lpt cannot be "
        "beaten, and it plays lpt. Where jobs arrive one by one, it simulates as many at each arrival. It minimises "
        "the makespan: mean JCTs are large.",
    ),
    "heterogeneous-orders": Rule(
        environment="gpusched/Heterogeneous-v0",
        scenario="hadar-60gpu-v1",
        clairvoyant=True,
        metric="makespan_s",
        rivals=("gavel-makespan", "gavel-makespan:round_s=720", "hadar"),
        made_by="python -m studies.index_search.type_orders --seed {seed}",
        summary="small makespan on several GPU types: it rehearses gavel-makespan, and orders of jobs with types",
        intended_use="Batches of jobs with known run times on clusters of several GPU types, all there at the "
        "beginning: hadar-60gpu-v1.",
        limits="It knows run times, and simulates up to 102 schedules at the beginning: seconds for 480 jobs. "
        "Where jobs arrive later, it plays gavel-makespan from then on. It minimises the makespan: mean JCTs are "
        "large.",
    ),
}


def card_of(name: str, model: Path) -> Card:
    """Measure an agent on report seeds of its scenario, and return its card."""
    rule = RULES[name]
    with checkpoint(model, format_of(model), "an agent") as (stored, _):
        about = stored["about"]
    scenario = get_scenario(rule.scenario)
    ratios = measured_ratios(f"learned:path={model}", rule.rivals, rule.scenario, rule.metric, SEEDS, 1)
    uses = ("report",) if rule.data else ("train", "validation", "report")
    return Card(
        name=name,
        kind=kind_of_file(model),
        summary=rule.summary,
        environment=rule.environment,
        scenario=rule.scenario,
        clairvoyant=rule.clairvoyant,
        sha256=sha256_of(model),
        made_by=[rule.made_by.format(seed=about["settings"]["seed"])],
        simulated_jobs=about["simulated_jobs"],
        hours=about["cpu_hours"],
        machine="one core",
        seeds={use: getattr(scenario.seeds, use) for use in uses},
        metric=rule.metric,
        compared_seeds=SEEDS,
        ratios={rival: (round(mean, 5), round(low, 5), round(high, 5)) for rival, (mean, low, high) in ratios.items()},
        intended_use=rule.intended_use,
        limits=rule.limits,
        versions={"version": __version__, "packages": {name: metadata.version(name) for name in ("numpy", "cmaes")}},
        training=about["settings"],
        data=rule.data,
    )


@dataclass
class Settings:
    """Put an agent into the package."""

    name: Annotated[str, typer.Argument()]
    model: Annotated[Path, typer.Argument()]
    """File that the search has written."""


def main(options: Settings) -> None:
    """Write checkpoint and card."""
    if options.name not in RULES:
        raise GpuschedError(unknown_name("agent", options.name, list(RULES)))
    card = card_of(options.name, options.model)
    put(card, options.model)
    print(card)


if __name__ == "__main__":
    run_script(main)
