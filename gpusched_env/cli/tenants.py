"""``gpusched scenarios tenants``: what each tenant gets under several schedulers, and what it would have alone."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING, Annotated, Any, Final

import numpy as np
import typer
from rich.table import Table

from gpusched_env.cli.choosing import Draws, Problem, SchedulersOption
from gpusched_env.cli.playing import tell_what_was_read
from gpusched_env.errors import GpuschedError
from gpusched_env.support.consoles import show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpusched_env.problem.instance import Instance
    from gpusched_env.scenarios import Scenario

HEADINGS = "tenant", "jobs", "entitled", "share", "queueing", "mean JCT", "p99 JCT", "rho", "borrowed", "preemptions"
LEFT: Final[dict[str, Any]] = {"title_justify": "left", "caption_justify": "left"}
TENANTS: Final = Problem(scenario="tenants-philly-v0")


def tenants(
    schedulers: SchedulersOption,
    draws: Draws,
    problem: Problem = TENANTS,
    pooling: Annotated[
        bool,
        typer.Option(
            "--pooling",
            help="Also play each tenant alone on the nodes of its quota: mean JCT pooled / alone, by tenant.",
        ),
    ] = False,
) -> None:
    """Play schedulers on a scenario with tenants, and show what each tenant gets.

    By default on five report seeds; on a log once.

    Example: gpusched scenarios tenants --scenario cohort-256-v0 --schedulers fifo-skip,tiresias --seeds 2
    """
    from gpusched_env.cli.parsing import chosen_schedulers
    from gpusched_env.scenarios.assumed import assumed

    chosen = problem.chosen()
    if chosen.tenants is None:
        raise GpuschedError(f"--scenario {chosen.name}: it has no tenants; give one with a section tenants")
    specs, seeds = chosen_schedulers(schedulers), draws.of(chosen)
    tell_what_was_read(chosen, seeds[0])
    instances = [chosen.instance(seed) for seed in seeds]
    for words, count in instances[0].ignored.items():
        print(f"  ignored {count:,}: {words}")
    for words, count in assumed(chosen, instances[0].workload).items():
        print(f"note: {words}: {count:,}")
    if any(instance.tenancy[0].names != instances[0].tenancy[0].names for instance in instances):
        raise GpuschedError(f"--scenario {chosen.name}: seeds have different tenants; list them in tenants.tree")
    if pooling:
        show(_pooled(instances, specs, seeds))
        return
    for spec in specs:
        show(_by_tenant(chosen, instances, spec, seeds))


def _by_tenant(scenario: Scenario, instances: Sequence[Instance], spec: str, seeds: Sequence[int]) -> Table:
    """Return the table of one scheduler: a line for each tenant, means over the seeds."""
    from gpusched_env.baselines.registry import make_scheduler
    from gpusched_env.metrics import jain_index, max_min_distance, tenant_times
    from gpusched_env.simulator import simulate

    tables, jain, distance = [], [], []
    for instance, seed in zip(instances, seeds, strict=True):
        log = simulate(instance, make_scheduler(spec), seed=seed)
        tables.append(tenant_times(instance, log))
        jain.append(jain_index(tables[-1]))
        distance.append(max_min_distance(instance, log))
    table = Table(title=f"{scenario.name}, {spec}, {len(seeds)} seeds", show_edge=False, **LEFT)
    for heading in HEADINGS:
        table.add_column(heading, justify="left" if heading == "tenant" else "right", no_wrap=True)
    names = instances[0].tenancy[0].names
    for lines in zip(*tables, strict=True):
        line = np.array(lines)
        known = line[~np.isnan(line["mean_jct_s"])]

        def hours(field: str, known: np.ndarray = known) -> str:
            return f"{known[field].mean() / 3600:.2f} h" if len(known) else "-"

        borrowed = line["borrowed_gpu_s"].sum() / max(line["gpu_seconds"].sum(), 1.0)
        table.add_row(
            names[int(line["tenant"][0])], f"{line['jobs'].mean():,.0f}", f"{line['entitlement'].mean():.1%}",
            f"{line['share'].mean():.1%}", hours("mean_queueing_s"), hours("mean_jct_s"), hours("p99_jct_s"),
            f"{known['mean_rho'].mean():.2f}" if len(known) else "-", f"{borrowed:.0%}",
            f"{line['preemptions'].mean():,.0f}",
        )  # fmt: skip
    table.caption = (
        f"Jain's index of use / entitlement {np.mean(jain):.3f}; "
        f"distance from max-min fair shares {np.mean(distance):.3f}"
    )
    return table


def _pooled(instances: Sequence[Instance], specs: Sequence[str], seeds: Sequence[int]) -> Table:
    """Return the table of ratios: a line for each tenant, a column for each scheduler."""
    from gpusched_env.evaluation.partitions import pooling

    found = {spec: pooling(instances, spec, seeds) for spec in specs}
    tree = instances[0].tenancy[0]
    table = Table("tenant", "quota", show_edge=False, title="mean JCT pooled / alone on the quota", **LEFT)
    for spec in specs:
        table.add_column(spec, justify="right", no_wrap=True)
    rows = sorted(next(iter(found.values())))
    total = "all tenants" if "all" in tree.names else "all"
    for row in [*rows[1:], -1]:
        cells = [found[spec][row] for spec in specs]
        texts = [
            f"{cell.mean:.3f}" + ("" if isnan(cell.low) else f"\n\\[{cell.low:.3f}, {cell.high:.3f}]") for cell in cells
        ]
        table.add_row(total if row < 0 else tree.names[row], "" if row < 0 else str(tree.quota[row]), *texts)
    table.caption = "below 1, the tenant wins by pooling; 95 % intervals by bootstrap over weeks, if there are several"
    return table
