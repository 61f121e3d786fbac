"""Read a public cluster log by ``format:path``.

To add a format, write one reader and add one line to READERS and one to SIGNATURES.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, Final

from gpusched_env.errors import TraceError, WorkloadError
from gpusched_env.problem.workload import Workload
from gpusched_env.support.plugins import load_plugins
from gpusched_env.traces.formats import acme
from gpusched_env.traces.formats.acme import read_acme
from gpusched_env.traces.formats.gavel import SHOCKWAVE_FIELDS, read_gavel, read_shockwave
from gpusched_env.traces.formats.job_lists import JOB_LISTS, SAME, layouts_of, read_job_list
from gpusched_env.traces.formats.kueue import read_kueue
from gpusched_env.traces.formats.own_csv import read_csv
from gpusched_env.traces.formats.pai_tables import pai_tables, read_pai_tables
from gpusched_env.traces.formats.philly import read_philly, read_philly_json
from gpusched_env.traces.formats.pods import read_kubernetes, read_volcano
from gpusched_env.traces.formats.slurm import read_slurm
from gpusched_env.traces.formats.swf import read_swf
from gpusched_env.traces.parsing.bad_rows import skipping_bad_rows
from gpusched_env.traces.parsing.containers import trace_files
from gpusched_env.traces.parsing.detection import SWF_NUMBERS, Signature, bar_columns, columns, facts, recognise
from gpusched_env.traces.parsing.report import ReadReport
from gpusched_env.traces.parsing.sources import AUTO, split, split_here
from gpusched_env.traces.predictions import join_estimates
from gpusched_env.traces.read_options import ReadOptions
from gpusched_env.traces.slurm_files.json_tables import SACCT_KEYS

Reader = Callable[..., tuple[Workload, ReadReport]]  # (path), and the options ReadOptions.for_reader


def read_saved(path: Path) -> tuple[Workload, ReadReport]:
    """Read a workload that :meth:`Workload.save` wrote."""
    try:
        workload = Workload.load(path)
    except WorkloadError as error:
        raise TraceError(str(error)) from error
    return workload, ReadReport("file", str(path), "job", len(workload), len(workload))


READERS: Final[dict[str, Reader]] = {
    **{name: partial(read_job_list, name=name) for name in (*JOB_LISTS, *SAME)},
    "acme": read_acme,
    "csv": read_csv,
    "file": read_saved,
    "gavel": read_gavel,
    "kubernetes": read_kubernetes,
    "kueue": read_kueue,
    "pai-tables": read_pai_tables,
    "philly": read_philly,
    "philly-json": read_philly_json,
    "shockwave": read_shockwave,
    "slurm": read_slurm,
    "swf": read_swf,
    "volcano": read_volcano,
}
# Format with several files -> function that returns the paths of these files
FILES: Final[dict[str, Callable[[Path], list[Path]]]] = {"pai-tables": pai_tables}
# Format that auto:PATH never chooses -> the reason
UNDETECTED: Final = {
    "csv": "a user's own columns, which are guessed only if the user writes csv:PATH",
    "pai-tables": "a folder of tables without header lines",
    "pollux-sharing": "found as pollux or sia",
    "philly-csv": "found as philly, which chooses between CSV and JSON",
    "philly-json": "found as philly, which chooses between CSV and JSON",
}


def _signatures(name: str) -> tuple[Signature, ...]:
    """Return the signatures of a format of job lists."""
    return tuple(columns(*layout.names, only=layout.only) for layout in layouts_of(name))


# Format -> signatures by which auto:PATH recognises it, one for each of its layouts. If two signatures fit a file and
# one is a subset of the other, only the larger one counts.
SIGNATURES: Final[dict[str, tuple[Signature, ...]]] = {
    **{name: _signatures(name) for name in (*JOB_LISTS, *SAME) if name not in UNDETECTED},
    "acme": (columns(*acme.ORIGINAL), columns(*acme.SHORT, only=True)),
    "file": (facts("array", "header", "jobs", "profiles", "compute_s"),),
    "gavel": (facts("tab fields", 7), facts("tab fields", 10)),
    "kubernetes": (facts("kind", "Pod"),),
    "kueue": (facts("kind", "Workload"),),
    "philly": (*_signatures("philly-csv"), facts("key", "jobid", "submitted_time", "attempts")),
    "shockwave": (facts("tab fields", SHOCKWAVE_FIELDS),),
    "slurm": (bar_columns("jobid", "state"), bar_columns("jobidraw", "state"), SACCT_KEYS),
    "swf": (frozenset({SWF_NUMBERS}),),
    "volcano": (facts("kind", "PodGroup"),),
}


def split_source(source: str) -> tuple[str, Path]:
    """Split ``format:path`` into the name of a format, or "auto", and the path; the file is not opened.

    ``format:@name`` means the file that ``gpusched traces fetch name`` downloaded.
    """
    load_plugins()
    return split(source, "workload", (AUTO, *READERS))


def resolve_source(source: str) -> tuple[str, Path]:
    """Split ``format:path`` into the name of a format and the path; recognise the format of ``auto:path``."""
    load_plugins()
    name, path = split_here(source, "workload", (AUTO, *READERS))
    return (recognise(path, SIGNATURES) if name == AUTO else name), path


def trace_format(name: str) -> Callable[[Reader], Reader]:
    """Return a decorator that registers a reader for the format ``name``, so that it reads ``name:path``.

    The decorated function takes a :class:`pathlib.Path` and returns the workload and a :class:`ReadReport`.
    :mod:`gpusched_env.traces.parsing` holds the functions that readers share.
    """

    def register(reader: Reader) -> Reader:
        if name in READERS:
            raise TraceError(f"trace format {name!r} exists already; choose another name")
        READERS[name] = reader
        return reader

    return register


def source_files(name: str, path: Path) -> list[Path]:
    """Return the files that the reader of the format ``name`` opens: ``path``, or several."""
    return FILES[name](path) if name in FILES else trace_files(path)


def read_trace(source: str, **options: Any) -> tuple[Workload, ReadReport]:
    """Read ``format:path``, for example ``philly:cluster_job_log.json``, and report what was kept and dropped.

    Time 0 is the first submission among the kept jobs. Jobs are given by their run time ``duration_s`` [s] and have the
    unit profile, which :func:`gpusched_env.traces.assign_profiles` can replace. In formats whose jobs train models with
    measured throughput, jobs are given by ``iterations`` and have the profiles of these models. Files may be compressed
    with gzip, zstd or zip.

    Parameters
    ----------
    source : ``format:path``; or ``auto:path``, for which the format is recognised by the beginning of the file; or
        ``format:@name``, which means the file that ``gpusched traces fetch name`` downloaded. A path such as
        ``log-*.txt`` or ``a.txt,b.txt`` joins files: of several records of a job, the newest counts
    options : ``map`` (columns of a user's own CSV), ``skip_bad_rows``, ``estimate`` (predicted run times by job id),
        ``gpu_resource`` (for objects of Kubernetes) and ``columns`` (of a table of sacct without a header); see
        :class:`gpusched_env.traces.ReadOptions`

    Raises
    ------
    TraceError : a log that cannot be read; the message names the file, line or record, field and remedy
    """
    name, path = resolve_source(source)
    chosen = ReadOptions.of(source, name, options)
    reader = partial(READERS[name], **chosen.for_reader)
    with skipping_bad_rows() if chosen.skip_bad_rows else nullcontext():
        workload, report = reader(path)
        if chosen.estimate_file is not None:
            workload = join_estimates(workload, report, chosen.estimate_file)
    return workload, report


def read_workload(source: str, **options: Any) -> Workload:
    """Read ``format:path`` as :func:`read_trace` does, and return the workload without the report."""
    return read_trace(source, **options)[0]
