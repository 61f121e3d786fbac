"""The cells of docs/cells.md: every scheduler listed there is itself, and no two of a cell are the same policy."""

from __future__ import annotations

import dataclasses
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from helpers import Script

from gpusched_env.baselines import make_scheduler
from gpusched_env.baselines.domains import outside_domain
from gpusched_env.cli.parsing import chosen_schedulers
from gpusched_env.metrics import job_times, validate
from gpusched_env.network import Contention, Network, TopologySpec
from gpusched_env.problem.cluster import Cluster, NodeGroup
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.workload import Profiles, Workload
from gpusched_env.scenarios import get_scenario
from gpusched_env.sharing import Sharing
from gpusched_env.simulator import Start, simulate

PAGE = Path(__file__).parents[2] / "docs/cells.md"
COMMON = "common-96-v0"
RIVALS = {"dally", "tiresias", "gavel", "hadar", "sjf-bsbf", "sjf-bco"}
SEED = 200_000
LOAD = 2.0  # of an episode here: a crowd, in which rules differ
JOBS = {"dally-poisson-v1": 300, "rar-160-v0": 160}  # more GPUs than elsewhere


def cells() -> dict[str, list[str]]:
    """Scenario -> specs, of the commands on the page."""
    found = {}
    for command in re.findall(r"^gpusched compare (?:.*\\\n)*.*", PAGE.read_text("utf-8"), re.MULTILINE):
        words = shlex.split(command.replace("\\\n", " "))
        found[words[words.index("--scenario") + 1]] = chosen_schedulers([words[words.index("--schedulers") + 1]])
    return found


def few_jobs(name: str) -> Instance:
    scenario = get_scenario(name)
    jobs = min(JOBS.get(name, 60), scenario.workload.jobs)
    load = None if scenario.workload.load is None else LOAD
    workload = dataclasses.replace(scenario.workload, jobs=jobs, load=load)
    return scenario.replace(workload=workload, tracked_window=None).instance(SEED)


def test_each_seed_paper_has_a_cell_and_all_six_share_one() -> None:
    listed = cells()
    assert set(listed[COMMON]) >= RIVALS
    assert set(listed[f"{COMMON}:arrivals=batch"]) >= RIVALS
    for paper in ("dally", "hadar", "hadare", "sjf-bsbf", "sjf-bco"):
        assert any(paper in specs for name, specs in listed.items() if not name.startswith(COMMON)), paper


@pytest.mark.parametrize("name", sorted(cells()))
def test_schedulers_of_a_cell_are_themselves(name: str) -> None:
    instance = few_jobs(name)
    digests = {}
    for spec in cells()[name]:
        scheduler = make_scheduler(spec)
        assert outside_domain(scheduler, instance, spec) == (), spec
        log = simulate(instance, scheduler, seed=SEED)
        validate(instance, log)
        assert np.isfinite(job_times(instance, log)["finish_s"]).all(), spec
        digests[spec] = log.digest()
    assert len(set(digests.values())) == len(digests), digests


def test_models_of_the_common_cell_run_everywhere_and_differ() -> None:
    """Every gang size runs on every type, slower across machines; no type is the best for all models."""
    instance = get_scenario(COMMON).instance(SEED)
    sizes = instance.classes[:, 1]
    assert set(sizes) == {1, 2, 4, 8, 16}
    machine, rack = instance.iteration_s[:, 0], instance.iteration_s[:, 1]
    in_one = sizes <= 4  # GPUs of a machine
    assert np.isfinite(machine[in_one]).all()
    assert np.isfinite(rack[sizes > 1]).all()
    shared = in_one & (sizes > 1)
    assert (rack[shared] > machine[shared]).all()
    assert len(set(instance.compute_s[:, 0].argmin(axis=1))) > 1
    tables = instance.sharing_tables
    assert tables is not None
    assert 1.0 < tables.interference.min() < 1.5 < tables.interference.max()  # both answers of SJF-BSBF's test occur
    racks = np.array([instance.cluster.nodes["gpu_type"][instance.cluster.nodes["rack"] == r][0] for r in range(6)])
    assert {float(np.flatnonzero(racks == t).mean()) for t in range(3)} == {2.5}  # ids say nothing about speed


def test_a_gang_on_two_types_that_shares_links_and_a_gpu() -> None:
    """The slowest GPU, half of the port, and the slowdown beside another job, together: every end by hand.

    Each machine has a port of 1 GB/s, so a gang of two sends its 1 GB in 1 s alone and in 2 s beside another gang. An
    iteration takes 0.5 s on type A and 1 s on type B, and 1.5 times as long on a shared GPU.
    """
    cluster = Cluster((NodeGroup(1, 2, "A"), NodeGroup(1, 2, "B")))
    model = dict(name="m", batch=1, gradient_bytes=1e9, memory_bytes=0.0, skew=0.0, overlap=1.0, compute_s=(0.5, 1.0))
    profiles = Profiles.from_rows([model], ("A", "B"))
    workload = Workload.from_columns([0.0] * 3, [2, 2, 1], None, [10.0, 30.0, 100.0], profiles, np.zeros(3, np.int32))
    spec = TopologySpec("single-switch", nic_GBps=1.0, nic_latency_s=0.0, gpu_latency_s=0.0)
    network = Network("topology", topology=spec, contention=Contention("maxmin"))
    instance = Instance(cluster, workload, network, Semantics(checkpoint_s=0.0, restore_s=0.0), Sharing(2, 1.5))
    starts = [Start(0, gpus=(0, 2)), Start(1, gpus=(1, 3)), Start(2, gpus=(2,), share=True)]
    log = simulate(instance, Script({0.0: starts}))
    validate(instance, log)
    first = 10 * 1.5 * (1.0 + 2.0)
    second = first + (30 - first / (1.0 + 2.0)) * (1.0 + 1.0)  # the port is its own when the first gang has left
    alone = first + (100 - first / 1.5) * 1.0
    np.testing.assert_allclose(job_times(instance, log)["finish_s"], [first, second, alone], rtol=1e-12)
