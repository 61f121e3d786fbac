"""The preset "authors" of Dally against a second simulator that was written from the specification alone."""

from __future__ import annotations

import csv
import gzip
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from dally_reference import (
    LOW_SKEW,
    Gpu,
    Job,
    Key,
    Rules,
    Shape,
    Simulator,
    State,
    Stuck,
    dimensions,
    java_order,
    record,
    spread,
    tuned_timers,
)
from helpers import FREE_PREEMPTION

from gpusched_env.baselines import make_scheduler
from gpusched_env.cluster import Cluster, NodeGroup
from gpusched_env.event_log import RESUME, START, EventLog
from gpusched_env.instance import Instance, Semantics
from gpusched_env.metrics import job_times
from gpusched_env.network import Network
from gpusched_env.simulator import simulate
from gpusched_env.workload import SHAPED_DTYPE, Profiles, Workload

MODELS = ("ResNet50", "ResNet18", "BERT", "VGG", "AlexNet", "MobileNetV3")
AUTHORS = Path(__file__).parents[2] / "shared/traces/dally"
Efficiency = Callable[[str, Shape], float]


def play(rules: Rules, jobs: list[Job], efficiency: Efficiency) -> tuple[Simulator, dict[int, State]]:
    simulator = Simulator(rules, efficiency)
    return simulator, simulator.run(jobs)


# The reference itself: the worked examples A1 to A7, E2 of the specification.


def by_tier(_: str, shape: Shape) -> float:
    return 0.25 if shape[3] > 1 else 0.5 if shape[2] > 1 else 1.0


def example(racks: int, machines: int, waits: tuple[float, float], *jobs: tuple[int, float, int, int], leak: bool = False) -> dict[int, State]:
    rules = Rules(racks, machines, 1, 4, 60, 3600.0, *waits, rebid=leak)
    return play(rules, [Job(name, at, gpus, ideal * gpus, 1.0) for name, at, gpus, ideal in jobs], by_tier)[1]


FOUR = tuple((name, 0.0, 3, 7200) for name in (1, 2, 3, 4))
EXAMPLES = {
    "A1": (2, 2, (1, 2), (*FOUR, (5, 10, 4, 600)), {1: (0, 7203), 2: (0, 7203), 3: (0, 7203), 4: (0, 7807), 5: (3603, 4203)}),
    "A2": (2, 2, (0, 0), (*FOUR, (5, 10, 4, 600)), {1: (0, 7203), 2: (0, 7203), 3: (0, 7203), 4: (0, 7203), 5: (10, 2410)}),
    "A3": (1, 2, (0.5, 2), (*FOUR[:2], (5, 10, 2, 600), (9, 1900, 8, 60)), {1: (0, 7331), 2: (0, 7331), 5: (1900, 3100), 9: (3603, 3723)}),
    "A3'": (1, 2, (1, 2), (*FOUR[:2], (5, 10, 2, 600), (9, 1900, 8, 60)), {1: (0, 7203), 2: (0, 7805), 5: (3603, 4203), 9: (7808, 7928)}),
    "A4": (1, 2, (0, 0), ((1, 0, 4, 7200), (2, 10, 4, 1200)), {1: (0, 7204), 2: (10, 1210)}),
    "A4 with Q1": (1, 2, (0, 0), ((1, 0, 4, 7200), (2, 10, 4, 1200)), {1: (0, 8408), 2: (3604, 4804)}),
    "A5": (2, 2, (1, 2), ((1, 0, 6, 36000), (2, 0, 6, 36000), (5, 10, 4, 7200)), {1: (0, 72108), 2: (0, 77518), 5: (3606, 34248)}),
}  # fmt: skip


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_reference_plays_the_worked_examples(name: str) -> None:
    racks, machines, waits, jobs, times = EXAMPLES[name]
    states = example(racks, machines, waits, *jobs, leak="Q1" in name)
    assert {job: (state.start, state.end) for job, state in states.items()} == times
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


# The package against the reference


@dataclass(frozen=True)
class Setting:
    rules: Rules
    jobs: list[Job]
    table: dict[tuple[str, Shape], float]

    def efficiency(self, model: str, shape: Shape) -> float:
        return self.table[model, shape]


def cluster_of(rules: Rules) -> Cluster:
    return Cluster([NodeGroup(rules.racks * rules.machines, rules.per_machine, "V100", rules.machines, rules.slots)])


def shapes_of(rules: Rules, gang: int) -> set[Shape]:
    """Shapes of all placements of a gang: GPUs of k slots, of which each has at least one and at most all."""
    found = set()
    per_slot, per_machine, per_rack = rules.gpus, rules.slots, rules.machines
    for racks in range(1, rules.racks + 1):
        for machines in range(racks, racks * per_rack + 1):
            for slots in range(machines, machines * per_machine + 1):
                if slots <= gang <= slots * per_slot:
                    found.add(shape_of(gang, racks, machines, slots))
    return found


def shape_of(gang: int, racks: int, machines: int, slots: int) -> Shape:
    """Shape by the three numbers only: any set of GPUs with them will do."""
    gpus = [(min(i, racks - 1), min(i, machines - 1), min(i, slots - 1), i) for i in range(gang)]
    return dimensions(gpus)


def instance_of(setting: Setting) -> Instance:
    rules, jobs = setting.rules, setting.jobs
    kinds = sorted({(job.model, job.seconds) for job in jobs})
    fields = dict(batch=1, gradient_bytes=0.0, memory_bytes=0.0, skew=0.0, overlap=1.0)
    plain = Profiles.from_rows([dict(name=f"{model}/{seconds}", compute_s=seconds, **fields) for model, seconds in kinds])
    shaped = [
        (row, *shape, setting.table[model, shape])
        for row, (model, _) in enumerate(kinds)
        for shape in sorted({shape for name, shape in setting.table if name == model})
    ]
    profiles = Profiles(plain.rows, plain.compute_s, plain.gpu_types, shaped=np.array(shaped, SHAPED_DTYPE))
    workload = Workload.from_columns(
        [job.arrival for job in jobs],
        [job.gpus for job in jobs],
        iterations=[job.iterations / job.gpus for job in jobs],
        profiles=profiles,
        profile=[kinds.index((job.model, job.seconds)) for job in jobs],
        ids=[job.id for job in jobs],
        attributes={
            "model": np.array([job.model for job in jobs]),
            "total_iterations": np.array([float(job.iterations) for job in jobs]),
            "time_per_iteration_s": np.array([job.seconds for job in jobs]),
        },
    )
    semantics = Semantics(step_iterations=rules.granularity, **FREE_PREEMPTION)
    return Instance(cluster_of(rules), workload, Network("dimensions"), semantics)


def parameters_of(rules: Rules) -> dict[str, object]:
    preset = "authors_published" if rules.rebid else "authors"
    common = {"preset": preset, "lease_s": rules.lease, "order": rules.order}
    if rules.policy == "tiresias":
        return common
    if rules.tuned:
        return common | {"hist": rules.history}
    return common | {"tuner": "off", "rack_wait": rules.rack_wait, "nw_wait": rules.network_wait}


def grants_of(instance: Instance, log: EventLog) -> list[tuple[float, int, list[int]]]:
    """Time, job and GPUs of each start, in order of time and job."""
    events, ids = log.events, instance.workload.jobs["id"]
    return sorted(
        (float(events["time_s"][i]), int(ids[events["job"][i]]), sorted(log.gang(i).tolist()))
        for i in np.flatnonzero(np.isin(events["kind"], (START, RESUME)))
    )


def numbered(rules: Rules, gpu: Gpu) -> int:
    rack, machine, slot, place = gpu
    return ((rack * rules.machines + machine) * rules.slots + slot) * rules.gpus + place
