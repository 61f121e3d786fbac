"""The claims of both papers' abstracts; nothing else of the papers is known to us for certain."""

from __future__ import annotations

from typing import Final

DURATION_AGAINST_GAVEL: Final = 1.20  # times shorter, trace-driven (arXiv 2503.10918)
JCT_AGAINST_GAVEL: Final = 2.5  # times shorter (IPDPS 2024)
JCT_AGAINST_YARN: Final = 3.0  # times shorter (IPDPS 2024)
QUEUEING_AGAINST_GAVEL: Final = 0.13  # share by which it is lower (IPDPS 2024)
FAIRNESS_AGAINST_GAVEL: Final = 0.015  # share by which it is better (IPDPS 2024)
# HadarE: share of the total duration that is saved (arXiv); against which rival and on which mixes is not known.
SAVED_BY_FORKING: Final = {"aws": 0.5, "lab": 0.8}
