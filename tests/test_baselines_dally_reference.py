"""Dally's preset "authors" against a simulator of the same rules that plays every step: grants and times are equal."""

from __future__ import annotations

import csv
import gzip
import json
import math
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dally_reference import DallySimulator, Job, by_number, dimensions
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env.baselines.dally.orders import java_order
from gpusched_env.baselines.dally.run import DelayRun
from gpusched_env.baselines.dally.scheduler import Dally
from gpusched_env.cluster import Cluster, NodeGroup
from gpusched_env.core.placement.taking import next_random
from gpusched_env.core.state import allocate
from gpusched_env.event_log import RESUME, START, EventLog
from gpusched_env.instance import Instance, Semantics
from gpusched_env.metrics import job_times, validate
from gpusched_env.network import Network
from gpusched_env.network.dimensions import reachable_shapes
from gpusched_env.simulator import Outcome
from gpusched_env.traces.profile_tables.efficiency_files import load_efficiency
from gpusched_env.workload import SHAPED_DTYPE, Profiles, Workload

MODELS = ("VGG", "BERT", "MobileNetV3")
SHARED = Path(__file__).parents[1].parent / "shared" / "traces" / "dally"


@dataclass
class Case:
    """One problem for both simulators."""

    racks: int
    machines: int
    slots: int
    gpus: int
    jobs: list[Job]
    table: dict[tuple[str, tuple[int, ...]], float]
    rules: dict[str, Any]

    @property
    def cluster(self) -> Cluster:
        group = NodeGroup(
            self.racks * self.machines, self.slots * self.gpus, nodes_per_rack=self.machines, slots=self.slots
        )
        return Cluster([group])

    def reference(self) -> DallySimulator:
        jobs = [replace(job) for job in self.jobs]
        simulator = DallySimulator(
            self.racks, self.machines, self.slots, self.gpus, jobs,
            lambda job, gpus: 1.0 if job.gpus == 1 else self.table[job.model, dimensions(gpus)],
            draw=partial(next_random, allocate([self.instance()]).handle(0)), **self.rules,
        )  # fmt: skip
        simulator.run()
        return simulator

    def instance(self) -> Instance:
        kinds = sorted({(job.model, job.iteration_s) for job in self.jobs})
        shared = dict(batch=1, gradient_bytes=0.0, memory_bytes=0.0, skew=0.0, overlap=1.0)
        plain = Profiles.from_rows(
            [shared | {"name": f"{model}, {each!r}", "compute_s": each} for model, each in kinds], ("V100",)
        )
        sizes = {job.gpus for job in self.jobs} - {1}
        shaped = [
            (row, *shape, self.table[model, shape])
            for row, (model, _) in enumerate(kinds)
            for gang in sizes
            for shape in reachable_shapes(self.cluster, gang)
        ]
        profiles = Profiles(plain.rows, plain.compute_s, ("V100",), shaped=np.array(shaped, SHAPED_DTYPE))
        workload = Workload.from_columns(
            [job.arrival_s for job in self.jobs],
            [job.gpus for job in self.jobs],
            iterations=[job.iterations / job.gpus for job in self.jobs],
            ids=[job.id for job in self.jobs],
            profile=[kinds.index((job.model, job.iteration_s)) for job in self.jobs],
            profiles=profiles,
        )
        rules = Semantics(checkpoint_s=0.0, restore_s=0.0, step_iterations=self.rules["step"])
        return Instance(self.cluster, workload, Network("dimensions"), rules)

    def scheduler(self, folder: Path, **changes: Any) -> Dally:
        rules = self.rules
        names = {"rebid": "Q1", "look_ahead": "Q2", "alias": "Q3", "statistics": "Q4", "prune": "Q5"}
        given = dict(
            preset="authors", policy=rules["policy"], lease_s=rules["lease_s"], hist=rules["hist"],
            priority={"dally": "nw", "tiresias": "gpu-time", "gandiva": "first-start"}[rules["policy"]],
            quirks="/".join(names[name] for name in names if rules[name]) or "none",
        )  # fmt: skip
        if not rules["tuned"] and rules["policy"] == "dally":
            given |= {"tuner": "off", "rack_wait": rules["rack_wait"], "nw_wait": rules["nw_wait"]}
        if rules["machine_order"] is not None:
            path = folder / "order.json"
            machines = [r * self.machines + m for r, m in rules["machine_order"]]
            slots = [(r * self.machines + m) * self.slots + s for r, m, s in rules["slot_order"]]
            path.write_text(json.dumps({"machines": machines, "slots": slots}))
            given["order"] = str(path)
        if rules.get("sort") is not None:
            given["order"] = {by_number: "dally_reference:by_number", java_order: "java"}[rules["sort"]]
        return Dally(**(given | changes))

    def gpu_number(self, gpu: tuple[int, int, int, int]) -> int:
        rack, machine, slot, number = gpu
        return ((rack * self.machines + machine) * self.slots + slot) * self.gpus + number


def all_shapes(racks: int, machines: int, slots: int, gpus: int, sizes: set[int]) -> set[tuple[int, ...]]:
    cluster = Cluster([NodeGroup(racks * machines, slots * gpus, nodes_per_rack=machines, slots=slots)])
    return {shape for gang in sizes for shape in reachable_shapes(cluster, gang)}


@st.composite
def cases(draw: Any, rebid: bool = False) -> Case:
    """Small clusters, jobs that tie, steps that do not divide the work, and all options of the reference."""
    racks, machines = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    slots, gpus = draw(st.integers(1, 2)), draw(st.integers(1, 4))
    total = racks * machines * slots * gpus
    lease_s = draw(st.sampled_from([3600.0, 3600.0, 500.0, 777.7]))
    jobs = []
    for row, number in enumerate(draw(st.permutations(range(draw(st.integers(1, 14)))))):
        size = draw(st.integers(1, total))
        each = draw(st.sampled_from([1.0, 1.0, 0.5, 0.0137]))
        seconds = draw(st.sampled_from([600, 3600, 7200, 9000, 20000])) + draw(st.integers(0, 60))
        arrival = draw(st.one_of(st.sampled_from([0.0, 0.0, 10.0, 3600.0, 3603.0]), st.floats(0.0, 20000.0)))
        jobs.append(Job(number, arrival, size, round(seconds * size / each), each, MODELS[row % len(MODELS)]))
    efficiency = st.sampled_from([1.0, 1.0, 0.89, 0.5, 0.25, 0.331, 0.0351])
    shapes = all_shapes(racks, machines, slots, gpus, {job.gpus for job in jobs} - {1})
    table = {(model, shape): draw(efficiency) for model in MODELS for shape in sorted(shapes)}
    order = draw(st.sampled_from(["asc", "fixed", "by_number", "java"]))
    rules: dict[str, Any] = dict(
        step=draw(st.sampled_from([60, 37, 200])), lease_s=lease_s,
        rack_wait=draw(st.sampled_from([0.0, 0.5, 1.0, 3.0, math.inf])),
        nw_wait=draw(st.sampled_from([0.0, 1.0, 2.0, 6.0, math.inf])),
        tuned=draw(st.booleans()), hist=draw(st.sampled_from([0.0, 5.0, 8.0, 24.0])),
        policy=draw(st.sampled_from(["dally", "dally", "tiresias"] + ["gandiva"] * (not rebid))),
        rebid=rebid,
        look_ahead=draw(st.booleans()), alias=draw(st.booleans()), prune=draw(st.booleans()), statistics=True,
        machine_order=None, slot_order=None, sort={"by_number": by_number, "java": java_order}.get(order),
    )  # fmt: skip
    if order == "fixed":
        every = [(r, m) for r in range(racks) for m in range(machines)]
        rules["machine_order"] = draw(st.permutations(every))
        rules["slot_order"] = draw(st.permutations([(*place, s) for place in every for s in range(slots)]))
        if slots == 1:
            rules["slot_order"] = [(*place, 0) for place in rules["machine_order"]]
    return Case(racks, machines, slots, gpus, jobs, table, rules)


def grants(instance: Instance, log: EventLog) -> list[tuple[float, int, list[int]]]:
    rows = np.flatnonzero(np.isin(log.events["kind"], [START, RESUME]))
    ids = instance.workload.jobs["id"]
    return [
        (float(log.events["time_s"][row]), int(ids[log.events["job"][row]]), sorted(log.gang(int(row)).tolist()))
        for row in rows
    ]


def compare(case: Case, folder: Path) -> tuple[DallySimulator, DelayRun]:
    """Play both; grants, their order and their GPUs must be equal."""
    reference = case.reference()
    instance = case.instance()
    run = DelayRun(instance, case.scheduler(folder))
    assert run.play() is Outcome.DONE
    log = run.simulation.log()
    mine = grants(instance, log)
    theirs = [(t, number, sorted(map(case.gpu_number, gpus))) for t, number, gpus in reference.grants]
    assert [(number, gpus) for _, number, gpus in sorted(mine)] == [
        (number, gpus) for _, number, gpus in sorted(theirs)
    ]
    np.testing.assert_allclose([t for t, *_ in mine], [t for t, *_ in reference.grants], rtol=1e-9)
    times = job_times(instance, log)
    ends = {job.id: job.end_s for job in reference.jobs}
    np.testing.assert_allclose(times["finish_s"], [ends[i] for i in instance.workload.jobs["id"].tolist()], rtol=1e-9)
    assert run.offers_made == reference.offers
    validate(instance, log)
    return reference, run


@settings(max_examples=60)
@given(case=cases())
def test_every_grant_is_that_of_the_reference(case: Case, tmp_path_factory: pytest.TempPathFactory) -> None:
    compare(case, tmp_path_factory.mktemp("order"))


@settings(max_examples=30)
@given(case=cases(rebid=True))
def test_the_leak_is_that_of_the_reference(case: Case, tmp_path_factory: pytest.TempPathFactory) -> None:
    compare(case, tmp_path_factory.mktemp("order"))


@pytest.mark.skipif(not SHARED.is_dir(), reason="the authors' job files are not part of the package")
@pytest.mark.parametrize(
    ("policy", "tuned"), [("dally", True), ("dally", False), ("tiresias", False), ("gandiva", False)]
)
def test_jobs_of_the_authors_are_granted_as_by_the_reference(policy: str, tuned: bool, tmp_path: Path) -> None:
    with gzip.open(SHARED / "jobs" / "sense_500jobs_poisson_1proc-week.csv.gz", "rt", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))[:120]
    jobs = [
        Job(
            int(row["job_id"]), float(row["arrival_time"]), int(row["max_parallelism"]), int(row["total_iterations"]),
            float(row["time_per_iteration"]), row["model"],
        )
        for row in rows
    ]  # fmt: skip
    table = {
        (name, shape): efficiency
        for name, model in load_efficiency("dally").models.items()
        for shape, efficiency in model.efficiency["nvswitch"].items()
    }
    rules = dict(
        step=150_000, lease_s=3600.0, rack_wait=6.0, nw_wait=12.0, tuned=tuned, hist=24.0, policy=policy, rebid=False,
        look_ahead=True, alias=True, prune=True, statistics=True, machine_order=None, slot_order=None,
    )  # fmt: skip
    reference, _ = compare(Case(4, 2, 2, 4, jobs, table, rules), tmp_path)
    assert len(reference.grants) > 10 * len(jobs)  # leases end, and are offered again
