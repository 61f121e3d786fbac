"""Measured times of a profile replace compute_s and the communication model, tier by tier."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from helpers import play

from gpusched_env.errors import WorkloadError
from gpusched_env.metrics import job_times
from gpusched_env.problem.cluster import TIERS, Cluster, NodeGroup
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.workload import MEASURED_DTYPE, Profiles, Workload

ROW = dict(batch=64, gradient_bytes=1e8, memory_bytes=0.0, skew=0.0, overlap=1.0)
MEASURED = np.array(
    [
        # profile, gpu_type, gpus, tier, compute_s, communication_s
        (0, 0, 2, 1, 0.5, 0.25),
        (0, 0, 2, 0, 0.5, 0.125),
        (0, 1, 2, 0, 2.0, 0.0),
    ],
    MEASURED_DTYPE,
)


def profiles(measured: np.ndarray = MEASURED) -> Profiles:
    rows = [ROW | dict(name="a", compute_s=[0.3, 1.0]), ROW | dict(name="b", compute_s=[0.3, 1.0])]
    return dataclasses.replace(Profiles.from_rows(rows, ("V100", "K80")), measured=measured)


def instance(measured: np.ndarray = MEASURED) -> Instance:
    cluster = Cluster([NodeGroup(2, 1, "K80"), NodeGroup(2, 1, "V100")])
    # profile a on two and on four GPUs, b on two
    workload = Workload.from_columns(
        [0.0, 0.0, 0.0], [2, 4, 2], iterations=[10.0] * 3, profiles=profiles(measured), profile=[0, 0, 1]
    )
    return Instance(cluster, workload)


def test_measured_rows_hold_for_their_gang_type_and_tiers() -> None:
    plain, measured = instance(MEASURED[:0]), instance()
    names = measured.cluster.gpu_types
    of = {tuple(pair): row for row, pair in enumerate(measured.classes.tolist())}
    a2 = measured.iteration_s[of[0, 2]]
    assert a2[:, names.index("V100")].tolist() == [0.625, 0.75, 0.75]
    assert a2[:, names.index("K80")].tolist() == [2.0, 2.0, 2.0]
    others = [of[0, 4], of[1, 2]]
    assert np.array_equal(measured.iteration_s[others], plain.iteration_s[others])
    # Nodes of one GPU: two V100 are in one rack at best
    assert measured.ideal_iteration_s[of[0, 2]] == 0.75


def test_the_best_placement_may_be_an_outer_tier() -> None:
    """Gavel's K80 gangs run as fast, or faster, on several machines."""
    rows = np.array(
        [(0, t, 2, tier, 1.0 if tier == 0 else 0.9, 0.0) for t in (0, 1) for tier in (0, 1)], MEASURED_DTYPE
    )
    assert instance(rows).ideal_iteration_s[0] == 0.9


def test_measured_rows_are_saved_with_the_workload(tmp_path: Path) -> None:
    workload = instance().workload
    workload.save(tmp_path / "w.npz")
    again = Workload.load(tmp_path / "w.npz")
    assert np.array_equal(again.profiles.measured, MEASURED)
    assert again.fingerprint() == workload.fingerprint() != instance(MEASURED[:2]).workload.fingerprint()


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("profile", 2, "profile outside 0 to 1"),
        ("gpu_type", -1, "gpu_type outside"),
        ("tier", 3, "tier outside"),
        ("gpus", 0, "'a', measured, .*: gpus"),
        ("compute_s", 0.0, "compute_s is out of range: 0.0"),
        ("communication_s", np.nan, "communication_s is out of range: nan"),
    ],
)
def test_meaningless_rows_are_refused(field: str, value: float, complaint: str) -> None:
    rows = MEASURED.copy()
    rows[0][field] = value
    with pytest.raises(WorkloadError, match=complaint):
        profiles(rows)


def test_repeated_rows_are_refused() -> None:
    with pytest.raises(WorkloadError, match="two rows of measured"):
        profiles(MEASURED[[0, 0]])


def test_the_communication_time_of_a_run_is_the_measured_one() -> None:
    workload = Workload.from_columns([0.0], [2], iterations=[10.0], profiles=profiles(), profile=[0])
    apart = Instance(Cluster.parse("2x1"), workload)
    [times] = job_times(apart, play(apart, "fifo"))
    assert (times["jct_s"], times["communication_s"]) == pytest.approx((7.5, 2.5))


def test_a_type_that_cannot_run_the_gang_is_excluded() -> None:
    cannot = np.array([(0, 1, 2, 0, np.inf, 0.0)], MEASURED_DTYPE)
    assert np.isinf(instance(cannot).iteration_s).sum() == len(TIERS)
    workload = Workload.from_columns([0.0], [2], iterations=[10.0], profiles=profiles(cannot), profile=[0])
    assert Instance(Cluster.parse("1x2"), workload).ideal_s[0] == pytest.approx(3.0, rel=0.01)
    with pytest.raises(WorkloadError, match="compute_s is out of range"):
        Profiles.from_rows([ROW | dict(name="nowhere", compute_s=[np.inf, np.inf])], ("V100", "K80"))
