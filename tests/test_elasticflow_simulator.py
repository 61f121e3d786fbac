"""EDF as ElasticFlow compares with it: the runs of a reference that was written from the source of its simulator."""

from __future__ import annotations

import csv
import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from elasticflow_reference import Job, Simulator
from published import TRACES, here

from gpusched_env import Instance, make_scheduler, simulate
from gpusched_env.cluster import NodeGroup
from gpusched_env.event_log import REFUSE
from gpusched_env.metrics import job_times, summarise, validate
from gpusched_env.metrics.deadlines import SLACK_S
from gpusched_env.scenarios.deadlines import elasticflow
from gpusched_env.traces.downloads.public_files import find

COLUMNS: Final = ("job_id", "submit_time", "num_gpu", "duration", "ddl", "model_name", "batch_size")
NAMES: Final = {False: "edf:sizes=largest", True: "edf-admission:sizes=largest"}


def rates_of(gpu_type: str) -> dict[tuple[str, int], dict[int, float]]:
    """Return the iterations per second of every model and batch, by number of GPUs."""
    file = Path(__file__).parents[1] / "traces" / "profile_tables" / "elasticflow.json"
    found = {}
    for name, model in json.loads(file.read_text(encoding="utf-8"))["models"].items():
        if gpu_type in model["rates"]:
            kind, _, batch = name.removesuffix(")").partition(" (batch size ")
            found[kind, int(batch)] = {int(gpus): rate for gpus, (rate,) in model["rates"][gpu_type].items()}
    return found


def drawn(seed: int, gpu_type: str, count: int) -> list[dict[str, Any]]:
    """Draw a list like those of the authors: bursts, run times of seconds to hours, deadlines of half to 1.5 of them."""
    draw, now_s, rows = random.Random(seed), 1_000, []
    rates = rates_of(gpu_type)
    for number in range(count):
        model, batch = draw.choice(sorted(rates))
        gpus = draw.choice([size for size in rates[model, batch] if size <= 8])
        running_s = int(20 * 1_000 ** draw.random())
        due_s = now_s + int(draw.uniform(0.5, 1.5) * running_s)
        rows.append(dict(zip(COLUMNS, (number, now_s, gpus, running_s, due_s, model, batch), strict=True)))
        now_s += int(draw.expovariate(1 / 300)) if draw.random() < 0.7 else draw.randrange(3)
    return rows


def reference(rows: list[dict[str, Any]], gpu_type: str) -> list[Job]:
    rates = rates_of(gpu_type)
    jobs = []
    for row in rows:
        speed = rates[row["model_name"], int(row["batch_size"])]
        work = float(row["iteration"]) if "iteration" in row else int(row["duration"]) * speed[int(row["num_gpu"])]
        jobs.append(Job(int(row["submit_time"]), work, int(row["ddl"]), speed, int(row["batch_size"])))
    return jobs


def played(instance: Instance, admission: bool) -> np.ndarray:
    """Return which jobs meet their deadlines."""
    log = simulate(instance, make_scheduler(NAMES[admission]))
    validate(instance, log)
    return job_times(instance, log)["finish_s"] <= instance.workload.deadline_s + SLACK_S


def theirs(jobs: list[Job], gpus: int, admission: bool) -> np.ndarray:
    simulator = Simulator(jobs, gpus, admission)
    simulator.play()
    return np.array([job in simulator.met for job in sorted(jobs, key=lambda job: job.submit_s)])


@pytest.mark.parametrize("admission", [False, True])
@pytest.mark.parametrize(("gpu_type", "group"), [("T4", (4, 4)), ("A100", (2, 8)), ("T4", (16, 4))])
def test_the_same_jobs_meet_their_deadlines(
    tmp_path: Path, gpu_type: str, group: tuple[int, int], admission: bool
) -> None:
    for seed in range(10):
        rows = drawn(seed, gpu_type, 60)
        file = tmp_path / f"{seed}.csv"
        with file.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)
        scenario = elasticflow(jobs=len(rows), overhead_s=0.0, workload=str(file))
        instance = scenario.replace(groups=(NodeGroup(*group, gpu_type),)).instance(0)
        expected = theirs(reference(rows, gpu_type), group[0] * group[1], admission)
        ours = played(instance, admission)
        print(gpu_type, group, admission, seed, int(expected.sum()), int(ours.sum()), int((ours != expected).sum()))
