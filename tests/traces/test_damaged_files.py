"""Every reader on damaged files: a result with counts that add up, or a TraceError with file, place and remedy."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from damage import check, damaged
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from trace_samples import SAMPLES

from gpusched_env.errors import TraceError
from gpusched_env.problem.workload import Workload
from gpusched_env.traces import (
    READERS,
    ReadReport,
    describe_workload,
    read_cluster,
    read_kueue_quotas,
    read_slurm_cluster,
    read_trace,
)
from gpusched_env.traces.parsing.map_files import guessed_map, read_map
from gpusched_env.traces.reading import FILES as SEVERAL
from studies.published_tables import read_table
from tests.traces import test_clusters, test_kubernetes, test_map_files, test_pai_tables, test_slurm_files, test_tables

EXAMPLES = int(os.environ.get("GPUSCHED_FUZZ", "60"))  # damages of each file; GPUSCHED_FUZZ=2000 tries as many
LOGS = sorted(set(READERS) - set(SEVERAL))
PAI = {"job": test_pai_tables.JOBS, "task": test_pai_tables.TASKS, "instance": test_pai_tables.INSTANCES}


def check_log(path: Path, source: str, skip: bool) -> None:
    found = check(path, lambda: read_trace(source, skip_bad_rows=skip))
    if found is not None:
        workload, report = found
        assert isinstance(workload, Workload)
        assert report.kept == len(workload)
        assert report.notes == {remark: len(places) for remark, places in report.noted_at.items()}
        assert workload.jobs["arrival_s"].min() == 0
        assert all(map(math.isfinite, describe_workload(workload).values()))


@pytest.mark.parametrize("name", LOGS)
def test_damaged_logs(tmp_path: Path, name: str) -> None:
    path = tmp_path / "damaged"
    for seed in range(EXAMPLES):
        rng = random.Random(f"{name} {seed}")
        path.write_bytes(damaged(rng, rng.choice(SAMPLES[name])))
        check_log(path, f"{'auto' if seed % 6 == 0 else name}:{path}", rng.random() < 0.5)


def others() -> dict[str, tuple[str | bytes, Callable[[Path], tuple[Any, ReadReport]]]]:
    """Files other than logs -> content and reader."""
    quotas, nodes = test_kubernetes.QUOTAS, test_kubernetes.NODES
    found: dict[str, tuple[str | bytes, Callable[[Path], tuple[Any, ReadReport]]]] = {
        "quotas": (quotas, read_kueue_quotas),
        "nodes": (nodes, lambda path: read_cluster(f"kubernetes:{path}")),
    }
    for name, text in test_clusters.FILES.items():
        found[f"cluster {name}"] = text, lambda path, name=name: read_cluster(f"{name}:{path}")
    for name, data in test_tables.SAMPLES.items():
        found[f"table {name}"] = data, lambda path, name=name: read_table(f"{name}:{path}")
    return found


@pytest.mark.parametrize("name", others())
def test_damaged_clusters_tables_and_quotas(tmp_path: Path, name: str) -> None:
    data, read = others()[name]
    path = tmp_path / "damaged"
    for seed in range(EXAMPLES):
        rng = random.Random(f"{name} {seed}")
        path.write_bytes(damaged(rng, data if isinstance(data, bytes) else data.encode()))
        check(path, lambda: read(path))


@pytest.mark.parametrize("name", sorted(test_slurm_files.FILES))
def test_damaged_files_of_slurm(tmp_path: Path, name: str) -> None:
    for other, text in test_slurm_files.FILES.items():
        (tmp_path / other).write_text(text)
    for seed in range(EXAMPLES):
        (tmp_path / name).write_bytes(damaged(random.Random(seed), test_slurm_files.FILES[name].encode()))
        paths = [tmp_path / each for each in ([name] if seed % 2 else dict.fromkeys([name, "slurm.conf"]))]
        found = check(tmp_path / name, partial(read_slurm_cluster, *paths))
        if found is not None:
            assert [node.gpus for node in found[0].nodes] == found[0].cluster.nodes["gpus"].tolist(), seed


@pytest.mark.parametrize("table", PAI)
def test_damaged_tables_of_pai(tmp_path: Path, table: str) -> None:
    path = test_pai_tables.tables(tmp_path, **PAI) / f"pai_{table}_table.csv"
    for seed in range(EXAMPLES):
        path.write_bytes(damaged(random.Random(seed), PAI[table].encode()))
        check(path, lambda: read_trace(f"pai-tables:{tmp_path}"))


def test_damaged_mappings(tmp_path: Path) -> None:
    text = guessed_map(test_map_files.own(tmp_path)).encode()
    path = tmp_path / "m.toml"
    for seed in range(2 * EXAMPLES):
        path.write_bytes(damaged(random.Random(seed), text))
        check(path, lambda: (read_map(path), ReadReport("map", str(path))))


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(junk=st.binary(max_size=300))
@example(b"")
@example(b"\0" * 2_000)
@example(b"[" * 100_000)
@example(b'[{"a":' * 20_000)
@example(b"1" * 200_000)
@example(b'"' + b"," * 200_000)
def test_junk_is_refused(tmp_path: Path, name: str, junk: bytes) -> None:
    path = tmp_path / "junk"
    path.write_bytes(junk)
    for source in (name, "auto"):
        with pytest.raises(TraceError) as caught:
            read_trace(f"{source}:{path}")
        assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("swf", b"1 0 0 50 4 -1 -1 4 60 -1 1 7 -1 -1 2 -1 0 -1\n2 1 0 50 4 -1 -1 4 60 -1 1 7 -1 -1 2 -1 1 -1\n"),
        ("csv", b"id,arrival,gpus,duration,dependency\na,0,1,50,afterok:x\nb,1,1,50,afterok:a\nx,0,0,1,\n"),
    ],
)
def test_remarks_about_dependencies_have_places(tmp_path: Path, name: str, text: bytes) -> None:
    """The first job depends on one that is not kept, the second one on the first."""
    path = tmp_path / "log"
    path.write_bytes(text)
    workload, report = read_trace(f"{name}:{path}")
    assert len(workload) == 2
    first = 1 if name == "swf" else 2  # line 1 of a CSV is its header
    assert {places.tolist()[0] for places in report.noted_at.values()} == {first, first + 1}
    assert report.notes == {remark: len(places) for remark, places in report.noted_at.items()}
