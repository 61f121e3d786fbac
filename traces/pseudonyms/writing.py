"""Write a log again with pseudonyms; what no reader of this package needs is left out."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from gpusched_env.errors import TraceError
from gpusched_env.files import whole
from gpusched_env.traces.kubernetes.nodes import PRODUCT
from gpusched_env.traces.kubernetes.pods import GROUPS, QUEUE
from gpusched_env.traces.parsing.json_records import json_objects
from gpusched_env.traces.parsing.roles import assign_roles
from gpusched_env.traces.parsing.streams import bar_header, bar_rows, csv_header, csv_rows
from gpusched_env.traces.pseudonyms.names import Pseudonyms
from gpusched_env.traces.pseudonyms.slurm_files import Rewriter
from gpusched_env.traces.slurm_files.hostlists import names_in
from gpusched_env.traces.slurm_files.kinds import kind_of

NAMES: Final = {"user": "user", "account": "account", "cluster": "cluster", "reservation": "reservation"}
IDS: Final = ("jobid", "jobidraw")
KEPT: Final = frozenset(
    {
        *("partition", "qos", "submit", "eligible", "start", "end", "elapsed", "elapsedraw", "suspended", "timelimit"),
        *("timelimitraw", "reqtres", "alloctres", "nnodes", "ncpus", "reqmem", "planned", "priority", "flags"),
        *("restarts", "exitcode"),
    }
)
OWN_NAMES: Final = {
    "id": "job",
    "user": "user",
    "virtual_cluster": "account",
}  # roles of the columns of a user's own CSV
# Keys of Kubernetes whose text is a name -> its role. The role of metadata.name depends on the kind.
KEYS: Final = {
    "namespace": "namespace", "queueName": "queue", "queue": "queue", "clusterQueue": "account", "cohort": "account",
    "cohortName": "account", "parentName": "account", "nodeName": "node", QUEUE: "queue",
    **dict.fromkeys(GROUPS, "job"),
}  # fmt: skip
KINDS: Final = {"ClusterQueue": "account", "Cohort": "account", "LocalQueue": "queue", "Node": "node"}
FLAVORED: Final = ("flavors", "resources", "resourceFlavors")  # lists of objects whose names are no personal data
ALLOWED: Final = frozenset(
    {
        *("apiVersion", "kind", "metadata", "spec", "status", "creationTimestamp", "ownerReferences", "labels"),
        *("annotations", "nodeSelector", "podSets", "count", "template", "priority", "active", "admission"),
        *("maximumExecutionTimeSeconds", "podSetAssignments", "flavors", "resourceUsage", "conditions", "type"),
        *("reason", "lastTransitionTime", "requeueState", "requeueAt", "resourceGroups", "resources", "nominalQuota"),
        *("borrowingLimit", "lendingLimit", "fairSharing", "weight", "containers", "initContainers", "requests"),
        *("limits", "containerStatuses", "state", "terminated", "finishedAt", "phase", "startTime", "allocatable"),
        *(
            "unschedulable",
            "minMember",
            "minResources",
            "preemption",
            "withinClusterQueue",
            "reclaimWithinCohort",
            "queueingStrategy",
        ),
        "items",
    }
)
MARKS: Final = ("labels", "annotations", "nodeSelector")  # tables whose keys are the users' own
QUANTITIES: Final = ("resourceUsage", "requests", "limits", "allocatable", "minResources")  # their keys are resources
PLAIN: Final = re.compile(  # resources of Kubernetes and of makers of accelerators; others may have names of the site
    r"(?:cpu|memory|pods|storage|ephemeral-storage|hugepages-\w+|count/pods"
    r"|(?:nvidia\.com|amd\.com|gpu\.intel\.com|habana\.ai|google\.com|aws\.amazon\.com|rdma|kubernetes\.io)/[\w.-]+)"
)
REASON: Final = re.compile(r"[A-Z][A-Za-z]*")  # reasons of Kubernetes are words such as QuotaReserved; others are texts
CANCELLED: Final = re.compile(r"(CANCELLED).*", re.I)


def pseudonymise(name: str, path: Path, out: Path, names: Pseudonyms, mapping: Mapping[str, str] | None = None) -> str:
    """Write the log ``path`` of the format ``name`` to ``out`` with pseudonyms; return what was left out, in words.

    Users, accounts, jobs, nodes, namespaces, queues of Kubernetes, clusters and reservations get pseudonyms; partitions
    and QOS keep their names. Ids of Slurm stay numbers. Other columns and fields are left out. The format ``slurm`` is
    a table of sacct, or a file that describes a cluster, in which also switches, features and sets of nodes get
    pseudonyms.

    Parameters
    ----------
    mapping : roles of the columns of a user's own CSV

    Raises
    ------
    TraceError : a format without this, or a log that cannot be read
    GpuschedError : the file cannot be written
    """
    writers: dict[str, Callable[[], tuple[Iterator[str], Callable[[], str]]]] = {
        "slurm": lambda: _slurm(path, names) if _is_table(path) else _slurm_file(path, names),
        "csv": lambda: _own_csv(path, names, mapping or {}),
        **dict.fromkeys(
            ("kueue", "kubernetes", "volcano"), lambda: (_objects(path, names), lambda: "fields that no reader needs")
        ),
    }
    if name not in writers:
        raise TraceError(f"{path}: {name} has no pseudonyms; formats: {', '.join(sorted(writers))}")
    lines, left_out = writers[name]()
    with whole(out) as partial, partial.open("w", encoding="utf-8", newline="") as stream:
        stream.writelines(lines)
    return left_out()


def _is_table(path: Path) -> bool:
    """Whether a file of Slurm is a table of sacct, and not one that describes a cluster."""
    return {"state", "start", "end"} <= set(bar_header(path))


def _slurm_file(path: Path, names: Pseudonyms) -> tuple[Iterator[str], Callable[[], str]]:
    rewriter = Rewriter(names)
    return rewriter.lines(kind_of(path), path), lambda: _told("keys", list(rewriter.lost))


def _told(what: str, lost: list[str]) -> str:
    return f"{what} {', '.join(lost)}" if lost else "nothing"


def _slurm(path: Path, names: Pseudonyms) -> tuple[Iterator[str], Callable[[], str]]:
    header = bar_header(path)
    used = [
        i
        for i, name in enumerate(header)
        if name in KEPT or name in NAMES or name in IDS or name in ("state", "nodelist")
    ]
    lost = [name for name in header if name and header.index(name) not in used]

    def lines() -> Iterator[str]:
        yield "|".join(header[i] for i in used) + "\n"
        for place, fields in bar_rows(path, len(header)):
            told = []
            for i in used:
                column, text = header[i], fields[i]
                if column in NAMES:
                    text = names.name(NAMES[column], text)
                elif column in IDS:
                    text = names.number("job", text)
                elif column == "state":
                    text = CANCELLED.sub(r"\1", text)  # by the number of a user
                elif column == "nodelist" and text not in ("None assigned", "Unknown"):
                    text = ",".join(names.name("node", one) for one in names_in(place, "NodeList", text))
                told.append(text)
            yield "|".join(told) + "\n"

    return lines(), lambda: _told("columns", lost)


def _own_csv(path: Path, names: Pseudonyms, mapping: Mapping[str, str]) -> tuple[Iterator[str], Callable[[], str]]:
    header = csv_header(path)
    found = assign_roles(str(path), header, mapping)
    columns = [one.column for one in found.values()]
    lost = [name for name in header if name not in columns]

    def lines() -> Iterator[str]:
        yield _csv_line(columns)
        for _, texts in csv_rows(path, columns):
            yield _csv_line([_own_value(names, role, text) for role, text in zip(found, texts, strict=True)])

    return lines(), lambda: _told("columns", lost)


def _own_value(names: Pseudonyms, role: str, text: str) -> str:
    if role == "status":
        return CANCELLED.sub(r"\1", text)
    return names.name(OWN_NAMES[role], text) if role in OWN_NAMES else text


class _Line:
    """A file for one line of the csv module."""

    def write(self, text: str) -> str:
        return text


def _csv_line(texts: list[str]) -> str:
    line: str = csv.writer(_Line(), lineterminator="\n").writerow(texts)
    return line


def _objects(path: Path, names: Pseudonyms) -> Iterator[str]:
    for place, record in json_objects(path):
        if not isinstance(record, dict):
            place.refuse("object", record, "expected a JSON object; correct or remove the object")
        kind = record.get("kind")
        yield json.dumps(_copied(record, names, KINDS.get(kind, "job") if isinstance(kind, str) else "job", "")) + "\n"


def _copied(value: Any, names: Pseudonyms, role: str, inside: str) -> Any:
    """Copy the allowed part of a value; ``role`` is that of metadata.name, ``inside`` the key above the value."""
    if isinstance(value, list):
        return [_copied(one, names, role, inside) for one in value]
    if not isinstance(value, dict):
        return value
    if inside in QUANTITIES:
        return {_resource(names, key): one for key, one in value.items() if isinstance(one, str | int | float)}
    copied: dict[str, Any] = {}
    for key, one in value.items():
        if key in KEYS and isinstance(one, str):
            copied[key] = names.name(KEYS[key], one)
        elif key == "name" and isinstance(one, str) and inside in ("metadata", "ownerReferences"):
            copied[key] = names.name(role if inside == "metadata" else "job", one)
        elif key == "reason" and isinstance(one, str) and not REASON.fullmatch(one):
            copied[key] = ""
        elif key in ALLOWED and inside not in MARKS:
            copied[key] = _copied(one, names, role, key)
        elif inside == "resources" and key == "name" and isinstance(one, str):
            copied[key] = _resource(names, one)
        elif key == PRODUCT or (inside in FLAVORED and key == "name"):
            copied[key] = one
        elif inside in FLAVORED and isinstance(one, str):
            copied[_resource(names, key)] = one
    return copied


def _resource(names: Pseudonyms, name: str) -> str:
    """Return the name of a resource; ``requests.`` before it, and ``/gpu`` behind it, stay."""
    before = next((part for part in ("requests.", "limits.") if name.startswith(part)), "")
    name = name.removeprefix(before)
    if PLAIN.fullmatch(name):
        return before + name
    gpu = "/gpu" if name.endswith("/gpu") else ""
    return before + names.name("resource", name.removesuffix("/gpu")) + gpu
