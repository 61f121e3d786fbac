"""What a value that is kept looks like, by its kind; a text of another form could be a name, and is left out."""

from __future__ import annotations

import re
from typing import Final

from gpusched_env.support.files import toml_beside
from gpusched_env.traces.formats.slurm import STATES
from gpusched_env.traces.parsing.slurm_reasons import REASON


def _any(words: str) -> str:
    return f"(?:{'|'.join(words.split())})"


_WORDS: Final = toml_beside(__file__)
_STATE, _MODE = _any(_WORDS["state"]), _any(_WORDS["mode"])
_AMOUNT: Final = r"[0-9]+(?:\.[0-9]+)?[kmgtpe]?[nc]?"
# sacct and squeue cut long words, as CANCELLED+
_CUT: Final = " ".join({state[:n] for state in STATES for n in range(5, len(state) + 1)})
# Kind of a value -> pattern; letters of both cases count as equal. Source: slurm.conf(5) for available, share, plugin,
# select, flag and period; gres.conf(5) for detection; Slurm's page on trackable resources for resource
PATTERNS: Final = {
    kind: re.compile(pattern, re.I | re.ASCII)
    for kind, pattern in {
        "number": rf"-?{_AMOUNT}|UNLIMITED|INFINITE|NONE|N/A|",
        "counts": r"[0-9]+[kmg]?(?:[,/][0-9]+[kmg]?)*|",
        "span": r"[0-9]+(?:[-:.][0-9]+)*|UNLIMITED|INFINITE|NONE|DEFAULT|PARTITION_LIMIT|NOT_SET|INVALID|n/a|\(null\)|",
        "switch": _any("YES NO TRUE FALSE ON OFF"),
        "available": _any("up down drain inact"),
        "share": r"(?:NO|EXCLUSIVE|(?:FORCE|YES)(?::[0-9]+)?)",
        "preempt": rf"{_MODE}(?:,{_MODE})*|",
        "state": rf"{_STATE}[*~#!%$@^-]?(?:[+,]{_STATE}[*~#!%$@^-]?)*\+?|",
        "job state": rf"{_any(' '.join([*STATES, *(short for short, _ in STATES.values())]))}|{_any(_CUT)}\+?|",
        "reason": rf"{REASON}|",
        "status": _any(f"{_WORDS['status']} {' '.join(STATES)}") + r"|-?[0-9]{1,6}|",
        "priority": rf"-?{_AMOUNT}|{_any('lowest low normal medium default high highest urgent critical none')}|",
        "plugin": r"sched/(?:backfill|builtin|hold)|select/(?:cons_tres|cons_res|linear)|"
        r"priority/(?:basic|multifactor)|preempt/(?:none|partition_prio|qos)",
        "select": _any(_WORDS["select"]),
        "flag": _any(_WORDS["flag"]),
        "period": _any("NONE NOW DAILY WEEKLY MONTHLY QUARTERLY YEARLY"),
        "detection": _any("nvml nvidia nrt oneapi rsmi full off"),
        "parameter": rf"{_any(_WORDS['parameter'])}(?:=(?:{_AMOUNT}|yes|no|min|max|avg))?",
        "resource": (
            r"(?:cpu|mem|node|billing|energy|pages|vmem|gpu|gres/(?:gpu|mps|shard)(?::[\w.+-]+)?)\s*"
            r"(?:=\s*(?:-?[0-9.]+[kmgtpe]?[nc]?)?\s*)?"
        ),
        "gpu": (
            r"(?:gres[:/])?gpu(?::[\w.+-]+)?(?::no_consume)?(?:[:=][0-9]+[kmg]?)?"
            r"(?:\((?:S|IDX|CNT)?:?[0-9,NA/-]*\))?"
        ),
        "gpus": r"gpu",
        "type": r"[\w.+-]*",
        "usage": r"[0-9.eE+-]*|inf|nan|parent",
    }.items()
}
# Kinds whose values are lists with commas; an entry of another form is left out
LISTED: Final = ("parameter", "select", "flag", "resource", "gpu")
# Key -> words of Kubernetes, Kueue and Volcano
KUBERNETES: Final = {key: frozenset(words.split()) for key, words in _WORDS["kubernetes"].items()}


def fits(kind: str, text: str) -> bool:
    """Whether a value has the form of its kind, one of PATTERNS."""
    return PATTERNS[kind].fullmatch(text) is not None


def entries(kind: str, text: str) -> list[str]:
    """Return the entries of a list that have the form of their kind; commas in round brackets part none."""
    parts = (entry.strip() for entry in re.split(r",(?![^()]*\))", text))
    return [entry for entry in parts if PATTERNS[kind].fullmatch(entry)]
