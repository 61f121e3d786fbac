"""What the abstracts of both papers claim; nothing else of them is certain."""

from __future__ import annotations

from typing import Final

DURATION_AGAINST_GAVEL: Final = 1.20  # times shorter, trace-driven (arXiv 2503.10918)
JCT_AGAINST_GAVEL: Final = 2.5  # times better (IPDPS 2024)
JCT_AGAINST_YARN: Final = 3.0  # the same
QUEUEING_AGAINST_GAVEL: Final = 0.13  # share less (the same)
FAIRNESS_AGAINST_GAVEL: Final = 0.015  # share better (the same)
# HadarE: share of the total duration that is saved; over whom, and over which mixes, is not known (arXiv).
SAVED_BY_FORKING: Final = {"aws": 0.5, "lab": 0.8}
