"""Tables of sshare and sacctmgr with pseudonyms: those of the log and of squeue under the same key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from gpusched_env.pseudonyms.names import Pseudonyms
from gpusched_env.pseudonyms.slurm_files import known_resources
from gpusched_env.pseudonyms.words import fits
from gpusched_env.support.files import whole
from gpusched_env.traces.parsing.detection import bar_columns
from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.parsing.slurm_fields import Stamps
from gpusched_env.traces.slurm_files.hostlists import names_in
from gpusched_env.twin import associations, outages, qualities, usage
from gpusched_env.twin.squeue import COLUMNS as SQUEUE_COLUMNS
from gpusched_env.twin.tables import table_rows

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
        f"{associations.COMMAND}, {outages.COMMAND}, or {qualities.COMMAND}",
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
    from gpusched_env.pseudonyms.squeue import pseudonymise_squeue

    if kind == "squeue":
        return pseudonymise_squeue
    return lambda path, out, names: pseudonymise_table(kind, path, out, names)
