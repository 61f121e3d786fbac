"""``Workload.load`` gives back what ``Workload.save`` wrote, bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from trace_samples import LAYOUTS, SAMPLES

from gpusched_env.errors import WorkloadError
from gpusched_env.problem.cluster import TIERS
from gpusched_env.problem.workload import JOB_DTYPE, MEASURED_DTYPE, PROFILE_DTYPE, SHAPED_DTYPE, Profiles, Workload
from gpusched_env.support.units import LATEST_S
from gpusched_env.traces import GENERATORS, generate_workload, read_workload
from gpusched_env.traces.profile_tables import MeasuredTable, load_measured


def check_round_trip(workload: Workload, path: Path) -> None:
    workload.save(path)
    again = Workload.load(path)
    assert again.fingerprint() == workload.fingerprint()
    assert (again.name, again.source) == (workload.name, workload.source)
    assert again.profiles.gpu_types == workload.profiles.gpu_types
    pairs = {
        "jobs": (workload.jobs, again.jobs),
        **{f"profiles.{key}": (getattr(workload.profiles, key), getattr(again.profiles, key)) for key in PARTS},
        **{key: (workload.attributes[key], again.attributes[key]) for key in again.attributes},
    }
    assert list(again.attributes) == list(workload.attributes)
    for key, (saved, loaded) in pairs.items():
        assert (saved.dtype, saved.shape) == (loaded.dtype, loaded.shape), key
        assert saved.tobytes() == loaded.tobytes(), key


PARTS = ("rows", "compute_s", "measured", "shaped")


@pytest.mark.parametrize(("name", "number"), LAYOUTS)
def test_round_trip_of_traces_of_every_layout(tmp_path: Path, name: str, number: int) -> None:
    path = tmp_path / "log"
    path.write_bytes(SAMPLES[name][number])
    check_round_trip(read_workload(f"{name}:{path}"), tmp_path / "saved.npz")


@pytest.mark.parametrize("name", GENERATORS)
def test_round_trip_of_workloads_of_every_generator(tmp_path: Path, name: str) -> None:
    check_round_trip(generate_workload(name, 3, 40), tmp_path / "saved.npz")


@pytest.mark.parametrize("name", MeasuredTable.SHIPPED)
def test_round_trip_of_profiles_of_every_table(tmp_path: Path, name: str) -> None:
    table = load_measured(name)
    jobs = [(model, gpus) for model, measured in table.models.items() for gpus in measured.gangs]
    profiles, rows = table.for_jobs([model for model, _ in jobs], [gpus for _, gpus in jobs])
    count = len(jobs)
    workload = Workload.from_columns(
        range(count), [gpus for _, gpus in jobs], iterations=[7.0] * count, profiles=profiles, profile=rows
    )
    check_round_trip(workload, tmp_path / "saved.npz")


POSITIVE = st.floats(0, exclude_min=True, allow_infinity=False)
COUNT = st.integers(1, 2**31 - 1)
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
COLUMNS = st.one_of(
    st.sampled_from(["<i8", ">i4", "<f8", "<f4", "|b1", "<M8[s]"]).map(np.dtype), st.just(np.dtype("<U12"))
)


@st.composite
def profile_tables(draw: st.DrawFn) -> Profiles:
    names = draw(st.lists(TEXT, min_size=1, max_size=3, unique=True))
    types = tuple(draw(st.lists(TEXT, min_size=1, max_size=3, unique=True)))
    rows = np.array(
        [(name, *draw(st.tuples(COUNT, POSITIVE, POSITIVE, st.floats(0, 1), st.floats(1)))) for name in names],
        PROFILE_DTYPE,
    )
    compute = np.array([[draw(POSITIVE) for _ in types] for _ in names])
    places = st.tuples(
        st.integers(0, len(names) - 1), st.integers(0, len(types) - 1), COUNT, st.integers(0, len(TIERS) - 1)
    )
    measured = [(*place, draw(POSITIVE), draw(POSITIVE)) for place in draw(st.lists(places, max_size=4, unique=True))]
    shapes = st.tuples(st.integers(0, len(names) - 1), COUNT, COUNT, COUNT, COUNT)
    shaped = [
        (*shape, draw(st.floats(0, 1, exclude_min=True))) for shape in draw(st.lists(shapes, max_size=4, unique=True))
    ]
    return Profiles(rows, compute, types, np.array(measured, MEASURED_DTYPE), np.array(shaped, SHAPED_DTYPE))


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    profiles = draw(profile_tables())
    ids = draw(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=5, unique=True))
    jobs = np.zeros(len(ids), JOB_DTYPE)
    for i, job in enumerate(ids):
        work = draw(POSITIVE)
        iterations, duration = (work, np.nan) if draw(st.booleans()) else (np.nan, work)
        profile = draw(st.integers(0, len(profiles.rows) - 1))
        arrival, estimate = draw(st.floats(0, LATEST_S)), draw(st.one_of(st.floats(0), st.just(np.nan)))
        jobs[i] = (job, arrival, draw(COUNT), profile, iterations, duration, estimate)
    attributes: dict[str, Any] = {}
    for key in draw(st.lists(TEXT, max_size=3, unique=True)):
        column = draw(COLUMNS)
        texts = st.lists(TEXT, min_size=len(ids), max_size=len(ids)).map(lambda values: np.array(values, "<U12"))
        attributes[key] = draw(texts if column.kind == "U" else arrays.arrays(column, len(ids)))
    return Workload(jobs, profiles, draw(TEXT), draw(TEXT), attributes)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(workload=workloads())
def test_round_trip_of_any_workload(tmp_path: Path, workload: Workload) -> None:
    check_round_trip(workload, tmp_path / "saved.npz")


def test_an_attribute_that_load_could_not_read_is_not_saved(tmp_path: Path) -> None:
    workload = Workload.from_columns([0.0], [1], [1.0], attributes={"user": np.array([None])})
    with pytest.raises(WorkloadError, match="attribute 'user' is of dtype object"):
        workload.save(tmp_path / "saved.npz")
    assert list(tmp_path.iterdir()) == []
