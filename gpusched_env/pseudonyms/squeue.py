"""What squeue prints, with pseudonyms: those of the history under the same key."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gpusched_env.pseudonyms.names import Pseudonyms
from gpusched_env.pseudonyms.slurm_files import gpu_entries, known_resources, plain, told_word
from gpusched_env.pseudonyms.words import fits
from gpusched_env.support.files import whole
from gpusched_env.traces.parsing.dependencies import rename_jobs, well_formed, without_fate
from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.slurm_files.hostlists import names_in
from gpusched_env.twin.squeue import HELD, squeue_rows

# Our name of a column -> its header; columns without a name of ours are left out
HEADERS: Final = {
    "id": "JOBID", "user": "USER", "account": "ACCOUNT", "partition": "PARTITION", "qos": "QOS", "state": "STATE",
    "elapsed": "TIME", "limit": "TIME_LIMIT", "submit": "SUBMIT_TIME", "start": "START_TIME", "count": "NODES",
    "nodes": "NODELIST", "place": "NODELIST(REASON)", "reason": "REASON", "per_node": "TRES_PER_NODE",
    "tres": "TRES_ALLOC", "priority": "PRIORITY", "dependency": "DEPENDENCY",
}  # fmt: skip
OTHER: Final = "Other"
OTHER_HELD: Final = "JobHeldAdmin"  # of a job that is held for another reason
_WORD: Final = re.compile(r"\w*")


def pseudonymise_squeue(path: Path, out: Path, names: Pseudonyms) -> str:
    """Write a table of squeue to ``out`` with pseudonyms and bars; return what was left out, in words."""
    with whole(out) as partial, partial.open("w", encoding="utf-8", newline="") as stream:
        stream.writelines(_lines(path, names))
        names.check(path)
    return "columns that no reader needs, and the texts of reasons"


def _lines(path: Path, names: Pseudonyms) -> Iterator[str]:
    header: list[str] = []
    for place, row in squeue_rows(path):
        if not header:
            header = [name for name in HEADERS if name in row]
            yield "|".join(HEADERS[name] for name in header) + "\n"
        yield "|".join(_value(place, names, name, row[name]) for name in header) + "\n"


def _value(place: Place, names: Pseudonyms, name: str, text: str) -> str:
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
        return "N/A" if text in ("", "N/A") else gpu_entries(text, names).replace("(null)", "N/A")
    if name == "tres":
        return known_resources(text, names)
    if name == "state":
        return told_word(names, "job state", name, text.partition(" ")[0])
    return names.keep(name, text) if name in ("partition", "qos") else plain(place, HEADERS[name], text)


def _reason(text: str) -> str:
    """Return the first word if Slurm has it, else a word that holds the job if the text does."""
    found = _WORD.match(text)
    word = found[0] if found else ""
    if not text or (word and fits("reason", word)):
        return word
    return OTHER_HELD if HELD.match(text) else OTHER
