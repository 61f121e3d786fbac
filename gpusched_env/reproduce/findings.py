"""What is found about the claims of a card, and the verdicts of full runs, which a quick run does not contradict."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

from gpusched_env.reproduce.expressions import Missing, Scope

YES, NO, TIE, FEW = "yes", "NO", "tie", "too few runs to tell"
STORED: Final = files("gpusched_env.reproduce") / "full_runs.csv"


@dataclass(frozen=True)
class Finding:
    """A claim about the results, whether the runs support it, and the numbers of the runs.

    Parameters
    ----------
    claim : the claim as a sentence; findings with the same claim are grouped
    setting : the conditions of the runs
    tie : whether the claim is about an order only, and the runs cannot tell the two apart
    few : whether a quick run has another verdict than the full runs, or nobody stored theirs
    """

    claim: str
    setting: str
    holds: bool
    numbers: str
    tie: bool = False
    few: bool = False

    @property
    def verdict(self) -> str:
        """YES, NO, TIE or FEW."""
        return FEW if self.few else TIE if self.tie else YES if self.holds else NO

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
    """Return the findings of a quick run: where the full runs have another verdict, it has too few runs to tell."""
    known = {(row["claim"], row["setting"]): row["verdict"] for row in stored() if row["card"] == card}
    return [
        dataclasses.replace(found, few=known.get((found.claim, found.setting)) != found.verdict) for found in findings
    ]
