"""What ``sacct``, ``squeue`` and ``scontrol show`` print with ``--json``, as rows of their tables of text.

Numbers are plain, or ``{"set": ..., "infinite": ..., "number": ...}``; states are a text or a list. Source: the
output of data_parser v0.0.37 to v0.0.43 (Slurm 21.08 to 25.05).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from gpusched_env.traces.parsing.containers import first_bytes
from gpusched_env.traces.parsing.detection import facts
from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.parsing.json_records import json_members

# Column of a table -> keys of a record; of several paths, the first with a value counts
SACCT: Final = {
    "JobIDRaw": "job_id", "Submit": "time.submission", "Eligible": "time.eligible", "Start": "time.start",
    "End": "time.end", "ElapsedRaw": "time.elapsed", "State": "state.current", "Reason": "state.reason",
    "TimelimitRaw": "time.limit", "Restarts": "restart_cnt", "NNodes": "allocation_nodes",
    "AllocTRES": "tres.allocated", "ReqTRES": "tres.requested", "User": "user association.user", "Account": "account",
    "Partition": "partition", "QOS": "qos", "Reservation": "reservation.name", "Cluster": "cluster", "JobName": "name",
}  # fmt: skip
SQUEUE: Final = {
    "user": "user_name", "account": "account", "partition": "partition", "qos": "qos", "state": "job_state",
    "limit": "time_limit", "submit": "submit_time", "start": "start_time", "count": "node_count", "most": "max_nodes",
    "nodes": "nodes", "reason": "state_reason", "tres": "tres_alloc_str tres_req_str", "dependency": "dependency",
    "asked": "tres_req_str",
}  # fmt: skip
NODE: Final = {
    "nodename": "name", "gres": "gres", "cfgtres": "tres", "state": "state", "flags": "state_flags",
    "features": "features", "weight": "weight",
}  # fmt: skip
PARTITION: Final = {
    "partitionname": "name", "nodes": "nodes.configured", "maxtime": "maximums.time", "defaulttime": "defaults.time",
    "prioritytier": "priority.tier", "priorityjobfactor": "priority.job_factor", "state": "partition.state",
    "gracetime": "grace_time",
}  # fmt: skip
JOBS: Final = ("jobs",)
SACCT_KEYS: Final = facts("key of jobs", "time", "tres")
SQUEUE_KEYS: Final = facts("key of jobs", "job_id", "job_state")
TIMES: Final = frozenset({"Submit", "Eligible", "Start", "End", "submit", "start"})  # 0 = not known
LARGEST: Final = 0xFFFFFFFD  # larger numbers mean "no value" and "infinite" in Slurm
_FLAGS: Final = ("COMPLETING", "CONFIGURING")  # of a job that still holds its nodes


def is_json(path: Path) -> bool:
    """Whether a file is what a command prints with ``--json``, and no table of text."""
    return first_bytes(path).lstrip().startswith(b"{")


def sacct_rows(path: Path) -> Iterator[tuple[Place, dict[str, str]]]:
    """Yield the place and the columns of each job of ``sacct --json``."""
    for place, record in json_members(path, JOBS):
        row = row_of(record, SACCT)
        yield place, row | {"JobID": _job_id(record, row["JobIDRaw"], "array", "het", "task")}


def squeue_rows(path: Path, rest: dict[str, Any]) -> Iterator[tuple[Place, dict[str, str]]]:
    """Yield the place and the fields of each job of ``squeue --json`` or ``scontrol show job --json``."""
    for place, record in json_members(path, JOBS, rest):
        row = row_of(record, SQUEUE) | {"id": _job_id(record, told(record, "job_id"), "array_", "het_", "")}
        if isinstance(per_node := record.get("tres_per_node") if isinstance(record, dict) else None, str):
            row["per_node"] = per_node or "N/A"  # as the table writes it
        yield place, row


def row_of(record: Any, columns: Mapping[str, str]) -> dict[str, str]:
    """Return the columns of a record as texts; "" = no value."""
    row = {}
    for name, paths in columns.items():
        text = next(filter(None, (told(record, path) for path in paths.split())), "")
        row[name] = "" if text == "0" and name in TIMES else text
    return row


def told(record: Any, path: str) -> str:
    """Return the value at a path as a text, as Slurm's tables would write it; "" = no value."""
    for key in path.split("."):
        record = record.get(key) if isinstance(record, dict) else None
    if isinstance(record, dict):
        if record.get("infinite") is True:
            return "UNLIMITED"
        record = record.get("number") if record.get("set", True) is True else None
    if isinstance(record, list):
        words = [one if isinstance(one, str) else _amount(one) for one in record]
        flags = [word for word in words if word in _FLAGS]
        if path in ("job_state", "state.current"):
            return (flags or words or [""])[0]
        return ("," if path.startswith("tres") or path == "features" else "+").join(words)
    if record is None or isinstance(record, dict):
        return ""
    return "" if isinstance(record, int) and record > LARGEST else str(record)


def _amount(entry: Any) -> str:
    """Return an entry of trackable resources, such as ``gres/gpu:a100=4``."""
    name = "/".join(filter(None, (told(entry, "type"), told(entry, "name"))))
    return f"{name}={told(entry, 'count')}"


def _job_id(record: Any, raw: str, array: str, het: str, task: str) -> str:
    """Return the id as tables show it: ``7``, ``7_3``, ``7_[4-9%2]`` or ``7+1``."""
    dot = "." if task else ""
    leader, part = told(record, f"{het}{dot}job_id"), told(record, f"{het}{dot}job_offset")
    if leader not in ("", "0"):
        return f"{leader}+{part or 0}"
    first, number = told(record, f"{array}{dot}job_id"), told(record, f"{array}{dot}task_id")
    several = told(record, f"{array}{dot}{task or 'task_string'}")
    if first in ("", "0"):
        return raw
    return f"{first}_{number}" if number else f"{first}_[{several}]" if several else raw
