"""``gpusched predict``: how well predictors tell the run times of a log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from gpusched_env.cli.choosing import Draws, Jobs
from gpusched_env.cli.describing import find_jobs
from gpusched_env.cli.playing import tell_what_was_read
from gpusched_env.errors import GpuschedError, SchedulerError
from gpusched_env.support.consoles import plain_table, show
from gpusched_env.support.plugins import load_plugins

if TYPE_CHECKING:
    from gpusched_env.problem.instance import Instance

SHOWN = {
    "without": "without", "within_2": "within x2", "within_10": "within x10", "rank": "rank",
    "rank_gpu_time": "rank of GPU time", "too_short": "too short", "below_q10": "below q10", "below_q50": "below q50",
    "below_q90": "below q90", "loss_to_none": "loss / none",
}  # fmt: skip


def predict(
    source: Annotated[str, typer.Argument(metavar="FORMAT:PATH|synthetic:NAME")],
    jobs: Jobs,
    draws: Draws,
    predictors: Annotated[
        list[str] | None,
        typer.Option("--predictor", help="Name. May be given repeatedly.", metavar="NAME", show_default="all"),
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(help="Machines on which it plays.", metavar="NxG/R@TYPE|FORMAT:PATH")
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(help="Learn run times when this scheduler ends the jobs, on --cluster.", metavar="SPEC"),
    ] = None,
) -> None:
    """Score the predictors of run time on a log: each job is predicted when it is submitted, from jobs that have ended.

    Without --scheduler, no job waits: it ends one run time after its submission, whatever the log says of waits.

    Example: gpusched predict swf:kth_sp2.swf.gz --predictor limit --predictor recency
    """
    from gpusched_env.prediction import PREDICTORS, find_predictor
    from gpusched_env.prediction.scoring import replay

    load_plugins()
    names = list(predictors or PREDICTORS)
    for name in names:
        find_predictor(name)
    if (cluster is None) != (scheduler is None) or (jobs.load is not None and cluster is None):
        raise GpuschedError("give both --scheduler and --cluster, or none of them; --load needs them")
    instance, ends_s, run_times_s, title = _schedule(source, jobs, draws, cluster, scheduler)
    table, rows, notes, none_rps = plain_table("predictor", *SHOWN.values(), "CPU s"), [], [], np.nan
    for name in dict.fromkeys(["none", *names]):
        try:
            scores = replay(instance, name, ends_s, run_times_s)
        except SchedulerError as error:  # scikit-learn is missing
            if predictors:
                raise
            notes.append(f"{name}: {error}")
            continue
        none_rps = scores["rps"] if name == "none" else none_rps
        scores["loss_to_none"] = scores["rps"] / none_rps
        shown = ("-" if np.isnan(scores[key]) else f"{scores[key]:.2f}" for key in SHOWN)
        table.add_row(name, *shown, f"{scores['cpu_s']:.1f}")
        rows.append({"predictor": name, **scores})
        if scores["given_up"]:
            notes.append(f"{name} was given up at last: its distributions were worse than that of all jobs")
    show(table, title, "\n".join(notes), rows)


def _schedule(
    source: str, jobs: Jobs, draws: Draws, cluster: str | None, scheduler: str | None
) -> tuple[Instance, np.ndarray, np.ndarray, str]:
    """Return the jobs, when each ends and how long it runs [s], and a title."""
    from gpusched_env.cli.parsing import chosen_scenario
    from gpusched_env.problem.cluster import Cluster
    from gpusched_env.problem.instance import Instance
    from gpusched_env.traces.description import with_run_times

    if scheduler is None:
        found = find_jobs(source, draws.one(), jobs.changes())
        machine = Cluster.parse(f"1x{found.workload.jobs['gpus'].max()}")
        instance = Instance(machine, with_run_times(found.workload, machine))
        run_times_s = instance.workload.jobs["duration_s"]
        return instance, instance.workload.jobs["arrival_s"] + run_times_s, run_times_s, f"{found.title}, no waits"
    from gpusched_env.evaluation import evaluate
    from gpusched_env.metrics.job_times import job_times

    chosen = chosen_scenario(None, source, cluster, jobs.changes())
    seed = draws.one(chosen.seeds.report[0])
    tell_what_was_read(chosen, seed)
    (result,) = evaluate(chosen, [scheduler], [seed], keep_logs=True)
    instance = chosen.instance(seed)
    assert result.log is not None
    times = job_times(instance, result.log)
    return instance, times["finish_s"], times["service_s"], f"{chosen.name}, played by {scheduler}"
