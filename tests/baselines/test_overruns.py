"""Jobs that run past the run times that their users claimed: the claim doubles, in every scheduler that reads one."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from helpers import FREE_PREEMPTION, asked, first_starts, plain_python_digests, play
from hypothesis import given, settings
from hypothesis import strategies as st
from list_policies_decide import FifoReference, SrtfReference, reference
from scheduler_player import play_scheduler, wide_open

from gpusched_env.baselines import make_scheduler
from gpusched_env.baselines.estimates import claim_after_s, claims_after_s
from gpusched_env.metrics import job_times
from gpusched_env.network import Network
from gpusched_env.problem.cluster import Cluster, NodeGroup
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.workload import Workload
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import Scheduler, simulate

CLAIMING = ("srtf:estimator=user", "srsf:estimator=user", "fifo-easy:estimator=user", "sjf:estimator=user",
    "themis-lite:estimator=user", "themis:estimator=user", "slurm:bf_resolution_s=1,bf_interval_s=0",
    "slurm:backfill=easy,bf_resolution_s=1")  # fmt: skip


def claimed(
    arrival: list[float], gpus: list[int], duration: list[float], claims: list[float], cluster: str, **rules: float
) -> Instance:
    """Jobs with claims; preemption is free unless ``rules`` say otherwise."""
    workload = Workload.from_columns(arrival, gpus, duration, estimate_s=claims)
    semantics = Semantics(**(FREE_PREEMPTION | rules))  # type: ignore[arg-type]
    return Instance(Cluster.parse(cluster), workload, Network("none"), semantics)


# --- the rule


@given(
    claim_s=st.floats(0.0, 1e9) | st.just(math.inf) | st.sampled_from([5e-324, 1e-310, 1.0, 60.0]),
    had_s=st.floats(0.0, 1e9) | st.sampled_from([0.0, 60.0, 120.0]),
)
def test_a_claim_doubles_until_it_is_not_passed(claim_s: float, had_s: float) -> None:
    found = claim_after_s(claim_s, had_s, 0.0)
    assert claims_after_s(np.array([claim_s, 1.0]), np.array([had_s, 0.0]), 0.0).tolist() == [found, 1.0]
    if had_s <= claim_s:
        assert found == claim_s
    else:
        power = Fraction(found) / Fraction(claim_s or 1.0)
        assert found >= had_s
        assert power.denominator == 1
        assert power.numerator.bit_count() == 1
        assert power == 1 or found / 2 < had_s


def test_a_claim_counts_as_passed_only_beyond_rounding_errors() -> None:
    day_s = 86_400.0
    assert claim_after_s(60.0, math.nextafter(60.0, 61.0), 300 * day_s) == 60.0
    assert claim_after_s(60.0, 60.001, 300 * day_s) == 120.0


# --- by hand


@pytest.mark.parametrize("name", ["srsf", "srtf"])
def test_a_job_past_its_claim_makes_room_for_shorter_ones(name: str) -> None:
    """Job 0 claims 60 s and runs for 100,000. At 60 its claim becomes 120, of which 60 are left, less than 100.

    At 120 it becomes 240, and 120 are left, so that jobs 1 to 3 run until 420.
    """
    case = claimed([0, 10, 20, 30], [8] * 4, [100_000, 100, 100, 100], [60, 100, 100, 100], "1x8")
    times = job_times(case, play(case, f"{name}:estimator=user"))
    assert times["first_start_s"] == pytest.approx([0, 120, 220, 320])
    assert times["finish_s"] == pytest.approx([100_300, 220, 320, 420])
    assert times["jct_s"].mean() < job_times(case, play(case, "tiresias"))["jct_s"].mean()


@pytest.mark.parametrize(
    "spec",
    ["fifo-easy:estimator=user", "slurm:bf_resolution_s=1,bf_interval_s=0",
        "slurm:bf_resolution_s=1,bf_interval_s=0,backfill=easy"],
)  # fmt: skip
def test_backfill_believes_the_doubled_claim(spec: str) -> None:
    """Job 0 holds 3 of 4 GPUs until 100 and claims 10 s; the head needs 4. A job of 1 GPU and 15 s waits from 2 on.

    At 10 the claim becomes 20, too early for it; at 20 it becomes 40, and the job starts, before any other event.
    """
    case = claimed([0, 1, 2], [3, 4, 1], [100, 5, 15], [10, 5, 15], "1x4")
    assert first_starts(case, spec) == pytest.approx([0, 100, 20])


@pytest.mark.parametrize("spec", ["themis-lite:estimator=user,lease_s=1000", "themis:estimator=user,lease_s=1000"])
def test_an_overrun_does_not_make_a_job_look_cheated(spec: str) -> None:
    """Job 0 claims 60 s. At the end of its lease, its ideal time is 1,920 s; job 1 has waited long for its 100 s."""
    case = claimed([0, 10], [8, 8], [50_000, 100], [60, 100], "1x8")
    assert first_starts(case, spec) == pytest.approx([0, 1000])


def test_a_killed_job_overruns_nothing() -> None:
    case = claimed([0, 10], [8, 8], [1000, 100], [60, 100], "1x8", kill_at_limit=True)
    times = job_times(case, play(case, "srsf:estimator=user"))
    assert times["finish_s"].tolist() == [60.0, 160.0]


# --- nothing else moves, and everybody plays alike


class PlainSrtf(SrtfReference):
    """Claims as they were told, without a decision when one is passed."""

    def _claimed(self, view, rows):  # type: ignore[no-untyped-def]
        return view.estimate_s[rows]

    def wait_for_overrun(self, view):  # type: ignore[no-untyped-def]
        return ()


class PlainEasy(FifoReference):
    """The same for EASY."""

    _claimed = PlainSrtf._claimed
    wait_for_overrun = PlainSrtf.wait_for_overrun


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), exact=st.booleans(), late_s=st.sampled_from([0.0, 1e8]))
def test_claims_that_hold_change_nothing(seed: int, exact: bool, late_s: float) -> None:
    """Claims that are the run times are reached at the ends of jobs, within rounding errors; they are not passed."""
    rng = np.random.default_rng(seed)
    duration = rng.lognormal(3.0, 1.0, 25)
    claims = duration * (1.0 if exact else rng.choice([1.0, 1.5], 25))
    arrival = late_s + np.cumsum(rng.exponential(8, 25))
    case = claimed(arrival.tolist(), rng.integers(1, 9, 25).tolist(), duration.tolist(), claims.tolist(), "2x4")
    plain: list[tuple[str, Scheduler]] = [
        ("srtf", PlainSrtf(estimator="user")),
        ("srsf", PlainSrtf(key="gpu-time", estimator="user")),
        ("fifo-easy", PlainEasy(variant="easy", estimator="user")),
    ]
    for name, scheduler in plain:
        assert play(case, f"{name}:estimator=user").digest() == play(case, scheduler).digest()


def overrunning(seed: int) -> Instance:
    """Forty jobs, most of which pass their claims."""
    rng = np.random.default_rng(seed)
    duration = rng.lognormal(4.0, 1.5, 40)
    claims = duration * rng.lognormal(-1.0, 1.0, 40)
    arrival, gpus = np.cumsum(rng.exponential(20, 40)), rng.integers(1, 9, 40)
    return claimed(arrival.tolist(), gpus.tolist(), duration.tolist(), claims.tolist(), "2x4")


@settings(max_examples=15)
@given(seed=st.integers(0, 10**6))
@pytest.mark.parametrize("spec", [*CLAIMING[:4], "lpt:estimator=user"])
def test_list_schedulers_read_claims_in_kernels_as_in_python(spec: str, seed: int) -> None:
    case = overrunning(seed)
    assert play(case, spec).digest() == play(case, reference(spec)).digest()


@settings(max_examples=15)
@given(seed=st.integers(0, 10**6))
@pytest.mark.parametrize("spec", [spec for spec in CLAIMING if spec.startswith("slurm")])
def test_slurm_decides_alike_in_the_compiled_loop(spec: str, seed: int) -> None:
    case = overrunning(seed)
    assert play(case, spec).digest() == play(case, asked(make_scheduler(spec))).digest()


@pytest.mark.parametrize("spec", CLAIMING)
def test_overruns_are_played_alike_through_the_environment(spec: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    rows = ["id,submit_time,num_gpus,duration_s,estimate_s"]
    at = np.cumsum(rng.integers(1, 30, 40))
    for i, (submit, gpus) in enumerate(zip(at.tolist(), rng.integers(1, 9, 40).tolist(), strict=True)):
        rows.append(f"{i},{submit},{gpus},{rng.integers(20, 900)},{rng.integers(5, 200)}")
    path = tmp_path / "jobs.csv"
    path.write_text("\n".join(rows) + "\n")
    scenario = get_scenario("tiny-v1").with_workload(f"csv:{path}", profiles="unit").replace(groups=(NodeGroup(2, 4),))
    through = play_scheduler(wide_open(scenario, 0), make_scheduler(spec), 0)
    assert through.digest() == simulate(scenario.instance(0), make_scheduler(spec), seed=0).digest()


def digests() -> list[str]:
    """Digest of each scheduler with overruns, for a process without compilation."""
    case = claimed(
        [0, 10, 20, 30, 40], [4, 8, 3, 5, 1], [3000, 700, 100, 900, 50], [60, 100, 0, 30, 10], "1x8", restore_s=5.0
    )
    return [simulate(case, make_scheduler(spec)).digest() for spec in CLAIMING]


def test_plain_python_gives_the_same_logs() -> None:
    assert plain_python_digests("tests.baselines.test_overruns") == digests()
