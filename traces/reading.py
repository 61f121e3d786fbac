"""Read a public cluster log by ``format:path``. To add a format, write one reader and add one line to READERS."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from gpusched_env.errors import TraceError, WorkloadError, unknown_name
from gpusched_env.traces.acme import read_acme
from gpusched_env.traces.chronus import read_chronus
from gpusched_env.traces.elasticflow import read_elasticflow
from gpusched_env.traces.gavel import read_gavel
from gpusched_env.traces.helios import read_helios
from gpusched_env.traces.muri import read_bsbf, read_muri
from gpusched_env.traces.openb import read_openb
from gpusched_env.traces.pai import read_pai
from gpusched_env.traces.philly import read_philly, read_philly_csv
from gpusched_env.traces.philly_json import read_philly_json
from gpusched_env.traces.report import ReadReport
from gpusched_env.traces.shockwave import read_shockwave
from gpusched_env.traces.swf import read_swf
from gpusched_env.traces.tiresias import read_tiresias
from gpusched_env.workload import Workload

Reader = Callable[[Path], tuple[Workload, ReadReport]]


def read_saved(path: Path) -> tuple[Workload, ReadReport]:
    """Read a workload that Workload.save wrote."""
    try:
        workload = Workload.load(path)
    except WorkloadError as error:
        raise TraceError(str(error)) from error
    return workload, ReadReport("file", str(path), "job", len(workload), len(workload))


READERS: Final[dict[str, Reader]] = {
    "acme": read_acme,
    "bsbf": read_bsbf,
    "chronus": read_chronus,
    "elasticflow": read_elasticflow,
    "file": read_saved,
    "gavel": read_gavel,
    "helios": read_helios,
    "muri": read_muri,
    "openb": read_openb,
    "pai": read_pai,
    "philly": read_philly,
    "philly-csv": read_philly_csv,
    "philly-json": read_philly_json,
    "shockwave": read_shockwave,
    "swf": read_swf,
    "tiresias": read_tiresias,
}


def split_source(source: str) -> tuple[Reader, Path]:
    """Split ``format:path`` into the reader and the path.

    Raises
    ------
    TraceError : no colon, no path, or an unknown format
    """
    name, colon, path = source.partition(":")
    if not colon or not path:
        raise TraceError(f"workload {source!r}: write FORMAT:PATH; formats: {', '.join(sorted(READERS))}")
    if name not in READERS:
        raise TraceError(f"workload {source!r}: {unknown_name('trace format', name, READERS)}")
    return READERS[name], Path(path).expanduser()


def read_trace(source: str) -> tuple[Workload, ReadReport]:
    """Read ``format:path``, for example ``philly:cluster_job_log.json``, and say what was kept and dropped.

    Arrivals [s] count from the first submission kept. Work is given by ``duration_s`` [s], and every job has the unit
    profile until :func:`gpusched_env.traces.assign_profiles` gives it another; where jobs are steps of measured models,
    it is given by ``iterations``, and they have those profiles. Files may be packed with gzip.

    Raises
    ------
    TraceError : with file, line or record, field and remedy
    """
    reader, path = split_source(source)
    return reader(path)


def read_workload(source: str) -> Workload:
    """Read ``format:path`` and leave out the report; see :func:`read_trace`."""
    return read_trace(source)[0]
