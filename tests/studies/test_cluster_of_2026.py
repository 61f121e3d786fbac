"""The study of a cluster of 2026: its parts are the whole GPU time, by hand and with failures."""

from __future__ import annotations

import numpy as np
import pytest

from gpusched_env.baselines import make_scheduler
from gpusched_env.network import Network
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.workload import Workload
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import simulate
from studies.cluster_of_2026 import CLASSES, PARTS, bound, gpu_time, measure


def test_parts_by_hand() -> None:
    """Four GPUs until 100 s: a gang of 3 runs, 2 wait for the GPU beside it, then both run and one idles."""
    jobs = Workload.from_columns([0.0, 0.0, 100.0], [3, 2, 1], [40.0, 80.0, 1.0])
    instance = Instance(Cluster.parse("1x4"), jobs, Network("none"), Semantics(checkpoint_s=0.0, restore_s=0.0))
    parts = gpu_time(instance, simulate(instance, make_scheduler("fifo")))
    expected = {"useful": 3 * 40 + 2 * 60, "blocked": 40, "idle": 2 * 60}
    assert parts == pytest.approx({part: expected.get(part, 0) / 400 for part in PARTS})


@pytest.mark.parametrize("name", ["fifo-easy", "las", "fifo:placement=random"])
def test_parts_are_the_whole(name: str) -> None:
    scenario = get_scenario("llm-1024-h100-v0").with_failures("rsc-1-jobs")
    spec = scenario.workload
    scenario = scenario.replace(workload=type(spec)(spec.source, {"mean_gap_s": 800.0}, profiles="llm", jobs=500))
    instance = scenario.instance(200_001)
    row, limits = measure(instance, name, 200_001), bound(instance, 200_001)
    assert sum(row[part] for part in PARTS) == pytest.approx(1.0, abs=1e-6)
    assert min(row[part] for part in PARTS) >= -1e-9
    assert row["finished"] == 1.0
    assert row["failures"] > 0.0
    assert (row["preemption"] > 0.0) == (name == "las")
    assert limits["all"] <= row["all"]
    assert all(np.isnan(limits[one]) or limits[one] <= row[one] * (1 + 1e-9) for one in CLASSES)
