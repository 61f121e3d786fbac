"""Tables of squeue, sshare and sacctmgr with pseudonyms: those of the log under the same key."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from gpusched_env.pseudonyms.names import Pseudonyms
from gpusched_env.support.files import whole
from gpusched_env.traces.parsing.dependencies import rename_jobs, well_formed, without_fate
from gpusched_env.traces.parsing.detection import bar_columns
from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.parsing.slurm_fields import Stamps
from gpusched_env.traces.slurm_files.hostlists import names_in
from gpusched_env.twin import outages, sacctmgr, usage
from gpusched_env.twin.sacctmgr import table_rows
from gpusched_env.twin.squeue import COLUMNS as SQUEUE_COLUMNS
from gpusched_env.twin.squeue import squeue_rows
from gpusched_env.twin.waiting_reasons import HELD, WAITS, kind_of
from tools.pseudonyms.slurm_files import gpu_entries, known_resources, plain, refuse_json, told_word
from tools.pseudonyms.words import fits

# Our name of a column -> its header; columns without a name of ours are left out
HEADERS: Final = {
    "id": "JOBID", "user": "USER", "account": "ACCOUNT", "partition": "PARTITION", "qos": "QOS", "state": "STATE",
    "elapsed": "TIME", "limit": "TIME_LIMIT", "submit": "SUBMIT_TIME", "start": "START_TIME", "count": "NODES",
    "nodes": "NODELIST", "place": "NODELIST(REASON)", "reason": "REASON", "per_node": "TRES_PER_NODE",
    "tres": "TRES_ALLOC", "priority": "PRIORITY", "dependency": "DEPENDENCY", "most": "MAX_NODES",
}  # fmt: skip
OTHER: Final = "Other"
# Word of a job that waits or is held for another reason
OTHERS: Final = {WAITS: "Resources", HELD: "JobHeldAdmin"}
_WORD: Final = re.compile(r"\w*")


def pseudonymise_squeue(path: Path, out: Path, names: Pseudonyms) -> str:
    """Write a table of squeue to ``out`` with pseudonyms and bars; return what was left out, in words."""
    with whole(out) as partial, partial.open("w", encoding="utf-8", newline="") as stream:
        stream.writelines(_squeue_lines(path, names))
        names.check(path)
    return "columns that no reader needs, and the texts of reasons"


def _squeue_lines(path: Path, names: Pseudonyms) -> Iterator[str]:
    refuse_json(path)
    header: list[str] = []
    for place, row in squeue_rows(path):
        if not header:
            header = [name for name in HEADERS if name in row]
            yield "|".join(HEADERS[name] for name in header) + "\n"
        yield "|".join(_squeue_value(place, names, name, row[name]) for name in header) + "\n"


def _squeue_value(place: Place, names: Pseudonyms, name: str, text: str) -> str:
    if name in ("user", "account"):
        return names.name(name, text)
    if name == "id":
        return names.number("job", text)
    if name == "reason" or (name == "place" and text.startswith("(")):
        word = _reason(text.strip("()"))
        return f"({word})" if name == "place" else word
    if name in ("nodes", "place"):
        return ",".join(names.name("node", one) for one in names_in(place, "NODELIST", text))
    if name == "dependency":  # one of another form is left out
        told = without_fate(text)
        return rename_jobs(told, lambda job: names.number("job", job)) if told and well_formed(told) else ""
    if name == "per_node":
        return text if text in ("", "N/A") else gpu_entries(text, names).replace("(null)", "")  # N/A has a meaning
    if name == "tres":
        return known_resources(text, names)
    if name == "state":
        return told_word(names, "job state", name, text.partition(" ")[0])
    return names.keep(name, text) if name in ("partition", "qos") else plain(place, HEADERS[name], text)


def _reason(text: str) -> str:
    """Return the first word if Slurm has it, else one that means the same to a forecast."""
    found = _WORD.match(text)
    word = found[0] if found else ""
    if not text or (word and fits("reason", word)):
        return word
    return OTHERS.get(kind_of(text), OTHER)


NAMES: Final = {"account": "account", "parentname": "account", "user": "user", "cluster": "cluster"}  # column -> role
NUMBERS: Final = (
    "share",
    "rawshares",
    "normshares",
    "rawusage",
    "normusage",
    "effectvusage",
    "fairshare",
    "levelfs",
    "grpjobs",
    "maxjobs",
    "priority",
    "maxjobspu",
)
SPANS: Final = ("gracetime", "maxwall")
RESOURCES: Final = ("grptres", "maxtres", "maxtrespu")
QOS_NAMES: Final = ("name", "preempt")  # in a table of QOS; elsewhere, a name could be anyone's, and is left out
PLAIN: Final = ("partition", *QOS_NAMES)  # partitions and QOS keep their names, as in a log
TIMES: Final = ("timestart", "timeend")
STATES: Final = {"state": "state", "preemptmode": "preempt"}  # column -> kind of its words
KEPT: Final = (*NAMES, *NUMBERS, *SPANS, *RESOURCES, *PLAIN, *TIMES, *STATES, "nodename")
KINDS: Final = {  # what a source is called -> columns of which it needs all of a list, and what prints such a table
    "sshare": ((usage.COLUMNS,), usage.COMMAND),
    "sacctmgr": (
        (("account", "user", "share"), ("nodename", "timestart", "state"), ("name", "priority", "preempt")),
        f"{sacctmgr.ASSOCIATIONS}, {outages.COMMAND}, or {sacctmgr.SHOW_QOS}",
    ),
}

# What such a table is recognised by; squeue also has the columns by which a table of sacct is
TABLES: Final = {
    "squeue": SQUEUE_COLUMNS,
    **{kind: tuple(bar_columns(*one) for one in choices) for kind, (choices, _) in KINDS.items()},
}


def pseudonymise_table(kind: str, path: Path, out: Path, names: Pseudonyms) -> str:
    """Write a table of ``sshare`` or ``sacctmgr`` with pseudonyms; return what was left out, in words."""
    lost: dict[str, None] = {}
    with whole(out) as partial, partial.open("w", encoding="utf-8", newline="") as stream:
        stream.writelines(_lines(kind, path, names, lost))
        names.check(path)
    return f"columns {', '.join(lost)}" if lost else "nothing"


def _lines(kind: str, path: Path, names: Pseudonyms, lost: dict[str, None]) -> Iterator[str]:
    refuse_json(path)
    choices, command = KINDS[kind]
    header: list[str] = []
    stamps = Stamps()
    for place, row in table_rows(path, (), command):
        if not header:
            missing = [next((name for name in one if name not in row), "") for one in choices]
            if all(missing):
                place.refuse("header", ", ".join(row), f"no column {missing[0]}; write the file with {command}")
            hidden = () if NAMES.keys().isdisjoint(row) else QOS_NAMES
            header = [name for name in row if name in KEPT and name not in hidden]
            lost |= dict.fromkeys(name for name in row if name not in header)
            yield "|".join(header) + "\n"
        yield "|".join(_value(place, names, stamps, name, row[name]) for name in header) + "\n"


def _value(place: Place, names: Pseudonyms, stamps: Stamps, name: str, text: str) -> str:
    if name in NAMES:
        return names.name(NAMES[name], text)
    if name == "nodename":
        return ",".join(names.name("node", one) for one in names_in(place, "NodeName", text))
    if name in RESOURCES:
        return known_resources(text, names)
    if name in TIMES:
        stamps.read(place, name, text)
    elif name in PLAIN:
        return names.keep("partition" if name == "partition" else "qos", text)
    else:
        kind = STATES.get(name, "span" if name in SPANS else "usage")
        if not fits(kind, text):
            place.refuse(name, text, "a text of another form, which could be a name; correct or remove the row")
    return text


def writer_of(kind: str) -> Callable[[Path, Path, Pseudonyms], str]:
    """Return the function that writes a table of this kind, ``squeue`` or one of KINDS, from a path to another."""
    return pseudonymise_squeue if kind == "squeue" else partial(pseudonymise_table, kind)
