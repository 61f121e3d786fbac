"""What is found about the claims of a card, and the verdicts of full runs, which a quick run repeats."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

from studies.reproduce.expressions import Missing, Scope

YES, NO, TIE, UNJUDGED = "yes", "NO", "tie", "not judged"
STORED: Final = files("studies.reproduce") / "full_runs.csv"


@dataclass(frozen=True)
class Finding:
    """A claim about the results, whether the runs support it, and the numbers of the runs.

    Parameters
    ----------
    claim : the claim as a sentence; findings with the same claim are grouped
    setting : the conditions of the runs
    tie : whether the claim is about an order only, and the runs cannot tell the two apart
    full : of a quick run, the verdict of the full runs, or UNJUDGED if none is stored; "" = these are full runs
    """

    claim: str
    setting: str
    holds: bool
    numbers: str
    tie: bool = False
    full: str = ""

    @property
    def verdict(self) -> str:
        """YES, NO, TIE or UNJUDGED."""
        return self.full or (TIE if self.tie else YES if self.holds else NO)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields of a file of results."""
        return {**vars(self), "verdict": self.verdict}


def find(spec: Mapping[str, Any], scope: Scope) -> Iterator[Finding]:
    """Yield what is found about a claim, in each setting with runs.

    A claim about an order is a tie where the runs cannot tell the two apart (``tie``). A claim that names a size has no
    ``tie``: it holds if our value is in the claimed range, and does not if it is outside, whatever its interval.
    """
    for place in scope.places(spec.get("for", {})):
        for claim in spec.get("claims", [spec]):
            try:
                own = place.let(spec.get("let", {})).let(claim.get("let", {}) if claim is not spec else {})
                if own.value(claim.get("where", "True")):
                    setting = own.text(claim.get("setting", spec.get("setting", "all")))
                    ties = "tie" in claim and own.value(claim["tie"])
                    holds = bool(own.value(claim["holds"]))
                    yield Finding(own.text(claim["claim"]), setting, holds, own.text(claim["numbers"]), bool(ties))
            except Missing:
                continue


@cache
def stored() -> tuple[dict[str, str], ...]:
    """Read the verdicts of the full runs, by card, claim and setting."""
    return tuple(csv.DictReader(io.StringIO(STORED.read_text(encoding="utf-8"))))


def of_quick(card: str, findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings of a quick run with the verdicts of the full runs: its own numbers are of too few runs."""
    known = {(row["claim"], row["setting"]): row["verdict"] for row in stored() if row["card"] == card}
    return [dataclasses.replace(one, full=known.get((one.claim, one.setting), UNJUDGED)) for one in findings]


def of_full(card: str) -> list[Finding]:
    """Return the findings of the full runs, as they are stored."""
    rows = (row for row in stored() if row["card"] == card)
    return [Finding(row["claim"], row["setting"], False, row["numbers"], full=row["verdict"]) for row in rows]
