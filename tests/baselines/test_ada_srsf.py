"""Ada-SRSF: the order of jobs and the gate at the ports of a machine, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import play, random_instance

from gpusched_env.baselines import make_scheduler
from gpusched_env.errors import SchedulerError
from gpusched_env.event_log import START, EventLog
from gpusched_env.network import Contention, Network, TopologySpec
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.workload import Profiles, Workload

ETA = 0.3  # alpha: AdaDUAL's threshold is then 1 / 2.6 of the bytes that the running gang has left
SPREAD = "alpha=0.3,placement=spread"


def instance(gangs: list[int], iterations: list[float], nodes: str = "2x4", gradient: float = 1e9) -> Instance:
    """Gangs whose iteration takes one second of compute and, alone, one second for 1e9 bytes over an edge."""
    row = dict(name="j", batch=1, gradient_bytes=gradient, memory_bytes=0, skew=0, overlap=1, compute_s=1.0)
    workload = Workload.from_columns(
        [0.0] * len(gangs), gangs, iterations=iterations, profiles=Profiles.from_rows([row])
    )
    switch = TopologySpec("single-switch", gpu_GBps=1e6, nic_GBps=1.0, gpu_latency_s=0.0, nic_latency_s=0.0)
    return Instance(
        Cluster.parse(nodes), workload, Network("topology", topology=switch, contention=Contention("kway", alpha=ETA))
    )


def starts(log: EventLog) -> dict[int, float]:
    events = log.events[log.events["kind"] == START]
    return dict(zip(events["job"].tolist(), events["time_s"].tolist(), strict=True))


@pytest.mark.parametrize(
    ("gate", "second"),
    [("adadual", [0.0, 200.0]), ("one", [200.0, 200.0]), ("two", [0.0, 0.0])],
)
def test_the_gate_at_a_shared_port(gate: str, second: list[float]) -> None:
    """The running gang has 100 x 1e9 bytes left:
    AdaDUAL starts a gang with 38 x 1e9 bytes beside it, but none with 39.
    """
    for bytes_left, at in zip((38.0, 39.0), second, strict=True):
        problem = instance([2, 2], [100.0, bytes_left])
        problem.workload.jobs["arrival_s"][1] = 1e-9
        log = play(Instance(problem.cluster, problem.workload, problem.network), f"ada-srsf:gate={gate},{SPREAD}")
        assert starts(log)[1] == pytest.approx(at, abs=1e-6)


def test_at_most_two_gangs_share_a_port() -> None:
    """Two gangs share the ports; a third waits until one of them ends, even if it is small."""
    problem = instance([2, 2, 2], [1_000.0, 10.0, 1.0])
    problem.workload.jobs["arrival_s"][1:] = [1e-9, 2e-9]
    log = play(Instance(problem.cluster, problem.workload, problem.network), f"ada-srsf:{SPREAD}")
    begun = starts(log)
    assert begun[1] < 1e-6
    assert begun[2] == pytest.approx(10 * (1 + 2.3), rel=1e-6)  # k = 2: bytes take 2 + alpha times as long


def test_gangs_that_share_no_port_start_at_once() -> None:
    one_machine = instance([2, 2, 2], [50.0, 60.0, 70.0])
    assert set(starts(play(one_machine, "ada-srsf")).values()) == {0.0}
    silent = instance([2, 2, 2], [50.0, 60.0, 70.0], gradient=0.0)
    assert set(starts(play(silent, f"ada-srsf:{SPREAD}")).values()) == {0.0}
    apart = instance([8, 8], [50.0, 60.0], "4x4")
    assert set(starts(play(apart, "ada-srsf:gate=one")).values()) == {0.0}


def test_the_order_is_gang_size_times_remaining_time() -> None:
    """On one GPU: 3, then 4, then 5 s. A gang of two counts twice."""
    problem = instance([1, 1, 1], [5.0, 3.0, 4.0], "1x1")
    assert starts(play(problem, "ada-srsf")) == {1: 0.0, 2: 3.0, 0: 7.0}
    pair = instance([2, 1], [2.0, 3.0], "1x2")
    assert starts(play(pair, "ada-srsf")) == {1: 0.0, 0: 3.0}


def test_names_and_errors() -> None:
    assert [make_scheduler(f"ada-srsf:gate={gate}").name for gate in ("adadual", "one", "two")] == [
        "ada-srsf", "srsf-1", "srsf-2",
    ]  # fmt: skip
    with pytest.raises(SchedulerError, match=r"unknown gate 'dual'"):
        make_scheduler("ada-srsf:gate=dual")
    with pytest.raises(SchedulerError, match=r"alpha is -1"):
        make_scheduler("ada-srsf:alpha=-1")


@pytest.mark.parametrize("gate", ["adadual", "one", "two"])
def test_every_job_ends(gate: str) -> None:
    log = play(random_instance(7, 40), f"ada-srsf:gate={gate}")
    assert len(np.unique(log.events["job"])) == 40
