"""Nodes that crash and jobs that fail by themselves: a worked example, a reference, conservation, every scheduler."""

from __future__ import annotations

import copy
import math
from functools import cache

import numpy as np
import pytest
from helpers import linked_scenario, plain_python_digests, play, play_both, random_instance, thirty_jobs, unit_instance
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env.baselines import list_baselines, make_scheduler
from gpusched_env.baselines.domains import outside_domain
from gpusched_env.errors import ScenarioError, ScheduleError, SchedulerError, WorkloadError
from gpusched_env.event_log import COMPLETE, FAIL, EventLog
from gpusched_env.metrics import segments, validate
from gpusched_env.metrics.segments import fail_events, productive_s
from gpusched_env.metrics.validate_work import iterations_before
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.outages import OUTAGE_DTYPE, Outages
from gpusched_env.problem.workload import Workload
from gpusched_env.simulator import simulate

RULES = {
    "checkpoint_interval_s": 100.0, "checkpoint_cost_s": 10.0, "detection_s": 20.0, "recovery_s": 7.0,
    "checkpoint_s": 30.0, "restore_s": 5.0,
}  # fmt: skip


def outages(*rows: tuple[int, float, float]) -> Outages:
    return Outages.merged(np.array([(*row, 0) for row in rows], OUTAGE_DTYPE))


def one_gang(rows: Outages | None, work_s: float = 1000.0, cluster: str = "2x4", **attributes) -> Instance:
    given = {name: np.array([value]) for name, value in attributes.items()}
    gpus = Cluster.parse(cluster).gpus
    workload = Workload.from_columns([0.0], [gpus], [work_s], attributes=given)
    return Instance(Cluster.parse(cluster), workload, semantics=Semantics(**RULES), outages=rows)


def random_outages(seed: int, nodes: int, span_s: float, count: int = 14) -> Outages:
    rng = np.random.default_rng(seed)
    start_s = rng.uniform(0, span_s, count) * (np.arange(count) > 0)
    last_s = rng.exponential(span_s / 20, count) * (np.arange(count) % 4 > 0)
    return outages(*zip(rng.integers(0, nodes, count), start_s, start_s + last_s, strict=True))


def test_worked_example() -> None:
    """Segments of 110 s give 100 s of progress: at 450 s four are whole, and 600 s of work are left."""
    log = play(one_gang(outages((0, 450.0, 600.0), (1, 700.0, 700.0))), "fifo")
    assert [line.split(" tier")[0] for line in log.lines()] == [
        "0.000000 arrival job 0",
        "0.000000 start job 0",
        "450.000000 fail job 0 left 600.000000",
        "470.000000 release job 0",  # 20 s until the crash is detected
        "600.000000 resume job 0",  # when the node is back; progress begins 7 s later
        "700.000000 fail job 0 left 600.000000",  # within its first segment
        "720.000000 release job 0",
        "720.000000 resume job 0",
        "1387.000000 complete job 0",  # 727 s + 600 s x 1.1
    ]


def finish_by_definition(rows: Outages, work_s: float) -> float:
    """A gang on all nodes, alone: it runs from when all nodes are up, and keeps the whole segments of each run."""
    now_s, left, first = 0.0, work_s, True
    while True:
        while any(s <= now_s < e for _, s, e, _ in rows.rows.tolist()):
            now_s = min(e for _, s, e, _ in rows.rows.tolist() if s <= now_s < e)
        begin_s = now_s + (0.0 if first else RULES["recovery_s"])
        end_s = begin_s + left * 1.1
        crash_s = min(
            (s for _, s, _, _ in rows.rows.tolist() if s > now_s or (s == now_s and not first)), default=math.inf
        )
        if end_s <= crash_s:
            return end_s
        left -= 100.0 * math.floor(max(crash_s - begin_s, 0.0) / 110.0 + 1e-12)
        now_s, first = crash_s + RULES["detection_s"], False


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(1, 300), st.integers(1, 60)), max_size=8))
def test_a_single_gang_ends_as_the_definition_says(rows: list[tuple[int, int, int]]) -> None:
    found = outages(*((node, 10.5 * start, 10.5 * start + 13.0 * last) for node, start, last in rows))
    log = play(one_gang(found), "fifo")
    assert log.events["time_s"][-1] == pytest.approx(finish_by_definition(found, 1000.0), rel=1e-9)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 10**6), st.sampled_from(["fifo", "srtf", "srsf", "sjf"]),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30), st.integers(0, 5)), max_size=12),
    st.sampled_from([0.0, 50.0]), st.sampled_from([0.0, 100.0]), st.sampled_from([math.inf, 100.0]),
)  # fmt: skip
def test_work_is_useful_or_lost(
    seed: int, name: str, rows: list[tuple[int, int, int]], detection_s: float, checkpoint_s: float, interval_s: float
) -> None:
    """All times are multiples of 50 s, so that crashes coincide with arrivals, ends and each other."""
    rng = np.random.default_rng(seed)
    arrival_s, gpus = np.sort(rng.integers(0, 10, 8)) * 50.0, rng.integers(1, 17, 8)
    fails = np.where(rng.random(8) < 0.4, rng.choice(["50", "100|150", "250|50|50"], 8), "")
    chances = {"fails_after_s": fails, "attempts": rng.integers(0, 3, 8)}
    workload = Workload.from_columns(arrival_s, gpus, rng.integers(1, 9, 8) * 50.0, attributes=chances)
    rules = Semantics(
        checkpoint_s=checkpoint_s, restore_s=50.0, detection_s=detection_s, checkpoint_interval_s=interval_s
    )
    found = outages(*((node, 50.0 * start, 50.0 * (start + last)) for node, start, last in rows))
    instance = Instance(Cluster.parse("4x4"), workload, semantics=rules, outages=found)
    log = play(instance, name)
    table = segments(instance, log)
    done = productive_s(table) / table["iteration_s"]
    before, fails_at = iterations_before(instance, log, table), fail_events(log, table)
    stop = table["stop_event"]
    after = np.where(fails_at >= 0, log.events["value"][fails_at], log.events["value"][stop])
    lost = np.bincount(table["job"], np.where(fails_at >= 0, done - (before - after), 0.0), minlength=8)
    left = np.zeros(8)
    ends = log.events[log.events["kind"] == COMPLETE]
    left[ends["job"]] = ends["value"]
    assert np.bincount(table["job"], done, minlength=8) == pytest.approx(instance.iterations - left + lost, rel=1e-9)
    assert (lost > -1e-6).all()


HOMES = (
    "philly-64-v1", "llm-1024-h100-v0", "steady-64-v0", "gavel-continuous-v1", "hadare-aws-v0", "common-96-v0",
    "tenants-philly-v0", "slo-v0", "sia-hetero-v0",
)  # fmt: skip


@cache
def homes() -> list[Instance]:
    return [thirty_jobs(name).instance(1) for name in HOMES]


@pytest.mark.parametrize("name", list_baselines())
def test_every_scheduler_plays_outages(name: str) -> None:
    """Where its idea matters (a registered scenario that meets its needs), and, but for copies, on random jobs."""
    rules = {"detection_s": 30.0, "checkpoint_interval_s": 600.0, "checkpoint_cost_s": 20.0}
    jobs = random_instance(3, 25, Cluster.parse("4x4"), **rules)
    home = next((one for one in homes() if not outside_domain(make_scheduler(name), one, name)), jobs)
    for instance in (home,) if name.startswith("hadare") else {id(one): one for one in (home, jobs)}.values():
        failing, nodes = copy.copy(instance), len(instance.cluster.nodes)
        span_s = float(instance.workload.jobs["arrival_s"].max() + instance.ideal_s.mean())
        failing.outages = random_outages(1, nodes, span_s, 3 * nodes)
        assert FAIL in play_both(failing, name).events["kind"]


@pytest.mark.parametrize("name", ["fifo", "srtf", "sjf-bsbf"])
def test_gangs_that_share_links_fail_too(name: str) -> None:
    instance = linked_scenario().instance(1)
    instance.outages = random_outages(2, len(instance.cluster.nodes), float(instance.ideal_s.sum() / 8))
    assert FAIL in play(instance, name).events["kind"]


def digests() -> list[str]:
    """Digests of runs with failures, also taken in plain Python."""
    instance = random_instance(5, 12, Cluster.parse("4x4"), detection_s=30.0, checkpoint_interval_s=60.0)
    instance.outages = random_outages(4, 4, 2000.0)
    played = ("fifo", "srtf", "tiresias", "slurm", "gandiva-lite", "sjf-bco:kappa=4", "bco-rand:semantics=queue")
    return [simulate(instance, make_scheduler(name)).digest() for name in played]


def test_plain_python_gives_the_same_logs() -> None:
    assert plain_python_digests("tests.core.test_failures") == digests()


def test_attempts_fail_one_after_another() -> None:
    """The first attempt fails after 150 s, the second after 250 s: 100 s and 200 s of segments of 110 s are whole."""
    log = play(one_gang(None, fails_after_s="150|250"), "fifo")
    left = log.events["value"][log.events["kind"] == FAIL]
    assert left.tolist() == pytest.approx([900.0, 700.0])
    given_up = play(one_gang(None, fails_after_s="150|250", attempts=2), "fifo").events[-1]
    assert given_up["kind"] == COMPLETE
    assert given_up["time_s"] == pytest.approx(150.0 + 7.0 + 250.0)
    assert given_up["value"] == pytest.approx(900.0 - 250.0 / 1.1)


def test_a_job_that_no_longer_fits_is_told_with_its_outage() -> None:
    with pytest.raises(SchedulerError, match=r"never come back \(outages\): 0 at 450 s"):
        play(one_gang(outages((0, 450.0, math.inf))), "fifo")


def test_the_validator_refuses_survivors_and_too_much_work() -> None:
    instance = one_gang(outages((0, 450.0, 600.0)))
    log = play(instance, "fifo")
    events = log.events.copy()
    events["value"][events["kind"] == FAIL] = 500.0
    with pytest.raises(ScheduleError, match="last checkpoint"):
        validate(instance, EventLog(events, log.gpus))
    calm = play(one_gang(outages((0, 5000.0, 6000.0))), "fifo")
    with pytest.raises(ScheduleError, match="node 0 is down from 450"):
        validate(instance, calm)


def test_bad_outages_and_attributes_are_refused() -> None:
    with pytest.raises(ScenarioError, match="no node 2"):
        one_gang(outages((2, 1.0, 2.0)))
    with pytest.raises(ScenarioError, match="overlaps"):
        Outages(np.array([(0, 1.0, 3.0, 0), (0, 2.0, 4.0, 0)], OUTAGE_DTYPE))
    with pytest.raises(WorkloadError, match=r"fails_after_s is .60\|x."):
        one_gang(None, fails_after_s="60|x")


def test_availability_and_efficiency_are_those_of_renewal_theory() -> None:
    """A gang whose node fails after exponential times: E = D / (M e^(R/M) (e^((D + w)/M) - 1)), within 4 sigma."""
    mean_s, restart_s, runs = 2000.0, 20.0 + 7.0, 100
    rng = np.random.default_rng(7)
    took_s = []
    for _ in range(runs):
        start_s = np.cumsum(rng.exponential(mean_s, 60))
        took_s.append(
            float(play(one_gang(outages(*((0, s, s) for s in start_s)), 10_000.0), "fifo").events["time_s"][-1])
        )
    expected = 100.0 / (mean_s * math.exp(restart_s / mean_s) * (math.exp(110.0 / mean_s) - 1.0))
    found = 10_000.0 / np.array(took_s)
    assert abs(found.mean() - expected) < 4.0 * found.std() / math.sqrt(runs) + 0.002
    assert unit_instance([0.0], [1], [1.0]).recovery is None
