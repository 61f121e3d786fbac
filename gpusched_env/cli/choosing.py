"""Options that choose jobs, scale their arrivals and give them models, in the order in which they apply."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from gpusched_env.errors import GpuschedError, TraceError

PANEL: Final = "Which jobs"


def _option(name: str, metavar: str, text: str, **limits: Any) -> Any:
    return typer.Option(name, help=text, metavar=metavar, rich_help_panel=PANEL, show_default=False, **limits)


WindowOption = Annotated[str | None, _option("--window", "START:STOP", "Of a log, jobs that arrive in these seconds.")]
WhereOption = Annotated[
    list[str] | None,
    _option(
        "--where",
        "ATTRIBUTE=VALUES",
        "Of a log, jobs with an attribute: virtual_cluster=6214e9,11cb48 or status!=Killed. May be given repeatedly.",
    ),
]
MaxGpusOption = Annotated[int | None, _option("--max-gpus", "GPUS", "Leave out jobs with larger demands.", min=1)]
SampleOption = Annotated[
    float | None, _option("--sample", "SHARE|COUNT", "Of a log, a random fraction below 1, or so many jobs.")
]
MapOption = Annotated[
    list[str] | None,
    _option(
        "--map",
        "ROLE=COLUMN,...|FILE.toml",
        "Roles of the columns of csv:PATH if their names do not tell them: arrival=submit_time,duration_min=wall, or a "
        "file that gpusched traces map wrote. May be given repeatedly.",
    ),
]
SkipBadRowsOption = Annotated[
    bool, _option("--skip-bad-rows", "", "Skip and report malformed rows of a log instead of refusing the log.")
]
EstimateOption = Annotated[
    str | None,
    _option("--estimate", "FILE", "Predicted run times by job id: a CSV with columns such as job_id,estimate_s."),
]
GpuResourceOption = Annotated[
    str | None,
    _option("--gpu-resource", "NAME", "Resource of Kubernetes that is a GPU, for kueue, kubernetes and volcano."),
]
IgnorePlacementOption = Annotated[
    bool,
    _option(
        "--ignore-placement",
        "",
        "Gangs of measured models run as fast spread as in one machine, as in Gavel's simulator.",
    ),
]
JobsOption = Annotated[int | None, _option("--jobs", "COUNT", "Number of jobs; of a log, the first ones.", min=1)]
LoadOption = Annotated[
    float | None, _option("--load", "LOAD", "Scale arrival times so that the jobs offer this load to the cluster.")
]
ProfilesOption = Annotated[
    str | None,
    _option(
        "--profiles",
        "RULE",
        "Models for jobs without one: unit = equal run times on every GPU type and placement; mix (V100), "
        "gavel (V100, P100, K80), elasticflow (A100, T4), pollux (T4) and sia (A100, RTX2080Ti, ...) draw them.",
    ),
]


def chosen_jobs(
    window: str | None = None,
    where: list[str] | None = None,
    max_gpus: int | None = None,
    sample: float | None = None,
    jobs: int | None = None,
    load: float | None = None,
    profiles: str | None = None,
    parameters: dict[str, Any] | None = None,
    ignore_placement: bool = False,
) -> dict[str, Any]:
    """Return the given options as fields of a WorkloadSpec; ``parameters`` is the result of read_options.

    Raises
    ------
    GpuschedError : a malformed window
    """
    changes: dict[str, Any] = {} if window is None else _seconds(window)
    numbers = {"max_gpus": max_gpus, "sample": sample, "jobs": jobs, "load": load}
    given: dict[str, Any] = {"where": tuple(where or ()), **numbers, "profiles": profiles}
    given |= {"parameters": parameters or None, "ignore_placement": ignore_placement or None}
    return changes | {name: value for name, value in given.items() if value not in (None, ())}


def read_options(
    mapping: list[str] | None, skip_bad_rows: bool, estimate: str | None, gpu_resource: str | None = None
) -> dict[str, Any]:
    """Return the given options as options of read_trace.

    Raises
    ------
    TraceError : a malformed mapping, or a role that two of them give
    """
    from gpusched_env.traces.read_options import parse_map

    columns: dict[str, str] = {}
    for one in mapping or ():
        told = parse_map(one)
        if twice := next((role for role in told if role in columns), ""):
            raise TraceError(f"--map: {twice} is given twice; keep one")
        columns |= told
    options = {
        "map": columns or None,
        "skip_bad_rows": skip_bad_rows or None,
        "estimate": estimate,
        "gpu_resource": gpu_resource,
    }
    return {name: value for name, value in options.items() if value is not None}


def _seconds(window: str) -> dict[str, float | None]:
    start, colon, stop = window.partition(":")
    try:
        if colon:
            return {"start_s": float(start or 0), "stop_s": float(stop) if stop else None}
    except ValueError:
        pass
    raise GpuschedError(
        f"--window {window!r}: write START:STOP in seconds from the first arrival, such as 0:86400 or 3600:"
    )


def in_words(changes: dict[str, Any]) -> list[str]:
    """Describe what :func:`chosen_jobs` chose, in short texts for the name of a scenario."""
    parts = []
    if "start_s" in changes:
        stop = changes["stop_s"]
        parts.append(f"window {changes['start_s']:.15g}:{'' if stop is None else f'{stop:.15g}'}")
    parts += changes.get("where", ())
    for name in ("max_gpus", "sample", "jobs", "load"):
        if name in changes:
            parts.append(f"{name.replace('_', ' ')} {changes[name]:g}")
    for name, value in changes.get("parameters", {}).items():
        shown = ",".join(f"{role}={column}" for role, column in value.items()) if name == "map" else value
        parts.append(name.replace("_", " ") if value is True else f"{name} {shown}")
    if "ignore_placement" in changes:
        parts.append("ignore placement")
    if "profiles" in changes:
        parts.append(f"profiles {changes['profiles']}")
    return parts
