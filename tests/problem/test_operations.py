"""Profiles and transformations of workloads."""

from __future__ import annotations

import numpy as np
import pytest

from gpusched_env.errors import WorkloadError
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.workload import Workload
from gpusched_env.traces import (
    assign_profiles,
    describe_workload,
    first_jobs,
    generate_workload,
    mix_profiles,
    offered_load,
    scale_to_load,
    up_to_gpus,
    window,
)
from gpusched_env.traces.generators.synthetic import random_stream


def small() -> Workload:
    arrival, gpus, duration = [30.0, 0.0, 10.0, 10.0], [1, 2, 4, 8], [100.0, 50.0, 25.0, 10.0]
    labels = {"original_id": np.array(["d", "a", "b", "c"])}
    return Workload.from_columns(arrival, gpus, duration, attributes=labels)


def test_mix_is_uniform_and_keeps_run_times_on_the_ideal_placement() -> None:
    workload = generate_workload("philly", 1, 20_000, max_gpus=64)
    mixed = assign_profiles(workload, "mix", random_stream(1, 1))
    share = np.bincount(mixed.jobs["profile"]) / len(mixed)
    assert share == pytest.approx(np.full(9, 1 / 9), abs=0.02)
    assert set(np.unique(mixed.jobs["profile"][mixed.jobs["gpus"] == 1])) == set(range(9))
    instance = Instance(Cluster.parse("8x8/4"), mixed)
    assert np.array_equal(instance.ideal_s, instance.workload.jobs["duration_s"])
    assert (workload.jobs["profile"] == 0).all()  # the given workload is left alone


def test_mix_depends_on_the_stream_alone() -> None:
    workload = small()
    first, again = (assign_profiles(workload, "mix", random_stream(7, 1)).fingerprint() for _ in range(2))
    draws = {assign_profiles(workload, "mix", random_stream(seed, 1)).fingerprint() for seed in range(10)}
    assert first == again
    assert len(draws) > 5


def test_unit_profiles_know_every_gpu_type() -> None:
    unit = assign_profiles(small(), "unit", random_stream(0, 1), ("V100", "K80"))
    assert unit.profiles.gpu_types == ("V100", "K80")
    assert (unit.profiles.compute_s == 1).all()
    with pytest.raises(WorkloadError, match="K80"):
        assign_profiles(small(), "mix", random_stream(0, 1), ("V100", "K80"))
    with pytest.raises(WorkloadError, match="did you mean 'unit'"):
        assign_profiles(small(), "units", random_stream(0, 1))


def test_skewed_models_are_those_of_tiresias() -> None:
    rows = mix_profiles().rows
    skewed = {str(name) for name in rows["name"][rows["skew"] > 0.5]}
    assert skewed == {"alexnet", "vgg11", "vgg16", "vgg19"}


def test_window_moves_the_clock_and_keeps_attributes() -> None:
    cut = window(small(), 10.0, 30.0)
    assert cut.jobs["arrival_s"].tolist() == [0.0, 0.0]
    assert cut.attributes["original_id"].tolist() == ["b", "c"]
    with pytest.raises(WorkloadError, match="no job arrives"):
        window(small(), 31.0, 40.0)


def test_first_jobs_go_by_arrival_then_id() -> None:
    assert first_jobs(small(), 3).attributes["original_id"].tolist() == ["a", "b", "c"]
    assert len(first_jobs(small(), 99)) == 4


def test_max_gpus_drops_larger_jobs() -> None:
    assert up_to_gpus(small(), 4).jobs["gpus"].tolist() == [1, 2, 4]
    with pytest.raises(WorkloadError, match="max_gpus"):
        up_to_gpus(window(small(), 5, 11), 2)


def test_load_is_work_over_capacity() -> None:
    assert offered_load(small(), 4) == pytest.approx((100 + 100 + 100 + 80) / (4 * 30))
    scaled = scale_to_load(small(), 0.5, 4)
    assert offered_load(scaled, 4) == pytest.approx(0.5)
    ratio = scaled.jobs["arrival_s"][[0, 2]] / np.array([30.0, 10.0])
    assert ratio[0] == pytest.approx(ratio[1])
    assert scaled.jobs["duration_s"].tolist() == small().jobs["duration_s"].tolist()
    for load in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(WorkloadError, match="load"):
            scale_to_load(small(), load, 4)
    with pytest.raises(WorkloadError, match="at once"):
        scale_to_load(generate_workload("batch", 0, 5), 0.5, 4)


def test_describe() -> None:
    described = describe_workload(small())
    assert described["jobs"] == 4
    assert described["offered_gpu_hours"] == pytest.approx(380 / 3600)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"duration_s": [5.0], "iterations": [3.0]}, "one of them finite"),
        ({"duration_s": [5.0], "estimate_s": [-1.0]}, "estimate_s is -1.0"),
        ({"duration_s": [5.0], "gpus": [1.9]}, "1.9 is not a whole number"),
    ],
)
def test_a_workload_with_impossible_columns_is_refused(columns: dict, message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        Workload.from_columns(**({"arrival_s": [0.0], "gpus": [1]} | columns))
