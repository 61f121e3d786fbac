"""Filters and transformations commute, are repeatable, keep ids and attributes, and refuse empty results."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gpusched_env.errors import WorkloadError
from gpusched_env.problem.workload import Workload
from gpusched_env.traces import (
    clip_gpus,
    first_jobs,
    from_zero,
    generate_workload,
    offered_load,
    sample,
    scale_to_load,
    up_to_gpus,
    where,
    window,
)

Filter = Callable[[Workload], Workload]
USERS = ("ann", "bob", "eve")


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """Whole seconds, as in the logs, so moving the first arrival to 0 loses no bits."""
    ids = draw(st.lists(st.integers(0, 10**9), min_size=1, max_size=40, unique=True))
    columns = [
        draw(st.lists(values, min_size=len(ids), max_size=len(ids)))
        for values in (st.integers(0, 5_000), st.integers(1, 16), st.integers(1, 1_000), st.sampled_from(USERS))
    ]
    arrival, gpus, duration, user = map(np.array, columns)
    attributes = {"user": user, "own_id": np.array([str(i) for i in ids])}
    return from_zero(Workload.from_columns(arrival, gpus, duration.astype(float), ids=ids, attributes=attributes))


some_users = st.lists(st.sampled_from(USERS), min_size=1, unique=True).map(",".join)
filters = st.one_of(
    some_users.map(lambda users: partial(where, condition=f"user={users}")),
    some_users.map(lambda users: partial(where, condition=f"user != {users}")),
    st.integers(1, 16).map(lambda g: partial(up_to_gpus, max_gpus=g)),
    st.tuples(st.floats(0.1, 0.9), st.integers(0, 5)).map(lambda s: partial(sample, amount=s[0], seed=s[1])),
)


def attempt(steps: list[Filter], workload: Workload) -> Workload | None:
    """The filtered workload; None when no job is left."""
    try:
        for step in steps:
            workload = step(workload)
    except WorkloadError:
        return None
    return workload


def same(a: Workload | None, b: Workload | None) -> bool:
    if a is None or b is None:
        return a is b
    columns = all(np.array_equal(a.attributes[key], b.attributes[key]) for key in a.attributes)
    return a.jobs.tobytes() == b.jobs.tobytes() and columns and a.attributes.keys() == b.attributes.keys()


@settings(max_examples=100)
@given(workloads(), st.lists(filters, min_size=2, max_size=4), st.randoms())
def test_filters_commute(workload: Workload, steps: list[Filter], chance: object) -> None:
    turned = steps[:]
    chance.shuffle(turned)  # type: ignore[attr-defined]
    assert same(attempt(steps, workload), attempt(turned, workload))
    assert same(attempt(steps + steps, workload), attempt(steps, workload))  # filters are idempotent


@settings(max_examples=100)
@given(workloads(), filters, st.integers(0, 4_000), st.integers(1, 4_000))
def test_a_window_commutes_with_filters_up_to_the_clock(
    workload: Workload, step: Filter, start: int, length: int
) -> None:
    """A window counts from the first job of its input, which a filter may change."""
    filtered = attempt([step], workload)
    assume(filtered is not None)
    assert filtered is not None
    moved = workload.jobs["arrival_s"][np.isin(workload.jobs["id"], filtered.jobs["id"])].min()
    before = partial(window, start_s=start, stop_s=start + length)
    after = partial(window, start_s=start - moved, stop_s=start + length - moved)
    assert same(attempt([before, step], workload), attempt([after], filtered))


@settings(max_examples=100)
@given(workloads(), filters, st.integers(1, 50), st.integers(1, 16), st.floats(0.01, 10))
def test_jobs_keep_their_ids_and_attributes(
    workload: Workload, step: Filter, count: int, largest: int, load: float
) -> None:
    steps: list[Filter] = [step, partial(first_jobs, count=count), partial(clip_gpus, max_gpus=largest)]
    done = attempt(steps, workload)
    assume(done is not None and np.ptp(done.jobs["arrival_s"]) > 0)
    assert done is not None
    scaled = scale_to_load(done, load, 8)
    assert offered_load(scaled, 8) == pytest.approx(load, rel=1e-12)
    assert set(scaled.jobs["id"]) <= set(workload.jobs["id"])
    assert scaled.attributes["own_id"].tolist() == [str(i) for i in scaled.jobs["id"]]
    assert len(scaled.attributes["user"]) == len(scaled)
    order = np.argsort(workload.jobs["id"])
    rows = order[np.searchsorted(workload.jobs["id"][order], scaled.jobs["id"])]
    assert (workload.attributes["user"][rows] == scaled.attributes["user"]).all()


def test_a_share_is_nested_and_near_its_size() -> None:
    workload = generate_workload("philly", 0, 20_000)
    half, quarter = (set(sample(workload, share).jobs["id"]) for share in (0.5, 0.25))
    assert quarter < half
    assert len(half) == pytest.approx(10_000, abs=4 * np.sqrt(5_000))
    other = set(sample(workload, 0.5, seed=1).jobs["id"])
    assert len(half & other) == pytest.approx(5_000, abs=4 * np.sqrt(3_750))  # seeds are independent
    assert half == set(sample(workload.select(np.arange(20_000)[::-1]), 0.5).jobs["id"])  # whatever the order


def test_a_count_is_exact() -> None:
    workload = generate_workload("philly", 0, 1_000)
    chosen = sample(workload, 100, seed=3)
    assert len(chosen) == 100
    assert set(sample(workload, 50, seed=3).jobs["id"]) < set(chosen.jobs["id"])
    assert chosen.jobs["arrival_s"].min() == 0
    assert same(sample(workload, 5_000), workload)


def test_the_hash_is_splitmix64() -> None:
    """The first outputs of the published generator from state 0 are the hashes of the ids 0, 1 and 2."""
    from gpusched_env.traces.filters import _split_mix

    expected = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert _split_mix(np.arange(3), 0).tolist() == expected


def test_clipping_keeps_gpu_time_and_samples() -> None:
    workload = Workload.from_columns([0, 1, 2], [1, 4, 16], [10.0, 20.0, 30.0], estimate_s=[np.nan, 5.0, 7.0])
    clipped = clip_gpus(workload, 4).jobs
    assert clipped["gpus"].tolist() == [1, 4, 4]
    assert clipped["duration_s"].tolist() == [10, 20, 120]
    assert clipped["estimate_s"][1:].tolist() == [5, 28]
    assert (clipped["gpus"] * clipped["duration_s"]).tolist() == [10, 80, 480]
    by_iterations = clip_gpus(Workload.from_columns([0], [6], iterations=[100.0]), 4).jobs
    assert by_iterations["iterations"].tolist() == [150]
    assert np.isnan(by_iterations["duration_s"]).all()


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        ("user=ann", [0, 3]),
        ("user = ann , eve", [0, 2, 3]),
        ("user!=ann", [1, 2]),
        ("gpu_milli=500", [1]),
        ("user=x=y", None),
        ("user!=ann,bob,eve", None),
    ],
)
def test_conditions(condition: str, ids: list[int] | None) -> None:
    attributes = {"user": np.array(["ann", "bob", "eve", "ann"]), "gpu_milli": np.array([1000, 500, 1000, 1000])}
    workload = Workload.from_columns([0, 1, 2, 3], [1] * 4, [1.0] * 4, attributes=attributes)
    if ids is None:
        with pytest.raises(WorkloadError, match=r"no job has .*values of user are '"):
            where(workload, condition)
    else:
        assert where(workload, condition).jobs["id"].tolist() == ids


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (partial(where, condition="usr=ann"), "did you mean 'user'"),
        (partial(where, condition="user"), "ATTRIBUTE=VALUE"),
        (partial(where, condition="user="), "ATTRIBUTE=VALUE"),
        (partial(where, condition="user=anne"), "'ann'"),
        (partial(sample, amount=0.0), "share"),
        (partial(sample, amount=1), "at least 2"),
        (partial(sample, amount=2.5), "number of jobs"),
        (partial(sample, amount=float("nan")), "share"),
        (partial(sample, amount=1e-12), "raise the share"),
        (partial(up_to_gpus, max_gpus=0), "raise it"),
        (partial(clip_gpus, max_gpus=0), "at least 1"),
    ],
)
def test_refusals_name_the_remedy(change: Filter, words: str) -> None:
    workload = Workload.from_columns([0], [1], [1.0], attributes={"user": np.array(["ann"])})
    with pytest.raises(WorkloadError, match=words):
        change(workload)
