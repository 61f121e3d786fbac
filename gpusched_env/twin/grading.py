"""The grade of a twin: whether its answers may be acted on. It stands above every number that a twin gives."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from gpusched_env.errors import GpuschedError
from gpusched_env.support.files import visible
from gpusched_env.twin.model import ALL, GroupScore, Twin
from gpusched_env.twin.remaining import CLOCKS_S, HOUR_S, OVER
from gpusched_env.twin.scoring import SMALL_S

GOOD, USABLE, NOT_USABLE = "good", "usable", "not usable"
WORDS: Final = (GOOD, USABLE, NOT_USABLE)
FEW: Final = 30  # fewer scored jobs tell nothing
MEAN_OFF: Final = (0.1, 0.3)  # limits of good and of usable: how far the mean wait is off
RANK: Final = (0.8, 0.4)  # rank correlation of the waits, where they differ
DISTANCE: Final = (0.15, 0.35)  # largest difference of the distributions of waits


class Grade(NamedTuple):
    """A grade and its reasons.

    Parameters
    ----------
    word : GOOD, USABLE or NOT_USABLE
    reasons : what was measured, or what speaks against a better grade, in words
    """

    word: str
    reasons: str

    def __str__(self) -> str:
        """Return the first line of every output of a twin."""
        return f"twin: {self.word.upper()} ({self.reasons})"


def grade_of(twin: Twin) -> Grade:
    """Grade a twin by its score on jobs that the fit had not seen: that of all jobs, or of the worst partition."""
    score = twin.score
    if not score.groups or not score.overall.jobs:
        return Grade(NOT_USABLE, "it was not compared with a part of the log that it had not seen")
    if not score.unseen:
        return Grade(NOT_USABLE, "no part of the log was held back")
    if score.overall.jobs < FEW:
        jobs = score.overall.jobs
        return Grade(NOT_USABLE, f"only {jobs} jobs could be compared with the log, of {FEW} that are needed")
    if score.held_recorded > 1:
        return Grade(
            NOT_USABLE, f"the jobs of the log held {score.held_recorded:.1%} of its GPUs: machines are missing"
        )
    over_h = sum(one.hours for one in twin.remainders if one.what == OVER)
    if over_h * HOUR_S > CLOCKS_S * len(twin.pools):
        return Grade(NOT_USABLE, f"{OVER}, for {over_h:,.1f} h: machines are missing")
    partitions = [row for row in score.groups[1:] if row.size == ALL and row.jobs >= FEW]
    grades = [_of_row(score.overall, ""), *(_of_row(row, _named(row, twin)) for row in partitions)]
    return max(grades, key=lambda grade: WORDS.index(grade.word))  # the first of equals


def _named(row: GroupScore, twin: Twin) -> str:
    return f"{'queue' if twin.of_kueue else 'partition'} {visible(row.partition)}, {row.jobs:,} jobs: "


def _of_row(row: GroupScore, where: str) -> Grade:
    """Grade the scored jobs of one row; ``where`` begins the reasons."""
    off = mean_off(row)
    if math.isnan(off) or math.isnan(row.distance):
        return Grade(NOT_USABLE, f"{where}its waits could not be compared with those of the log")
    measured: list[tuple[float, float, float, str]] = [
        (off, *MEAN_OFF, f"the mean wait is {off:.0%} off"),
        (-row.rank_correlation, -RANK[0], -RANK[1], f"the rank correlation is {row.rank_correlation:.2f}"),
        (row.distance, *DISTANCE, f"the distributions of waits are {row.distance:.2f} apart"),
    ]
    told = [one for one in measured if not math.isnan(one[0])]
    against = [words for value, good, _, words in told if value > good]
    if not against:
        return Grade(GOOD, where + "; ".join(words for *_, words in told))
    usable = all(value <= limit for value, _, limit, _ in told)
    return Grade(USABLE if usable else NOT_USABLE, where + "; ".join(against))


def mean_off(row: GroupScore) -> float:
    """Return by which part the larger of the two mean waits exceeds the smaller one, each plus a minute."""
    low, high = sorted((SMALL_S + row.recorded_mean_s, SMALL_S + row.predicted_mean_s))
    return high / low - 1


def check_usable(twin: Twin, anyway: bool) -> Grade:
    """Return the grade of a twin, which is printed above its answers.

    Raises
    ------
    GpuschedError : it is not usable, and ``anyway`` is not set
    """
    grade = grade_of(twin)
    if grade.word == NOT_USABLE and not anyway:
        raise GpuschedError(f"{grade}: mend the machines, the log or the policy and fit again; --anyway plays it")
    return grade
