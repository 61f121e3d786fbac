"""The preset "authors" of Dally against a second simulator that was written from the specification alone."""

from __future__ import annotations

import csv
import gzip
import itertools
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import published
import pytest
from dally_reference import Job, Rules, Shape, Simulator, State, dimensions, record, spread, tuned_timers
from helpers import FREE_PREEMPTION

from gpusched_env.baselines import make_scheduler
from gpusched_env.event_log import RESUME, START, EventLog
from gpusched_env.metrics import job_times
from gpusched_env.network import Network
from gpusched_env.problem.cluster import Cluster, NodeGroup
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.workload import SHAPED_DTYPE, Profiles, Workload
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import simulate

EXAMPLES: Final = int(os.environ.get("GPUSCHED_FUZZ", "100"))  # settings of each preset; GPUSCHED_FUZZ=2000 tries 2000
MODELS: Final = ("ResNet50", "ResNet18", "BERT", "VGG", "AlexNet", "MobileNetV3")
FOREVER: Final = math.inf
Efficiency = Callable[[str, Shape], float]


def play(rules: Rules, jobs: list[Job], efficiency: Efficiency) -> tuple[Simulator, dict[int, State]]:
    simulator = Simulator(rules, efficiency)
    return simulator, simulator.run(jobs)


# The reference itself: the worked examples A1 to A7, E2 of the specification.


def by_tier(_: str, shape: Shape) -> float:
    return 0.25 if shape[3] > 1 else 0.5 if shape[2] > 1 else 1.0


def example(
    racks: int, machines: int, waits: tuple[float, float], *jobs: tuple[int, float, int, int], leak: bool = False
) -> dict[int, State]:
    rules = Rules(racks, machines, 1, 4, 60, 3600.0, *waits, rebid=leak)
    return play(rules, [Job(name, at, gpus, ideal * gpus, 1.0) for name, at, gpus, ideal in jobs], by_tier)[1]


FOUR = tuple((name, 0.0, 3, 7200) for name in (1, 2, 3, 4))
TWO_LATER = (*FOUR[:2], (5, 10, 2, 600), (9, 1900, 8, 60))
WORKED = {  # racks, machines, timers, jobs, (start, end) of each job
    "A1": (2, 2, (1, 2), (*FOUR, (5, 10, 4, 600)), [(0, 7203)] * 3 + [(0, 7807), (3603, 4203)]),
    "A2": (2, 2, (0, 0), (*FOUR, (5, 10, 4, 600)), [(0, 7203)] * 4 + [(10, 2410)]),
    "A3": (1, 2, (0.5, 2), TWO_LATER, [(0, 7331), (0, 7331), (1900, 3100), (3603, 3723)]),
    "A3, timers 1, 2": (1, 2, (1, 2), TWO_LATER, [(0, 7203), (0, 7805), (3603, 4203), (7808, 7928)]),
    "A4": (1, 2, (0, 0), ((1, 0, 4, 7200), (2, 10, 4, 1200)), [(0, 7204), (10, 1210)]),
    "A4, Q1": (1, 2, (0, 0), ((1, 0, 4, 7200), (2, 10, 4, 1200)), [(0, 8408), (3604, 4804)]),
    "A5": (
        2, 2, (1, 2), ((1, 0, 6, 36000), (2, 0, 6, 36000), (5, 10, 4, 7200)),
        [(0, 72108), (0, 77518), (3606, 34248)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WORKED)
def test_the_reference_plays_the_worked_examples(name: str) -> None:
    racks, machines, waits, jobs, times = WORKED[name]
    states = example(racks, machines, waits, *jobs, leak="Q1" in name)
    assert [(state.start, state.end) for state in states.values()] == times
    for state in states.values():
        assert state.end - state.job.arrival == pytest.approx(state.queue + state.run)


def test_the_reference_tunes_as_the_worked_examples() -> None:
    assert spread([0, 0, 3600, 7200]) == pytest.approx(8669.925, abs=5e-4)
    low, high = [1, 1.5, 3.2, 8.3], [2, 10, 30]
    assert (spread(low), spread(high)) == pytest.approx((9.277543, 37.551362), abs=5e-7)
    assert tuned_timers(low, high, 24) == (10, 24)
    assert [tuned_timers([], [], history) for history in (24, 0, 5)] == [(6, 12), (0, 0), (4, 5)]
    assert (tuned_timers([30], [30], 24), tuned_timers([9.2], [13.5], 24)) == ((20, 24), (10, 14))
    waits: list[tuple[float, float]] = []
    record(waits, 0.0, 0.99, 1e9)
    record(waits, 1.0, 1.0, 1e9)
    assert waits == [(1.0, 1.0)]


def test_the_reference_prunes_a_history_as_q5() -> None:
    """Of the neighbours 1 and 2, both too old, the second survives until the next record."""
    waits = [(1.0, 4.0), (2.0, 5.0), (90.0, 6.0)]
    record(waits, 100.0, 7.0, 50.0)
    assert waits == [(2.0, 5.0), (90.0, 6.0), (100.0, 7.0)]
    record(waits, 101.0, 8.0, 50.0)
    assert waits == [(90.0, 6.0), (100.0, 7.0), (101.0, 8.0)]


SHAPES = {  # E2; (rack, machine, slot): GPUs
    "4+4 in a rack": ({(0, 0, 0): 4, (0, 1, 0): 4}, (2, 2, 2, 1)),
    "8+8 in a rack": ({(0, 0, 0): 4, (0, 0, 1): 4, (0, 1, 0): 4, (0, 1, 1): 4}, (2, 4, 2, 1)),
    "8+8 over racks": ({(0, 0, 0): 4, (0, 0, 1): 4, (1, 0, 0): 4, (1, 0, 1): 4}, (1, 4, 2, 2)),
    "3 | 4+1 in a rack": ({(0, 0, 0): 3, (0, 1, 0): 4, (0, 1, 1): 1}, (1, 4, 2, 1)),
    "8 over 3 machines": ({(0, 0, 0): 3, (0, 1, 0): 3, (0, 2, 0): 2}, (1, 1, 8, 1)),
    "1+1 over racks": ({(0, 0, 0): 1, (1, 0, 0): 1}, (1, 1, 1, 2)),
    "4 x 8 in a rack": ({(0, machine, slot): 4 for machine in range(4) for slot in range(2)}, (1, 8, 4, 1)),
    "2+2 in a machine": ({(0, 0, 0): 2, (0, 0, 1): 2}, (2, 2, 1, 1)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_the_reference_finds_the_shapes_of_the_specification(name: str) -> None:
    parts, shape = SHAPES[name]
    assert dimensions((*part, gpu) for part, count in parts.items() for gpu in range(count)) == shape


def test_the_reference_breaks_no_tie_by_theory() -> None:
    """Three one-GPU jobs have Nw = 1 but for rounding, which decides here; end of job 1 as in the authors' Java."""
    jobs = [Job(0, 5.0, 1, 72, 33.1), Job(1, 0.0, 1, 27, 33.1), Job(2, 5.0, 1, 27, 33.1)]
    rules = Rules(lease=600.0, rack_wait=0, network_wait=0)
    assert play(rules, jobs, by_tier)[1][1].end == pytest.approx(2681.1)


# The package against the reference.


@dataclass(frozen=True)
class Setting:
    rules: Rules
    jobs: list[Job]
    table: dict[tuple[str, Shape], float]

    def efficiency(self, model: str, shape: Shape) -> float:
        return self.table[model, shape]


def shapes_of(rules: Rules, gang: int) -> set[Shape]:
    """Shapes of all placements of a gang; a shape depends only on the numbers of racks, machines and slots."""
    found = set()
    for racks in range(1, rules.racks + 1):
        for machines in range(racks, racks * rules.machines + 1):
            for slots in range(machines, machines * rules.slots + 1):
                if slots <= gang <= slots * rules.gpus:
                    last = (racks - 1, machines - 1, slots - 1)
                    found.add(dimensions((*(min(gpu, end) for end in last), gpu) for gpu in range(gang)))
    return found


def setting(seed: int, policy: str, rebid: bool) -> Setting:
    """A small cluster and some jobs with ties of all kinds, in a file that is not in the order of arrival.

    Every second setting of Dally is crowded: gangs wait for many leases, and the tuner learns from them. With Q1,
    others are stranded: at times no job runs, because those that wait have leaked GPUs of every machine.
    """
    rng = np.random.default_rng([seed, rebid, policy == "tiresias"])

    def pick(*values: Any) -> Any:
        return values[rng.integers(len(values))]

    crowded, stranded = (policy == "dally" and seed % 4 in kind for kind in ((1, 3), (2,) if rebid else ()))
    tuned = policy == "dally" and not stranded and rng.random() < (0.9 if crowded else 0.4)
    history = pick(8, 10, 24, 40) if crowded else pick(1, 3, 8, 24)
    if crowded:
        room = pick(1, 2), 2, pick(1, 2), pick(2, 3)
    elif stranded:
        room = 1, pick(2, 3), 1, pick(2, 3)
    else:
        room = pick(1, 1, 2, 3), pick(1, 2, 3, 4), pick(1, 2), pick(1, 2, 3, 4)
    waits = pick((0, 0), (0, 0), (1, 2), (0.5, 2), (2, 0.5), (0, FOREVER), (FOREVER, FOREVER), (6, 12))
    if stranded:
        waits = pick((1, 2), (2, 3), (3, 3), (1, 0.5))
    rules = Rules(
        *room, pick(1, 3, 20, 60), pick(600.0, 3600.0, 137.3), *waits,
        tuned, history if tuned else 0, rebid, pick("asc", "java"), policy,
    )  # fmt: skip
    longest = rules.lease / rules.granularity
    jobs = []
    for number in rng.permutation(14 if crowded else pick(2, 3, 4) if stranded else rng.integers(2, 13)).tolist():
        gang = pick(1, 2, 2, 3) if crowded or stranded else pick(1, 1, 1, 2, 2, 3, 4, 5, 6, 8, 12)
        gang = min(rules.racks * rules.per_rack, gang)
        steps = int(rng.integers(20, 120) if crowded else rng.integers(1, pick(10, 60, 200)))
        iterations = max(1, steps * rules.granularity * gang - int(rng.integers(0, 3)))
        seconds = float(rng.uniform(0.01, 1)) * longest
        if not crowded:
            seconds = min(pick(1.0, 33.1, 0.1, seconds), longest)
        arrival = float(rng.integers(0, 4) * pick(0, 5, 100, 1000))
        jobs.append(Job(number, arrival, gang, iterations, seconds, pick(*MODELS)))
    table = {
        (model, shape): pick(1.0, 0.5, 0.25, float(rng.uniform(0.01, 1)))
        for gang in sorted({job.gpus for job in jobs} - {1})
        for model, shape in itertools.product(MODELS, sorted(shapes_of(rules, gang)))
    }
    return Setting(rules, jobs, table)


def instance_of(setting: Setting) -> Instance:
    rules, jobs = setting.rules, setting.jobs
    kinds = sorted({(job.model, job.seconds) for job in jobs})
    fields = dict(batch=1, gradient_bytes=0.0, memory_bytes=0.0, skew=0.0, overlap=1.0)
    rows = [dict(name=f"{model}, {seconds} s", compute_s=seconds, **fields) for model, seconds in kinds]
    plain = Profiles.from_rows(rows)
    shaped = [
        (row, *shape, efficiency)
        for row, (model, _) in enumerate(kinds)
        for (name, shape), efficiency in setting.table.items()
        if name == model
    ]
    profiles = Profiles(plain.rows, plain.compute_s, plain.gpu_types, shaped=np.array(shaped, SHAPED_DTYPE))
    workload = Workload.from_columns(
        [job.arrival for job in jobs], [job.gpus for job in jobs],
        iterations=[job.iterations / job.gpus for job in jobs],
        profiles=profiles, profile=[kinds.index((job.model, job.seconds)) for job in jobs],
        ids=[job.id for job in jobs],
        attributes={
            "total_iterations": np.array([float(job.iterations) for job in jobs]),
            "time_per_iteration_s": np.array([job.seconds for job in jobs]),
        },
    )  # fmt: skip
    nodes = NodeGroup(rules.racks * rules.machines, rules.per_machine, "V100", rules.machines, rules.slots)
    semantics = Semantics(step_iterations=rules.granularity, **FREE_PREEMPTION)
    return Instance(Cluster([nodes]), workload, Network("dimensions"), semantics)


def play_package(rules: Rules, instance: Instance) -> EventLog:
    preset = "authors_published" if rules.rebid else "authors"
    chosen: dict[str, Any] = dict(preset=preset, lease_s=rules.lease, order=rules.order)
    if rules.policy == "tiresias":
        return simulate(instance, make_scheduler("tiresias-dally", **chosen))
    if rules.tuned:
        chosen |= dict(hist=rules.history)
    else:
        chosen |= dict(tuner="off", rack_wait=rules.rack_wait, nw_wait=rules.network_wait)
    return simulate(instance, make_scheduler("dally", **chosen))


def times_of(instance: Instance, log: EventLog) -> dict[int, tuple[float, float]]:
    """First start and end of each job, by its id."""
    times = job_times(instance, log)
    pairs = zip(times["first_start_s"].tolist(), times["finish_s"].tolist(), strict=True)
    return dict(zip(instance.workload.jobs["id"].tolist(), pairs, strict=True))


def grants_of(instance: Instance, log: EventLog) -> list[tuple[float, int, list[int]]]:
    """Time, job and GPUs of each start, in order of time and job."""
    events, ids = log.events, instance.workload.jobs["id"]
    return sorted(
        (float(events["time_s"][i]), int(ids[events["job"][i]]), sorted(log.gang(i).tolist()))
        for i in np.flatnonzero(np.isin(events["kind"], (START, RESUME))).tolist()
    )


def differs(rules: Rules, jobs: list[Job], efficiency: Efficiency, instance: Instance) -> bool:
    """Whether any start, its GPUs or the end of any job differs by a single bit."""
    simulator, states = play(rules, jobs, efficiency)
    log = play_package(rules, instance)
    number = {gpu: at for at, gpu in enumerate(simulator.all)}
    grants = sorted((time, job, sorted(number[gpu] for gpu in gpus)) for time, job, gpus in simulator.grants)
    times = {job: (state.start, state.end) for job, state in states.items()}
    return times_of(instance, log) != times or grants_of(instance, log) != grants


@pytest.mark.parametrize("rebid", [False, True], ids=["authors", "authors_published"])
@pytest.mark.parametrize("policy", ["dally", "tiresias"])
def test_every_bit_of_the_times_is_that_of_the_reference(policy: str, rebid: bool) -> None:
    count = EXAMPLES if policy == "dally" else EXAMPLES // 2
    drawn = ((seed, setting(seed, policy, rebid)) for seed in range(count))
    assert [seed for seed, case in drawn if differs(case.rules, case.jobs, case.efficiency, instance_of(case))] == []


def test_the_look_ahead_divides_in_the_order_of_the_code() -> None:
    """seconds * K / e / g = 150 s just fits into the lease after a step of 450 s; seconds * K / (e * g) does not."""
    assert 135.0 / 0.3 / 3 == 150.0 < 135.0 / (0.3 * 3)
    rules, jobs = Rules(machines=3, lease=600.0, rack_wait=0, network_wait=0), [Job(0, 0.0, 3, 18, 135.0)]
    case = Setting(rules, jobs, {("VGG", (1, 1, 3, 1)): 0.3})
    assert play(rules, jobs, case.efficiency)[1][0].end == 6 * 450.0 + 2 * 3
    assert not differs(rules, jobs, case.efficiency, instance_of(case))


def test_attained_service_is_not_rounded() -> None:
    """At 2406 s both jobs have attained 1800 GPU-seconds in theory, and job 2 a little more in floating point."""
    rules = Rules(machines=3, granularity=60, lease=600.0, policy="tiresias")
    jobs = [Job(2, 0.0, 3, 9090, 0.1, "BERT"), Job(6, 0.0, 1, 2984, 1.0, "BERT")]
    case = Setting(rules, jobs, {("BERT", (1, 1, 3, 1)): 0.25})
    assert not differs(rules, jobs, case.efficiency, instance_of(case))


def test_the_times_of_the_statistics_are_added_up() -> None:
    """Both jobs wait with leaked GPUs for a retry, which comes 60 s after a multiple of 13.73 s after 6 s."""
    rules = Rules(machines=2, gpus=3, lease=137.3, rack_wait=2, network_wait=3, rebid=True)
    jobs = [Job(0, 10.0, 2, 20, 50.0), Job(1, 5.0, 2, 80, 20.0)]
    case = Setting(rules, jobs, {("VGG", shape): 1.0 for shape in shapes_of(rules, 2)})
    assert not differs(rules, jobs, case.efficiency, instance_of(case))


TIMERS: Final = {
    "tuned": dict(tuned=True, history=24),
    "12 and 24": dict(rack_wait=12, network_wait=24),
    "no wait": dict(rack_wait=0, network_wait=0),
    "full": dict(rack_wait=FOREVER, network_wait=FOREVER),
    "tiresias": dict(policy="tiresias"),
}
BATCH, WEEK = "sense_500jobs_0start0arrival-withBert", "sense_500jobs_poisson_1proc-week"


def of_authors() -> list[tuple[str, str, bool, int | None]]:
    """File, timers, whether Q1 is on, and number of jobs; GPUSCHED_FUZZ=1000 or more plays every file in full."""
    if EXAMPLES >= 1000:
        files = sorted(path.name.removesuffix(".csv.gz") for path in (published.TRACES / "dally/jobs").glob("*.gz"))
        return [(*case, None) for case in itertools.product(files, TIMERS, (False, True))]
    some = [(BATCH, timers, False, 150) for timers in TIMERS]
    return [*some, (BATCH, "tuned", True, 150), (WEEK, "tuned", False, 150), (WEEK, "12 and 24", True, 150)]


@published.here
@pytest.mark.parametrize(("file", "timers", "rebid", "count"), of_authors())
def test_the_authors_jobs_take_the_times_of_the_reference(
    file: str, timers: str, rebid: bool, count: int | None
) -> None:
    """On the cluster of dally-authors-v1, with the visiting order of the authors' hash maps."""
    path = published.TRACES / f"dally/jobs/{file}.csv.gz"
    scenario = get_scenario("dally-authors-v1").with_workload(f"dally:{path}", jobs=count)
    instance = scenario.instance(0)
    profiles, arrival = instance.workload.profiles, dict(instance.workload.jobs[["id", "arrival_s"]].tolist())
    names = [str(name).partition(",")[0] for name in profiles.rows["name"]]
    table = {(names[row], tuple(shape)): efficiency for row, *shape, efficiency in profiles.shaped.tolist()}
    with gzip.open(path, "rt") as rows:
        jobs = [
            Job(int(row["job_id"]), float(row["arrival_time"]), int(row["max_parallelism"]),
                int(row["total_iterations"]), float(row["time_per_iteration"]), row["model"])
            for row in csv.DictReader(rows)
            if int(row["job_id"]) in arrival
        ]  # fmt: skip
    jobs = [replace(job, arrival=arrival[job.id]) for job in jobs]  # the package counts from the first arrival
    settings: dict[str, Any] = TIMERS[timers]
    rules = Rules(4, 8, 2, 4, scenario.semantics.step_iterations, rebid=rebid, order="java", **settings)
    assert not differs(rules, jobs, lambda model, shape: table[model, shape], instance)
