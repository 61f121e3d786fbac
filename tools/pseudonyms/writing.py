"""Write a log again with pseudonyms; what no reader of this package needs is left out."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from gpusched_env.errors import TraceError
from gpusched_env.pseudonyms.names import KEPT_ROLES, Pseudonyms
from gpusched_env.support.files import whole
from gpusched_env.traces.formats.slurm import sacct_columns
from gpusched_env.traces.kubernetes.nodes import RACKS, REPLICAS
from gpusched_env.traces.kubernetes.objects import (
    GPU_RESOURCE,
    PRODUCTS,
    REPAIR,
    SHARED,
    labels,
    quantity,
    table,
    tables,
    text,
)
from gpusched_env.traces.kubernetes.pods import GROUP, GROUPS, POD, QUEUES, REFERENCES, pod_of
from gpusched_env.traces.parsing.clocks import is_told
from gpusched_env.traces.parsing.containers import trace_files
from gpusched_env.traces.parsing.dependencies import read_dependency, rename_jobs
from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.parsing.json_records import json_objects
from gpusched_env.traces.parsing.roles import Found, assign_roles, guess_role
from gpusched_env.traces.parsing.streams import bar_header, bar_rows, csv_header, csv_rows
from gpusched_env.traces.slurm_files.hostlists import names_in
from gpusched_env.traces.slurm_files.kinds import kind_of
from tools.pseudonyms.slurm_files import Rewriter, known_resources, plain, refuse_json, told_word
from tools.pseudonyms.words import KUBERNETES

NAMES: Final = {
    "user": "user",
    "account": "account",
    "jobname": "name",
    "cluster": "cluster",
    "reservation": "reservation",
}
IDS: Final = ("jobid", "jobidraw")
RESOURCES: Final = ("reqtres", "alloctres")
PLAIN_COLUMNS: Final = (
    *("submit", "eligible", "start", "end", "elapsed", "elapsedraw", "timelimit", "timelimitraw", "restarts", "nnodes"),
    "reqnodes",
)
KEPT: Final = frozenset({"partition", "qos", "state", "reason", "nodelist", *NAMES, *IDS, *RESOURCES, *PLAIN_COLUMNS})
OWN_NAMES: Final = {
    "id": "job",
    "user": "user",
    "account": "account",
    "name": "name",
    "virtual_cluster": "account",
}  # roles of the columns of a user's own CSV
# Keys of Kubernetes whose text is a name -> its role. The role of metadata.name depends on the kind.
KEYS: Final = {
    "namespace": "namespace", "queueName": "queue", "queue": "queue", "clusterQueue": "account", "cohort": "account",
    "cohortName": "account", "parentName": "account", "parent": "account", "nodeName": "node",
    **dict.fromkeys(QUEUES, "queue"), **dict.fromkeys([*GROUPS, *REFERENCES[1:], "podGroupName"], "job"),
    **dict.fromkeys(RACKS, "switch"), "uid": "job",
}  # fmt: skip
KINDS: Final = {
    "ClusterQueue": "account", "Cohort": "account", "LocalQueue": "queue", "Queue": "queue", "Node": "node",
    "ResourceFlavor": "flavor",
}  # fmt: skip
FLAVORED: Final = ("flavors", "resources", "resourceFlavors")  # lists of objects whose names are no personal data
# Keys whose value is a table or a list of tables
TABLES: Final = frozenset(
    {
        *("metadata", "spec", "status", "ownerReferences", "labels", "annotations", "nodeSelector", "podSets"),
        *("template", "admission", "podSetAssignments", "flavors", "resourceUsage", "conditions", "requeueState"),
        *("resourceGroups", "resources", "fairSharing", "containers", "initContainers", "requests", "limits"),
        *("containerStatuses", "state", "terminated", "allocatable", "minResources", "preemption", "items"),
        *("workloadRef", "schedulingGroup", "resourceClaims", "borrowWithinCohort"),
    }
)
TIMES: Final = frozenset({"creationTimestamp", "lastTransitionTime", "requeueAt", "finishedAt", "startTime"})
NUMBERS: Final = frozenset(
    {
        *("count", "priority", "active", "maximumExecutionTimeSeconds", "nominalQuota", "borrowingLimit"),
        *("lendingLimit", "weight", "unschedulable", "minMember", "maxPriorityThreshold"),
        *("accumulatedPastExecutionTimeSeconds", "accumulatedPastExexcutionTimeSeconds"),
    }
)
WORDS: Final = KUBERNETES.keys() - {"status"}  # keys whose value is a word; status is one inside conditions
MARKS: Final = ("labels", "annotations", "nodeSelector")  # tables whose keys are the users' own
QUANTITIES: Final = ("resourceUsage", "requests", "limits", "allocatable", "minResources")  # their keys are resources
PLAIN: Final = re.compile(  # resources of Kubernetes and of makers of accelerators; others may have names of the site
    r"cpu|memory|pods|storage|ephemeral-storage|hugepages-\d+[KMG]i|count/pods"
    r"|nvidia\.com/(?:gpu|mig-\d+g\.\d+gb(?:\.me)?)(?:\.shared)?|nvidia\.com/gpu(?:mem|mem-percentage|cores)"
    r"|aliyun\.com/gpu-(?:mem|core\.percentage)|koordinator\.sh/gpu(?:-core|-memory|-memory-ratio|\.shared)?"
    r"|volcano\.sh/(?:vgpu-(?:number|memory|cores)|gpu-(?:memory|number))|amd\.com/(?:gpu|[sdqc]px_nps[1248])"
    r"|gpu\.intel\.com/(?:i915|xe)|habana\.ai/gaudi|google\.com/tpu|aws\.amazon\.com/neuron(?:core|device)?",
    re.ASCII,
)
_TIME: Final = re.compile(r"[0-9TZ:.+-]*", re.ASCII)
_LABEL: Final = re.compile(r"[\w.-]*", re.ASCII)  # the value of a label, and the name of a flavor
OWN_NUMBERS: Final = frozenset(  # roles whose values are numbers or times
    {"arrival", "gpus", "duration", "start", "end", "estimate", "earliest_start", "batch_size", "nodes"}
)
_OWN_NUMBER: Final = re.compile(r"[0-9TZeE:.,/ +-]*|inf|nan", re.ASCII)
_STATUS: Final = re.compile(r"\w*(?!\S)|")  # the first word, such as CANCELLED of "CANCELLED by 1001"
_PATH: Final = re.compile(r"[/\\@]")  # in paths and addresses


def pseudonymise(name: str, path: Path, out: Path, names: Pseudonyms, mapping: Mapping[str, str] | None = None) -> str:
    """Write the log ``path`` of the format ``name`` to ``out`` with pseudonyms; return what was left out, in words.

    Users, accounts, jobs, nodes, namespaces, queues of Kubernetes, clusters and reservations get pseudonyms; partitions
    and QOS keep their names. Ids of Slurm stay numbers. Other columns and fields are left out. The format ``slurm`` is
    a table of sacct, or a file that describes a cluster, in which also switches, features and sets of nodes get
    pseudonyms.
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
    with whole(out) as part, part.open("w", encoding="utf-8", newline="") as stream:
        stream.writelines(lines)
        names.check(path)
    return left_out()


def _is_table(path: Path) -> bool:
    """Whether a file of Slurm is a table of sacct, and not one that describes a cluster."""
    return not {"jobid", "jobidraw"}.isdisjoint(bar_header(path))


def _slurm_file(path: Path, names: Pseudonyms) -> tuple[Iterator[str], Callable[[], str]]:
    refuse_json(path)
    rewriter, kind = Rewriter(names), kind_of(path)
    if kind == "topology.yaml":
        raise TraceError(f"{path}: {kind} gets no pseudonyms; give the table of text, topology.conf")
    return rewriter.lines(kind, path), lambda: _told("keys", list(rewriter.lost))


def _told(what: str, lost: list[str]) -> str:
    return f"{what} {', '.join(lost)}" if lost else "nothing"


def _slurm(path: Path, names: Pseudonyms) -> tuple[Iterator[str], Callable[[], str]]:
    header = bar_header(path)
    sacct_columns(path, header)
    used = [i for i, name in enumerate(header) if name in KEPT]
    lost = [name for name in header if name and header.index(name) not in used]

    def lines() -> Iterator[str]:
        yield "|".join(header[i] for i in used) + "\n"
        for place, fields in bar_rows(path, header):
            told = []
            for i in used:
                column, text = header[i], fields[i]
                if column in NAMES:
                    text = names.name(NAMES[column], text)
                elif column in IDS:
                    text = names.number("job", text)
                elif column == "state":
                    text = told_word(names, "job state", "state", text.partition(" ")[0])  # a user's number follows
                elif column in ("partition", "qos"):
                    text = names.keep(column, text)
                elif column == "reason":
                    text = told_word(names, column, column, text)  # others may be texts of people
                elif column == "nodelist" and text not in ("None assigned", "Unknown"):
                    text = ",".join(names.name("node", one) for one in names_in(place, "NodeList", text))
                elif column in RESOURCES:
                    text = known_resources(text, names)
                elif column in PLAIN_COLUMNS:
                    text = plain(place, column, text)
                told.append(text)
            yield "|".join(told) + "\n"

    return lines(), lambda: _told("columns", lost)


def _own_csv(path: Path, names: Pseudonyms, mapping: Mapping[str, str]) -> tuple[Iterator[str], Callable[[], str]]:
    header = csv_header(path)
    found = assign_roles(str(path), header, mapping)
    columns = [one.column for one in found.values()]
    lost = [name for name in header if name not in columns]

    def lines() -> Iterator[str]:
        yield _csv_line([_own_title(role, one) for role, one in found.items()])
        for place, texts in csv_rows(path, columns):
            row = dict(zip(found, texts, strict=True))
            if "dependency" in row:
                text = read_dependency(place, found["dependency"].column, row["dependency"])
                # Without ids, it names the numbers of rows.
                row["dependency"] = rename_jobs(text, partial(_own_value, names, "id")) if "id" in row else text
            for role, text in row.items():
                if role in OWN_NUMBERS and is_told(text) and not _OWN_NUMBER.fullmatch(text):
                    remedy = "a text of another form, which could be a name; correct or remove the row"
                    place.refuse(found[role].column, text, remedy)
            yield _csv_line([_own_value(names, role, text) for role, text in row.items()])

    return lines(), lambda: _told("columns", lost)


def _own_title(role: str, one: Found) -> str:
    """Return the name of a column if it is a common one of its role, else the role; a mapped name could be anyone's."""
    common = any((guess.column, guess.unit) == (one.column, one.unit) for guess in guess_role(role, [one.column]))
    return one.column if common else f"{role}_{one.unit}".rstrip("_")


def _own_value(names: Pseudonyms, role: str, text: str) -> str:
    if role == "status":
        return told_word(names, "status", role, _STATUS.match(text)[0])  # type: ignore[index]  # matches the empty text
    if role == "priority":
        return told_word(names, "priority", role, text)
    if role in ("partition", "qos", "queue"):
        return names.keep("partition" if role == "queue" else role, text)
    if role == "model" and _PATH.search(text):
        return names.name("model", text)
    if role == "model":
        return names.keep(role, text)
    return names.name(OWN_NAMES[role], text) if role in OWN_NAMES else text


class _Line:
    """A file for one line of the csv module."""

    def write(self, text: str) -> str:
        return text


def _csv_line(texts: list[str]) -> str:
    line: str = csv.writer(_Line(), lineterminator="\n").writerow(texts)
    return line


def _objects(path: Path, names: Pseudonyms) -> Iterator[str]:
    older = _older(path) if len(trace_files(path)) > 1 else ()
    for number, (place, record) in enumerate(json_objects(path)):
        if not isinstance(record, dict):
            place.refuse("object", record, "expected a JSON object; correct or remove the object")
        if number in older:
            continue
        kind = record.get("kind")
        role = KINDS.get(kind, "job") if isinstance(kind, str) else "job"
        yield json.dumps(_copied(place, record, names, role, "")) + "\n"


def _older(path: Path) -> set[int]:
    """Return the numbers of the objects of several exports of which there is a newer record: the copy is one file."""
    newest: dict[tuple[str, str], tuple[tuple[bool, float], int]] = {}
    count = 0
    for number, (place, record) in enumerate(json_objects(path)):
        count += 1
        kind = text(place, table(place, record), "kind")
        name, namespace, metadata = labels(place, record)
        uid = "" if kind == GROUP else text(place, metadata, "uid")
        if kind == POD:
            age = pod_of(place, record, GPU_RESOURCE).age
        else:
            conditions = tables(place, table(place, record, "status"), "conditions")
            age = any((one.get("type"), one.get("status")) == ("Finished", "True") for one in conditions), 0.0
        identity = kind, uid or f"{namespace}/{name}"
        newest[identity] = max(newest.get(identity, (age, number)), (age, number))
    return set(range(count)).difference(number for _, number in newest.values())


def _copied(place: Place, value: Any, names: Pseudonyms, role: str, inside: str) -> Any:
    """Copy the allowed part of a table, or of a list of tables, below a key; texts in a list are left out."""
    if isinstance(value, list):
        return [_copied(place, one, names, role, inside) for one in value if not isinstance(one, str)]
    if value is None:
        return None
    value = table(place, value)
    if inside in QUANTITIES:
        return {_resource(names, key): _number(place, key, one) for key, one in value.items()}
    copied: dict[str, Any] = {}
    for key, one in value.items():
        if key in KEYS:
            copied[key] = names.name(KEYS[key], text(place, value, key))
        elif key == "name" and inside in ("metadata", "ownerReferences", "workloadRef"):
            told = text(place, value, key)
            of = role if inside == "metadata" else "job"
            copied[key] = names.keep(of, told) if of in KEPT_ROLES else names.name(of, told)
        elif inside in MARKS:
            if key in PRODUCTS:
                copied[key] = names.keep("type", _matching(place, value, key, _LABEL))
            elif key in SHARED or key == REPLICAS:
                copied[key] = _number(place, key, one)
        elif key in WORDS or (key == "status" and inside == "conditions"):
            told = text(place, value, key)
            copied[key] = told if told in KUBERNETES[key] else ""
            if told and not copied[key]:
                names.drop(key)
        elif key in TIMES:
            copied[key] = _matching(place, value, key, _TIME)
        elif key in NUMBERS:
            copied[key] = _number(place, key, one)
        elif key in TABLES and (key != "state" or inside == "containerStatuses"):  # a Queue has another state
            if not isinstance(one, dict | list | None):
                place.refuse(key, one, f"expected a JSON object; {REPAIR}")
            copied[key] = _copied(place, one, names, role, key)
        elif inside == "resources" and key == "name":
            copied[key] = _resource(names, text(place, value, key))
        elif inside in FLAVORED and key == "name":
            copied[key] = names.keep("flavor", _matching(place, value, key, _LABEL))
        elif inside == "flavors" and isinstance(one, str):
            copied[_resource(names, key)] = names.keep("flavor", _matching(place, value, key, _LABEL))
    return copied


def _matching(place: Place, value: dict[str, Any], key: str, form: re.Pattern[str]) -> str:
    """Return the text under a key, which must have a form."""
    told = text(place, value, key)
    if not form.fullmatch(told):
        place.refuse(key, told, f"a text of another form, which could be a name; {REPAIR}")
    return told


def _number(place: Place, key: str, value: Any) -> Any:
    """Return a number, a quantity or a truth value."""
    if value is None or isinstance(value, bool):
        return value
    if not isinstance(value, str | int | float) or math.isnan(quantity(value)):
        place.refuse(key, value, f"expected a number; {REPAIR}")
    return value


def _resource(names: Pseudonyms, name: str) -> str:
    """Return the name of a resource; ``requests.`` before it, and ``/gpu`` behind it, stay."""
    before = next((part for part in ("requests.", "limits.") if name.startswith(part)), "")
    name = name.removeprefix(before)
    if PLAIN.fullmatch(name):
        return before + name
    gpu = "/gpu" if name.endswith("/gpu") else ""
    return before + names.name("resource", name.removesuffix("/gpu")) + gpu
